"""Shared libraries by what they are for: etir's runtime, or torch.

A library for etir's runtime brings kernels and backends that a program may need when it runs. When a program is
compiled, the link check has to know them: their rows, which lie beside the library (``NAME.kernels.json``, written by
CMake's ``etir_add_library``, or ``kernels.json``), and the names that the library itself gives when it is loaded. A
library for torch registers operators with ``TORCH_LIBRARY``, which importing a program and interpreting it need.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
from pathlib import Path
from typing import Literal

from etir.runtime.errors import E1203, E1214

_ETIR = (b"etir_kernel_table", b"etir_backend_table")
"""What a library for etir's runtime exports, see runtime/platform/library.h."""

_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
"""First bytes of a shared library: ELF, Mach-O, Mach-O for several processors, Windows."""


def library_kind(path: str | os.PathLike[str]) -> Literal["etir", "torch"]:
    """Whom a library is for, by the names that it exports and needs; it is not loaded.

    Raises E1203 when there is no such file, E1214 for one that is for neither.
    """
    file = os.fspath(path)
    if _has(file, *_ETIR):
        return "etir"
    if _has(file, b"c10", b"torch"):
        return "torch"
    raise E1214.error(f"'{file}' exports no kernels or backends for etir's runtime, and needs nothing of torch's")


def _has(file: str, *names: bytes) -> bool:
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if not data[:4].startswith(_MAGIC):
                raise E1214.error(f"'{file}' is no shared library")
            return any(data.find(name) >= 0 for name in names)
    except OSError as error:
        help = "pass the path of a shared library"
        raise E1203.error(f"there is no library '{file}': {error.strerror or error}", help=help) from None
    except ValueError:  # An empty file has nothing to map.
        raise E1214.error(f"'{file}' is no shared library") from None


def link_library(path: str | os.PathLike[str], target: str = "etir") -> None:
    """Let the link check of a target count a library for etir's runtime as linked: its kernels and its backends.

    Kernels are checked by their rows beside the library; those without a row are taken whatever they are called with.
    As in the runtime, a kernel of the library comes before one of etir's own with its name. The library is loaded where
    the rows do not say everything (:func:`etir.runtime.load_library`).

    Raises E1203 and E1214 for the file, E0601 and E0602 for the rows, and where it has to be loaded E1201.
    """
    from etir.runtime import load_library
    from etir.targets.manifest import extend_target

    file = Path(path)
    rows = next(
        (each for each in (file.with_suffix(".kernels.json"), file.parent / "kernels.json") if each.exists()), None
    )
    operators: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    if rows is None or _has(str(file), b"etir_backend_table"):
        found = load_library(file)
        operators, backends = found.operators, found.backends
    extend_target(target, rows, library=file.stem, operators=operators, backends=backends, replace=True)


def load_torch_library(path: str | os.PathLike[str]) -> None:
    """Load a library that registers operators with torch.

    Raises E1214 when torch is not installed, cannot load it, or knows no operator more than before.
    """
    file = os.path.abspath(path)
    if importlib.util.find_spec("torch") is None:
        raise E1214.error(f"'{path}' is a library for torch, which is not installed", help="pip install 'etir[torch]'")
    import torch

    if file in torch.ops.loaded_libraries:
        return
    before = len(torch._C._dispatch_get_all_op_names())
    try:
        torch.ops.load_library(file)
    except OSError as error:
        raise E1214.error(f"torch cannot load '{path}': {error}", help="build it against the torch installed") from None
    if len(torch._C._dispatch_get_all_op_names()) == before:
        raise E1214.error(f"'{path}' registers no operator with torch", help="pass a library with TORCH_LIBRARY in it")
