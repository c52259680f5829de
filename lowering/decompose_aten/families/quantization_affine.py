"""Operators of torchao's affine quantization that no delegate claims: arithmetic on the numbers.

One scale, and one zero point, stands for every block of a tensor; ``block_size`` has the block's size in each dim. The
tensor is seen with two dims for each dim that has several blocks of several numbers (:class:`_Blocks`), so that scales
broadcast along it. What is computed, and in which types, is what torchao 0.18 computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f16
from etir.lowering.build.builder import Builder, element
from etir.lowering.build.inference import tensor_type_of
from etir.lowering.build.sizes import SizeLike, dim
from etir.lowering.decompose_aten.decomposition import decomposition

_BLOCKS = ("block_size",)
_SMALLEST_NORMAL: dict[Attribute, float] = {f16: 2.0**-14}
"""The least normal number of a floating type where it is not that of float32 and bfloat16."""


@dataclass(frozen=True)
class _Blocks:
    """How a tensor is seen in blocks: ``shape`` has a dim for the blocks and one for the numbers in a block where both
    are several, ``inside`` are the latter's positions, ``counts`` the number of blocks in each dim of the tensor.
    """

    shape: list[SizeLike]
    inside: list[int]
    counts: list[SizeLike]

    @property
    def for_scales(self) -> list[SizeLike]:
        """The sizes in which scales broadcast along ``shape``."""
        return [1 if i in self.inside else size for i, size in enumerate(self.shape)]


def _blocks(b: Builder, x: SSAValue, block_size: Sequence[Any]) -> _Blocks | None:
    """``x`` in blocks; None (noted) where a block's size is not known well enough."""
    shape: list[SizeLike] = []
    inside: list[int] = []
    counts: list[SizeLike] = []
    for size, given in zip(b.sizes(x), block_size, strict=True):
        block = b.as_size(given)
        if block is None:
            b.notify_match_failure("the size of a block is data")
            return None
        whole = dim(block) == dim(size)
        if not whole and not isinstance(block, int):
            b.notify_match_failure(f"blocks of {dim(block)} in a dim of {dim(size)}")
            return None
        if whole or block == 1:
            counts.append(1 if whole and block != 1 else size)
            if block != 1:
                inside.append(len(shape))
            shape.append(size)
            continue
        counts.append(size // block)
        inside.append(len(shape) + 1)
        shape += [size // block, block]
    return _Blocks(shape, inside, counts)


def _declared(b: Builder, index: int = 0) -> Attribute:
    return tensor_type_of(b.rewriter.root.results[index]).element_type


def _bounds(dtype: Attribute, low: float | None, high: float | None) -> tuple[float, float] | None:
    """The least and the greatest stored number, the type's where none is given; None for a type that is no integer."""
    if not isinstance(dtype, IntegerType):
        return None
    bits, signed = dtype.width.data, dtype.signedness.data is not Signedness.UNSIGNED
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return least if low is None else low, most if high is None else high


@decomposition("torchao.quantize_affine.default", symint_args=_BLOCKS)
def quantize_affine(
    b: Builder,
    x: SSAValue,
    block_size: Sequence[Any],
    scale: SSAValue,
    point: SSAValue | None,
    dtype: Attribute,
    low: float | None,
    high: float | None,
) -> SSAValue | None:
    """``clamp(round(x / scale) + point)``, block by block."""
    bounds = _bounds(dtype, low, high)
    if bounds is None or point is None:
        return b.notify_match_failure("numbers of no integer type" if bounds is None else "there is no zero point")
    blocks = _blocks(b, x, block_size)
    if blocks is None:
        return None
    inverse = b.reciprocal(b.view(scale, blocks.for_scales))
    numbers = b.round(b.mul(b.view(x, blocks.shape), inverse))
    numbers = b.add(numbers, b.cast(b.view(point, blocks.for_scales), element(numbers)))
    return b.view(b.cast(b.clamp(numbers, *bounds), _declared(b)), b.sizes(x))


@decomposition("torchao.dequantize_affine.default", symint_args=_BLOCKS)
def dequantize_affine(
    b: Builder, x: SSAValue, block_size: Sequence[Any], scale: SSAValue, point: SSAValue | None, *_rest: object
) -> SSAValue | None:
    """``(x - point) * scale``, block by block."""
    blocks = _blocks(b, x, block_size)
    if blocks is None:
        return None
    wanted = _declared(b)
    numbers = b.cast(b.view(x, blocks.shape), wanted)
    if point is not None:
        numbers = b.sub(numbers, b.cast(b.view(point, blocks.for_scales), wanted))
    numbers = b.mul(numbers, b.view(scale, blocks.for_scales))
    return b.cast(b.view(numbers, b.sizes(x)), wanted)


@decomposition("torchao.choose_qparams_affine.default", symint_args=_BLOCKS)
def choose_qparams_affine(
    b: Builder,
    x: SSAValue | None,
    mapping: str,
    block_size: Sequence[Any],
    dtype: Attribute,
    low: float | None,
    high: float | None,
    eps: float | None,
    _scale_type: object,
    _point_type: object,
    keepdim: bool,
) -> list[SSAValue] | None:
    """The scale and the zero point that map the range of every block to ``low .. high``."""
    bounds = _bounds(dtype, low, high)
    if bounds is None or x is None:
        return b.notify_match_failure("numbers of no integer type" if bounds is None else "there is no tensor")
    blocks = _blocks(b, x, block_size)
    if blocks is None:
        return None
    if not blocks.inside:
        return b.notify_match_failure("every block is one number")
    (low, high), numbers = bounds, b.view(x, blocks.shape)
    least = b.clamp(b(aten.amin.default, numbers, blocks.inside, False), high=0.0)
    most = b.clamp(b.amax(numbers, blocks.inside, False), 0.0)
    smallest = _SMALLEST_NORMAL.get(element(x), 2.0**-126) if eps is None else eps
    if mapping == "ASYMMETRIC":
        scale = b.clamp(b.div(b.sub(most, least), float(high - low)), smallest)
        point = b.rsub(b.round(b.div(least, scale)), float(low))
        point = b.clamp(point, float(low), float(high))
    else:
        if mapping == "SYMMETRIC":
            magnitude = b(aten.maximum.default, b.neg(least), most)
            scale = b.div(magnitude, float(high - low) / 2)
        else:
            # Without clipping: each end of the range has its own scale, the larger one holds both.
            scale = b(aten.maximum.default, b.div(least, float(low)), b.div(most, float(high)))
        scale = b.clamp(scale, smallest)
        point = b.full(b.sizes(scale), int((high + low + 1) / 2), _declared(b, 1))
    results = [b.cast(scale, _declared(b)), b.cast(point, _declared(b, 1))]
    return [b.view(result, blocks.counts) for result in results] if keepdim else results
