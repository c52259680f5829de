"""What a layer's input is quantized with where it is read, and its bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from etir.dialects.dtypes import f32, i8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, tensor_of
from etir.dialects.quantized import DEQUANTIZE, NAMESPACE, QUANTIZE
from etir.lowering.decompose_aten.preserved import AFFINE_INPUT
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.stored import HIGH, LOW, bias_of

CHOSEN = {
    f"{DEQUANTIZE.removesuffix('default')}tensor": (
        f"{QUANTIZE.removesuffix('default')}tensor",
        (f"{NAMESPACE}.choose_qparams.tensor",),
        ("scale", "zero_point"),
    ),
    AFFINE_INPUT[2]: (AFFINE_INPUT[1], (AFFINE_INPUT[0],), ("scale", "zero_point")),
    f"{NAMESPACE}.dequantize_per_token.default": (
        f"{NAMESPACE}.quantize_per_token.default",
        (f"{NAMESPACE}.choose_qparams_per_token_asymmetric.default",),
        ("scales", "zero_points"),
    ),
}
"""Dequantize operators of activations, with the quantize operator before, those that choose the parameters, and the
names of these.
"""


@dataclass(frozen=True)
class QuantizedThere:
    """The float32 tensor that is quantized, and the length of the groups of a row that have a symmetric scale each; 0
    where a row, or all of it, has one with a zero point.
    """

    source: SSAValue
    block: int


def quantized_there(value: Any) -> QuantizedThere | None:
    """What a value is that is quantized to int8 with parameters that are chosen from it, and back."""
    back = value.owner if isinstance(value, SSAValue) else None
    if not isinstance(back, EdgeOp) or back.op_name not in CHOSEN:
        return None
    quantize_name, choosers, names = CHOSEN[back.op_name]
    there = back.operands[0].owner
    if not isinstance(there, EdgeOp) or there.op_name != quantize_name:
        return None
    x = there.operands[0]
    if tensor_of(there.results[0]).element_type != i8 or tensor_of(x).element_type != f32:
        return None
    if tensor_of(value).element_type != f32 or not is_contiguous(tensor_of(x)):
        return None
    parameters = [there.arg(name) for name in names]
    if parameters != [back.arg(name) for name in names]:
        return None
    owners = [p.owner if isinstance(p, SSAValue) else None for p in parameters]
    chooser = owners[0]
    if not isinstance(chooser, EdgeOp) or chooser is not owners[1] or chooser.op_name not in choosers:
        return None
    ranges = [(o.arg("quant_min"), o.arg("quant_max")) for o in (there, chooser) if "quant_min" in o.SCHEMA.index]
    if any(r != (LOW, HIGH) for r in ranges) or parameters != list(chooser.results[:2]):
        return None
    if chooser.operands[0] is not x:
        return None
    block = _block(chooser, there, back, x) if chooser.op_name == AFFINE_INPUT[0] else 0
    return None if block is None else QuantizedThere(x, block)


def _block(chooser: EdgeOp, there: EdgeOp, back: EdgeOp, x: SSAValue) -> int | None:
    """How torchao's operators share scales, as :class:`QuantizedThere` says it; None for another way."""
    sizes = tuple(chooser.arg("block_size"))
    if any(tuple(op.arg("block_size")) != sizes for op in (there, back)) or any(s != 1 for s in sizes[:-1]):
        return None
    depth = dims_of(tensor_of(x))[-1]
    if not sizes or not isinstance(depth, int) or chooser.arg("target_dtype") != i8:
        return None
    match chooser.arg("mapping_type"):
        case "ASYMMETRIC" if sizes[-1] == depth:
            return 0
        case "SYMMETRIC":
            return int(sizes[-1])
        case _:
            return None


def bias_argument(op: EdgeOp, store: ConstantStore) -> Any:
    """The bias as the kernels take it: what it is, constants, or None; else why there is none."""
    value = op.arg("bias")
    if not isinstance(value, SSAValue):
        return None
    if tensor_of(value).element_type != f32:
        return "the bias is not float32"
    if not isinstance(value.owner, EdgeOp):
        return value
    found = bias_of(value, tensor_of(value).get_shape()[0], store)
    return value if found is None else found.astype(np.float32)
