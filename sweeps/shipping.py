"""What a plan brings along to the nodes of a cluster: its own modules, and the files that it names.

A node has what is installed. Modules that are not - beside the plan, or on Python's path - go with the sweep: the
packages and modules that the plan names, what these import from the same folders, and the files of ``depends``, so that
a factory finds its data beside it. A node that has all of that at the same places, byte for byte, uses its own copy,
where modules may find more than what the plan names. Files that a plan names by their paths (programs, data, manifests,
ranges) are artefacts by their contents, which a job is told the places of.
"""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from etir.diagnostics import EtirError
from etir.sweeps.calls import source_of
from etir.sweeps.errors import E1907
from etir.sweeps.identity import digest_of, digest_of_files
from etir.sweeps.jobs import FILE_KEYWORD, Job
from etir.sweeps.model import Cell
from etir.sweeps.plan import ProgramEntry
from etir.sweeps.store import Store

LARGEST = 256 << 20
"""Bytes of modules that go with a sweep at most."""

SUFFIX = "zip"
"""The suffix of the artefact that has the modules."""


@dataclass(frozen=True)
class Shipment:
    """The modules of a plan, packed: ``key`` is the artefact's, empty where there are none. ``paths`` is Python's path
    here, of which ``roots`` are those folders that the modules come from."""

    key: str
    paths: tuple[str, ...]
    roots: tuple[str, ...]


def shipped(functions: Iterable[str], depends: Iterable[str], folder: str, store: Store) -> Shipment:
    """Pack the modules of these functions (``module:function``) into the store; ``folder`` is the plan's.

    Raises error E1907 for more than :data:`LARGEST` bytes, ``OSError`` for a store that cannot be written.
    """
    paths = tuple(dict.fromkeys(os.path.abspath(path) for path in (*sys.path, folder)))
    tops: dict[str, set[str]] = {}
    for module in sorted({function.partition(":")[0] for function in functions}):
        root = _root(module, source_of(module, folder), paths)
        if root is not None:
            tops.setdefault(root, set()).add(module.partition(".")[0])
    if not tops:
        return Shipment("", paths, ())
    files = {path for root, names in tops.items() for path in _with_imports(Path(root), names)}
    files |= {Path(os.path.abspath(path)) for path in depends}
    size = sum(path.stat().st_size for path in files)
    if size > LARGEST:
        raise E1907.error(
            f"the modules of the plan and what is beside them in their packages have {size >> 20} MB",
            help=f"{LARGEST >> 20} MB go to the nodes with a sweep; install larger packages there, and here",
        )
    chosen = sorted(files)
    key = digest_of([list(map(str, chosen)), digest_of_files(chosen)])
    if not store.path(key, SUFFIX).is_file():
        store.write(key, _packed(chosen), SUFFIX)
    return Shipment(key, paths, tuple(tops))


def _root(module: str, source: Path | None, paths: Sequence[str]) -> str | None:
    """The folder of Python's path that a module is from; None for one that is installed."""
    inner = Path(*module.split("."))
    for folder in paths:
        if source in (Path(folder, inner.with_suffix(".py")), Path(folder, inner, "__init__.py")):
            return None if _is_installed(Path(folder)) else folder
    return None


def _is_installed(folder: Path) -> bool:
    known = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return folder in known or folder.name in ("site-packages", "dist-packages", "lib-dynload")


def _with_imports(root: Path, names: Iterable[str]) -> Iterator[Path]:
    """The files of packages and modules at the top of a folder, and of those beside them that they import."""
    waiting, found = sorted(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in found or name == "etir":
            continue
        found.add(name)
        for path in _files(root, name):
            yield path
            if path.suffix == ".py":
                waiting += (other for other in _imports(path) if _is_module(root, other))


def _is_module(root: Path, name: str) -> bool:
    """Whether a folder has a module or a package of that name; other folders may be called as what is installed."""
    return (root / f"{name}.py").is_file() or (root / name / "__init__.py").is_file()


def _files(root: Path, name: str) -> list[Path]:
    if (root / name).is_dir():
        inside = (path for path in (root / name).rglob("*") if "__pycache__" not in path.parts)
        return sorted(path for path in inside if path.is_file())
    file = root / f"{name}.py"
    return [file] if file.is_file() else []


def _imports(path: Path) -> Iterator[str]:
    """The first parts of the names of the modules that a source imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module.partition(".")[0]


def _packed(files: Iterable[Path]) -> bytes:
    """A ZIP file of them by their whole paths; the same for the same contents."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.writestr(zipfile.ZipInfo(str(path).lstrip("/")), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return found.getvalue()


# --- on a node --------------------------------------------------------------------------------------------------------


def paths_here(shipment: Shipment, store: Store) -> tuple[str, ...]:
    """Python's path for jobs on this node. ``store`` has the artefact."""
    if not shipment.key:
        return shipment.paths
    unpacked = _unpacked(shipment.key, str(store.folder))
    if unpacked is None:
        return shipment.paths
    moved = {root: str(Path(unpacked, root.lstrip("/"))) for root in shipment.roots}
    return tuple(moved.get(path, path) for path in shipment.paths)


@cache
def _unpacked(key: str, store: str) -> str | None:
    """Where the modules are unpacked; None where all files are at their own places, as they were packed."""
    folder = Path(store) / "modules" / key
    with zipfile.ZipFile(Store(store).path(key, SUFFIX)) as archive:
        if all(_is_here(Path("/", name), archive, name) for name in archive.namelist()):
            return None
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
            archive.extractall(made)
            try:
                made.rename(folder)
            except OSError:  # Another worker of a shared folder was quicker.
                shutil.rmtree(made, ignore_errors=True)
    return str(folder)


def _is_here(path: Path, archive: zipfile.ZipFile, name: str) -> bool:
    try:
        return path.stat().st_size == archive.getinfo(name).file_size and path.read_bytes() == archive.read(name)
    except OSError:
        return False


# --- files that jobs name ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A file of the user's as an artefact: by the digest of its contents, with its own suffix. A manifest has the
    kernels that are in other files."""

    path: str
    key: str
    suffix: str

    def data(self) -> bytes:
        """The bytes of the artefact."""
        return json.dumps(_manifest(self.path)).encode() if self.suffix == MANIFEST else Path(self.path).read_bytes()

    def here(self, store: Store) -> str:
        """Where it is on this machine: at its own place, if it is the same there, which is what messages name."""
        try:
            return self.path if named(self.path) == self else str(store.path(self.key, self.suffix))
        except (OSError, EtirError):
            return str(store.path(self.key, self.suffix))


MANIFEST = "target.json"
"""The suffix of a manifest's artefact."""


def named(path: str) -> Named:
    """The file of that path. Raises ``OSError`` for one that cannot be read."""
    if path.endswith(".json"):
        try:
            return Named(path, digest_of(_manifest(path)), MANIFEST)
        except EtirError:  # Ranges of a recipe.
            pass
    return Named(path, digest_of_files([Path(path)]), Path(path).suffix.lstrip(".") or "file")


def _manifest(path: str) -> dict[str, Any]:
    from etir.targets.manifest import read_target

    return read_target(Path(path))


def with_files(job: Job, place: Callable[[str], str]) -> Job:
    """A job with other places of the user's files that it names: what ``place`` says of each path."""
    given = {name: _moved(value, place) for name, value in job.given.items()}
    if job.stage == "quantize":
        recipe = dict(cast("Mapping[str, Any]", given["recipe"]))
        if recipe.get(FILE_KEYWORD):
            recipe[FILE_KEYWORD] = place(recipe[FILE_KEYWORD])
        given["recipe"] = recipe
        if Path(given["target"]).is_absolute():  # A manifest; others are names.
            given["target"] = place(given["target"])
    return replace(job, given=given)


def _moved(value: Any, place: Callable[[str], str]) -> Any:
    if isinstance(value, ProgramEntry):
        data = {name: getattr(value, name) for name in ("calibration", "samples")}
        files = {"file": value.file, **{name: path for name, path in data.items() if str(path).endswith(".npz")}}
        return replace(value, **{name: place(path) for name, path in files.items() if path is not None})
    if isinstance(value, Cell) and value.manifest:
        return replace(value, manifest=place(value.manifest))
    return value


def files_of(job: Job) -> list[str]:
    """The paths of the user's files that a job reads."""
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    with_files(job, note)
    return found
