"""etir: a multi-dialect compiler from ``torch.export`` programs to ExecuTorch ``.pte`` files.

    ep = torch.export.export(model, inputs)
    program = etir.compile(ep)          # all levels down to the file
    program.save("model.pte")

    rt = etir.runtime.load("model.pte") # etir's own C++ runtime
    rt.forward(x)

``etir.import_program`` gives the module at the first level; the command-line tools work on its text, and
``etir.export_program`` leads from every level above the executable one back to torch. Importing this package imports
neither torch nor the dialects nor the native runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from etir import _checkout
except ImportError:  # An installed package, where the folders lie in it.
    pass
else:
    _checkout.install()

from etir.diagnostics import Diagnostic, EtirError

if TYPE_CHECKING:
    from etir import runtime
    from etir.driver import Program
    from etir.driver import compile_program as compile
    from etir.lowering.export_fx import export_program
    from etir.lowering.import_fx import import_program

__version__ = "0.1.0"

__all__ = ["Diagnostic", "EtirError", "Program", "compile", "export_program", "import_program", "runtime"]


def __getattr__(name: str) -> Any:
    match name:
        case "compile":
            from etir.driver import compile_program

            return compile_program
        case "import_program":
            from etir.lowering.import_fx import import_program

            return import_program
        case "export_program":
            from etir.lowering.export_fx import export_program

            return export_program
        case "Program":
            from etir.driver import Program

            return Program
        case "runtime":
            from importlib import import_module

            return import_module("etir.runtime")
    raise AttributeError(f"module 'etir' has no attribute '{name}'")
