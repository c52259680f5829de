"""Operators of ``prims``, and of torch's Python library: each is what torch itself runs for it.

``prims`` is the set of operators that torch's references end in, and programs may call them: ``prims.iota``,
``prims.convert_element_type``, ``prims.split_dim``. Torch defines each of them by a function of ATen operators, which
it checks more strictly than those. The function is called on the fake tensors of the node while ``make_fx`` records
it; so views stay views of what they view, and sizes are the program's own. What the library computes is in
``library.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from etir.lowering.import_fx.library import LIBRARY

NAMESPACE = "prims"

OWN = frozenset({"prims.fma.default"})
"""What `decompose-aten` has a pattern for."""


@cache
def definition(target: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """What an operator of ``prims``, or of torch's library, is in operators of ATen; None for others."""
    if str(target) in LIBRARY:
        return LIBRARY[str(target)]
    if target.namespace != NAMESPACE or str(target) in OWN:
        return None
    return getattr(target, "impl_aten", None)


@cache
def definitions() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """All of them."""
    import torch._prims

    found: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith(f"{NAMESPACE}::"):
            continue
        packet = getattr(torch.ops.prims, schema.name.removeprefix(f"{NAMESPACE}::"))
        target = getattr(packet, schema.overload_name or "default")
        function = definition(target)
        if function is not None:
            found[target] = function
    return found


def expansion(node: fx.Node, target: torch._ops.OpOverload) -> tuple[fx.GraphModule, list[fx.Node]] | str:
    """The graph of ATen operators for a node, with the nodes that its placeholders stand for; or why there is none."""
    from torch.fx.experimental.proxy_tensor import make_fx

    function = definition(target)
    assert function is not None
    inputs = list(node.all_input_nodes)

    def call(*values: Any) -> Any:
        value_of = dict(zip(inputs, values, strict=True))
        args, kwargs = pytree.tree_map_only(fx.Node, lambda n: value_of[n], (node.args, node.kwargs))
        return function(*args, **kwargs)

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            graph = make_fx(call, decomposition_table=definitions())(*(_own(n.meta["val"]) for n in inputs))
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, LookupError) as error:
        first_line = (str(error).strip() or type(error).__name__).split("\n")[0]
        return f"what torch runs for it stops: {first_line}"
    return graph, inputs


def _own(value: Any) -> Any:
    """A tensor of the program as another object: one that a definition resized would not be the program's any more."""
    return value.detach() if isinstance(value, torch.Tensor) else value
