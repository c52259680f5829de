"""Operators of ``prims``, and of torch's Python library: each is what torch itself runs for it.

``prims`` is the set of operators that torch's references end in, and programs may call them: ``prims.iota``,
``prims.convert_element_type``, ``prims.split_dim``. Torch defines each of them by a function of ATen operators, which
it checks more strictly than those. The function is called on the fake tensors of the node while ``make_fx`` records
it; so views stay views of what they view, and sizes are the program's own. What the library computes is in
``library.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.utils import _pytree as pytree

from etir.lowering.import_fx.library import HIGHER_ORDER, LIBRARY

NAMESPACE = "prims"

Operator = torch._ops.OpOverload | torch._ops.HigherOrderOperator

OWN = frozenset({"prims.fma.default"})
"""What `decompose-aten` has a pattern for."""


@cache
def definition(target: Operator) -> Callable[..., Any] | None:
    """What an operator of ``prims``, or of torch's library, is in operators of ATen; None for others."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return HIGHER_ORDER.get(target.name())
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


def expansion(
    node: fx.Node, target: Operator, modules: Mapping[fx.Node, fx.GraphModule]
) -> tuple[fx.GraphModule, list[fx.Node]] | str:
    """The graph of ATen operators for a node, with the nodes that its placeholders stand for; or why there is none.

    ``modules`` has the graphs among the operands.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    function = definition(target)
    assert function is not None
    inputs = [n for n in node.all_input_nodes if n not in modules]

    def call(*values: Any) -> Any:
        value_of = {**modules, **dict(zip(inputs, values, strict=True))}
        args, kwargs = pytree.tree_map_only(fx.Node, lambda n: value_of[n], (node.args, node.kwargs))
        return function(*args, **kwargs)

    values = [_own(n.meta["val"]) for n in inputs]
    mode = detect_fake_mode(values)  # Without it, what is made of sizes alone would be a real tensor of one size.
    try:
        with warnings.catch_warnings(), torch.no_grad(), nullcontext() if mode is None else mode:
            warnings.simplefilter("ignore")
            graph = make_fx(call, decomposition_table=definitions())(*values)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, LookupError) as error:
        first_line = (str(error).strip() or type(error).__name__).split("\n")[0]
        return f"what torch runs for it stops: {first_line}"
    return graph, inputs


def _own(value: Any) -> Any:
    """A tensor of the program as another object: one that a definition resized would not be the program's any more."""
    return value.detach() if isinstance(value, torch.Tensor) else value
