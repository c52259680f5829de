"""Export to ``torch.export`` programs: what ``import_fx`` reads, written again. It needs torch, imported when it runs.

``sizes.py`` turns symbolic dims into torch's and types into FakeTensors, ``nodes.py`` operations into graph nodes,
``control.py`` regions into subgraphs, ``program.py`` methods with their weights and state into exported programs.

A graph is built node by node, each with the FakeTensor that torch itself computes for it: what torch says of shape and
dtype is compared with the types of the text, and no guard, specialization or decomposition of a tracer comes between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def export_program(module: ModuleOp, method: str = "forward") -> ExportedProgram:
    """A method of a module at the ATen, core, edge or backend level as an exported program in the ATen dialect.

    Weights become parameters, buffers and constants under their qualified names, mutable buffers and changed inputs
    mutations of the signature, control flow torch's higher-order operators, dim orders memory formats. Delegates whose
    functions are still in the module are inlined into their callers. In-place operators are made functional
    first, in a copy of the module.

    Raises error E0401 without torch, E0408 for a method that is not there or is at the executable level, E0407 for what
    torch has no form of, all of it.
    """
    return export_programs(module, (method,))[method]


def export_programs(module: ModuleOp, methods: tuple[str, ...] = ()) -> dict[str, ExportedProgram]:
    """The exported programs of several methods by name, by default of all. See :func:`export_program`."""
    from etir.lowering.import_fx import require_torch

    require_torch()
    from etir.lowering.export_fx.program import export_methods

    return export_methods(module, methods)
