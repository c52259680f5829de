"""The operator of mixtures of experts that passes make: rows that are each multiplied by the matrix whose number they
have, ``input[i] @ weight[experts[i] * columns : (experts[i] + 1) * columns].T``.

The matrices lie one below the other, ``[experts * columns, depth]``: a weight like a linear layer's, which is quantized
as one. A module that has the operator declares it (:func:`declare`). No runtime has it: `lower-expert-layers` makes
calls of kernels or loops of it.
"""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.declarations import declare_schemas
from etir.dialects.edge.base import EdgeOp, edge_class
from etir.dialects.schema import parse_schema

EXPERT_LINEAR = "etir.expert_linear.default"
"""float32 ``[rows, depth]`` by ``[experts * columns, depth]``, with a number int64 ``[rows]`` for each row."""
_SCHEMA = "etir::expert_linear(Tensor input, Tensor weight, Tensor experts, int columns) -> Tensor"


@cache
def expert_op() -> type[EdgeOp]:
    """The class of the operator at the edge level."""
    return edge_class(parse_schema(_SCHEMA))


def declare(module: ModuleOp) -> None:
    """Declare the operator's schema, once."""
    declare_schemas(module, (_SCHEMA,))
