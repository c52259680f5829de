"""Which of many cases a change has to pass: a part that its content chooses, and those that it touches.

All of torch's samples, and all cases of all tests, on every change would take most of the gate's time, and the same
part every time would leave the others unseen until the next complete run. So a digest of the tree chooses one of
``parts``: the same tree checks the same cases wherever it is checked, and the next change checks others. An entry of
torch's samples whose own kernel, decomposition or NumPy operator is in a changed file is always among them, and so are
the cases of tests that changed, or that are called after a file that changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

IMPLEMENTATIONS = (
    "runtime/kernels/",
    "lowering/decompose_aten/",
    "lowering/functionalize/",
    "lowering/inference/",
    "interpret/numpy_ops/",
)
"""Folders whose files name the operators that they implement."""

FEWEST = 3
"""Cases of a test that make it one with many."""

BASE_VARIABLE = "ETIR_CI_BASE"
"""The commit that a change is compared with, where it is not the one that its branch left the main branch at."""

_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def tree_digest(root: Path) -> str:
    """A digest of the content of all files that git knows, or would: of the work tree, not of a commit."""
    names = _git(root, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    digest = hashlib.sha256()
    for name in sorted(names):
        path = root / name
        if path.is_file() and not path.is_symlink():
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def part_of(names: Iterable[str], digest: str, parts: int) -> list[str]:
    """The entries of one part: each name belongs to one of them for good, and the digest says to which it is."""
    chosen = int(digest, 16) % parts
    return [name for name in names if int(hashlib.sha256(name.encode()).hexdigest(), 16) % parts == chosen]


def cases_of(ids: Sequence[str], digest: str, parts: int, files: Sequence[str]) -> list[str]:
    """Of the tests that pytest collected, by their ids, one part of the cases of each function: at least one.

    A function with one or two cases has all of them, and so has one whose file is among ``files`` or is called after
    one of these: ``test_plan_memory.py`` after ``plan_memory.py``. Of one with less than ``parts`` cases it is one.
    """
    functions: dict[str, list[str]] = {}
    for name in ids:
        functions.setdefault(name.split("[")[0], []).append(name)
    stems = {Path(name).stem.removeprefix("test_") for name in files}
    chosen: list[str] = []
    for function, cases in functions.items():
        whole = len(cases) < min(parts, FEWEST) or Path(function.split("::")[0]).stem.removeprefix("test_") in stems
        if whole:
            chosen += cases
        else:
            of_part = part_of(cases, digest, parts) if len(cases) >= parts else []
            chosen += of_part or [cases[int(digest, 16) % len(cases)]]
    return chosen


def changed_files(root: Path) -> list[str]:
    """Files that differ from the base of the change: the environment's, that of the main branch, the last commit's."""
    base = os.environ.get(BASE_VARIABLE) or _git(root, "merge-base", "HEAD", "main") or _git(root, "rev-parse", "HEAD^")
    if base.strip() == _git(root, "rev-parse", "HEAD").strip():
        base = _git(root, "rev-parse", "HEAD^")
    if not base.strip():
        return []
    return _git(root, "diff", "--name-only", base.strip()).splitlines()


def touched(root: Path, names: Sequence[str], files: Sequence[str]) -> list[str]:
    """The entries whose operators are named in those of the files that implement operators."""
    words: set[str] = set()
    for name in files:
        path = root / name
        if name.startswith(IMPLEMENTATIONS) and path.is_file():
            words.update(_WORDS.findall(path.read_text(encoding="utf-8")))
    return [name for name in names if _operator(name) in words]


def _operator(entry: str) -> str:
    """The name that an entry's operator has in files: ``softmax`` of ``nn.functional.softmax.with_dtype``."""
    plain = entry.split("#")[0]
    for prefix in ("nn.functional.", "special.", "linalg.", "fft.", "signal.windows.", "ops.aten."):
        if plain.startswith(prefix):
            name = plain.removeprefix(prefix).split(".")[0]
            return f"{prefix.removesuffix('.')}_{name}" if prefix in ("special.", "linalg.", "fft.") else name
    return plain.split(".")[0]


def _git(root: Path, *arguments: str) -> str:
    """What git prints; nothing where there is no such commit or no repository."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
