"""Normalizations whose kernel, where a target has one, takes the variance as the difference of two large numbers.

``mean(x * x) - mean(x) * mean(x)`` has no correct digit left where the mean is a thousand times the deviation, and may
be negative, so that its root is NaN. Normalizing does not change what is added to all elements: the mean is subtracted
before, and the kernel's formula is exact enough. A manifest says so in the kernel's row (``centered`` of ``wrong``);
elsewhere the operators stay.

The mean is subtracted by ``aten.add.Tensor`` with ``alpha = -1``, which backends leave to kernels: between two calls of
kernels that wait for one another a delegate of one subtraction is of no use.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, Operator, rank
from etir.lowering.build.sizes import SizeLike
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.preserved import CENTERED


def _is_done(b: Builder) -> bool:
    return CENTERED in b.rewriter.root.attributes


def _centered(b: Builder, x: SSAValue, reduced: Sequence[int]) -> tuple[SSAValue, SSAValue]:
    """``x`` less its mean over ``reduced`` dims, and that mean, with these dims kept as 1."""
    mean = b(aten.mean.dim, x, list(reduced), True)
    return b(aten.add.Tensor, x, mean, alpha=-1), mean


def _marked(b: Builder, operator: Operator, *args: object) -> list[SSAValue]:
    """The results of the operator on a centered input."""
    results = list(b.results(operator, *args, types=[result.type for result in b.rewriter.root.results]))
    owner = results[0].owner
    owner.attributes[CENTERED] = UnitAttr()  # type: ignore[union-attr]
    return results


def _moved_back(b: Builder, results: list[SSAValue], mean: SSAValue) -> list[SSAValue | None]:
    """The results with the mean of the input as the second one, where it is used."""
    used = b.rewriter.root.results[1].first_use is not None
    return [results[0], b.add(results[1], b.view(mean, b.sizes(results[1]))) if used else None, results[2]]


@decomposition(aten.native_layer_norm.default, symint_args=("normalized_shape",))
def centered_layer_norm(
    b: Builder,
    x: SSAValue,
    shape: Sequence[SizeLike],
    weight: SSAValue | None,
    bias: SSAValue | None,
    eps: float,
) -> list[SSAValue | None] | None:
    """``native_layer_norm`` of the input less its mean"""
    if _is_done(b) or not shape:
        return b.notify_match_failure("it is centered")
    moved, mean = _centered(b, x, range(rank(x) - len(shape), rank(x)))
    return _moved_back(b, _marked(b, aten.native_layer_norm.default, moved, shape, weight, bias, eps), mean)


@decomposition(aten.native_group_norm.default, symint_args=("N", "C", "HxW"))
def centered_group_norm(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    batch: SizeLike,
    channels: SizeLike,
    spatial: SizeLike,
    groups: int,
    eps: float,
) -> list[SSAValue | None] | None:
    """``native_group_norm`` of the input less the mean of each group"""
    if _is_done(b):
        return b.notify_match_failure("it is centered")
    sizes = b.sizes(x)
    moved, mean = _centered(b, b.view(x, [sizes[0], groups, -1]), [2])
    back = b.view(moved, sizes)
    results = _marked(b, aten.native_group_norm.default, back, weight, bias, batch, channels, spatial, groups, eps)
    return _moved_back(b, results, mean)


@decomposition(aten._native_batch_norm_legit.no_stats)
def centered_batch_norm(
    b: Builder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[SSAValue | None] | None:
    """``_native_batch_norm_legit`` of the input less the mean of each channel"""
    if _is_done(b):
        return b.notify_match_failure("it is centered")
    moved, mean = _centered(b, x, [i for i in range(rank(x)) if i != 1])
    operator = aten._native_batch_norm_legit.no_stats
    return _moved_back(b, _marked(b, operator, moved, weight, bias, training, momentum, eps), mean)
