"""Operators that are decomposed although the target has a kernel that takes the call, by reason.

The rule is that a kernel wins (:mod:`~etir.lowering.decompose_aten.preserved`). An exception needs a reason that
holds for every call of the operator.
"""

from __future__ import annotations

from collections.abc import Mapping

NORMAL_FORM = (
    "aten.where.self",
    "aten.where.Scalar",
    "aten.where.ScalarOther",
    "aten.where.ScalarSelf",
    "aten.clone.default",
    "aten.copy.default",
    "aten.repeat.default",
    "aten._to_copy.default",
    "aten.cat.default",
    "aten.concat.default",
    "aten.concatenate.default",
    "aten.constant_pad_nd.default",
    "aten._convolution.default",
    "aten._convolution.deprecated",
    "aten.native_batch_norm.default",
    "aten._native_batch_norm_legit.default",
    "aten.empty.memory_format",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
)
"""The pattern brings the call into the form that kernels compute as torch does (dtypes that promote, dims that are left
out), or that passes know (a batch norm in inference, which folds into a convolution); it leaves other calls alone.
"""

CONSTANTS = (
    "aten.arange.default",
    "aten.arange.start",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.eye.default",
    "aten.eye.m",
    "aten.fill.Scalar",
    "aten.fill.Tensor",
    "aten.full_like.default",
    "aten.linspace.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
    "aten.new_full.default",
    "aten.new_ones.default",
    "aten.new_zeros.default",
    "aten.ones.default",
    "aten.ones_like.default",
    "aten.scalar_tensor.default",
    "aten.tril_indices.default",
    "aten.triu_indices.default",
    "aten.zeros.default",
    "aten.zeros_like.default",
)
"""``full`` and constants, which are computed while compiling, and which passes look through."""

VIEWS = (
    "aten.alias_copy.default",
    "aten.detach_copy.default",
    "aten.lift.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.narrow_copy.default",
    "aten._unsafe_view.default",
    "aten.rot90.default",
    "aten.channel_shuffle.default",
)
"""Views and permutations: they need no instruction, or become part of the operator beside them."""

IN_PLACE = (
    "aten.index_copy.default",
    "aten.index_add.default",
    "aten.index_fill.int_Scalar",
    "aten.index_fill.int_Tensor",
    "aten.diagonal_scatter.default",
)
"""``index_put`` writes its result over its operand where that is read no more, as a cache is."""

ONE_OPERATOR = (
    "aten.bitwise_and.Scalar_Tensor",
    "aten.bitwise_or.Scalar_Tensor",
    "aten.bitwise_xor.Scalar_Tensor",
    "aten.clamp_max.default",
    "aten.clamp_max.Tensor",
    "aten.clamp_min.default",
    "aten.clamp_min.Tensor",
    "aten.deg2rad.default",
    "aten.rad2deg.default",
    "aten.isneginf.default",
    "aten.isposinf.default",
    "aten.masked_fill.Tensor",
    "aten.matmul.default",
    "aten.max.default",
    "aten.max.other",
    "aten.min.default",
    "aten.min.other",
    "aten.mv.default",
    "aten.outer.default",
    "aten.ger.default",
    "aten.remainder.Scalar_Tensor",
    "aten.rsub.Tensor",
    "aten.special_expit.default",
    "aten.square.default",
    "aten.std.default",
    "aten.std.dim",
    "aten.std_mean.default",
    "aten.std_mean.dim",
    "aten.sum.default",
    "aten.var.default",
    "aten.var.dim",
    "aten.var_mean.default",
    "aten.var_mean.dim",
)
"""One operator that computes the same, which passes and backends know, with views around it."""

FASTER = ("aten.mish.default",)
"""``x * tanh(softplus(x))`` takes 0.6 of the time of the kernel, which is not vectorized, and is as accurate."""

DECOMPOSED: Mapping[str, str] = {
    name: reason
    for reason, names in (
        ("its pattern makes the form that kernels and passes know", NORMAL_FORM),
        ("it is a constant", CONSTANTS),
        ("it is a view", VIEWS),
        ("its pattern is done in place", IN_PLACE),
        ("it is one core operator", ONE_OPERATOR),
        ("its pieces are faster", FASTER),
    )
    for name in names
}
"""Operator to the reason why it is decomposed."""

PIECES = frozenset(
    {
        "aten.addbmm.default",
        "aten.addcdiv.default",
        "aten.addcmul.default",
        "aten.addmv.default",
        "aten.addr.default",
        "aten.baddbmm.default",
        "aten.celu.default",
        "aten.dot.default",
        "aten.frac.default",
        "aten.hardshrink.default",
        "aten.hardsigmoid.default",
        "aten.hardswish.default",
        "aten.huber_loss.default",
        "aten.lerp.Scalar",
        "aten.lerp.Tensor",
        "aten.mse_loss.default",
        "aten.silu.default",
        "aten.smooth_l1_loss.default",
        "aten.softplus.default",
        "aten.softshrink.default",
        "aten.threshold.default",
        "aten.vdot.default",
    }
)
"""Operators whose pieces backends claim, where they do not know the whole: with delegates they are decomposed, unless
one of these wants them whole. What the pieces compute is as accurate."""
