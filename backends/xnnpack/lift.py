"""A graph as operators of the edge dialect: what every node means, for the interpreter and for targets of any kind.

Values are tensors whose dims are those of the graph, in row-major order; an image is permuted where an operator wants
its channels first. Quantized values are the floats that their integers stand for, rounded and limited as the integers
would be. That is what etir's runtime computes too (``runtime/backends/xnnpack/nodes.cc``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from etir.backends.errors import E1108
from etir.backends.xnnpack.graph import Constant, Graph, Node, PerBlock, PerChannel, PerTensor, PerToken, Value
from etir.backends.xnnpack.schema import ALIGN_CORNERS, KEEP_DIMS, TRANSPOSED
from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i8, i32, ui8
from etir.dialects.et.layout import order_of
from etir.lowering.build.builder import Builder, dims, element, rank

if TYPE_CHECKING:
    import numpy as np

_HELD: dict[str, Attribute] = {"fp16": f16, "bf16": bf16, "int32": i32}
_RANGE: dict[str, tuple[int, int, Attribute]] = {"qint8": (-128, 127, i8), "quint8": (0, 255, ui8)}
_CHANNELS_FIRST, _CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def held_as(value: Value) -> Attribute:
    """The element type in which a value is held."""
    return f32 if value.quantization is not None else _HELD.get(value.datatype.name, f32)


def lift(graph: Graph, b: Builder, inputs: Sequence[SSAValue], nodes: list[SSAValue] | None = None) -> list[SSAValue]:
    """The outputs of ``graph`` for ``inputs``, made with ``b`` before its root; both as the delegate's call has them.

    ``nodes`` gets the first result of every node, in order; of integers the floats that they stand for. Raises E1108
    for a node that has no such form, and for constants whose bytes are not loaded.
    """
    lifter = _Lifter(graph, b)
    outputs = lifter.run(inputs)
    if nodes is not None:
        nodes += [lifter.values[node.outputs[0]] for node in graph.nodes]
    return outputs


class _Lifter:
    def __init__(self, graph: Graph, b: Builder):
        self.graph = graph
        self.b = b
        self.values: dict[int, SSAValue] = {}

    def run(self, inputs: Sequence[SSAValue]) -> list[SSAValue]:
        b = self.b
        for index, given in zip(self.graph.inputs, inputs, strict=True):
            value = self.graph.values[index]
            assert isinstance(given.type, TensorType)
            # Dims inside are those outside in the order in which elements lie.
            held = b.permute(given, order_of(given.type)) if rank(given) else b.view(given, [1])
            if isinstance(value.quantization, PerTensor):
                held = b.mul(b.sub(b.cast(held, f32), float(value.quantization.zero_point)), value.quantization.scale)
            self.values[index] = held
        for node in self.graph.nodes:
            self.node(node)
        outputs: list[SSAValue] = []
        for index in self.graph.outputs:
            value, held = self.graph.values[index], self.values[index]
            if isinstance(value.quantization, PerTensor):
                low, high, type = _RANGE[value.datatype.name]
                scaled = b.round(b.mul(held, 1 / value.quantization.scale))
                held = b.cast(b.clamp(b.add(scaled, float(value.quantization.zero_point)), low, high), type)
            outputs.append(held)
        return outputs

    def operand(self, index: int) -> SSAValue:
        if index not in self.values:
            value = self.graph.values[index]
            if value.constant is None:
                raise E1108.error(f"value {index} is used before a node gives it")
            self.values[index] = self.b.constant(_array(value), held_as(value))
        return self.values[index]

    def node(self, node: Node) -> None:
        b = self.b
        make = _NODES.get(node.kind.name)
        if make is None:
            raise E1108.error(f"a node of kind {node.kind.name} has no form in edge operators")
        out = self.graph.values[node.outputs[0]]
        operands = [None if i is None else self.operand(i) for i in node.operands]
        types = {element(x) for x in operands if x is not None} | {held_as(out)}
        type = types.pop() if len(types) == 1 else f32
        found = make(b, [None if x is None else b.cast(x, type) for x in operands], node)
        results = list(found) if isinstance(found, tuple) else [found]
        if node.clamp is not None:
            low, high = node.clamp
            if (low, high) != (-inf, inf):
                results[0] = b.clamp(results[0], None if low == -inf else low, None if high == inf else high)
        for index, result in zip(node.outputs, results, strict=True):
            value = self.graph.values[index]
            self.values[index] = self.rounded(b.cast(result, held_as(value)), value)

    def rounded(self, x: SSAValue, value: Value) -> SSAValue:
        """Floats as the integers of the value's type stand for them."""
        b = self.b
        match value.quantization:
            case PerTensor(scale, zero_point):
                low, high, _ = _RANGE[value.datatype.name]
                steps = b.clamp(b.round(b.mul(x, 1 / scale)), low - zero_point, high - zero_point)
                return b.mul(steps, scale)
            case PerToken(nonbatch):
                along = list(range(rank(x) - nonbatch, rank(x)))
                most = b.clamp(b.amax(x, along, True), 0.0)
                least = b.neg(b.clamp(b.amax(b.neg(x), along, True), 0.0))
                width = b.sub(most, least)
                inverse = b.where(b.eq(width, 0.0), 1.0, b.mul(b.reciprocal(width), 255.0))
                below, above = b.mul(least, inverse), b.mul(most, inverse)
                nearer = b.gt(b.add(b.add(below, -128.0), b.add(above, 127.0)), 0.0)
                exact = b.where(nearer, b.rsub(below, -128.0), b.rsub(above, 127.0))
                zero_point = b.round(b.clamp(exact, -128.0, 127.0))
                steps = b(aten.maximum.default, b.round(b.mul(x, inverse)), b.rsub(zero_point, -128.0))
                steps = b(aten.minimum.default, steps, b.rsub(zero_point, 127.0))
                return b.mul(steps, b.reciprocal(inverse))
            case _:
                return x


# --- constants --------------------------------------------------------------------------------------------------------


def _array(value: Value) -> np.ndarray:
    """A constant as floats of its dims."""
    import numpy as np

    data = np.frombuffer(_bytes(value.constant), np.uint8)
    name, count = value.datatype.name, int(np.prod(value.dims, dtype=np.int64))
    if name in ("fp32", "pfp32", "int32", "fp16"):
        numbers = {"fp16": np.dtype(np.float16), "int32": np.dtype(np.int32)}.get(name, np.dtype(np.float32))
        return data.view(numbers)[:count].reshape(value.dims)
    if name == "bf16":
        return (data.view(np.uint16)[:count].astype(np.uint32) << 16).view(np.float32).reshape(value.dims)
    if value.datatype.bits == 4:
        rows = data.reshape(-1, (value.dims[-1] + 1) // 2)
        both = np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1)[:, : value.dims[-1]]
        numbers_ = both.astype(np.float32).reshape(value.dims) - 8
    else:
        width = {"qint32": np.dtype(np.int32), "qcint32": np.dtype(np.int32), "quint8": np.dtype(np.uint8)}
        numbers_ = data.view(width.get(name, np.dtype(np.int8)))[:count].astype(np.float32).reshape(value.dims)
    match value.quantization:
        case PerTensor(scale, zero_point):
            return (numbers_ - np.float32(zero_point)) * np.float32(scale)
        case PerChannel(channel, scales, _):
            shape = [1] * len(value.dims)
            shape[channel] = value.dims[channel]
            return numbers_ * _scales(scales, 4).reshape(shape)
        case PerBlock(_, block, scales, _):
            blocks = numbers_.reshape(value.dims[0], -1, block)
            return (blocks * _scales(scales, 2).reshape(*blocks.shape[:2], 1)).reshape(value.dims)
        case _:
            raise E1108.error(f"a constant of datatype {name} has no scales")


def _bytes(constant: Constant | None) -> memoryview:
    if constant is None or constant.data is None:
        raise E1108.error("the bytes of a constant are not loaded")
    return memoryview(constant.data.data)[: constant.size]


def _scales(scales: Constant | tuple[float, ...], width: int) -> np.ndarray:
    import numpy as np

    if not isinstance(scales, Constant):
        return np.array(scales, np.float32)
    data = np.frombuffer(_bytes(scales), np.uint8)
    return data.view(np.float32) if width == 4 else (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


# --- nodes ------------------------------------------------------------------------------------------------------------

_Operands = Sequence["SSAValue | None"]
_Make = Callable[[Builder, _Operands, Node], "SSAValue | tuple[SSAValue, ...]"]


def _int(node: Node, name: str) -> int:
    return cast(int, node.attributes[name])


def _ints(node: Node, name: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", node.attributes[name])


def _pair(node: Node, name: str) -> list[int]:
    return [_int(node, f"{name}_height"), _int(node, f"{name}_width")]


def _sides(node: Node) -> tuple[int, int, int, int]:
    top, right, bottom, left = (_int(node, f"padding_{side}") for side in ("top", "right", "bottom", "left"))
    return top, right, bottom, left


def _given(value: SSAValue | None) -> SSAValue:
    assert value is not None
    return value


def _op(operator: type) -> _Make:
    return lambda b, xs, node: b(operator, *(x for x in xs if x is not None))


def _prelu(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    x, slope = _given(xs[0]), _given(xs[1])
    return b.add(b.clamp(x, 0.0), b.mul(b.clamp(x, None, 0.0), slope))


def _fully_connected(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    weight = _given(xs[1])
    if _int(node, "flags") & TRANSPOSED:
        weight = b.transpose(weight, 0, 1)
    return b(aten.linear.default, xs[0], weight, xs[2] if len(xs) > 2 else None)


def _matmul(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    left, right = _given(xs[0]), _given(xs[1])
    if _int(node, "flags") & TRANSPOSED:
        right = b.transpose(right, -1, -2)
    if rank(left) == 2:
        return b.mm(left, right)
    if rank(left) == 3 and dims(left)[0] == dims(right)[0]:
        return b.bmm(left, right)
    batch = [max(p, q) for p, q in zip(_static(left)[:-2], _static(right)[:-2], strict=True)]
    flat: list[SSAValue] = []
    for x in (left, right):
        whole = b.expand(x, [*batch, *_static(x)[-2:]])
        flat.append(b.view(whole, [-1, *_static(x)[-2:]]))
    return b.view(b.bmm(*flat), [*batch, _static(left)[-2], _static(right)[-1]])


def _static(x: SSAValue) -> list[int]:
    return [cast(int, d) for d in dims(x)]


def _convolution(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    image, weight = b.permute(_given(xs[0]), _CHANNELS_FIRST), _given(xs[1])
    top, right, bottom, left = _sides(node)
    transposed, groups = node.kind.name == "conv_transpose2d", _int(node, "groups")
    if node.kind.name == "depthwise_conv2d":
        weight = b.permute(weight, (3, 0, 1, 2))
    elif transposed:
        outputs, height, width, inputs = _static(weight)
        parts = b.view(weight, [groups, outputs // groups, height, width, inputs])
        moved = b.permute(parts, (0, 4, 1, 2, 3))
        weight = b.view(moved, [groups * inputs, outputs // groups, height, width])
    else:
        weight = b.permute(weight, _CHANNELS_FIRST)
    even = top == bottom and left == right
    if not even and not transposed:
        image = b(aten.constant_pad_nd.default, image, [left, right, top, bottom], 0.0)
    out = b(
        aten.convolution.default,
        image,
        weight,
        xs[2] if len(xs) > 2 else None,
        _pair(node, "subsampling"),
        [top, left] if even else [0, 0],
        _pair(node, "dilation"),
        transposed,
        _pair(node, "adjustment"),
        groups,
    )
    out = b.permute(out, _CHANNELS_LAST)
    if not even and transposed:
        height, width = b.size(out, 1), b.size(out, 2)
        out = b.slice(b.slice(out, 1, top, height - bottom), 2, left, width - right)
    return out


def _max_pool(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    top, right, bottom, left = _sides(node)
    image = b.permute(_given(xs[0]), _CHANNELS_FIRST)
    if any((top, right, bottom, left)):
        image = b(aten.constant_pad_nd.default, image, [left, right, top, bottom], -inf)
    windows = (_pair(node, "pooling"), _pair(node, "stride"), [0, 0], _pair(node, "dilation"))
    return b.permute(b.results(aten.max_pool2d_with_indices.default, image, *windows)[0], _CHANNELS_LAST)


def _average_pool(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    top, right, bottom, left = _sides(node)
    if (top, left) != (bottom, right):
        raise E1108.error("an average over windows whose padding differs from side to side has no form in operators")
    image = b.permute(_given(xs[0]), _CHANNELS_FIRST)
    pool = (_pair(node, "pooling"), _pair(node, "stride"), [top, left], False, False)
    return b.permute(b(aten.avg_pool2d.default, image, *pool), _CHANNELS_LAST)


def _global_pool(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    return b.mean(_given(xs[0]), [1, 2], bool(_int(node, "flags") & KEEP_DIMS))


def _resize(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    if _int(node, "flags") & ~ALIGN_CORNERS:
        raise E1108.error("a resize as TensorFlow's first version had it has no form in operators")
    corners = bool(_int(node, "flags") & ALIGN_CORNERS)
    image = b.permute(_given(xs[0]), _CHANNELS_FIRST)
    sizes = [_int(node, "new_height"), _int(node, "new_width")]
    return b.permute(b(aten.upsample_bilinear2d.vec, image, sizes, corners, None), _CHANNELS_LAST)


def _pad(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    sides = zip(_ints(node, "pre_paddings"), _ints(node, "post_paddings"), strict=True)
    paddings = [n for pair in reversed(list(sides)) for n in pair]
    return b(aten.constant_pad_nd.default, xs[0], paddings, node.attributes["padding_value"])


def _slice(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    x = _given(xs[0])
    for d, (offset, size) in enumerate(zip(_ints(node, "offsets"), _ints(node, "sizes"), strict=True)):
        x = b.slice(x, d, offset, offset + size if size else None)
    return x


def _reshape(b: Builder, xs: _Operands, node: Node) -> SSAValue:
    return b.view(_given(xs[0]), [d or -1 for d in _ints(node, "new_shape")])


_UNARY: dict[str, type] = {
    "sigmoid": aten.sigmoid.default,
    "floor": aten.floor.default,
    "ceiling": aten.ceil.default,
    "square_root": aten.sqrt.default,
    "reciprocal_square_root": aten.rsqrt.default,
    "hardswish": aten.hardswish.default,
    "negate": aten.neg.default,
    "abs": aten.abs.default,
    "log": aten.log.default,
    "exp": aten.exp.default,
    "sin": aten.sin.default,
    "cos": aten.cos.default,
    "tanh": aten.tanh.default,
    "gelu": aten.gelu.default,
    "add": aten.add.Tensor,
    "subtract": aten.sub.Tensor,
    "multiply": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "minimum": aten.minimum.default,
    "maximum": aten.maximum.default,
}
"""Nodes that are one operator of their operands."""

_NODES: dict[str, _Make] = {
    **{name: _op(operator) for name, operator in _UNARY.items()},
    **dict.fromkeys(("clamp", "copy", "convert"), lambda b, xs, node: _given(xs[0])),
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv_transpose2d"), _convolution),
    **{f"concatenate{i}": lambda b, xs, node: b.cat([_given(x) for x in xs], _int(node, "axis")) for i in range(2, 6)},
    "square": lambda b, xs, node: b.mul(_given(xs[0]), _given(xs[0])),
    "softmax": lambda b, xs, node: b(aten._softmax.default, xs[0], -1, False),
    "leaky_relu": lambda b, xs, node: b(aten.leaky_relu.default, xs[0], node.attributes["negative_slope"]),
    "elu": lambda b, xs, node: b(aten.elu.default, xs[0], node.attributes["alpha"]),
    "prelu": _prelu,
    "fully_connected": _fully_connected,
    "batch_matrix_multiply": _matmul,
    "max_pooling2d": _max_pool,
    "avg_pooling2d": _average_pool,
    "global_avg_pooling2d": _global_pool,
    "static_resize_bilinear2d": _resize,
    "static_transpose": lambda b, xs, node: b.permute(_given(xs[0]), _ints(node, "perm")),
    "static_constant_pad": _pad,
    "static_slice": _slice,
    "static_reshape": _reshape,
}
