"""Normalization layers as the core ``native_*`` operators, in inference."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import bf16, f16, f32, f64
from etir.dialects.text import source_location
from etir.lowering.build.builder import Builder, element, rank
from etir.lowering.build.sizes import SizeLike, product
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.errors import E0421

EPSILON = {f16: 2.0**-10, bf16: 2.0**-7, f32: 2.0**-23, f64: 2.0**-52}
"""The distance from 1 to the next number of each type."""


@decomposition(aten.layer_norm.default)
def layer_norm(
    b: Builder,
    x: SSAValue,
    shape: Sequence[int],
    weight: SSAValue | None,
    bias: SSAValue | None,
    eps: float,
    _cudnn: bool,
) -> SSAValue:
    """``native_layer_norm``"""
    return b.results(aten.native_layer_norm.default, x, shape, weight, bias, eps)[0]


@decomposition(aten.group_norm.default)
def group_norm(
    b: Builder, x: SSAValue, groups: int, weight: SSAValue | None, bias: SSAValue | None, eps: float, _cudnn: bool
) -> SSAValue:
    """``native_group_norm``"""
    return _group_norm(b, x, groups, weight, bias, eps)


def _group_norm(
    b: Builder, x: SSAValue, groups: SizeLike, weight: SSAValue | None, bias: SSAValue | None, eps: float
) -> SSAValue:
    batch, channels, *spatial = b.sizes(x)
    return b.results(aten.native_group_norm.default, x, weight, bias, batch, channels, product(spatial), groups, eps)[0]


@decomposition(aten.instance_norm.default)
def instance_norm(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue | None,
    variance: SSAValue | None,
    use_input_statistics: bool,
    momentum: float,
    eps: float,
    _cudnn: bool,
) -> SSAValue:
    """``native_group_norm`` with a group for each channel; batch norm where running statistics are used"""
    if not use_input_statistics and mean is not None and variance is not None:
        return batch_norm(b, x, weight, bias, mean, variance, False, momentum, eps)[0]
    if mean is not None:
        raise _training(b)
    return _group_norm(b, x, b.size(x, 1), weight, bias, eps)


def _training(b: Builder) -> Exception:
    root = b.rewriter.root
    return E0421.error(f"{root.name} updates its running statistics", source_location(root.location))


def batch_norm(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue | None,
    variance: SSAValue | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[SSAValue, ...]:
    """The normalized input and two statistics, which are empty in inference."""
    if mean is None or variance is None:
        return b.results(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, momentum, eps)
    if training:
        raise _training(b)
    inference = aten._native_batch_norm_legit_no_training.default
    return b.results(inference, x, weight, bias, mean, variance, momentum, eps)


@decomposition(aten.batch_norm.default)
def batch_norm_layer(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue | None,
    variance: SSAValue | None,
    training: bool,
    momentum: float,
    eps: float,
    _cudnn: bool,
) -> SSAValue:
    """``_native_batch_norm_legit_no_training``"""
    return batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps)[0]


@decomposition(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue | None,
    variance: SSAValue | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[SSAValue, ...]:
    """``_native_batch_norm_legit_no_training``"""
    return batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps)


@decomposition(aten._native_batch_norm_legit_functional.default)
def functional_batch_norm(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue,
    variance: SSAValue,
    training: bool,
    momentum: float,
    eps: float,
) -> Sequence[SSAValue]:
    """In training ``_native_batch_norm_legit.no_stats``, and the running statistics moved by ``momentum``"""
    if not training:
        return [*batch_norm(b, x, weight, bias, mean, variance, False, momentum, eps), mean, variance]
    results = b.results(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, momentum, eps)
    others = [i for i in range(rank(x)) if i != 1]
    unbiased = b(aten.var.correction, x, others, correction=1)

    def moved(running: SSAValue, current: SSAValue) -> SSAValue:
        return b(aten.add.Tensor, b.mul(running, 1 - momentum), b.cast(current, element(running)), alpha=momentum)

    return [*results, moved(mean, results[1]), moved(variance, unbiased)]


@decomposition(aten.rms_norm.default, in_float=True)
def rms_norm(b: Builder, x: SSAValue, shape: Sequence[int], weight: SSAValue | None, eps: float | None) -> SSAValue:
    """``x * rsqrt(mean(x * x) + eps) * weight``"""
    return _rms_norm(b, x, shape, weight, eps)[0]


@decomposition(aten._fused_rms_norm.default, in_float=True)
def fused_rms_norm(
    b: Builder, x: SSAValue, shape: Sequence[int], weight: SSAValue | None, eps: float | None
) -> tuple[SSAValue, SSAValue | None]:
    """``x * rsqrt(mean(x * x) + eps) * weight``, and the reciprocal root"""
    result, root = _rms_norm(b, x, shape, weight, eps)
    return result, root if b.rewriter.root.results[1].first_use is not None else None


def _rms_norm(
    b: Builder, x: SSAValue, shape: Sequence[int], weight: SSAValue | None, eps: float | None
) -> tuple[SSAValue, SSAValue]:
    positions = list(range(rank(x) - len(shape), rank(x)))
    squares = b.mean(b.mul(x, x), positions, True)
    root = b.rsqrt(b.add(squares, EPSILON[element(x)] if eps is None else eps))
    result = b.mul(x, root)
    return (result if weight is None else b.mul(result, weight)), root


@decomposition(aten._weight_norm.default)
def weight_norm(b: Builder, direction: SSAValue, magnitude: SSAValue, dim: int) -> SSAValue:
    """``direction * (magnitude / |direction|)``, the norm over all dims but one"""
    return b.mul(direction, b.div(magnitude, _norm_except(b, direction, dim)))


@decomposition(aten._weight_norm_interface.default)
def weight_norm_interface(b: Builder, direction: SSAValue, magnitude: SSAValue, dim: int) -> tuple[SSAValue, SSAValue]:
    """``direction * (magnitude / |direction|)``, and the norm"""
    norm = _norm_except(b, direction, dim)
    return b.mul(direction, b.div(magnitude, norm)), norm


def _norm_except(b: Builder, x: SSAValue, dim: int) -> SSAValue:
    positions = [i for i in range(rank(x)) if dim == -1 or i != dim % rank(x)]
    return b.sqrt(b.sum(b.mul(x, x), positions, dim != -1))
