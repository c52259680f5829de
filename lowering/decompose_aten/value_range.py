"""What the program says about the values of a tensor: enough to leave out what only guards against impossible ones.

Attention has to give 0 for a row whose mask hides everything. Whether there can be such a row often follows from how
the mask is made: from a constant whose bytes are at hand, a comparison of ranges, a selection between finite numbers.
The functions look through a bounded number of operations and say no when they do not know.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TYPE, bf16, f16, f32, f64, i1
from etir.dialects.et.layout import is_contiguous, is_static
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp
from etir.dialects.et.weights import BlobAttr
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import dims, element, is_tensor, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.inference import tensor_type_of
from etir.lowering.build.promotion import BOOL, FLOATING

if TYPE_CHECKING:
    import numpy as np

MAX_DEPTH = 24
"""How many operations deep the functions look."""

Interval: TypeAlias = "tuple[float, float] | None"
"""Lowest and highest value, None when nothing is known (a NaN included)."""

LARGEST: dict[Attribute, float] = {
    f16: 65504.0,
    bf16: struct.unpack("<f", b"\x00\x00\x7f\x7f")[0],
    f32: struct.unpack("<f", b"\xff\xff\x7f\x7f")[0],
    f64: struct.unpack("<d", b"\xff\xff\xff\xff\xff\xff\xef\x7f")[0],
}
"""The largest finite number of each floating type."""

_ROW_VIEWS = ("unsqueeze", "view", "expand", "permute", "alias", "clone", "detach", "slice", "select", "index_select")


def constant_data(value: SSAValue) -> np.ndarray[Any, Any] | None:
    """The elements of a weight whose bytes are loaded, or of a constant."""
    op = value.owner
    if not isinstance(op, (ConstantOp, GetWeightOp)):
        return None
    import numpy as np

    if isinstance(op, ConstantOp):
        type = tensor_type_of(value)
        name = BY_TYPE[type.element_type].numpy_name
        return None if name is None else np.array(op.value.get_values(), dtype=name).reshape(type.get_shape())
    type = tensor_type_of(value)
    name = BY_TYPE[type.element_type].numpy_name
    weight = _weight(op, op.symbol.root_reference.data)
    if weight is None or name is None or not is_static(type) or not is_contiguous(type):
        return None
    blob = weight.value
    if not isinstance(blob, BlobAttr) or not blob.data.has_data:
        return None
    return np.frombuffer(blob.data.data, dtype=name).reshape(type.get_shape())


def _weight(op: Operation, symbol: str) -> WeightOp | None:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        parent = parent.parent_op()
    if parent is None:
        return None
    return next((o for o in parent.body.block.ops if isinstance(o, WeightOp) and o.sym_name.data == symbol), None)


# --- masks ------------------------------------------------------------------------------------------------------------


def every_row_has_true(value: SSAValue, depth: int = MAX_DEPTH) -> bool:
    """Whether each row (along the last dim) of a bool tensor is known to have a true element."""
    data = constant_data(value)
    if data is not None:
        return data.ndim > 0 and bool(data.astype(bool).any(-1).all())
    op = value.owner
    if not isinstance(op, SchemaOp) or depth <= 0:
        return False
    packet, _, overload = op.name.removeprefix("aten.").partition(".")
    if packet == "full":
        return op.arg("fill_value") is True
    if packet in _ROW_VIEWS and _keeps_rows(op, packet):
        return every_row_has_true(op.operands[0], depth - 1)
    if packet == "index" and op.arg("indices") and _index_keeps_rows(op):
        return every_row_has_true(op.arg("self"), depth - 1)
    if packet in ("logical_or", "bitwise_or") and overload in ("default", "Tensor"):
        sides = [s for s in op.operands if rank(s) and dims(s)[-1] == dims(value)[-1]]
        return any(every_row_has_true(side, depth - 1) for side in sides)
    if packet == "where" and is_tensor(op.arg("self")) and element(op.arg("self")) == i1:
        condition, first = op.arg("condition"), op.arg("self")
        return _is_all_true(first) and rank(condition) > 0 and every_row_has_true(condition, depth - 1)
    if packet in ("le", "ge", "lt", "gt") and overload == "Tensor":
        lower, upper = (op.operands[0], op.operands[1]) if packet[0] == "l" else (op.operands[1], op.operands[0])
        return _starts_below(lower, upper, packet[1] == "t", depth - 1)
    return False


def _keeps_rows(op: SchemaOp, packet: str) -> bool:
    """Whether every row of the result is a row of the operand."""
    source, result = op.operands[0], op.results[0]
    if not rank(source) or not rank(result) or dims(source)[-1] != dims(result)[-1]:
        return False
    if packet == "permute":
        return wrap(op.arg("dims")[-1], rank(source)) == rank(source) - 1
    if packet in ("slice", "select", "index_select"):
        return wrap(op.arg("dim"), rank(source)) != rank(source) - 1
    return True


def _index_keeps_rows(op: SchemaOp) -> bool:
    indices = op.arg("indices")
    return len(indices) < rank(op.arg("self")) or indices[-1] is None


def _is_all_true(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, aten.full.default) and op.fill_value is True


def _starts_below(lower: SSAValue, upper: SSAValue, strictly: bool, depth: int) -> bool:
    """Whether the first entry of a range along the last dim is below everything in ``upper``."""
    op = lower.owner
    if not isinstance(op, aten.arange.start_step) or dims(upper)[-1:] not in ((), (1,)):
        return False
    start, interval = op.start, value_range(upper, depth)
    if not isinstance(start, int) or interval is None or dims(lower) == (0,):
        return False
    return start < interval[0] if strictly else start <= interval[0]


# --- ranges -----------------------------------------------------------------------------------------------------------

_SAME_VALUES = (*_ROW_VIEWS, "index", "gather", "repeat", "embedding", "flip", "split_with_sizes")


def never_minus_infinity(value: SSAValue) -> bool:
    """Whether a floating-point tensor is known to hold no minus infinity."""
    interval = value_range(value)
    return interval is not None and interval[0] >= -LARGEST.get(element(value), 0.0)


def value_range(value: SSAValue, depth: int = MAX_DEPTH) -> Interval:
    """An interval that holds all elements of a tensor."""
    data = constant_data(value)
    if data is not None and data.size and data.dtype.kind in "fiub":
        low, high = float(data.min()), float(data.max())
        return None if math.isnan(low) or math.isnan(high) else (low, high)
    op = value.owner
    found = _computed_range(op, depth) if isinstance(op, SchemaOp) and depth > 0 else None
    if found is not None:
        largest = LARGEST.get(element(value), math.inf)
        return found if -largest <= found[0] and found[1] <= largest else None
    type = BY_TYPE[element(value)]
    if type.category == 0:
        return 0.0, 1.0
    if type.category == 1:
        bits = 8 * type.itemsize
        unsigned = type.torch_name.startswith("u")
        return (0.0, 2.0**bits) if unsigned else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
    return None


def _computed_range(op: SchemaOp, depth: int) -> Interval:
    packet = op.name.removeprefix("aten.").partition(".")[0]
    if packet == "full":
        return _range_of(op.arg("fill_value"), depth)
    if packet == "arange":
        start, end, step = (op.arg(n) for n in ("start", "end", "step"))
        if isinstance(start, (int, float)) and isinstance(step, (int, float)) and step > 0:
            return float(start), float(end) if isinstance(end, (int, float)) else 2.0**63
        return None
    if packet in _SAME_VALUES:
        return _range_of(_first(op), depth)
    if packet == "_to_copy":
        return _cast_range(_range_of(_first(op), depth), BY_TYPE[element(op.results[0])].category)
    if packet == "where":
        return _union(_range_of(op.arg("self"), depth), _range_of(op.arg("other"), depth))
    if packet == "masked_fill":
        return _union(_range_of(op.arg("self"), depth), _range_of(op.arg("value"), depth))
    if packet == "neg":
        return _scaled(_range_of(_first(op), depth), -1.0)
    if packet in ("add", "sub", "rsub", "mul"):
        return _arithmetic(op, packet, depth)
    return None


def _first(op: SchemaOp) -> Any:
    """The first argument: a tensor, or a number, which a trace may have in the place of one."""
    return op.arg(op.SCHEMA.arguments[0].name)


def _range_of(value: Any, depth: int) -> Interval:
    if isinstance(value, SSAValue):
        return value_range(value, depth - 1) if is_tensor(value) else None
    return None if math.isnan(value) else (float(value), float(value))


def _cast_range(a: Interval, category: int) -> Interval:
    """After a cast: to bool, or to an integer, which rounds towards zero."""
    if a is None or category >= FLOATING:
        return a
    return (0.0, 1.0) if category == BOOL else (float(math.floor(a[0])), float(math.ceil(a[1])))


def _union(a: Interval, b: Interval) -> Interval:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _scaled(a: Interval, factor: float) -> Interval:
    return None if a is None else (min(a[0] * factor, a[1] * factor), max(a[0] * factor, a[1] * factor))


def _arithmetic(op: SchemaOp, packet: str, depth: int) -> Interval:
    a, b = _range_of(op.arg("self"), depth), _range_of(op.arg("other"), depth)
    if a is None or b is None:
        return None
    if packet == "mul":
        products = [x * y for x in a for y in b]
        return None if any(math.isnan(p) for p in products) else (min(products), max(products))
    alpha = op.arg("alpha")
    if not isinstance(alpha, (int, float)):
        return None
    left, right = (a, _scaled(b, alpha if packet == "add" else -alpha)) if packet != "rsub" else (b, _scaled(a, -alpha))
    assert right is not None
    low, high = left[0] + right[0], left[1] + right[1]
    return None if math.isnan(low) or math.isnan(high) else (low, high)
