"""XNNPACK graphs written by hand: every kind of node once, and each way in which constants are packed."""

from __future__ import annotations

import numpy as np

from etir.backends.xnnpack import schema
from etir.backends.xnnpack.blob_writer import write_blob
from etir.backends.xnnpack.datatypes import BY_NAME
from etir.backends.xnnpack.graph import Constant, Graph, Node, PerBlock, PerChannel, PerTensor, PerToken, Value
from etir.dialects.et.weights import Blob
from etir.emit.formats.checks import align_up
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model, writer

FP32 = BY_NAME["fp32"]
_TYPES = {"fp32": "FLOAT", "qint8": "CHAR", "quint8": "BYTE", "int32": "INT", "fp16": "HALF"}
_SPACING = 4096


def node(name: str, operands: tuple[int | None, ...], outputs: tuple[int, ...], **given: object) -> Node:
    """A node; what is not given is 0, and ``clamp`` no range."""
    kind = schema.NODE_BY_NAME[name]
    clamp = given.pop("clamp", None)
    attributes = {a: 0.0 if a in kind.floats else () if a in kind.lists else 0 for a in kind.attributes}
    return Node(kind, operands, outputs, {**attributes, **given}, clamp)  # type: ignore[arg-type]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers, float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def constant(array: np.ndarray, name: str = "fp32", quantization: object = None) -> Value:
    """A constant value whose bytes are inside the blob."""
    data = array.tobytes()
    return Value(BY_NAME[name], array.shape, Constant(len(data), None, Blob.of(data)), quantization)  # type: ignore[arg-type]


def program(graph: Graph, blob: bytes | None = None) -> bytes:
    """A program of one delegate call, whose tensors are those of the graph."""
    values: list[model.Tensor] = []
    end = 0
    for index in (*graph.inputs, *graph.outputs):
        value = graph.values[index]
        order = tuple(range(len(value.dims)))
        tensor = model.Tensor(
            ScalarType[_TYPES[value.datatype.name]],
            value.dims,
            order,
            shape_dynamism=model.TensorShapeDynamism.DYNAMIC_BOUND,
            allocation_info=model.AllocationDetails(1, end),
        )
        values.append(tensor)
        end += align_up(tensor.nbytes, _SPACING)
    data = write_blob(graph)[0] if blob is None else blob
    inputs = tuple(range(len(graph.inputs)))
    plan = model.ExecutionPlan(
        "forward",
        tuple(values),
        inputs,
        tuple(range(len(inputs), len(values))),
        (model.Chain((model.DelegateCall(0, tuple(range(len(values)))),)),),
        (),
        (model.BackendDelegate("XnnpackBackend", data),),
        (0, end),
    )
    return writer.write_pte(model.Program((plan,), (b"",)))


# --- every kind of node -----------------------------------------------------------------------------------------------


def _unary(name: str, **given: object) -> Graph:
    value = Value(FP32, (2, 3))
    return Graph((value, value), (node(name, (0,), (1,), **given),), (0,), (1,))


def _image(name: str, out: tuple[int, ...], **given: object) -> Graph:
    return Graph((Value(FP32, (1, 4, 4, 2)), Value(FP32, out)), (node(name, (0,), (1,), **given),), (0,), (1,))


def _moved(name: str, out: tuple[int, ...], **given: object) -> Graph:
    return Graph((Value(FP32, (2, 3, 4)), Value(FP32, out)), (node(name, (0,), (1,), **given),), (0,), (1,))


def _window(**given: object) -> dict[str, object]:
    ones = ("pooling_height", "pooling_width", "stride_height", "stride_width", "dilation_height", "dilation_width")
    return {**dict.fromkeys(ones, 1), **given}


def _conv(name: str, filter_: Value, out: int, *, bias: bool = True, **given: object) -> Graph:
    ones = ("kernel", "subsampling", "dilation")
    fields = {f"{one}_{side}": 1 for one in ones for side in ("height", "width")}
    fields |= {"group_input_channels": 1, "group_output_channels": 1, "groups": 1, **given}
    values = (Value(FP32, (1, 4, 4, 2)), filter_, constant(floats(out)), Value(FP32, (1, 8, 8, out)))
    return Graph(values, (node(name, (0, 1, 2 if bias else None), (3,), **fields),), (0,), (3,))


def _linear(weight: Value, tokens: bool = False, bias: bool = True) -> Graph:
    """A fully connected layer of 8 to ``rows``; ``tokens`` rounds what it is given as dynamic quantization does."""
    rows = weight.dims[0]
    values = [Value(FP32, (2, 8)), weight, constant(floats(rows)), Value(FP32, (2, rows))]
    nodes: list[Node] = []
    source = 0
    if tokens:
        values.append(Value(BY_NAME["qdint8"], (2, 8), None, PerToken(1)))
        nodes.append(node("convert", (0,), (4,)))
        source = 4
    nodes.append(node("fully_connected", (source, 1, 2 if bias else None), (3,)))
    return Graph(tuple(values), tuple(nodes), (0,), (3,))


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, size=shape).astype(np.uint8)


def _packed(dims: tuple[int, ...], name: str, quantization: PerChannel | PerBlock) -> Value:
    datatype = BY_NAME[name]
    count = int(np.prod(dims))
    data = _bytes(datatype.nbytes(count, dims[-1])).tobytes()
    return Value(datatype, dims, Constant(len(data), None, Blob.of(data)), quantization)


def _inside(array: np.ndarray) -> Constant:
    data = array.tobytes()
    return Constant(len(data), None, Blob.of(data))


def _static_int8(name: str, weight: Value, image: bool) -> Graph:
    scaled = PerTensor(0.05, -3)
    dims, out = ((1, 4, 4, 2), (1, 4, 4, weight.dims[0])) if image else ((2, 8), (2, weight.dims[0]))
    qint8 = BY_NAME["qint8"]
    bias = Value(
        BY_NAME["qcint32"], (weight.dims[0],), _inside(np.arange(weight.dims[0], dtype=np.int32)),
        PerChannel(0, (0.01,) * weight.dims[0], weight.dims[0]),
    )  # fmt: skip
    values = (Value(qint8, dims, None, scaled), weight, bias, Value(qint8, out, None, PerTensor(0.1, 5)))
    fields: dict[str, object] = {}
    if image:
        fields = {f"{one}_{side}": 1 for one in ("kernel", "subsampling", "dilation") for side in ("height", "width")}
        fields |= {"group_input_channels": 2, "group_output_channels": weight.dims[0], "groups": 1}
    return Graph(values, (node(name, (0, 1, 2), (3,), clamp=(-2.0, 2.0), **fields),), (0,), (3,))


def graphs() -> dict[str, Graph]:
    """Graphs that load and run: all kinds of nodes that the runtime has, and all datatypes of constants."""
    pair = Value(FP32, (2, 3))
    made: dict[str, Graph] = {}
    for kind in schema.NODES:
        if len(kind.operands) == 2 and kind.attributes == ("flags",) and kind.name != "batch_matrix_multiply":
            values = (pair, constant(floats(3)), pair)
            limits = {"clamp": (-1.0, 1.0)} if kind.clamps else {}
            made[kind.name] = Graph(values, (node(kind.name, (0, 1), (2,), **limits),), (0,), (2,))
        elif len(kind.operands) == 1 and kind.attributes == ("flags",) and kind.name != "global_avg_pooling2d":
            made[kind.name] = _unary(kind.name, clamp=(-1.0, 0.5)) if kind.clamps else _unary(kind.name)
    made["leaky_relu"] = _unary("leaky_relu", negative_slope=0.1)
    made["elu"] = _unary("elu", alpha=0.5)
    made["static_transpose"] = _moved("static_transpose", (4, 2, 3), perm=(2, 0, 1))
    made["static_reshape"] = _moved("static_reshape", (2, 12), new_shape=(0, 12))
    made["static_slice"] = _moved("static_slice", (1, 3, 2), offsets=(1, 0, 2), sizes=(1, 0, 2))
    made["static_constant_pad"] = _moved(
        "static_constant_pad", (2, 5, 6), pre_paddings=(0, 1, 0), post_paddings=(0, 1, 2), padding_value=1.5
    )
    made["batch_matrix_multiply"] = Graph(
        (Value(FP32, (2, 2, 3)), Value(FP32, (2, 4, 3)), Value(FP32, (2, 2, 4))),
        (node("batch_matrix_multiply", (0, 1), (2,), flags=1),), (0, 1), (2,),
    )  # fmt: skip
    for count in range(2, 6):
        made[f"concatenate{count}"] = Graph(
            (pair, Value(FP32, (2 * count, 3))), (node(f"concatenate{count}", (0,) * count, (1,), axis=0),), (0,), (1,)
        )
    window = _window(pooling_height=2, pooling_width=2, padding_top=1)
    made["max_pooling2d"] = _image("max_pooling2d", (1, 4, 3, 2), **window)
    made["avg_pooling2d"] = _image("avg_pooling2d", (1, 4, 3, 2), **window)
    made["global_avg_pooling2d"] = _image("global_avg_pooling2d", (1, 1, 1, 2), flags=schema.KEEP_DIMS)
    made["static_resize_bilinear2d"] = _image("static_resize_bilinear2d", (1, 6, 5, 2), new_height=6, new_width=5)
    made["arg_max_pooling2d"] = Graph(
        (Value(FP32, (1, 4, 4, 2)), Value(FP32, (1, 2, 2, 2)), Value(BY_NAME["int32"], (1, 2, 2, 2))),
        (node("arg_max_pooling2d", (0,), (1, 2), pooling_height=2, pooling_width=2),), (0,), (1, 2),
    )  # fmt: skip
    made["conv2d"] = _conv(
        "conv2d", constant(floats(3, 2, 2, 2)), 3, kernel_height=2, kernel_width=2, group_input_channels=2,
        group_output_channels=3, padding_top=1, padding_left=1, padding_bottom=1, padding_right=1,
    )  # fmt: skip
    made["depthwise_conv2d"] = _conv(
        "depthwise_conv2d", constant(floats(1, 2, 3, 4)), 4, kernel_height=2, kernel_width=3, groups=2,
        group_output_channels=2, padding_right=2, bias=False,
    )  # fmt: skip
    made["conv_transpose2d"] = _conv(
        "conv_transpose2d", constant(floats(4, 2, 2, 1)), 4, kernel_height=2, kernel_width=2, groups=2,
        group_output_channels=2, subsampling_height=2, subsampling_width=2, padding_top=1, adjustment_width=1,
    )  # fmt: skip

    channels = PerChannel(0, (0.5, 0.25, 2.0), 3)
    made["linear_fp32"] = _linear(constant(floats(3, 8)))
    made["linear_quint8"] = _linear(constant(_bytes(3, 8), "quint8", PerTensor(0.1, 100)), bias=False)
    made["linear_qint8"] = _linear(constant(_bytes(3, 8), "qint8", PerTensor(0.1, -7)), tokens=True)
    made["linear_qcint8"] = _linear(_packed((3, 8), "qcint8", channels), tokens=True)
    made["linear_qcint4"] = _linear(_packed((3, 8), "qcint4", channels), tokens=True)
    made["linear_qcint4_scales"] = _linear(
        _packed((3, 8), "qcint4", PerChannel(0, _inside(np.full(3, 0.5, np.float32)), 3))
    )
    made["linear_qbint4"] = _linear(_packed((3, 8), "qbint4", PerBlock(0, 4, tuple([0.5, 0.25] * 3), 6)), tokens=True)
    made["linear_qbint4_scales"] = _linear(
        _packed((3, 8), "qbint4", PerBlock(0, 4, _inside(np.full(6, 0x3F00, np.uint16)), 6)), tokens=True
    )
    made["linear_odd_columns"] = Graph(
        (Value(FP32, (1, 3)), _packed((3, 3), "qcint4", channels), Value(FP32, (1, 3))),
        (node("fully_connected", (0, 1, None), (2,)),), (0,), (2,),
    )  # fmt: skip
    made["linear_many_rows"] = Graph(
        (Value(FP32, (20, 8)), _packed((3, 8), "qcint8", channels), Value(FP32, (20, 3))),
        (node("fully_connected", (0, 1, None), (2,)),), (0,), (2,),
    )  # fmt: skip
    made["linear_given_bias"] = Graph(
        (Value(FP32, (1, 8)), _packed((3, 8), "qcint8", channels), Value(FP32, (3,)), Value(FP32, (1, 3))),
        (node("fully_connected", (0, 1, 2), (3,)),), (0, 2), (3,),
    )  # fmt: skip
    made["linear_static_int8"] = _static_int8("fully_connected", _packed((3, 8), "qcint8", channels), False)
    made["conv2d_static_int8"] = _static_int8("conv2d", _packed((3, 1, 1, 2), "qcint8", channels), True)
    half = Value(BY_NAME["fp16"], (2, 3))
    made["fp16"] = Graph(
        (half, constant(np.ones(3, np.float16), "fp16"), half, pair),
        (node("multiply", (0, 1), (2,), clamp=(-1.0, 1.0)), node("convert", (2,), (3,))), (0,), (3,),
    )  # fmt: skip
    made["chain"] = Graph(
        (pair, constant(floats(3)), pair, pair, pair),
        (node("add", (0, 1), (2,)), node("tanh", (2,), (3,)), node("multiply", (2, 3), (4,))), (0,), (4,),
    )  # fmt: skip
    return made
