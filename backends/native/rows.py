"""What the backend claims, as rows with reasons."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.backends.api.conditions import contiguous, dtypes, is_constant, static_shapes
from etir.backends.api.patterns import Condition, Match, Row, condition, operator_of, rows
from etir.backends.native.elementwise import ELEMENTWISE
from etir.dialects.et.layout import dims_of

PRODUCTS = (
    "aten.linear.default",
    "aten.mm.default",
    "aten.bmm.default",
    "aten.addmm.default",
    "aten.convolution.default",
)
"""Roots of products."""

POOLS = (
    "aten.max_pool2d_with_indices.default",
    "aten.avg_pool2d.default",
    "aten.mean.dim",
    "aten._adaptive_avg_pool2d.default",
)
"""Windows without weights; the mean of a whole image is one."""

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
    return "a runtime scalar" if unknown else None


def _pair(given: Sequence[int]) -> tuple[int, int]:
    return (given[0], given[-1])


@condition("a convolution of images with constant weights, of one group or of one channel each")
def _convolution(match: Match) -> str | None:
    weight = match.type("weight")
    if weight is None or len(weight.get_shape()) != 4:
        return "no convolution of images"
    if not is_constant(match.arg("weight")):
        return "weights that are known at run time only"
    if match.arg("transposed"):
        return "a transposed convolution"
    if _pair(match.arg("dilation")) != (1, 1):
        return "a dilated window"
    groups, (out, inner, *_) = match.arg("groups"), weight.get_shape()
    if groups != 1 and not (inner == 1 and out == groups):
        return "several groups of channels"
    return None


@condition("windows inside of the image and of zeros around it")
def _pool(match: Match) -> str | None:
    if match.arg("ceil_mode"):
        return "a last window that is cut (ceil_mode)"
    if len(match.tensors[0].type.get_shape()) != 4:  # type: ignore[union-attr]
        return "an image without a batch"
    if operator_of(match.op) == "aten.max_pool2d_with_indices.default":
        if match.op.results[1].first_use is not None:
            return "the places of the largest elements are read"
        return None if _pair(match.arg("dilation")) == (1, 1) else "a dilated window"
    if match.arg("divisor_override") is not None:
        return "a divisor of its own"
    plain = match.arg("count_include_pad") or not any(match.arg("padding"))
    return None if plain else "zeros around the image that do not count"


@condition("the mean of a whole image")
def _mean(match: Match) -> str | None:
    type = match.type("self")
    rank = 0 if type is None else len(type.get_shape())
    if rank != 4 or sorted(d % 4 for d in match.arg("dim") or ()) != [2, 3]:
        return "a mean over other dims than height and width"
    return None


@condition("one number for each channel")
def _to_one(match: Match) -> str | None:
    type = match.type("self")
    is_image = type is not None and len(type.get_shape()) == 4
    return None if is_image and _pair(match.arg("output_size")) == (1, 1) else "windows of several sizes"


COMMON: tuple[Condition, ...] = (dtypes("float32"), static_shapes(), contiguous(), has_elements, _known)
FLOATS: tuple[Condition, ...] = (static_shapes(), contiguous(), has_elements, _known, dtypes("float32", of=("self",)))


def claimed() -> Sequence[Row]:
    """Every row."""
    return [
        *rows(["aten.linear.default", "aten.mm.default", "aten.bmm.default"], *COMMON),
        *rows(["aten.convolution.default"], *COMMON, _convolution),
        *rows(["aten.max_pool2d_with_indices.default"], *FLOATS, _pool),
        *rows(["aten.avg_pool2d.default"], *COMMON, _pool),
        *rows(["aten.mean.dim"], *COMMON, _mean),
        *rows(["aten._adaptive_avg_pool2d.default"], *COMMON, _to_one),
        *rows(["aten.addmm.default"], *COMMON, _plain_addmm),
        *rows(list(ELEMENTWISE), *COMMON),
        *rows(["aten._softmax.default"], *COMMON, _last_dim),
        *rows(["aten.native_layer_norm.default"], *COMMON, _layer_norm),
        *rows(list(VIEWS), *COMMON),
    ]
