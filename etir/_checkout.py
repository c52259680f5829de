"""Makes a checkout importable as it lies: ``import etir`` in its root works, installed or not.

The folders at the top of the repository install as one package (``pyproject.toml``, ``force-include``). In a checkout
nothing has put them there, and its ``etir/`` comes before an installed package whenever Python starts in the root. So
``etir/__init__.py`` asks this module, which does not belong to the installed package, to find ``etir.dialects`` in
``dialects/`` and so on, and the native module of the runtime in ``build/``, where ``pip install`` compiled it, or where
a package is installed. Editors that follow imports at run time (notebooks, debuggers) see the files that they edit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent

FOLDERS: dict[str, str] = {
    "etir.backends": "backends",
    "etir.devtools": "devtools",
    "etir.dialects": "dialects",
    "etir.emit": "emit",
    "etir.interpret": "interpret",
    "etir.llm": "llm",
    "etir.lowering": "lowering",
    "etir.passes": "passes",
    "etir.quantization": "quantization",
    "etir.runtime": "runtime/python",
    "etir.sweeps": "sweeps",
    "etir.targets": "targets",
    "etir.tools": "tools",
}
"""Package to its folder, as ``force-include`` in ``pyproject.toml`` has it; a test compares them."""

NATIVE = "etir.runtime._native"


class CheckoutFinder(MetaPathFinder):
    """Finds the packages of :data:`FOLDERS` in this checkout, and the native module where it was built."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package's specification; None for everything else."""
        folder = FOLDERS.get(fullname)
        if folder is not None:
            place = ROOT / folder
            return spec_from_file_location(fullname, place / "__init__.py", submodule_search_locations=[str(place)])
        return _native() if fullname == NATIVE else None


def _native() -> ModuleSpec | None:
    """The checkout's latest build comes first, then an installed one; None lets other finders go on."""
    built = [path for suffix in EXTENSION_SUFFIXES for path in ROOT.glob(f"build/*/runtime/python/_native{suffix}")]
    if built:
        return spec_from_file_location(NATIVE, max(built, key=lambda path: path.stat().st_mtime_ns))
    installed = [str(Path(entry) / "etir" / "runtime") for entry in sys.path if Path(entry).resolve() != ROOT]
    return PathFinder.find_spec(NATIVE, installed)


def install() -> None:
    """Register the finder, once."""
    if not any(isinstance(finder, CheckoutFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, CheckoutFinder())
