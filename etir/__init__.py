"""etir: a multi-dialect compiler from ``torch.export`` programs to ExecuTorch ``.pte`` files.

    ep = torch.export.export(model, inputs)
    program = etir.compile(ep)          # all levels down to the file
    program.save("model.pte")

    rt = etir.runtime.load("model.pte") # etir's own C++ runtime
    rt.forward(x)

``etir.import_program`` gives the module at the first level; the command-line tools work on its text, and
``etir.export_program`` leads from every level above the executable one back to torch. Errors are ``etir.EtirError``,
without a traceback through the compiler; with ``ETIR_DEBUG=1`` in the environment they have it. Importing this package
imports neither torch nor the dialects nor the native runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from etir import _checkout
except ImportError:  # An installed package, where the folders lie in it.
    pass
else:
    _checkout.install()

from etir.diagnostics import Diagnostic, EtirError, short_errors

if TYPE_CHECKING:
    from etir import runtime
    from etir.driver import compile_program as compile
    from etir.lowering.export_fx import export_program
    from etir.lowering.import_fx import import_program
    from etir.options import CompileOptions
    from etir.program import Program
    from etir.quantized import quantize_program as quantize

__version__ = "0.1.0"

__all__ = [
    "CompileOptions",
    "Diagnostic",
    "EtirError",
    "Program",
    "compile",
    "export_program",
    "import_program",
    "quantize",
    "runtime",
]

_PACKAGES = ("devtools", "runtime")

_FUNCTIONS = {
    "compile": ("etir.driver", "compile_program"),
    "quantize": ("etir.quantized", "quantize_program"),
    "sweep": ("etir.sweeps.run", "sweep"),
    "export_program": ("etir.lowering.export_fx", "export_program"),
    "import_program": ("etir.lowering.import_fx", "import_program"),
}
_CLASSES = {
    "CompileOptions": ("etir.options", "CompileOptions"),
    "Program": ("etir.program", "Program"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"etir.{name}")
    if name in _FUNCTIONS:
        module, function = _FUNCTIONS[name]
        found = short_errors(getattr(import_module(module), function))
    elif name in _CLASSES:
        module, cls = _CLASSES[name]
        found = getattr(import_module(module), cls)
    else:
        raise AttributeError(f"module 'etir' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What a user of the package needs, and nothing that it is made with."""
    return sorted([*__all__, "__version__"])
