"""Operators by what they are to the backend: names, without their level."""

from __future__ import annotations

from xdsl.ir import Operation

from etir.backends.api.patterns import operator_of
from etir.backends.native.folds import FOLDS
from etir.backends.native.taken import TAKES, is_table
from etir.backends.native.windows import MEANS
from etir.dialects.schema_op import SchemaOp

PRODUCTS = (
    "aten.linear.default",
    "aten.mm.default",
    "aten.bmm.default",
    "aten.addmm.default",
    "aten.convolution.default",
)
"""Roots of products."""

SAFE_SOFTMAX = "aten._safe_softmax.default"
"""A softmax whose rows of minus infinities are zeros."""

CURVES = (
    "aten.hardsigmoid.default",
    "aten.hardswish.default",
    "aten.silu.default",
    "aten.softplus.default",
    "aten.hardshrink.default",
    "aten.softshrink.default",
    "aten.threshold.default",
    "aten.logit.default",
    "aten.nan_to_num.default",
    "aten.log2.default",
    "aten.log10.default",
    "aten.exp2.default",
)
"""Functions of one number that are several operators for other delegates."""

MASKS = ("aten.where.self", "aten.masked_fill.Scalar")
"""Choices by truth values."""

LARGEST = ("aten.max_pool2d_with_indices.default", "aten.adaptive_max_pool2d.default")
POOLS = (
    *LARGEST,
    *MEANS,
    "aten._adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool1d.default",
)
"""Windows without weights."""

SCAN = "aten.cumsum.default"
"""Running sums."""
NEIGHBORS = "aten.avg_pool3d.default"
"""Means of neighbors."""

REDUCTIONS = tuple(FOLDS)
"""One number for all elements of some dims."""
QUANTIFIERS = ("aten.any.dim", "aten.any.dims", "aten.all.dim", "aten.all.dims")
"""Whether any, or all, of some truth values hold."""

RESIZES = ("aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default")
"""Linear filters."""

GATHER = "aten.gather.default"
"""Elements by their numbers."""

SCATTER = "aten.slice_scatter.default"
MOVES = (
    "aten.cat.default",
    "aten.stack.default",
    "aten.constant_pad_nd.default",
    "aten.roll.default",
    SCATTER,
    "aten.pixel_shuffle.default",
    "aten.split_with_sizes_copy.default",
    "aten.unbind_copy.int",
    "aten.glu.default",
    "aten.upsample_nearest2d.vec",
    "aten.upsample_nearest2d.default",
    "aten.repeat.default",
    "aten.pixel_unshuffle.default",
    *TAKES,
)
"""Operators that put elements elsewhere."""

VIEWS = (
    "aten.view_copy.default",
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.dims",
    "aten.squeeze_copy.dim",
    "aten.permute_copy.default",
    "aten.transpose_copy.int",
    "aten.t_copy.default",
    "aten.expand_copy.default",
    "aten.select_copy.int",
    "aten.slice_copy.Tensor",
    "aten.diagonal_copy.default",
    "aten.index_select.default",
    "aten.clone.default",
    "aten.alias_copy.default",
)
"""Operators that are other strides of the same memory."""


BETWEEN = (*VIEWS, *MOVES)
"""What stands between groups."""
WITH_CONDITIONS = (
    SCATTER,
    "aten.index_select.default",
    "aten.upsample_nearest2d.vec",
    "aten.upsample_nearest2d.default",
    "aten.repeat.default",
    "aten.pixel_unshuffle.default",
    "aten.diagonal_copy.default",
    *TAKES,
)
"""Those of them that are not taken of any kind."""


FLAG_VIEWS = tuple(name for name in VIEWS if name not in WITH_CONDITIONS)
"""Those of truth values: others stay with the kernels."""


def is_view(op: Operation) -> bool:
    """Whether an operator is other strides of the same memory: indices are one where they are a slice."""
    return operator_of(op) in VIEWS and not (isinstance(op, SchemaOp) and is_table(op))
