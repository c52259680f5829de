"""Operators that are better whole than decomposed, if the target has a kernel for them.

Core ATen is what every backend can be expected to know; a kernel that does more in one call saves instructions, and for
``linear`` a transposed copy of the weight. The kernel is the operator's out variant in the target's manifest.
"""

from __future__ import annotations

from collections.abc import Iterable

BETTER_WHOLE: tuple[str, ...] = (
    "aten.linear.default",
    "aten.stack.default",
    "aten.masked_fill.Scalar",
    "aten.rsub.Scalar",
    "aten.floor_divide.default",
    "aten.glu.default",
    "aten.logit.default",
    "aten.roll.default",
    "aten.tril.default",
    "aten.pixel_shuffle.default",
    "aten.pixel_unshuffle.default",
    "aten.masked_select.default",
    "aten.repeat_interleave.Tensor",
    "aten.replication_pad1d.default",
    "aten.var_mean.correction",
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_left_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten._upsample_bilinear2d_aa.default",
    # Core operators that have a decomposition for targets without a kernel.
    "aten.adaptive_avg_pool1d.default",
    "aten.avg_pool1d.default",
    "aten.avg_pool3d.default",
    "aten._adaptive_avg_pool3d.default",
    "aten.max_pool3d_with_indices.default",
)


def kept_operators(target: str, keep: Iterable[str]) -> frozenset[str]:
    """The names of the operators that stay whole for ``target`` (empty: no target), and those of ``keep``."""
    return frozenset(keep)
