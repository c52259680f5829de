"""Import of ``torch.export`` programs: the only step that needs torch, which is imported when it runs.

``types.py`` turns FakeTensor metadata into types, ``locations.py`` node metadata into locations, ``weights.py`` tensors
into blobs without copying, ``nodes.py`` graph nodes into operations (``structures.py``: what they hold),
``layouts.py`` records strides, ``program.py`` signatures into methods, ``constant_methods.py`` values into methods that
return them, ``lowered.py`` what ExecuTorch has lowered already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram

    from etir.lowering.import_fx.node_names import NodeNames


def import_program(
    program: ExportedProgram | Mapping[str, ExportedProgram] | EdgeProgramManager,
    *,
    constant_methods: Mapping[str, object] | None = None,
    nodes: NodeNames | None = None,
) -> ModuleOp:
    """Import an exported program, or several by method name, as a module at the ATen level.

    ``constant_methods`` are further methods, without inputs, that return the value: numbers, strings, None, tensors,
    dtypes, and containers of those. A joint graph of forward and backward
    (``torch.export.experimental._export_forward_backward``) returns its gradients and then the parameters, which are
    state, and brings the constant methods that ExecuTorch's training module asks.

    A program that ExecuTorch has lowered already (``to_edge_transform_and_lower``, ``to_backend``), or its
    ``EdgeProgramManager``, keeps the blobs of its lowered modules, as ``et.delegate``.

    ``nodes`` is told which value stands for which node of a graph.

    Weights shared between methods (equal bytes under one name) become one symbol. Nothing stops at the first problem:
    unknown operators become ``aten.opaque``. Raises error E0401 without torch, E0402 for anything that is not an
    exported program, E0403 and E0404 for inputs, outputs and weights of kinds that the IR does not have.
    """
    programs, constants = unpacked(program)
    from etir.lowering.import_fx.program import import_programs

    return import_programs(programs, {**constants, **(constant_methods or {})}, nodes)


def unpacked(
    program: ExportedProgram | Mapping[str, ExportedProgram] | EdgeProgramManager,
) -> tuple[ExportedProgram | Mapping[str, ExportedProgram], dict[str, object]]:
    """The programs and constant methods of an ``EdgeProgramManager``; anything else as it is. Raises E0401, E0402."""
    require_torch()
    from etir.lowering.import_fx.lowered import programs_of

    found = programs_of(program)
    return (cast("ExportedProgram | Mapping[str, ExportedProgram]", program), {}) if found is None else found


def require_torch() -> Any:
    """The torch module. Raises error E0401 when it is not installed."""
    try:
        import torch
    except ImportError:
        from etir.lowering.errors import E0401

        raise E0401.error("importing a program needs torch, which is not installed") from None
    return torch
