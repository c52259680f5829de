"""What torch alone can carry out inside a model, done before the program is imported.

``torch.export`` records ``vmap``, ``jvp`` and their like as calls that enter and leave a level of functorch's
interpreter, with operators on one sample between them. What these operators do to the whole batch is known to torch's
batching rules and derivatives alone. A region of ``torch.autocast`` is recorded as a call of a graph whose operators
have their operands as they are: which of them are cast, and to what, is in torch's kernels (and the types that a strict
export notes are those without casts). ``run_decompositions`` without any decomposition applies both. That makes the
program functional, too, which is why programs without them stay as they are: views of one state are told apart in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import fx
from torch.export import ExportedProgram

from etir.dialects.text import source_location
from etir.lowering.errors import E0410
from etir.lowering.import_fx.locations import location_of

_MODULE = "torch._functorch.predispatch"


def without_transforms(programs: Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    """The programs by method name, those with transforms and autocast as what they compute.

    Raises E0410 for what torch does not carry out.
    """
    applied = {name: _applied(name, one) for name, one in programs.items()}
    for name, one in applied.items():
        _check_dtypes(name, one)
    return applied


def _transforms(program: ExportedProgram) -> dict[str, None]:
    """What a program has of them, in words."""
    found: dict[str, None] = {}
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if node.op != "call_function":
                continue
            if getattr(node.target, "__module__", None) == _MODULE:
                found["a transform of torch.func (vmap, jvp, grad)"] = None
            elif node.target is torch.ops.higher_order.flex_attention:
                found["flex_attention"] = None  # The graphs that it is given read tensors in a transform.
            elif node.target is torch.ops.higher_order.wrap_with_autocast:
                device, _, enabled = node.args[:3]
                if device == "cpu" and enabled:
                    found["a region of torch.autocast"] = None
    return found


def _applied(name: str, program: ExportedProgram) -> ExportedProgram:
    found = _transforms(program)
    if not found:
        return program
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions({})
    except Exception as error:
        why = str(error).partition("\n")[0]
        raise E0410.error(
            f"method '{name}' has {' and '.join(found)}, which torch cannot carry out in an exported program: {why}",
            help="write what it computes out in the model",
        ) from error


def _check_dtypes(name: str, program: ExportedProgram) -> None:
    """Raise E0410 for a program that was traced inside of a region of autocast: its casts are not in the program."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            target, value = node.target, node.meta.get("val")
            if not isinstance(target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
                continue
            given = [n.meta.get("val") for n in node.all_input_nodes]
            dtypes = [t.dtype for t in given if isinstance(t, torch.Tensor) and t.is_floating_point()]
            if "dtype" in node.kwargs or not dtypes or value.dtype in dtypes or not value.is_floating_point():
                continue
            if torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "AutocastCPU"):
                raise E0410.error(
                    f"method '{name}' was exported inside of torch.autocast, which the program does not have: "
                    f"'{target}' of {str(dtypes[0])[6:]} is {str(value.dtype)[6:]} there",
                    source_location(location_of(node.meta, node.name)),
                    help="export outside of it, and have torch.autocast in the forward of the model",
                )
