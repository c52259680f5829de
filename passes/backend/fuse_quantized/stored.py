"""Integers that float values are made of, also through operators that only move elements; constants of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.ir import SSAValue

from etir.backends.api.quantization import CLAMPS, MOVES, PAD
from etir.dialects.dtypes import dtype_of, f32, i8
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.quantized import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.rewriting import PatternRewriter

if TYPE_CHECKING:
    import numpy as np

LOW, HIGH = -128, 127
IMAGE_ORDER = (0, 2, 3, 1)
COPY = "dim_order_ops._to_dim_order_copy.default"
SPLITS = frozenset({"aten.split_copy.Tensor", "aten.split_with_sizes_copy.default", "aten.unbind_copy.int"})
"""Operators with one tensor, whose results have its elements between them."""
KEEPS_ENCODING = MOVES - SPLITS - {"aten.expand_copy.default"}
"""Operators with one tensor and one result, whose elements are some of the operand's."""


@dataclass(frozen=True)
class Encoding:
    """``(integer - zero_point) * scale``; integers that are made are from ``low`` to ``high``."""

    scale: float
    zero_point: int
    low: int = LOW
    high: int = HIGH

    def integer(self, number: float) -> int:
        """What a quantize operator makes of a number."""
        import numpy as np

        value = np.rint(np.float32(number) * np.float32(1.0 / self.scale)) + self.zero_point
        return int(min(max(value, self.low), self.high))

    def within(self, low: float | None, high: float | None) -> Encoding:
        """For numbers that are clamped before: the smaller range of integers."""
        least = self.low if low is None else self.integer(low)
        most = self.high if high is None else self.integer(high)
        return Encoding(self.scale, self.zero_point, min(least, most), most)

    def same_numbers(self, other: Encoding) -> bool:
        """Whether integers stand for the same numbers, and may be all of them."""
        return (self.scale, self.zero_point, LOW, HIGH) == (other.scale, other.zero_point, other.low, other.high)

    def table(self) -> np.ndarray:
        """The number of each integer from -128 to 127."""
        import numpy as np

        return (np.arange(LOW, HIGH + 1, dtype=np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)

    def quantized(self, numbers: np.ndarray) -> np.ndarray:
        """The integers of some numbers."""
        import numpy as np

        values = np.rint(numbers.astype(np.float32) * np.float32(1.0 / self.scale)) + np.float32(self.zero_point)
        return np.clip(np.nan_to_num(values, nan=self.low), self.low, self.high).astype(np.int8)


@dataclass(frozen=True)
class Stored:
    """int8 numbers and what they stand for."""

    value: SSAValue
    encoding: Encoding


def encoding_of(op: EdgeOp, stored: SSAValue) -> Encoding | None:
    """The encoding of a (de)quantize operator of int8 and float32 by one scale; None for another one."""
    numbers = op.results[0] if stored is op.operands[0] else op.operands[0]
    if tensor_of(stored).element_type != i8 or tensor_of(numbers).element_type != f32:
        return None
    scale, point, low, high = (op.arg(name) for name in ("scale", "zero_point", "quant_min", "quant_max"))
    if not scale > 0 or not LOW <= point <= HIGH or not LOW <= low <= high <= HIGH:
        return None
    return Encoding(float(scale), int(point), int(low), int(high))


def clamp_bounds(op: EdgeOp) -> tuple[float | None, float | None]:
    """The limits of an operator of :data:`~etir.backends.api.quantization.CLAMPS`."""
    match op.op_name:
        case "aten.relu.default":
            return 0.0, None
        case "aten.relu6.default":
            return 0.0, 6.0
        case "aten.hardtanh.default":
            return float(op.arg("min_val")), float(op.arg("max_val"))
        case _:
            low, high = op.arg("min"), op.arg("max")
            return (None if low is None else float(low)), (None if high is None else float(high))


def is_clamp(op: object) -> bool:
    """Whether an operator is a clamp by numbers."""
    if not isinstance(op, EdgeOp) or op.op_name not in CLAMPS:
        return False
    return not any(isinstance(v, SSAValue) for n, v in op.given_args().items() if n in ("min", "max"))


MaxPool: TypeAlias = "tuple[type[EdgeOp], Callable[[dict[str, list[int]], Encoding], dict[str, Any] | None]]"
"""The operator of a target's max pool, and its arguments by those of a window; None for one that it does not do."""


class Integers:
    """Finds the integers of float values, and moves them where the float values are moved."""

    def __init__(self, max_pool: MaxPool | None):
        self.max_pool = max_pool
        self.used = False
        self._known: dict[SSAValue, Stored] = {}

    def of(self, value: object, rewriter: PatternRewriter) -> Stored | None:
        """The integers of a value, None where there are none. Operators that move them are made beside the others."""
        if not isinstance(value, SSAValue) or not isinstance(value.owner, EdgeOp):
            return None
        op = value.owner
        if op.op_name == DEQUANTIZE:
            encoding = encoding_of(op, op.operands[0])
            return None if encoding is None else Stored(op.operands[0], Encoding(encoding.scale, encoding.zero_point))
        known = self._known.get(value)
        if known is not None and known.value.owner is not None and _attached(known.value):
            return known
        pools = op.op_name in ("aten.max_pool2d.default", "aten.max_pool2d_with_indices.default")
        parts, pads = op.op_name in SPLITS, op.op_name == PAD and op.arg("value") == 0
        if (op.op_name not in KEEPS_ENCODING and not pools and not parts and not pads) or len(op.operands) != 1:
            return None
        if not parts and (value is not op.results[0] or any(r.first_use is not None for r in op.results[1:])):
            return None
        inner = self.of(op.operands[0], rewriter)
        if inner is None:
            return None
        if pools:
            pooled = self._pooled(op, inner, rewriter)
            moved = [] if pooled is None else [pooled]
        elif pads:
            moved = [padded(op, inner.value, inner.encoding.zero_point, rewriter)]
        else:
            moved = self._moved(op, inner, rewriter)
        for result, made in zip(op.results, moved, strict=False):
            self._known[result] = Stored(made, inner.encoding)
        return self._known[value] if moved else None

    def _moved(self, op: EdgeOp, inner: Stored, rewriter: PatternRewriter) -> list[SSAValue]:
        name = next(n for n, v in op.given_args().items() if v is op.operands[0])
        changes: dict[str, Any] = {name: inner.value}
        if "dtype" in op.SCHEMA.index and op.arg("dtype") is not None:
            changes["dtype"] = i8
        types = [tensor_type(i8, dims_of(type), order_of(type)) for type in map(tensor_of, op.results)]
        made = op.with_args(types, **changes)
        rewriter.insert_op(made, before=op)
        return list(made.results)

    def _pooled(self, op: EdgeOp, inner: Stored, rewriter: PatternRewriter) -> SSAValue | None:
        type = tensor_of(op.results[0])
        if self.max_pool is None or type.get_num_dims() != 4 or op.arg("ceil_mode"):
            return None
        kernel = pair(op.arg("kernel_size"))
        window = {
            "kernel": kernel,
            "stride": pair(op.arg("stride")) if op.arg("stride") else kernel,
            "padding": pair(op.arg("padding")),
            "dilation": pair(op.arg("dilation")),
        }
        if not all(isinstance(n, int) for values in window.values() for n in values):
            return None
        operator, arguments = self.max_pool
        numbers = arguments(window, inner.encoding)
        if numbers is None:
            return None
        image = as_image(inner.value, rewriter, op)
        made = operator.make({"input": image, **numbers}, [tensor_type(i8, dims_of(type), IMAGE_ORDER)])
        rewriter.insert_op(made, before=op)
        self.used = True
        return in_order(made.results[0], order_of(type), rewriter, op)


def padded(op: EdgeOp, value: SSAValue, number: int, rewriter: PatternRewriter) -> SSAValue:
    """Integers padded as ``op`` does, with an integer; images with their channels innermost stay so."""
    type = tensor_of(op.results[0])
    order = IMAGE_ORDER if type.get_num_dims() == 4 and is_image(value) else order_of(type)
    arguments = {"self": in_order(value, order, rewriter, op), "value": number}
    made = op.with_args([tensor_type(i8, dims_of(type), order)], **arguments)
    rewriter.insert_op(made, before=op)
    return in_order(made.results[0], order_of(type), rewriter, op)


def _attached(value: SSAValue) -> bool:
    return not isinstance(value.owner, EdgeOp) or value.owner.parent is not None


def pair(values: Any) -> list[int]:
    """A list of two numbers, from one with one or two."""
    items = list(values)
    return items * 2 if len(items) == 1 else items


def in_order(
    value: SSAValue, order: tuple[int, ...], rewriter: PatternRewriter, before: EdgeOp | None = None
) -> SSAValue:
    """``value`` with its elements in ``order``: a copy of what it is a copy of, or of it."""
    type = tensor_of(value)
    for same in _forms(value):
        if tensor_of(same).element_type == type.element_type and order_of(tensor_of(same)) == order:
            return same
    cls = edge.dim_order_ops._to_dim_order_copy.default
    copy = cls.make({"self": value, "dim_order": list(order)}, [tensor_type(type.element_type, dims_of(type), order)])
    rewriter.insert_op(copy, before=before)
    return copy.results[0]


def as_image(value: SSAValue, rewriter: PatternRewriter, before: EdgeOp | None = None) -> SSAValue:
    """``value``, of four dims, with its channels innermost."""
    return in_order(value, IMAGE_ORDER, rewriter, before)


def is_image(value: SSAValue) -> bool:
    """Whether the elements of ``value`` are in the order of images somewhere."""
    return any(order_of(tensor_of(same)) == IMAGE_ORDER for same in _forms(value))


def _forms(value: SSAValue) -> Iterator[SSAValue]:
    """``value``, what it is a copy of, and if it is a line with a dim more, the image of one row that this is."""
    yield value
    source = value.owner
    if not isinstance(source, EdgeOp):
        return
    if source.op_name == COPY:
        yield source.operands[0]
    elif source.op_name == "aten.unsqueeze_copy.default" and int(source.arg("dim")) in (2, -2):
        row = row_of(source.operands[0])
        if row is not None:
            yield from _forms(row)


def row_of(value: SSAValue) -> SSAValue | None:
    """The image of one row that a line ``[batch, channels, length]`` is, None where it is none."""
    source = value.owner
    if not isinstance(source, EdgeOp) or source.op_name not in _SQUEEZES or tensor_of(value).get_num_dims() != 3:
        return None
    image, dims = source.operands[0], source.arg("dim")
    dims = [dims] if isinstance(dims, int) else list(dims)
    return image if dims in ([2], [-2]) and tensor_of(image).get_num_dims() == 4 and is_image(image) else None


_SQUEEZES = ("aten.squeeze_copy.dim", "aten.squeeze_copy.dims")


def as_row(value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """An image, or a line as an image of one row, with its channels innermost."""
    if tensor_of(value).get_num_dims() == 4:
        return as_image(value, rewriter)
    row = row_of(value)
    if row is None:
        line = in_order(value, (0, 1, 2), rewriter)
        type = tensor_type(tensor_of(line).element_type, one_row(dims_of(tensor_of(line))))
        made = edge.aten.unsqueeze_copy.default.make({"self": line, "dim": 2}, [type])
        rewriter.insert_op(made)
        row = made.results[0]
    return as_image(row, rewriter)


def as_line(row: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """The line that an image of one row is."""
    plain = in_order(row, (0, 1, 2, 3), rewriter)
    batch, channels, _, length = dims_of(tensor_of(row))
    type = tensor_type(tensor_of(row).element_type, [batch, channels, length])
    made = edge.aten.squeeze_copy.dims.make({"self": plain, "dim": [2]}, [type])
    rewriter.insert_op(made)
    return made.results[0]


def one_row(dims: Sequence[Any]) -> list[Any]:
    """The dims of a line as those of an image."""
    batch, channels, length = dims
    return [batch, channels, 1, length]


# --- constants ---


def array_of(value: object, store: ConstantStore) -> np.ndarray | None:
    """A constant's elements, None where ``value`` is none."""
    import numpy as np

    if not isinstance(value, SSAValue) or not store.is_constant(value):
        return None
    type = tensor_of(value)
    name = dtype_of(type.element_type).numpy_name
    if name is None:
        return None
    order = order_of(type)
    shape = type.get_shape()
    flat = np.frombuffer(store.data(value), name).reshape([shape[d] for d in order])
    return flat.transpose([order.index(d) for d in range(len(order))])


def weight_of(value: object, store: ConstantStore, axis: int = 0) -> tuple[np.ndarray, np.ndarray] | str:
    """int8 numbers and the scale of each index of dim ``axis`` of a weight that is multiplied out; else why there are
    none.
    """
    import numpy as np

    owner = value.owner if isinstance(value, SSAValue) else None
    if not isinstance(owner, EdgeOp) or owner.op_name not in (DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
        return "the weight is not int8 with one scale, or one for each channel"
    numbers = array_of(owner.arg("input"), store)
    if numbers is None or numbers.dtype != np.int8:
        return "the weight is no constant of int8"
    if owner.op_name == DEQUANTIZE:
        points, scales = np.array(owner.arg("zero_point")), np.full(numbers.shape[axis], owner.arg("scale"), np.float64)
    else:
        found = array_of(owner.arg("scales"), store)
        zeros = owner.arg("zero_points")
        offsets = np.zeros(1) if zeros is None else array_of(zeros, store)
        if found is None or offsets is None or owner.arg("axis") != axis or found.size != numbers.shape[axis]:
            return "the weight has scales along another dim, or they are no constants"
        points, scales = offsets, found.astype(np.float64).reshape(-1)
    if points.any():
        return "the weight has zero points"
    return numbers, scales


def bias_of(value: object, columns: int, store: ConstantStore) -> np.ndarray | None:
    """A bias as float64: a constant, int32 numbers that are multiplied out, or zeros where there is none."""
    import numpy as np

    if value is None:
        return np.zeros(columns)
    found = array_of(value, store)
    if found is not None:
        return found.astype(np.float64)
    owner = cast(SSAValue, value).owner
    if not isinstance(owner, EdgeOp) or owner.op_name not in (DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
        return None
    numbers = array_of(owner.arg("input"), store)
    if owner.op_name == DEQUANTIZE:
        scales, points = np.array(owner.arg("scale")), np.array(owner.arg("zero_point"))
    else:
        scales = array_of(owner.arg("scales"), store)
        zeros = owner.arg("zero_points")
        points = np.zeros(1) if zeros is None else array_of(zeros, store)
    if numbers is None or scales is None or points is None:
        return None
    return (numbers.astype(np.float64) - points) * scales
