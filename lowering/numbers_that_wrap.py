"""Numbers beside tensors of integers, as what is left of them in the type that the operator computes in.

Before::

    %0 = aten.clamp.default(%x, min = -3, max = 5) : (tensor<4xui8>) -> tensor<4xui8>
    %1 = aten.gt.Scalar(%y, other = 2147483649) : (tensor<4xi32>) -> tensor<4xi1>

After::

    %0 = aten.clamp.default(%x, min = 253, max = 5) : (tensor<4xui8>) -> tensor<4xui8>
    %1 = aten.gt.Scalar(%y, other = -2147483647) : (tensor<4xi32>) -> tensor<4xi1>

Eager PyTorch brings such a number into the type of the tensors without a look at what is lost, or raises, so that no
program has it. Kernels refuse it when they run, or compute with the number as it stands. Only operators that compute in
the integer type are listed: a quotient and a power are computed otherwise, a mask or a fill takes its number as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.dtypes import i1
from etir.dialects.literals import ArgValue
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.promotion import common_type

_COMPUTED_IN_THE_TYPE = frozenset(
    (
        *("add", "sub", "rsub", "mul", "floor_divide", "fmod", "remainder"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
        *("clamp", "clamp_min", "clamp_max"),
        *("bitwise_and", "bitwise_or", "bitwise_xor"),
    )
)
"""Operators whose numbers take part in a computation in the type of the tensors."""


def wrapped(op: SchemaOp, arguments: Mapping[str, ArgValue]) -> dict[str, ArgValue]:
    """``arguments`` of ``op`` with every integer brought into the integer type of its tensors, modulo ``2 ** bits``."""
    if op.SCHEMA.namespace != "aten" or op.SCHEMA.name not in _COMPUTED_IN_THE_TYPE:
        return dict(arguments)
    type = _integers(op)
    if type is None:
        return dict(arguments)
    return {name: _inside(value, type) for name, value in arguments.items()}


def _integers(op: SchemaOp) -> IntegerType | None:
    """The common type of the tensors if it is one of integers."""
    types = [v.type.element_type for v in op.operands if isinstance(v.type, TensorType)]
    if not types:
        return None
    try:
        common = common_type(cast("list[Attribute]", types))
    except TypeError:
        return None
    return common if isinstance(common, IntegerType) and common != i1 else None


def _inside(value: ArgValue, type: IntegerType) -> ArgValue:
    if isinstance(value, (bool, SSAValue)) or not isinstance(value, int):
        return value
    bits = type.width.data
    least = 0 if type.signedness.data is Signedness.UNSIGNED else -(1 << (bits - 1))
    return (value - least) % (1 << bits) + least
