"""Quantized operators: pairs of quantize and dequantize disappear into the types of values.

Dequantize operators precede an operator that was quantized ahead of time, and a quantize operator follows it.
Where all of them are there, and XNNPACK has the operator on int8, the node works on the stored integers; the scale of
its result is that of the quantize operator. Everywhere else stored integers become floating point through a ``convert``
node, so that every graph keeps its meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.backends.api.quantization import CHOOSES, CLAMPS, MOVES
from etir.backends.xnnpack.datatypes import BY_NAME
from etir.backends.xnnpack.legalize.constants import QuantizedWeight, blob_of
from etir.backends.xnnpack.legalize.emitter import Emitter, quantized_info
from etir.backends.xnnpack.legalize.layouts import Layout
from etir.backends.xnnpack.legalize.legalizer import legalizes
from etir.backends.xnnpack.legalize.numbers import bfloat16
from etir.backends.xnnpack.scales import (
    DEQUANTIZE,
    JOINS,
    LAYERS,
    PAD,
    PRODUCTS,
    QUANTIZE,
    RESIZE,
    SUMS,
    TABLES,
    Scale,
    by_table,
    keeps_type,
    refused,
    stored_scale,
)
from etir.backends.xnnpack.types import TensorInfo, XnnTensorType
from etir.dialects.schema_op import SchemaOp

if TYPE_CHECKING:
    import numpy as np

BLOCK_MULTIPLE = 32
"""Blocks of a row that share a scale are as long as a multiple of this."""

RESCALES = frozenset({*SUMS, *PRODUCTS, *LAYERS, "aten.mean.dim", "aten.adaptive_avg_pool2d.default"})
"""Operators on int8 whose result may have a scale of its own."""

CONVERTS = 2.0**-8, 2.0**7
"""Least and greatest ratio of two scales between which a ``convert`` brings integers."""


def quantized_scale(emitter: Emitter, op: SchemaOp) -> Scale | None:
    """What the result of ``op`` is stored with where the node can work on integers, else None."""
    name = op.SCHEMA.op_name
    weights = ("weight", "bias") if name in LAYERS else ()
    skipped = [op.arg(n) for n in weights]
    operands = [v for v in op.operands if isinstance(v.type, TensorType) and v not in skipped]
    scales = [s for v in operands if (s := emitter.scale_of(v)) is not None]
    if not operands or len(scales) != len(operands):
        return None
    if name in MOVES or name in CHOOSES or name == PAD:
        return scales[0] if _keeps_integers(op, scales[0]) else None
    result = stored_scale(op.results[0])
    if name in JOINS:
        same = scales[0] if all(s == scales[0] for s in scales) else None
        return result if result is not None and all(_converts(s, result) for s in scales) else same
    if result is None:
        return None
    if name in CLAMPS or name == RESIZE:
        return result if scales[0] == result else None
    if name in TABLES:
        return result if by_table(op, scales[0], result) else None
    if name not in RESCALES or (weights and not _integer_weight(emitter, op)) or refused(op) is not None:
        return None
    return None if name == "aten.mean.dim" and len(emitter.dims(op.arg("self"))) != 4 else result


def _keeps_integers(op: SchemaOp, scale: Scale) -> bool:
    """Whether a node that moves or chooses elements does the same to integers."""
    if op.SCHEMA.op_name == PAD:
        return scale.holds(float(op.arg("value")))
    return keeps_type(op)


def _converts(old: Scale, new: Scale) -> bool:
    return old == new or CONVERTS[0] <= old.scale / new.scale <= CONVERTS[1]


def requantized(emitter: Emitter, value: SSAValue, layout: Layout, scale: Scale) -> SSAValue:
    """The integers of ``value`` under another scale."""
    form = emitter.stored(value, layout)
    if emitter.scale_of(value) == scale:
        return form
    key = ("requantized", form, scale)
    known = emitter.made.get(key)
    if known is None:
        known = emitter.made[key] = emitter.node("convert", [form], info=quantized_info((), scale))
    return known


def _integer_weight(emitter: Emitter, op: SchemaOp) -> bool:
    weight = emitter.constants.quantized.get(op.arg("weight"))
    if weight is None or weight.block is not None or weight.bits != 8 or weight.zero_points is not None:
        return False
    wanted = 1 if op.args().get("transposed") else 0
    return weight.axis in (None, wanted) and not (wanted and weight.axis is not None and op.arg("groups") != 1)


@legalizes(QUANTIZE)
def quantize(emitter: Emitter, op: SchemaOp) -> None:
    """Nothing where the value is stored with this scale already, else a ``convert``."""
    value, result = op.operands[0], op.results[0]
    scale = Scale(op.arg("scale"), op.arg("zero_point"))
    if emitter.scale_of(value) == scale:
        emitter.alias(result, value, {layout: layout for layout in emitter.layouts(value)})
        return
    if not emitter.layouts(value):
        emitter.hold(value, emitter.get(value))
    layout = emitter.cheapest([value], len(emitter.dims(value)))
    stored = emitter.scale_of(value)
    if stored is not None and _converts(stored, scale):
        form = requantized(emitter, value, layout, scale)
    else:
        form = emitter.node("convert", [emitter.get(value, layout)], info=quantized_info((), scale))
    emitter.hold(result, form, layout)


@legalizes(DEQUANTIZE)
def dequantize(emitter: Emitter, op: SchemaOp) -> None:
    """No node: the result is held as the stored integers, until something needs it in floating point."""
    value, result = op.operands[0], op.results[0]
    scale = Scale(op.arg("scale"), op.arg("zero_point"))
    if value in emitter.constants and value not in emitter.held:
        import numpy as np

        points = np.array(scale.zero_point, np.float32) if scale.zero_point else None
        emitter.constants.quantized[result] = QuantizedWeight(
            value, np.array(scale.scale, np.float32), zero_points=points
        )
        return
    stored = emitter.scale_of(value)
    if stored is not None and stored != scale:
        _reinterpret(emitter, value, result, stored, scale)
        return
    emitter.alias(result, value, {layout: layout for layout in emitter.layouts(value)})


def _reinterpret(emitter: Emitter, value: SSAValue, result: SSAValue, stored: Scale, scale: Scale) -> None:
    """Integers under another scale than they are stored with, which XNNPACK has no node for: multiplied out with their
    own one, (q - z) s, they are brought to the other one, (q - z') s', by a product and a sum.
    """
    layout = emitter.cheapest([value], len(emitter.dims(value)))
    form = emitter.node("convert", [emitter.get(value, layout)], info=emitter.info(result))
    form = emitter.node("multiply", [form, emitter.scalar(scale.scale / stored.scale, result)])
    offset = scale.scale * (stored.zero_point - scale.zero_point)
    if offset:
        form = emitter.node("add", [form, emitter.scalar(offset, result)])
    emitter.hold(result, form, layout)


@legalizes("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(emitter: Emitter, op: SchemaOp) -> None:
    """A constant with a scale for each channel."""
    scales = emitter.constants.array(op.arg("scales")).reshape(-1)
    bits = 4 if (op.arg("quant_min"), op.arg("quant_max")) == (-8, 7) else 8
    rank = len(emitter.dims(op.operands[0]))
    points = None if op.arg("zero_points") is None else emitter.constants.array(op.arg("zero_points")).reshape(-1)
    if points is not None and not points.any():
        points = None
    weight = QuantizedWeight(op.arg("input"), scales, op.arg("axis") % rank, bits=bits, zero_points=points)
    emitter.constants.quantized[op.results[0]] = weight


@legalizes("quantized_decomposed.dequantize_per_channel_group.default")
def dequantize_per_group(emitter: Emitter, op: SchemaOp) -> None:
    """A constant of 4-bit integers with a scale for each group of numbers in a row."""
    rows, columns = emitter.dims(op.operands[0])
    size = op.arg("group_size")
    scales = emitter.constants.array(op.arg("scales")).reshape(rows, columns // size)
    block = None if size == columns else size
    weight = QuantizedWeight(op.arg("input"), scales if block else scales.reshape(-1), 0, block=block, bits=4)
    emitter.constants.quantized[op.results[0]] = weight


@legalizes(
    "quantized_decomposed.quantize_per_tensor.tensor",
    "quantized_decomposed.dequantize_per_tensor.tensor",
    "quantized_decomposed.quantize_per_token.default",
    "quantized_decomposed.dequantize_per_token.default",
    "torchao.quantize_affine.default",
)
def quantize_dynamically(emitter: Emitter, op: SchemaOp) -> None:
    """Remember what is quantized; the node that needs it says which dims share a scale."""
    emitter.dynamic_sources[op.results[0]] = emitter.dynamic_sources.get(op.operands[0], op.operands[0])


@legalizes(
    "quantized_decomposed.choose_qparams.tensor",
    "quantized_decomposed.choose_qparams_symmetric.tensor",
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
    "torchao.choose_qparams_affine.default",
)
def chosen_at_run_time(emitter: Emitter, op: SchemaOp) -> None:
    """The scales of a value that is quantized at run time are the runtime's."""


def dynamic_form(emitter: Emitter, value: SSAValue, layout: Layout, nonbatch: int) -> SSAValue:
    """The source of a value that is quantized at run time, in ``layout``, with one scale for ``nonbatch`` dims."""
    source = emitter.dynamic_sources[value]
    form = emitter.get(source, layout)
    key = ("dynamic", form, nonbatch)
    known = emitter.made.get(key)
    if known is None:
        dims = cast(XnnTensorType, form.type).data.dims
        info = TensorInfo(BY_NAME["qdint8"], dims, nonbatch=nonbatch)
        known = emitter.made[key] = emitter.node("convert", [form], info=info)
    return known


@legalizes("torchao.dequantize_affine.default")
def dequantize_affine(emitter: Emitter, op: SchemaOp) -> None:
    """A constant with one scale for each block of a row, or the second half of what is quantized at run time."""
    value, result = op.operands[0], op.results[0]
    if value not in emitter.constants:
        quantize_dynamically(emitter, op)
        return
    block = op.arg("block_size")[-1]
    is_nibble = (op.arg("quant_min"), op.arg("quant_max")) == (-8, 7)
    row = emitter.dims(value)[-1]
    scales = emitter.constants.array(op.arg("scale")).reshape(-1, row // block)
    if is_nibble and block != row:
        emitter.constants.quantized[result] = QuantizedWeight(value, scales, 0, block=block, bits=4)
    else:
        emitter.constants.quantized[result] = QuantizedWeight(value, scales.reshape(-1), 0, bits=4 if is_nibble else 8)


def integer_weight(emitter: Emitter, weight: QuantizedWeight, array: np.ndarray, channel: int) -> SSAValue:
    """The integers of a weight as a constant, ``array`` being them as the node takes them; the scales are those of dim
    ``channel``.
    """
    import numpy as np

    if weight.axis is None:
        info = quantized_info(array.shape, Scale(float(weight.scales), 0))
        return emitter.constant(info, blob_of(array))
    if weight.block is not None:
        info = TensorInfo(BY_NAME["qbint4"], array.shape, channel=channel, block=weight.block)
        return emitter.constant(info, blob_of(pack_nibbles(array)), blob_of(bfloat16(weight.scales)))
    scales = blob_of(np.ascontiguousarray(weight.scales, dtype=np.float32))
    if weight.bits == 4:
        info = TensorInfo(BY_NAME["qcint4"], array.shape, channel=channel)
        return emitter.constant(info, blob_of(pack_nibbles(array)), scales)
    info = TensorInfo(BY_NAME["qcint8"], array.shape, channel=channel)
    return emitter.constant(info, blob_of(array), scales)


def pack_nibbles(array: np.ndarray) -> np.ndarray:
    """Integers in [-8, 7] two to a byte: the even column in the low half, each plus 8."""
    import numpy as np

    columns = array.shape[-1]
    shifted = (array.astype(np.int16) + 8).astype(np.uint8)
    if columns % 2:
        shifted = np.concatenate([shifted, np.full((*shifted.shape[:-1], 1), 8, np.uint8)], axis=-1)
    return np.ascontiguousarray(shifted[..., 0::2] | (shifted[..., 1::2] << 4))


def integer_bias(emitter: Emitter, bias: SSAValue | None, weight: QuantizedWeight, scale: Scale) -> SSAValue | None:
    """The bias as 32-bit integers whose scale is the product of the input's and the weight's."""
    import numpy as np

    if bias is None:
        return None
    scales = np.asarray(weight.scales, dtype=np.float64) * scale.scale
    stored = np.clip(np.rint(emitter.constants.array(bias) / scales), -(2**31), 2**31 - 1).astype(np.int32)
    if weight.axis is None:
        info = TensorInfo(BY_NAME["qint32"], stored.shape, scale=float(np.float32(scales)), zero_point=0)
        return emitter.constant(info, blob_of(stored))
    info = TensorInfo(BY_NAME["qcint32"], stored.shape, channel=0)
    return emitter.constant(info, blob_of(stored), blob_of(scales.astype(np.float32)))
