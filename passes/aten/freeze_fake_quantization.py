"""`freeze-fake-quantization`: what pretended to quantize while a model was trained quantizes.

Before, as programs are that were trained for it and not converted::

    %y = aten.fused_moving_avg_obs_fake_quant.default(%x, %on, %on, %min, %max, %scale, %point, ...)

After, with the scale and the zero point that training found::

    %q = quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.03, zero_point = 3, quant_min = -128,
         quant_max = 127, dtype = i8) : (tensor<4x16xf32>) -> tensor<4x16xi8>
    %y = quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.03, zero_point = 3, ...)

A pair is what every later step knows: weights become integers in the file, and backends compute on integers. Both give
the same numbers. Observers that were left on go on to follow the range of what they see, which is of no use in a
program that is not trained any more: they stay where they are, with a warning (E0524). Where an observer has not seen
anything, where gradients need to know what was clamped, as in a program that is trained further, and where the range
has no integer type of up to 16 bits, the operator is left alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from etir.diagnostics import Severity
from etir.dialects.aten.base import AtenOp, custom_op
from etir.dialects.context import EtContext
from etir.dialects.dtypes import BY_TORCH_NAME, dtype_of, f32, i8, i64, ui8
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp
from etir.dialects.et.weights import payload_of
from etir.dialects.quantized import (
    DEQUANTIZE,
    DEQUANTIZE_PER_CHANNEL,
    QUANTIZE,
    QUANTIZE_PER_CHANNEL,
    declare,
    schema_of,
)
from etir.dialects.text import source_location
from etir.lowering.build.builder import Builder
from etir.passes.analysis.constants import ConstantStore
from etir.passes.errors import E0524
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import PatternRewriter

if TYPE_CHECKING:
    import numpy as np

OBSERVED = (
    "aten.fused_moving_avg_obs_fake_quant.default",
    "aten._fused_moving_avg_obs_fq_helper.default",
    "aten._fused_moving_avg_obs_fq_helper_functional.default",
)
"""Operators that follow the range of what they see, too."""
PER_TENSOR = (
    "aten.fake_quantize_per_tensor_affine.default",
    "aten.fake_quantize_per_tensor_affine.tensor_qparams",
    "aten.fake_quantize_per_tensor_affine_cachemask.default",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
)
PER_CHANNEL = (
    "aten.fake_quantize_per_channel_affine.default",
    "aten.fake_quantize_per_channel_affine_cachemask.default",
)
_FOLLOWED = ("running_min", "running_max", "scale", "zero_point")
"""What an observer changes, in the order of the further results of its functional form."""
_STORED: tuple[tuple[int, int, Attribute], ...] = (
    (-128, 127, i8),
    (0, 255, ui8),
    (-32768, 32767, BY_TORCH_NAME["int16"].type),
)


@register_pass
@dataclass(frozen=True)
class FreezeFakeQuantizationPass(Pass):
    """Quantize where a program that was trained for it pretends to."""

    name = "freeze-fake-quantization"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Warns with E0524 of observers that were left on."""
        known = _Known(module)
        for method in methods(module):
            for op in list(method.walk()):
                if isinstance(op, AtenOp) and op.name in (*OBSERVED, *PER_TENSOR, *PER_CHANNEL):
                    _freeze(op, known)
        if known.was_on:
            message = f"{len(known.was_on)} observers of fake quantization were on; they stay at what training found"
            where = source_location(known.was_on[0].location)
            ctx.diagnostics.append(E0524.diagnostic(message, where, severity=Severity.WARNING))
        if known.made:
            declare(module, known.made)


@dataclass
class _Known:
    """Numbers that are known before the program runs, and what has been made and seen so far."""

    module: ModuleOp
    made: dict[str, None] = field(default_factory=dict[str, None])
    was_on: list[AtenOp] = field(default_factory=list[AtenOp])

    def __post_init__(self) -> None:
        self.store = ConstantStore(self.module)
        self.states = {op.sym_name.data: op for op in self.module.body.block.ops if isinstance(op, StateOp)}

    def numbers(self, value: object, *, of_observer: bool = False) -> np.ndarray | None:
        """A number or a constant as an array, None when it is computed. ``of_observer`` takes state as it is now."""
        import numpy as np

        if isinstance(value, bool | int | float):
            return np.array([value])
        if not isinstance(value, SSAValue) or not isinstance(value.type, TensorType):
            return None
        data: memoryview | bytes | None = None
        if isinstance(value.owner, ReadStateOp) and of_observer:
            state = self.states[value.owner.symbol.root_reference.data]
            if state.value is not None:
                blob = payload_of(state.value, cast("TensorType[Attribute]", state.type))
                data = blob.data if blob.has_data else None
        elif self.store.is_constant(value):
            data = self.store.data(value)
        if data is None:
            return None
        return np.frombuffer(data, dtype_of(tensor_of(value).element_type).numpy_name)


def _freeze(op: AtenOp, known: _Known) -> None:
    x = cast(SSAValue, op.operands[0])
    is_observed = op.name in OBSERVED
    if tensor_of(x).element_type != f32 or (len(op.results) > 1 and op.results[1].first_use is not None):
        return
    enabled = known.numbers(op.args().get("fake_quant_on", op.args().get("fake_quant_enabled", 1)))
    scales = known.numbers(op.arg("scale"), of_observer=is_observed)
    points = known.numbers(op.arg("zero_point"), of_observer=is_observed)
    if enabled is None or scales is None or points is None or not scales.size or scales.size != points.size:
        return
    observes: np.ndarray | None = None
    if is_observed:
        seen = known.numbers(op.arg("running_min"), of_observer=True)
        observes = known.numbers(op.arg("observer_on"))
        if seen is None or observes is None or not seen.size or not all(map(isfinite, seen)):
            return
    result = x if not enabled.any() else _pair(op, x, scales, points, known)
    if result is None:
        return
    if observes is not None and observes.any():
        known.was_on.append(op)
    op.results[0].replace_all_uses_with(result)
    for name, after in zip(_FOLLOWED, op.results[2:], strict=False):
        after.replace_all_uses_with(cast(SSAValue, op.arg(name)))
    op.detach()
    op.erase()


def _pair(op: AtenOp, x: SSAValue, scales: np.ndarray, points: np.ndarray, known: _Known) -> SSAValue | None:
    """``x`` as integers and back; None where no type holds them."""
    low, high = cast(int, op.arg("quant_min")), cast(int, op.arg("quant_max"))
    stored = next((type for least, most, type in _STORED if least <= low and high <= most), None)
    by_channel = op.name in PER_CHANNEL or bool(op.args().get("per_row_fake_quant"))
    if stored is None or not (scales > 0).all() or (points != points.round()).any():
        return None
    type = tensor_of(x)
    b = Builder(PatternRewriter(op, op.location, InsertPoint.before(op)))
    numbers: dict[str, object] = {"quant_min": low, "quant_max": high, "dtype": stored}
    if by_channel:
        names = QUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_CHANNEL
        axis = cast(int, op.args().get("ch_axis", op.args().get("axis")))
        numbers |= {"scales": b.constant(scales, f32), "zero_points": b.constant(points, i64), "axis": axis}
    else:
        names = QUANTIZE, DEQUANTIZE
        numbers |= {"scale": _single(float(scales[0])), "zero_point": int(points[0])}
    for name, of in zip(names, (tensor_type(stored, dims_of(type), order_of(type)), type), strict=True):
        made = custom_op(schema_of(name)).make({"input": x, **numbers}, [of])  # type: ignore[arg-type]
        b.insert(made)
        known.made[name] = None
        x = made.results[0]
    return x


def _single(number: float) -> float:
    """A number in single precision, in which torch keeps scales."""
    return struct.unpack("<f", struct.pack("<f", number))[0]
