"""Kinds of groups: which operator is the root of which, and which take operators after it."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from etir.backends.api.patterns import operator_of
from etir.backends.native.elementwise import ELEMENTWISE
from etir.backends.native.operators import GATHER, NEIGHBORS, POOLS, PRODUCTS, REDUCTIONS, RESIZES, SCAN
from etir.backends.native.windows import has_small_groups, is_depthwise
from etir.dialects.schema_op import SchemaOp

ROOTS: dict[str, str] = {
    **dict.fromkeys(PRODUCTS, "product"),
    **dict.fromkeys(ELEMENTWISE, "map"),
    **dict.fromkeys(POOLS, "pool"),
    **dict.fromkeys(REDUCTIONS, "reduce"),
    **dict.fromkeys(RESIZES, "resize"),
    GATHER: "gather",
    NEIGHBORS: "neighbors",
    SCAN: "scan",
    "aten.convolution.default": "convolution",
    "aten._softmax.default": "softmax",
    "aten._log_softmax.default": "softmax",
    "aten._safe_softmax.default": "softmax",
    "aten.native_layer_norm.default": "norm",
    "aten.native_group_norm.default": "group_norm",
    "aten._native_batch_norm_legit.no_stats": "batch_norm",
}
"""Operator to the kind of the group that it is the root of."""


def add_root(operator: str, kind: str) -> None:
    """Make an operator, without its level, the root of groups of a kind."""
    ROOTS[operator] = kind


WITH_WINDOWS = ("convolution", "depthwise", "grouped", "pool")
"""Kinds that read windows of an image."""
WITH_EPILOGUE = ("product", "convolution", "depthwise", "grouped", "group_norm", "resize", "gather", "map")
"""Kinds whose template does elementwise operators after its root while the result is in registers."""


def kind_of(op: Operation) -> str | None:
    """The kind of the group that ``op`` is the root of, or None."""
    kind = ROOTS.get(operator_of(op))
    if kind != "convolution":
        return kind
    root = cast(SchemaOp, op)
    return "depthwise" if is_depthwise(root) else "grouped" if has_small_groups(root) else kind
