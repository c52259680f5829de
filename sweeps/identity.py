"""What decides a cell's results, as digests: a second run reads what has the same ones.

The compiler is known by the contents of its files, not by its version, so that every change of a working copy makes
new cells and a clean checkout of the same commit makes none. A factory is known by its source file, its arguments, and
the files that the plan says it ``depends`` on.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "executorch", "xdsl", "numpy")
"""Others that a program's bytes and outputs depend on."""


def digest_of(value: Any) -> str:
    """32 hexadecimal digits of what JSON can say; keys in any order, what it cannot say by its ``repr``."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest_of_files(paths: Iterable[Path]) -> str:
    """The same of the bytes of files, in the order given. Raises ``OSError`` for one that cannot be read."""
    found = hashlib.sha256()
    for path in paths:
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:32]


@cache
def compiler_digest() -> str:
    """Of everything that etir and what it runs on are made of."""
    return digest_of([digest_of_files(_sources()), *(f"{name} {_version(name)}" for name in PACKAGES)])


@cache
def compiler_label() -> str:
    """The compiler for people: its version, and in a checkout the commit, with a ``+`` where files were changed."""
    import etir

    label = f"{etir.__version__}"
    root = Path(etir.__file__).resolve().parents[1]
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "--short=9", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        label += f" {commit}{'+' if changed else ''}" if commit else ""
    return label


_DECIDING = ("exporting.py", "identity.py", "quantizing.py", "running.py", "stages.py")
"""Files of this package that decide what a row says; the others run cells and report them."""


def _sources() -> list[Path]:
    """The files that decide what a program is compiled to and what runs it."""
    import etir

    own = Path(__file__).resolve().parent
    front = Path(etir.__file__).resolve().parent
    folders = [front]
    try:
        from etir._checkout import FOLDERS, ROOT
    except ImportError:  # An installed package, where the folders lie in it.
        beside = [front / "devtools", front / "tools"]
    else:
        folders += [ROOT / folder for folder in FOLDERS.values()] + [ROOT / "runtime" / "kernels"]
        beside = [ROOT / "devtools", ROOT / "tools"]
    found: list[Path] = []
    for folder in folders:
        for suffix in ("py", "json", "txt"):
            found += folder.rglob(f"*.{suffix}")
    native = find_spec("etir.runtime._native")
    if native is not None and native.origin is not None:
        found.append(Path(native.origin))
    kept = [path for path in found if not any(folder in path.parents for folder in beside)]
    return sorted({path for path in kept if own not in path.parents or path.name in _DECIDING})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
