"""The format of an XNNPACK blob as tables: header, FlatBuffer slots, node kinds.

One row of :data:`NODES` serves the reader, the writer and the dialect, so that the three cannot disagree: it names the
operands and attributes of a node kind in the order in which text shows them, and the slots of its FlatBuffer table.
Slots have the ``struct`` codes of :mod:`etir.emit.flatbuffer.schema`; ``f`` is a 32-bit float, ``h`` a 16-bit int.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from etir.emit.flatbuffer.schema import TableSchema

MAGIC = b"XH00"
HEADER = struct.Struct("<I4sHIIIQ")
"""Zeros, magic, header length, FlatBuffer offset and size, offset and size of the constant data."""
HEADER_BYTES = 32
"""Where the FlatBuffer starts: the header and its padding."""
IDENTIFIER = b"XN01"
KNOWN_IDENTIFIERS = (b"XN00", b"XN01")
VERSION = "0"
ALIGNMENT = 16
"""Of the FlatBuffer, of inline constants and of named data, in bytes."""
BACKEND_ID = "XnnpackBackend"

INVALID_ID = (1 << 32) - 1
"""The id of no value: an absent bias, a value that is not external."""
NAMED = (1 << 64) - 1
"""The offset of a constant that is looked up by name."""
EXTERNAL_INPUT, EXTERNAL_OUTPUT = 1, 2
"""Flags of values."""
KEEP_DIMS, ALIGN_CORNERS, TENSORFLOW_LEGACY = 0x40, 0x8, 0x4
"""Flags of nodes: reductions keep their dims; the two ways to sample in a resize besides half-pixel centers."""
TRANSPOSED = 1
"""Flag of nodes with a matrix: a filter is (inputs, outputs), a right operand (columns, depth)."""
MAX_EXTERNALS = 4096
MAX_DIMS = 6

GRAPH = TableSchema(
    "XNNGraph",
    version="o",
    xnodes="o",
    xvalues="o",
    num_externs="I",
    input_ids="o",
    output_ids="o",
    constant_buffer="o",
    mem_buffer_sizes="o",
    constant_data="o",
)
NODE = TableSchema("XNode", union_type="B", union="o", debug_handle="I", output_min_max="o")
OUTPUT_MIN_MAX = TableSchema("OutputMinMax", output_min="f", output_max="f")
VALUE = TableSchema("XValue", union_type="B", union="o")
TENSOR_VALUE = TableSchema(
    "XNNTensorValue",
    datatype="h",
    num_dims="I",
    dims="o",
    constant_buffer_idx="I",
    external_id="I",
    flags="I",
    id_out="I",
)
QUANTIZED_VALUE = TableSchema("XNNQuantizedTensorValue", tensor_value="o", params_type="B", params="o")
PLAIN_TENSOR, QUANTIZED_TENSOR = 1, 2
"""Tags of the union of values."""

PER_CHANNEL = TableSchema("PerChannelQuant", scale="o", channel_dim="i", scale_buffer_idx="I", num_scales="I")
PER_TENSOR = TableSchema("PerTensorQuant", scale="f", zero_point="i")
PER_TOKEN = TableSchema("PerTokenDynamicQuant", num_nonbatch_dims="i")
PER_BLOCK = TableSchema(
    "PerChannelGroupQuant",
    scale="o",
    channel_dim="i",
    group_size="i",
    scale_bf16="o",
    scale_buffer_idx="I",
    num_scales="I",
)
QUANT_PARAMS: dict[int, TableSchema] = {1: PER_CHANNEL, 2: PER_TENSOR, 3: PER_TOKEN, 4: PER_BLOCK}
"""Tags of the union of quantization parameters."""

CONSTANT_DATA = TableSchema("ConstantDataOffset", offset="Q", size="Q", named_key="o")


@dataclass(frozen=True)
class NodeKind:
    """One kind of node.

    ``operands`` and ``outputs`` are slots that hold value ids; an operand in ``optional`` may be absent. ``ints``,
    ``floats`` and ``lists`` are slots with numbers; ``num_dims`` slots follow from a list and are not attributes.
    ``clamps`` says whether the runtime applies the node's output range; ``runs`` whether it executes the kind at all.
    """

    number: int
    name: str
    table: TableSchema
    operands: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    optional: frozenset[str] = field(default=frozenset())
    clamps: bool = False
    runs: bool = True

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes, in the order of text."""
        return (*self.lists, *self.ints, *self.floats)


_UNARY_TABLE = TableSchema("_XNNNode1x1", input_id="I", output_id="I", flags="I")
_BINARY_TABLE = TableSchema("_XNNNode2x1", input1_id="I", input2_id="I", output_id="I", flags="I")
_CONV_INTS = (
    *(f"padding_{side}" for side in ("top", "right", "bottom", "left")),
    *("kernel_height", "kernel_width", "subsampling_height", "subsampling_width", "dilation_height", "dilation_width"),
    *("group_input_channels", "group_output_channels", "groups", "adjustment_height", "adjustment_width"),
)
_CONV_TABLE = TableSchema(
    "_XNNNodeConv",
    **dict.fromkeys(_CONV_INTS, "I"),
    input1_id="I",
    filter_id="I",
    bias_id="I",
    output_id="I",
    flags="I",
)
_POOL_INTS = (
    *(f"padding_{side}" for side in ("top", "right", "bottom", "left")),
    *("pooling_height", "pooling_width", "stride_height", "stride_width", "dilation_height", "dilation_width"),
)
_POOL_TABLE = TableSchema("_XNNPooling2D", **dict.fromkeys(_POOL_INTS, "I"), input_id="I", output_id="I", flags="I")
_ARG_MAX_INTS = _POOL_INTS[:6]
_ARG_MAX_TABLE = TableSchema(
    "XNNArgMaxPooling2d",
    **dict.fromkeys(_ARG_MAX_INTS, "I"),
    input_id="I",
    output_value_id="I",
    output_index_id="I",
    flags="I",
)
_CAT_TABLE = TableSchema(
    "_XNNCat",
    axis="I",
    **{f"input{i}_id": "I" for i in range(1, 5)},
    output_id="I",
    flags="I",
    input5_id="I",
)


def _unary(number: int, name: str, *, clamps: bool = False) -> NodeKind:
    return NodeKind(number, name, _UNARY_TABLE, ("input_id",), ("output_id",), ("flags",), clamps=clamps)


def _binary(number: int, name: str, *, clamps: bool = False) -> NodeKind:
    return NodeKind(number, name, _BINARY_TABLE, ("input1_id", "input2_id"), ("output_id",), ("flags",), clamps=clamps)


def _conv(number: int, name: str) -> NodeKind:
    operands = ("input1_id", "filter_id", "bias_id")
    ints = (*_CONV_INTS, "flags")
    return NodeKind(
        number, name, _CONV_TABLE, operands, ("output_id",), ints, optional=frozenset({"bias_id"}), clamps=True
    )


def _pool(number: int, name: str) -> NodeKind:
    return NodeKind(number, name, _POOL_TABLE, ("input_id",), ("output_id",), (*_POOL_INTS, "flags"), clamps=True)


def _cat(number: int, count: int) -> NodeKind:
    operands = tuple(f"input{i}_id" for i in range(1, count + 1))
    return NodeKind(number, f"concatenate{count}", _CAT_TABLE, operands, ("output_id",), ("axis", "flags"))


def _sloped(number: int, name: str, table: str, slope: str) -> NodeKind:
    schema = TableSchema(table, **{slope: "f"}, input_id="I", output_id="I", flags="I")
    return NodeKind(number, name, schema, ("input_id",), ("output_id",), ("flags",), (slope,))


def _listed(number: int, name: str, table: str, ends_with: dict[str, str], **slots: str) -> NodeKind:
    """A node with one input, one output and lists; ``num_dims`` is the length of its first list."""
    schema = TableSchema(table, **slots, **ends_with, input_id="I", output_id="I", flags="I")
    lists = tuple(name for name, code in slots.items() if code == "o")
    return NodeKind(number, name, schema, ("input_id",), ("output_id",), ("flags",), tuple(ends_with), lists)


NODES: tuple[NodeKind, ...] = (
    _binary(1, "add", clamps=True),
    NodeKind(
        2,
        "fully_connected",
        TableSchema("XNNFullyConnected", input1_id="I", filter_id="I", bias_id="I", output_id="I", flags="I"),
        ("input1_id", "filter_id", "bias_id"),
        ("output_id",),
        ("flags",),
        optional=frozenset({"bias_id"}),
        clamps=True,
    ),
    _unary(3, "softmax"),
    _unary(4, "sigmoid"),
    _listed(5, "static_transpose", "XNNStaticTranspose", {}, num_dims="I", perm="o"),
    _unary(6, "clamp", clamps=True),
    _conv(7, "conv2d"),
    _binary(8, "div", clamps=True),
    NodeKind(
        9,
        "static_resize_bilinear2d",
        TableSchema("XNNStaticResizeBilinear2D", new_height="I", new_width="I", input_id="I", output_id="I", flags="I"),
        ("input_id",),
        ("output_id",),
        ("new_height", "new_width", "flags"),
    ),
    _listed(
        10,
        "static_constant_pad",
        "XNNStaticConstantPad",
        {"padding_value": "f"},
        pre_paddings="o",
        post_paddings="o",
    ),
    _pool(11, "avg_pooling2d"),
    _binary(12, "minimum"),
    _conv(13, "depthwise_conv2d"),
    _pool(14, "max_pooling2d"),
    _binary(15, "multiply", clamps=True),
    _binary(16, "subtract", clamps=True),
    _unary(17, "floor"),
    _unary(18, "convert"),
    _unary(19, "global_avg_pooling2d", clamps=True),
    _listed(20, "static_reshape", "XNNStaticReshape", {}, num_dims="I", new_shape="o"),
    NodeKind(
        21,
        "arg_max_pooling2d",
        _ARG_MAX_TABLE,
        ("input_id",),
        ("output_value_id", "output_index_id"),
        (*_ARG_MAX_INTS, "flags"),
    ),
    _unary(22, "square_root"),
    _unary(23, "ceiling"),
    _unary(24, "hardswish"),
    _sloped(25, "leaky_relu", "XNNLeakyReLU", "negative_slope"),
    _binary(26, "maximum"),
    _unary(27, "negate"),
    _unary(28, "square"),
    _sloped(29, "elu", "XNNELU", "alpha"),
    _unary(30, "abs"),
    _binary(31, "prelu"),
    _cat(32, 2),
    _cat(33, 3),
    _cat(34, 4),
    _listed(35, "static_slice", "XNNStaticSlice", {}, num_dims="I", offsets="o", sizes="o"),
    NodeKind(
        36,
        "scaled_dot_product_attention",
        TableSchema(
            "XNNScaledDotProductAttention",
            query_id="I",
            key_id="I",
            value_id="I",
            scale_id="I",
            mask_id="I",
            output_id="I",
            flags="I",
        ),
        ("query_id", "key_id", "value_id", "scale_id", "mask_id"),
        ("output_id",),
        ("flags",),
        runs=False,
    ),
    _binary(37, "batch_matrix_multiply"),
    _cat(38, 5),
    _conv(39, "conv_transpose2d"),
    _unary(40, "reciprocal_square_root"),
    _unary(41, "log"),
    _unary(42, "gelu"),
    _unary(43, "tanh"),
    _unary(44, "exp"),
    _unary(45, "sin"),
    _unary(46, "copy"),
    _unary(47, "cos"),
)
"""All node kinds of version ``XN01``, by their numbers."""

NODE_BY_NUMBER = {kind.number: kind for kind in NODES}
NODE_BY_NAME = {kind.name: kind for kind in NODES}
