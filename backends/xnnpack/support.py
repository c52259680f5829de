"""What XNNPACK can claim: one row for each operator, with conditions and their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from etir.backends.api.conditions import (
    constant,
    dtype_name,
    dtypes,
    given,
    is_constant,
    literal,
    not_empty,
    rank,
    same_dtype,
    static_shapes,
)
from etir.backends.api.interface import PreservedOp
from etir.backends.api.patterns import Condition, Match, Row, condition, op
from etir.backends.xnnpack.legalize.elementwise import BINARY, UNARY
from etir.backends.xnnpack.scales import PRODUCTS, SUMS, module_of, refused
from etir.backends.xnnpack.schema import MAX_DIMS
from etir.dialects.et.layout import dims_of, tensor_of
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import bounds
from etir.dialects.sym.ops import DimOp


def _shape(value: object) -> tuple[int, ...]:
    """The shape of a tensor, -1 for dynamic dims."""
    return tensor_of(cast(SSAValue, value)).get_shape()


@condition("at most 6 dims")
def few_dims(match: Match) -> str | None:
    most = max((len(_shape(v)) for v in match.tensors), default=0)
    return None if most <= MAX_DIMS else f"a tensor of {most} dims"


@condition("results with dims")
def has_dims(match: Match) -> str | None:
    """The runtime keeps a tensor without dims as one of a single dim, and fails to hand it out as such."""
    without = any(isinstance(r.type, TensorType) and not _shape(r) for r in match.op.results)
    return "a result without dims, which the runtime cannot hand out" if without else None


@condition("bounded dims")
def bounded(match: Match) -> str | None:
    ranges: dict[str, tuple[int, int | None]] | None = None
    for value in match.tensors:
        if DYNAMIC_INDEX not in _shape(value):
            continue
        if ranges is None:
            ranges = _ranges(match)
        for dim in dims_of(tensor_of(value)):
            if not isinstance(dim, int) and bounds(dim, ranges)[1] is None:
                return f"dim {dim} has no upper bound"
    return None


def _ranges(match: Match) -> dict[str, tuple[int, int | None]]:
    return {o.sym_name.data: o.range for o in module_of(match.op).body.block.ops if isinstance(o, DimOp)}


@condition("at most one dynamic dim in the result")
def one_dynamic_dim(match: Match) -> str | None:
    count = _shape(match.op.results[0]).count(DYNAMIC_INDEX)
    return None if count <= 1 else f"{count} dynamic dims, a reshape infers one"


@condition("no size that is a value of the program")
def no_size_operands(match: Match) -> str | None:
    number = next((v for v in match.op.operands if not isinstance(v.type, TensorType)), None)
    return None if number is None else f"takes a {number.type} that is computed"


@condition("alpha = 1")
def alpha_is_one(match: Match) -> str | None:
    alpha = match.op.args().get("alpha", 1)
    return None if alpha == 1 else f"alpha = {alpha}"


COPY = "dim_order_ops._to_dim_order_copy.default"


def weights(*names: str) -> Condition:
    """The arguments ``names`` are weights or constants, or copies of them in another dim order."""

    def failure(match: Match) -> str | None:
        for name in names:
            value = match.arg(name)
            if isinstance(value, SSAValue) and not is_constant(value) and not _is_copied_weight(value):
                return f"'{name}' is computed, not a weight"
        return None

    return Condition(f"constant {' and '.join(map(repr, names))}", failure)


def _is_copied_weight(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, SchemaOp) and owner.SCHEMA.op_name == COPY and is_constant(owner.operands[0])


@condition("one window of numbers")
def convolves(match: Match) -> str | None:
    dims = len(_shape(match.arg("weight"))) - 2
    if dims not in (1, 2):
        return f"{dims} spatial dims, takes 1 or 2"
    if len(_shape(match.arg("input"))) != dims + 2:
        return "an input without a batch"
    if match.arg("transposed") and dtype_name(cast(SSAValue, match.arg("input")).type) != "float32":
        return "transposed with a dtype other than float32"
    if match.arg("transposed") and dims == 1 and any(v != 0 for v in match.arg("output_padding")):
        return "output padding of a transposed sequence"
    return None


@condition("a window that XNNPACK pools")
def pools(match: Match) -> str | None:
    kernel = match.arg("kernel_size")
    stride = match.arg("stride") or kernel
    if all(size == 1 for size in kernel):
        return "a window of one element"
    if any(step > size for step, size in zip(_two(stride), _two(kernel), strict=True)):
        return f"stride {list(stride)} is larger than the window {list(kernel)}"
    if match.arg("ceil_mode") and DYNAMIC_INDEX in _shape(match.op.results[0]):
        return "ceil_mode with dynamic dims"
    return None


@condition("a mean over what is under the window, inside the image")
def averages(match: Match) -> str | None:
    if match.arg("ceil_mode"):
        return "ceil_mode"
    if match.arg("count_include_pad") and any(match.arg("padding")):
        return "padding that counts"
    if match.arg("divisor_override") is not None:
        return f"divisor_override = {match.arg('divisor_override')}"
    return None


def _two(values: Sequence[int]) -> tuple[int, int]:
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


@condition("no result but the first used")
def first_result_only(match: Match) -> str | None:
    used = next((i for i, r in enumerate(match.op.results) if i and r.first_use is not None), None)
    return None if used is None else f"result {used} is used"


@condition("a norm over the last dim, of known size")
def norms_last_dim(match: Match) -> str | None:
    normalized = match.arg("normalized_shape")
    if len(normalized) != 1 or any(isinstance(size, SSAValue) for size in normalized):
        return f"a norm over {len(normalized)} dims"
    return None


def first_tensor(name: str, *allowed: str) -> tuple[Condition, ...]:
    """What :data:`COMMON` asks, of argument ``name`` alone: for operators that have results of other dtypes."""

    @condition("no empty tensor")
    def has_elements(match: Match) -> str | None:
        return f"empty tensor {match.arg(name).type}" if 0 in _shape(match.arg(name)) else None

    return (dtypes(*allowed, of=(name,)), has_elements, first_result_only, few_dims, bounded)


@condition("a mean over height and width, or over the last dim")
def mean_dims(match: Match) -> str | None:
    shape = _shape(match.arg("self"))
    given_dims = match.arg("dim")
    dims = sorted(d % len(shape) for d in given_dims) if given_dims else list(range(len(shape)))
    if match.arg("dtype") is not None:
        return "a mean with a dtype of its own"
    if len(shape) == 4 and dims == [2, 3]:
        return None
    if len(shape) >= 2 and dims == [len(shape) - 1]:
        return "a dynamic last dim" if shape[-1] < 0 else None
    return f"the mean of {len(shape)} dims over {dims}"


@condition("a mean over the whole image")
def whole_image(match: Match) -> str | None:
    size = match.arg("output_size")
    if len(_shape(match.arg("self"))) != 4:
        return "an image without a batch"
    return None if all(s == 1 for s in size) else f"output_size = {list(size)}"


@condition("the last dim")
def last_dim(match: Match) -> str | None:
    count = len(_shape(match.arg("self")))
    if match.arg("half_to_float"):
        return "half_to_float"
    return None if match.arg("dim") in (-1, count - 1) else f"dim {match.arg('dim')} of {count}"


@condition("a range that is not empty")
def has_range(match: Match) -> str | None:
    low, high = (match.op.args().get(n) for n in ("min", "max"))
    if "min_val" in match.op.SCHEMA.index:
        low, high = match.arg("min_val"), match.arg("max_val")
    if low is not None and high is not None and not float(cast(float, low)) < float(cast(float, high)):
        return f"the range from {low} to {high}"
    return None


@condition("nothing repeated")
def keeps_shape(match: Match) -> str | None:
    value = match.op.operands[0]
    before, after = (dims_of(tensor_of(v)) for v in (value, match.op.results[0]))
    return None if before == after else f"{list(map(str, before))} to {list(map(str, after))}"


@condition("float32, or the approximation by tanh")
def has_gelu(match: Match) -> str | None:
    if match.arg("approximate") == "none" and dtype_name(match.op.results[0].type) != "float32":
        return f"the exact function on {dtype_name(match.op.results[0].type)}"
    return None


@condition("no cropping")
def only_pads(match: Match) -> str | None:
    return None if all(p >= 0 for p in match.arg("pad")) else f"pad = {list(match.arg('pad'))}"


@condition("a size by the scale of both dims")
def resizes(match: Match) -> str | None:
    factors = match.arg("scale_factors")
    if not factors:
        return None
    sizes, results = _shape(match.arg("input"))[2:], _shape(match.op.results[0])[2:]
    exact = all(size * factor == out for size, factor, out in zip(sizes, factors, results, strict=True))
    return None if exact else f"scale_factors {list(factors)} from {list(sizes)} to {list(results)}"


@condition("no scales")
def plain_elu(match: Match) -> str | None:
    scales = match.arg("scale"), match.arg("input_scale")
    return None if scales == (1, 1) else f"scales {scales}"


@condition("a constant or another batch")
def multiplies(match: Match) -> str | None:
    return None if len(_shape(match.arg("self"))) == 2 else "not a matrix"


@condition("integers multiplied by less than 256 on the way to the result, a bias that their sum has room for")
def rescales(match: Match) -> str | None:
    return refused(match.op)


FLOATS = dtypes("float32", "float16")
FLOATS_AND_BF16 = dtypes("float32", "float16", "bfloat16")
COMMON: tuple[Condition, ...] = (same_dtype(), not_empty(), few_dims, has_dims, bounded)
"""What every row asks, besides the dtypes."""

FLOAT32_ONLY = dtypes("float32")
VIEW = (no_size_operands, one_dynamic_dim)


def _binary_conditions(schema: OpSchema) -> tuple[Condition, ...]:
    """No factor in a sum or a difference, and no runtime scalar."""
    factor = (alpha_is_one,) if "alpha" in schema.index else ()
    if schema.op_name in SUMS | PRODUCTS:
        return (*factor, rescales)
    return (*factor, literal("other")) if schema.overload == "Scalar" else factor


_ROWS: dict[str, tuple[Condition, ...]] = {
    **{operator.SCHEMA.op_name: () for operator in UNARY},
    **{operator.SCHEMA.op_name: _binary_conditions(operator.SCHEMA) for operator in BINARY},
    "aten.relu.default": (),
    "aten.relu6.default": (),
    "aten.hardtanh.default": (has_range,),
    "aten.clamp.default": (literal("min", "max"), has_range),
    "aten.clamp_min.default": (literal("min"),),
    "aten.clamp_max.default": (literal("max"),),
    "aten.leaky_relu.default": (literal("negative_slope"),),
    "aten.elu.default": (plain_elu,),
    "aten.pow.Tensor_Scalar": (given("exponent", 2, 0.5, -0.5),),
    "aten.gelu.default": (has_gelu,),
    "aten.hardsigmoid.default": (),
    "aten.silu.default": (),
    "aten.prelu.default": (FLOAT32_ONLY, constant("weight")),
    "aten.linear.default": (constant("weight", "bias"),),
    "aten.addmm.default": (constant("self", "mat2"), rank("self", 1), given("alpha", 1), given("beta", 1)),
    "aten.mm.default": (multiplies,),
    "aten.bmm.default": (),
    "aten.convolution.default": (weights("weight", "bias"), convolves),
    "aten.max_pool2d.default": (rank("self", 4), pools),
    "aten.avg_pool2d.default": (rank("self", 4), pools, averages),
    "aten.adaptive_avg_pool2d.default": (whole_image,),
    "aten._adaptive_avg_pool2d.default": (whole_image,),
    "aten.mean.dim": (mean_dims,),
    "aten.upsample_bilinear2d.vec": (FLOAT32_ONLY, static_shapes(), resizes),
    "aten._softmax.default": (last_dim,),
    "aten.view_copy.default": VIEW,
    "aten.permute_copy.default": (),
    "aten.transpose_copy.int": (),
    "aten.t_copy.default": (),
    **dict.fromkeys(
        (
            "aten.unsqueeze_copy.default",
            "aten.squeeze_copy.default",
            "aten.squeeze_copy.dim",
            "aten.squeeze_copy.dims",
        ),
        VIEW,
    ),
    "aten.expand_copy.default": (no_size_operands, keeps_shape),
    "aten.clone.default": (keeps_shape,),
    "aten.alias_copy.default": (),
    "dim_order_ops._clone_dim_order.default": (),
    "aten.cat.default": (),
    "aten.stack.default": VIEW,
    "aten.slice_copy.Tensor": (given("step", 1), no_size_operands, static_shapes()),
    "aten.split_with_sizes_copy.default": (no_size_operands, static_shapes()),
    "aten.split_copy.Tensor": (no_size_operands, static_shapes()),
    "aten.select_copy.int": (no_size_operands, static_shapes()),
    "aten.constant_pad_nd.default": (no_size_operands, literal("value"), only_pads),
}
"""Conditions by operator, beside the common ones."""

NOT_IN_BF16 = frozenset(
    {
        "aten.bmm.default",
        "aten.convolution.default",
        "aten.max_pool2d.default",
        "aten.avg_pool2d.default",
        "aten.adaptive_avg_pool2d.default",
        "aten._adaptive_avg_pool2d.default",
        "aten._softmax.default",
    }
)
"""Operators whose nodes the runtime refuses to make for bfloat16 (xnn_status_invalid_parameter)."""
_NO_NODE = "the runtime has no such node for bfloat16"


@condition("dtype float32 or float16")
def no_bf16(match: Match) -> str | None:
    return _NO_NODE if _has_bf16(match) else FLOATS.failure(match)


@condition("dtype float32, float16 or bfloat16; bfloat16 as a layer")
def bf16_in_layers(match: Match) -> str | None:
    """A product with a weight, and a mean over the last dim, are fully connected layers; others are nodes that bfloat16
    does not have.
    """
    if not _has_bf16(match):
        return FLOATS.failure(match)
    if "mat2" in match.op.SCHEMA.index:
        return None if is_constant(match.arg("mat2")) else f"{_NO_NODE} of two computed matrices"
    shape, dims = _shape(match.arg("self")), match.arg("dim")
    last = dims and [d % len(shape) for d in dims] == [len(shape) - 1]
    return None if last else f"{_NO_NODE} over height and width"


def _has_bf16(match: Match) -> bool:
    return any(dtype_name(v.type) == "bfloat16" for v in match.tensors)


LAYER_NORM = "aten.native_layer_norm.default"

_FIRST_RESULT: dict[str, tuple[Condition, ...]] = {
    "aten._native_batch_norm_legit_no_training.default": (
        *first_tensor("input", "float32", "float16"),
        constant("weight", "bias", "running_mean", "running_var"),
        rank("input", 2, 4),
    ),
    LAYER_NORM: (
        *first_tensor("input", "float32"),
        constant("weight", "bias"),
        norms_last_dim,
    ),
    "aten.max_pool2d_with_indices.default": (
        *first_tensor("self", "float32", "float16"),
        rank("self", 4),
        pools,
    ),
}
"""Operators whose further results are of other dtypes, and not used."""

PRESERVED: tuple[str, ...] = (
    "aten.linear.default",
    "aten.max_pool2d.default",
    "aten.prelu.default",
    "aten.hardswish.default",
    "aten.upsample_bilinear2d.vec",
)
"""Operators that decomposition preserves where a row matches them."""

VIEWS = frozenset(
    {
        "aten.view_copy.default",
        "aten.unsqueeze_copy.default",
        "aten.squeeze_copy.default",
        "aten.squeeze_copy.dim",
        "aten.squeeze_copy.dims",
        "aten.expand_copy.default",
        "aten.clone.default",
        "aten.alias_copy.default",
    }
)
"""Operators that need no instruction outside of a delegate."""


def float_rows(*, layer_norms: bool = False, enable_bf16: bool = False) -> tuple[Row, ...]:
    """The rows for tensors that are not quantized, with ``layer_norms`` those of norms that are decomposed, with
    ``enable_bf16`` bfloat16 where the runtime computes it.
    """

    def floats(name: str) -> Condition:
        if not enable_bf16:
            return FLOATS
        if name in ("aten.mm.default", "aten.mean.dim"):
            return bf16_in_layers
        return no_bf16 if name in NOT_IN_BF16 else FLOATS_AND_BF16

    common = tuple(Row(op(name), (floats(name), *COMMON, *conditions)) for name, conditions in _ROWS.items())
    convert = Row(op(COPY), (floats(COPY), not_empty(), few_dims, has_dims, bounded))
    # The copy belongs to the convolution: alone it would be a delegate of its own.
    copied = Row(
        op("aten.convolution.default", weight=op(COPY)),
        (FLOATS, *COMMON, weights("weight", "bias"), convolves),
        "convolution",
    )
    return (*common, convert, copied) + tuple(
        Row(op(name), conditions) for name, conditions in _FIRST_RESULT.items() if layer_norms or name != LAYER_NORM
    )


def preserved_ops(*, layer_norms: bool = False) -> tuple[PreservedOp, ...]:
    """What decomposition preserves; layer norms, which a delegate computes around their mean, where it claims them."""
    return tuple(PreservedOp(name) for name in (*PRESERVED, *([LAYER_NORM] if layer_norms else [])))
