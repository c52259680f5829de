"""What decides a cell's results, as digests: a second run reads what has the same ones.

The compiler is known by the contents of its files, not by its version, so that every change of a working copy makes
new cells and a clean checkout of the same commit makes none. Plug-ins, whose backends and passes are a part of it, are
known by the contents of their packages. A factory is known by its source file, its arguments, and the files that the
plan says it ``depends`` on.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
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
    """Of everything that etir, its plug-ins and what it runs on are made of."""
    versions = [f"{name} {_version(name)}" for name in PACKAGES]
    return digest_of([digest_of_files(_sources()), *versions, *plugins()])


@cache
def node_digest() -> str:
    """Of what all nodes of a cluster have to have in common: etir's own files but its library, which differs between
    processors, and the versions of what it runs on but for their builds (``2.9.0+cpu``).
    """
    versions = [f"{name} {_version(name).partition('+')[0]}" for name in PACKAGES]
    return digest_of(
        [digest_of_files(path for path in _sources() if path.suffix in (".py", ".json", ".txt")), *versions]
    )


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


def plugins() -> list[tuple[str, str, str]]:
    """The entry points through which installed packages add to etir: each by its name, its version, and the digest of
    the files of its package. Nothing of them is imported.

    The files count besides the version: a package that is being worked on keeps its version while it changes.
    """
    from etir.backends.api.registry import GROUP as BACKENDS
    from etir.extensions import GROUP as PLUGINS
    from etir.extensions import may_have_entry_points

    found: list[tuple[str, str, str]] = []
    for group in (BACKENDS, PLUGINS):
        if not may_have_entry_points(group):
            continue
        for entry in entry_points(group=group):
            release = "none" if entry.dist is None else entry.dist.version
            files = digest_of_files(_files_of(entry.module.partition(".")[0]))
            found.append((f"{group} {entry.name} {entry.value}", release, files))
    return sorted(found)


def _files_of(package: str) -> list[Path]:
    """The files of a package or a module at the top, which is not imported; none of one that is not there."""
    spec = find_spec(package)
    if spec is None:
        return []
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if not folders:
        return [Path(spec.origin)] if spec.origin is not None and Path(spec.origin).is_file() else []
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted(path for path in files if "__pycache__" not in path.parts)


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
