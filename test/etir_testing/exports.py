"""Exported models that are made once: files in ``build/exports``, named by what they are made from.

Exporting a model takes longer than compiling it, and the stock pipeline longer than both; tests, the zoo and the check
of hash seeds want the same programs again and again. A file is named by a digest of everything that its bytes depend
on: the sources in ``etir_testing/models`` that build models, the name of the model (its builder's arguments are in
these sources) and the versions of Python, torch and the packages that the model comes from. So a file is never out of
date, there is nothing to clear, and what a run of the gate left is used by the next.

Any number of processes may ask for the same model: one makes it, the others wait for it. A file is there whole or not
at all. Every call gives a program of its own, which shares nothing with any other, so that a test may change it.

Not for tests of exporting itself, nor for benchmarks, whose compilers work on what ``torch.export`` has just made.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from etir_testing import ROOT

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from etir_testing.models.registry import ModelCase
    from etir_testing.models.zoo_entry import Entry

FOLDER = ROOT / "build" / "exports"
_MODELS = Path(__file__).with_name("models")
_NO_BUILDERS = ("zoo_preload.py", "zoo_report.py", "zoo_worker.py")
"""What runs and reports models; nothing in it decides what a model is."""


def exported(case: ModelCase | Entry) -> ExportedProgram:
    """A program of the case's that nobody else has.

    Entries without weights' bytes (``shape_only``) cannot be saved: use ``torch.export`` on those.
    """
    import torch

    return torch.export.load(io.BytesIO(_exported_bytes(case)))


def stock_file(case: ModelCase | Entry, compile: Callable[[ExportedProgram], bytes]) -> bytes:
    """The ``.pte`` that the stock pipeline makes of the case: ``compile(program)``, which may change the program.

    Kept like an export, for the version of ExecuTorch besides.
    """
    return artifact(
        f"{_name(case)}.stock.pte",
        [_digest(case), versions("executorch")],
        lambda: compile(exported(case)),
    )


def artifact(name: str, key: list[str], make: Callable[[], bytes]) -> bytes:
    """The bytes of ``make()`` for ``key``, from the file if there is one. Files of the name with other keys go."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stem, _, suffix = name.partition(".")
    path = FOLDER / f"{stem}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.{suffix}"
    with open(FOLDER / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            data = make()
            for old in FOLDER.glob(f"{stem}-{'[0-9a-f]' * 20}.{suffix}"):
                old.unlink()
            whole = path.with_name(f"{path.name}.{os.getpid()}")
            whole.write_bytes(data)
            whole.replace(path)
        return path.read_bytes()


def _exported_bytes(case: ModelCase | Entry) -> bytes:
    return artifact(f"{_name(case)}.pt2", [_digest(case)], lambda: _export(case))


def _export(case: ModelCase | Entry) -> bytes:
    import torch

    from etir_testing.models.registry import ModelCase

    if isinstance(case, ModelCase):
        program = case.export()
    else:
        built = case.build()
        with torch.no_grad():
            program = torch.export.export(built.module, built.inputs, dynamic_shapes=built.dynamic_shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def _name(case: ModelCase | Entry) -> str:
    """The registry and the zoo each have a ``resnet18`` of their own."""
    return f"{type(case).__name__.lower()}-{case.name}"


def _digest(case: ModelCase | Entry) -> str:
    return repr([_sources(), versions("torch", "torchvision", "transformers", *case.requires), str(ROOT)])


def versions(*packages: str) -> str:
    """A part of a key: the versions of Python and of packages, installed or not."""
    found = [f"Python {platform.python_version()}"]
    for package in dict.fromkeys(packages):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def digest(*paths: str | Path) -> str:
    """A part of a key: the bytes of files, by their names."""
    found = hashlib.sha256()
    for path in map(Path, paths):
        found.update(f"{path.name}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@cache
def _sources() -> str:
    """A digest of the files that decide what the models are. Their places are in the exported programs, too."""
    paths = sorted(path for suffix in ("py", "json") for path in _MODELS.rglob(f"*.{suffix}"))
    return digest(*(path for path in paths if path.name not in _NO_BUILDERS))
