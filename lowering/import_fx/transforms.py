"""Function transforms of ``torch.func`` inside a model, carried out before the program is imported.

``torch.export`` records ``vmap``, ``jvp`` and their like as calls that enter and leave a level of functorch's
interpreter, with operators on one sample between them. What these operators do to the whole batch is known to torch's
batching rules and derivatives alone; ``run_decompositions`` without any decomposition applies them. That makes the
program functional, too, which is why programs without transforms stay as they are: views of one state are told apart
in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from torch import fx
from torch.export import ExportedProgram

from etir.lowering.errors import E0410

_MODULE = "torch._functorch.predispatch"


def without_transforms(programs: Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    """The programs by method name, those with transforms as what they compute.

    Raises E0410 for transforms that torch does not carry out.
    """
    return {name: _applied(name, one) if _has_transform(one) else one for name, one in programs.items()}


def _has_transform(program: ExportedProgram) -> bool:
    return any(
        getattr(node.target, "__module__", None) == _MODULE
        for module in program.graph_module.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    )


def _applied(name: str, program: ExportedProgram) -> ExportedProgram:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions({})
    except Exception as error:
        why = str(error).partition("\n")[0]
        raise E0410.error(
            f"method '{name}' has a transform of torch.func (vmap, jvp, grad), which torch cannot carry out in an "
            f"exported program: {why}",
            help="write the batched or differentiated computation out in the model",
        ) from error
