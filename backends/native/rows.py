"""What the backend claims, as rows with reasons."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.backends.api.conditions import contiguous, dtypes, static_shapes
from etir.backends.api.patterns import Condition, Match, Row, condition, rows
from etir.backends.native.elementwise import ELEMENTWISE
from etir.dialects.et.layout import dims_of

PRODUCTS = ("aten.linear.default", "aten.mm.default", "aten.bmm.default", "aten.addmm.default")
"""Roots of products."""

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
    "aten.clone.default",
    "aten.alias_copy.default",
)
"""Operators that are other strides of the same memory."""


@condition("elements")
def has_elements(match: Match) -> str | None:
    """Empty tensors stay with the kernels."""
    empty = any(0 in dims_of(v.type) for v in match.tensors if isinstance(v.type, TensorType))
    return "a tensor without elements" if empty else None


@condition("softmax along the last dim of at least one")
def _last_dim(match: Match) -> str | None:
    rank = len(match.tensors[0].type.get_shape()) if isinstance(match.tensors[0].type, TensorType) else 0
    if rank == 0 or match.arg("dim") % rank != rank - 1:
        return "softmax along another dim than the last one"
    return "half_to_float changes the dtype" if match.arg("half_to_float") else None


@condition("layer norm over the last dim, whose statistics nothing reads")
def _layer_norm(match: Match) -> str | None:
    if len(match.arg("normalized_shape")) != 1:
        return "a norm over several dims"
    if (match.arg("weight") is None) != (match.arg("bias") is None):
        return "a norm with a scale or a shift alone"
    if any(result.first_use is not None for result in match.op.results[1:]):
        return "the mean or the variance is read"
    return None


@condition("beta 1 and alpha 1")
def _plain_addmm(match: Match) -> str | None:
    plain = match.arg("beta") == 1 and match.arg("alpha") == 1
    return None if plain else "addmm with another beta or alpha than 1"


@condition("numbers that are known")
def _known(match: Match) -> str | None:
    unknown = any(isinstance(v, SSAValue) and not isinstance(v.type, TensorType) for v in match.op.operands)
    return "a number that is known at run time only" if unknown else None


COMMON: tuple[Condition, ...] = (dtypes("float32"), static_shapes(), contiguous(), has_elements, _known)


def claimed() -> Sequence[Row]:
    """Every row."""
    return [
        *rows([name for name in PRODUCTS if name != "aten.addmm.default"], *COMMON),
        *rows(["aten.addmm.default"], *COMMON, _plain_addmm),
        *rows(list(ELEMENTWISE), *COMMON),
        *rows(["aten._softmax.default"], *COMMON, _last_dim),
        *rows(["aten.native_layer_norm.default"], *COMMON, _layer_norm),
        *rows(list(VIEWS), *COMMON),
    ]
