"""Operators that make tensors from numbers."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.dtypes import f32, i64
from etir.dialects.et.layout import Dim
from etir.lowering.build.inference import Call, contiguous, like, rule, size_as_dim
from etir.lowering.build.promotion import scalar_type_of
from etir.lowering.build.sizes import Size

Tensor = TensorType[Attribute]


@rule("aten.full.default")
def full(call: Call) -> Tensor:
    """The value's type unless one is asked for."""
    return contiguous(call["dtype"] or scalar_type_of(call["fill_value"]), call.sizes("size"))


@rule("aten.full_like.default")
def full_like(call: Call) -> Tensor:
    """The input's type."""
    return like(call.type(), call["dtype"])


@rule("aten.empty.memory_format", "aten.zeros.default", "aten.ones.default", "aten.rand.default", "aten.randn.default")
def plain(call: Call) -> Tensor:
    """f32 unless another type is asked for."""
    return contiguous(call["dtype"] or f32, call.sizes("size"))


@rule("aten.scalar_tensor.default")
def scalar_tensor(call: Call) -> Tensor:
    """f32 unless another type is asked for."""
    return contiguous(call["dtype"] or f32, [])


@rule("aten.arange.start_step", "aten.arange.default", "aten.arange.start")
def arange(call: Call) -> Tensor:
    """``ceil((end - start) / step)`` numbers: i64 when all three are integers."""
    start, end = (call[n] if n in call.schema.index else None for n in ("start", "end"))
    step = call["step"] if "step" in call.schema.index else 1
    start = 0 if start is None else start
    element = call["dtype"] or (f32 if any(_is_float(v) for v in (start, end, step)) else i64)
    return contiguous(element, [range_length(start, end, step)])


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, SSAValue) and value.type != i64)


def range_length(start: Any, end: Any, step: Any) -> Dim:
    """The number of values in ``[start, end)``. Raises ``TypeError`` when it cannot be known."""
    if all(isinstance(v, (int, float)) for v in (start, end, step)):
        import math

        return max(math.ceil((end - start) / step), 0)
    if any(isinstance(v, float) for v in (start, end, step)) or isinstance(step, (Size, SSAValue)):
        raise TypeError("the length of a range of runtime scalars is not known")
    length = size_as_dim(end) - size_as_dim(start)
    return -((-length) // step)
