"""Scales of quantized values, read off the operators around them: what the rows ask before anything is delegated, and
the legalizer while it makes nodes.

A value is stored as integers between a quantize operator and the dequantize operators that read it. Operators that only
move elements keep the integers, so that scales are looked for through them, in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.backends.api.quantization import CHOOSES, CLAMPS, JOINS, MOVES
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import tensor_of
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp, dense_bytes
from etir.dialects.et.weights import payload_of
from etir.dialects.schema_op import SchemaOp

if TYPE_CHECKING:
    import numpy as np

QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
PER_CHANNEL = "quantized_decomposed.dequantize_per_channel.default"

PER_GROUP = "quantized_decomposed.dequantize_per_channel_group.default"

PAD = "aten.constant_pad_nd.default"

SUMS = frozenset({"aten.add.Tensor", "aten.sub.Tensor"})
PRODUCTS = frozenset({"aten.mul.Tensor"})
LAYERS = frozenset({"aten.convolution.default", "aten.linear.default"})

TABLES = frozenset(
    f"aten.{name}.default"
    for name in ("abs", "ceil", "elu", "exp", "floor", "gelu", "hardswish", "leaky_relu", "neg", "sigmoid", "tanh")
)
"""Functions of one number, which XNNPACK computes on int8 by a table of 256 numbers, whatever the scales."""
LEAKY, GELU, RESIZE = "aten.leaky_relu.default", "aten.gelu.default", "aten.upsample_bilinear2d.vec"
SLOPES = 2.0**-8, 2.0**7
"""Least and greatest factors of `leaky_relu` between integers, which is the one that is computed, on either side."""
LEAST_GELU_STEP = 2.0**-8
"""A step far larger than how far both forms of `gelu` are apart anywhere, 0.0005."""

MOST = 256.0
"""What XNNPACK multiplies sums by on their way to the result's integers is less than this: it refuses layers with more,
and its element-wise kernels leave the range of 32 bits not far beyond. One more step then is all of int8 anyway.
"""
LARGEST_BIAS = 2**30
"""Half of what a sum of 32 bits takes: the products are added to the bias."""


@dataclass(frozen=True)
class Scale:
    """One scale and zero point of a quantized tensor."""

    scale: float
    zero_point: int

    def holds(self, number: float) -> bool:
        """Whether an int8 number stands for ``number`` exactly."""
        step = number / self.scale + self.zero_point
        return step == round(step) and -128 <= step <= 127


def keeps_type(op: SchemaOp) -> bool:
    """Whether the elements of the results have the type of the operand's."""
    types = [cast("TensorType[Attribute]", v.type).element_type for v in (op.operands[0], op.results[0])]
    return types[0] == types[1]


def stored_scale(value: SSAValue) -> Scale | None:
    """The scale with which the only user of ``value`` stores it, seen through operators that only narrow its range,
    move elements or join them.
    """
    while True:
        user = value.get_user_of_unique_use()
        if not isinstance(user, SchemaOp):
            return None
        name = user.SCHEMA.op_name
        if name == QUANTIZE:
            return Scale(user.arg("scale"), user.arg("zero_point"))
        if name not in CLAMPS and name not in MOVES and name not in CHOOSES and name not in JOINS:
            return None
        used = [r for r in user.results if r.first_use is not None]
        if used != [user.results[0]] or not keeps_type(user):
            return None
        value = user.results[0]


def source_scale(value: object) -> Scale | None:
    """The scale of the integers that ``value`` is moved from, None where it comes from something else."""
    while isinstance(value, SSAValue) and isinstance(value.owner, SchemaOp):
        op = value.owner
        name = op.SCHEMA.op_name
        if name == DEQUANTIZE:
            return Scale(op.arg("scale"), op.arg("zero_point"))
        if name in JOINS:
            scales = [source_scale(v) for v in op.operands]
            return scales[0] if all(s == scales[0] for s in scales) else stored_scale(value)
        if name not in MOVES and name not in CHOOSES and name != PAD:
            return None
        value = op.operands[0]
    return None


def by_table(op: SchemaOp, source: Scale, result: Scale) -> bool:
    """Whether a function of one number is computed on int8 between these scales."""
    if op.SCHEMA.op_name == LEAKY:
        ratio, slope = source.scale / result.scale, op.arg("negative_slope")
        sides = (ratio, abs(float(slope)) * ratio) if isinstance(slope, int | float) else (0.0,)
        return all(SLOPES[0] <= side <= SLOPES[1] for side in sides)
    if op.SCHEMA.op_name == GELU:
        return op.arg("approximate") == "none" or result.scale >= LEAST_GELU_STEP
    return True


def refused(op: SchemaOp) -> str | None:
    """Why XNNPACK would refuse an operator between integers, or compute something else: from the scales around it."""
    out = stored_scale(op.results[0])
    name = op.SCHEMA.op_name
    if name in LAYERS:
        scale = source_scale(op.arg("input"))
        weights = None if scale is None or out is None else weight_scales(op.arg("weight"))
        if scale is None or out is None or weights is None:
            return None
        return _factor(scale.scale * float(weights.max()) / out.scale) or _bias(op, weights * scale.scale)
    if out is None or name not in SUMS | PRODUCTS:
        return None
    scales = [source_scale(v) for v in op.operands if isinstance(v.type, TensorType)]
    factors = [s.scale for s in scales if s is not None]
    if len(factors) != len(scales) or not factors:
        return None
    return _factor((max(factors) if name in SUMS else prod(factors)) / out.scale)


def _factor(factor: float) -> str | None:
    if factor < MOST:
        return None
    return f"integers would be multiplied by {factor:.3g} on the way to the result, XNNPACK takes less than {MOST:g}"


def _bias(op: SchemaOp, steps: np.ndarray) -> str | None:
    import numpy as np

    bias = op.arg("bias")
    numbers = None if bias is None else array_of(bias)
    if numbers is None or not numbers.size or steps.size not in (1, numbers.size):
        return None
    most = float(np.abs(numbers.astype(np.float64) / steps).max())
    return None if most < LARGEST_BIAS else f"a bias of {most:.3g} steps of the products, 32 bits hold the sum of fewer"


def weight_scales(weight: SSAValue) -> np.ndarray | None:
    """The scales of a weight that is multiplied out, None where it is not, or where they are not loaded."""
    import numpy as np

    op = weight.owner
    if not isinstance(op, SchemaOp) or op.SCHEMA.op_name not in (DEQUANTIZE, PER_CHANNEL):
        return None
    if op.SCHEMA.op_name == DEQUANTIZE:
        return np.array([op.arg("scale")], np.float64)
    found = array_of(op.arg("scales"))
    return None if found is None or not found.size else found.astype(np.float64).reshape(-1)


def module_of(operation: Operation) -> ModuleOp:
    """The module around an operation; an empty one when there is none."""
    found = operation.parent_op()
    while found is not None and not isinstance(found, ModuleOp):
        found = found.parent_op()
    return ModuleOp([]) if found is None else found


def bytes_of(value: SSAValue) -> memoryview | bytes | None:
    """The bytes of a weight or a constant, None when they are not there."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return dense_bytes(owner.value)
    if not isinstance(owner, GetWeightOp):
        return None
    module = module_of(owner)
    name = owner.symbol.root_reference.data
    found = next((o for o in module.body.block.ops if isinstance(o, WeightOp) and o.sym_name.data == name), None)
    if found is None:
        return None
    blob = payload_of(found.value, cast("TensorType[Attribute]", found.type))
    return blob.data if blob.has_data else None


def array_of(value: SSAValue) -> np.ndarray | None:
    """A weight or a constant of a type that NumPy has as a flat array, None when its bytes are not there."""
    import numpy as np

    data = bytes_of(value)
    dtype = dtype_of(tensor_of(value).element_type)
    return None if data is None or dtype.numpy_name is None else np.frombuffer(data, dtype=dtype.numpy_name)
