"""What the backend claims, as rows with reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.conditions import contiguous, dtypes, is_constant
from etir.backends.api.patterns import Condition, Match, Node, Row, condition, op, operator_of, rows
from etir.backends.native.bounded import bounded, elementwise_fits, is_dynamic, known_numbers, sizes_fit
from etir.backends.native.dialect import GroupOp
from etir.backends.native.elementwise import ELEMENTWISE
from etir.backends.native.gather import LONGEST
from etir.backends.native.operators import (
    BETWEEN,
    FLAG_VIEWS,
    GATHER,
    LARGEST,
    MASKS,
    NEIGHBORS,
    POOLS,
    QUANTIFIERS,
    REDUCTIONS,
    RESIZES,
    SAFE_SOFTMAX,
    SCAN,
    SCATTER,
    VIEWS,
    WITH_CONDITIONS,
    is_view,
)
from etir.backends.native.runs import run_of
from etir.backends.native.statistics import VAR_MEAN
from etir.backends.native.taken import (
    EMBEDDING,
    MOST_NUMBERS,
    MOST_RUNS,
    TAKES,
    is_gathered,
    is_long,
    is_short,
    tables_of,
)
from etir.backends.native.truth import CAST, CONNECTIVES, TRUTH
from etir.backends.native.truth_rows import between_flags, cast_of_code, choices, of_code
from etir.backends.native.uneven import MOST_POOLS, uneven_runs
from etir.backends.native.windows import can_be_cut, counts_inside, has_small_groups, own_divisor, window_of
from etir.dialects.et.layout import dims_of
from etir.dialects.et.program import ReadStateOp, UpdateInputOp, WriteStateOp
from etir.dialects.schema_op import SchemaOp

Type = TensorType[Attribute]

MOST_VIEWS = 3
"""Views between such numbers and what gathers by them: a dim is dropped, heads are added, and copies made for them."""


@condition("elements")
def has_elements(match: Match) -> str | None:
    """Empty tensors stay with the kernels."""
    empty = any(0 in dims_of(v.type) for v in match.tensors if isinstance(v.type, TensorType))
    return "a tensor without elements" if empty else None


@condition("at most eight dims")
def _few_dims(match: Match) -> str | None:
    """A blob has room for eight sizes of a tensor."""
    most = max(len(dims_of(v.type)) for v in match.tensors if isinstance(v.type, TensorType))
    return f"a tensor of {most} dims" if most > 8 else None


@condition("softmax of at least one dim")
def _softmax(match: Match) -> str | None:
    rank = len(match.tensors[0].type.get_shape()) if isinstance(match.tensors[0].type, TensorType) else 0
    if rank == 0:
        return "softmax of a number"
    return "half_to_float changes the dtype" if match.arg("half_to_float") else None


@condition("softmax of at least one dim, of its own dtype")
def _safe_softmax(match: Match) -> str | None:
    rank = len(match.tensors[0].type.get_shape()) if isinstance(match.tensors[0].type, TensorType) else 0
    return "softmax of a number" if rank == 0 else None


def _unread_statistics(match: Match) -> str | None:
    read = any(result.first_use is not None for result in match.op.results[1:])
    return "the mean or the variance is read" if read else None


@condition("layer norm whose statistics nothing reads")
def _layer_norm(match: Match) -> str | None:
    if match.arg("weight") is None and match.arg("bias") is not None:
        return "a norm with a shift alone"
    return _unread_statistics(match)


@condition("a norm whose statistics nothing reads")
def _norm(match: Match) -> str | None:
    return _unread_statistics(match)


@condition("statistics of the batch")
def _batch_norm(match: Match) -> str | None:
    return _unread_statistics(match) if match.arg("training") else "statistics that are not the batch's"


@condition("a batch norm with constants")
def _constant_batch_norm(match: Match) -> str | None:
    named = [match.arg(name) for name in ("weight", "bias", "running_mean", "running_var")]
    if not all(value is None or is_constant(value) for value in named):
        return "weights or statistics that are known at run time only"
    given = match.type("input")
    dims = () if given is None else dims_of(given)
    if len(dims) < 2:
        return "an image without channels"
    return "a tensor without elements" if 0 in dims else _unread_statistics(match)


@condition("a number of each row alone")
def _reduction(match: Match) -> str | None:
    read = any(result.first_use is not None for result in match.op.results[1:])
    if read:
        return "the places of the largest or smallest elements are read"
    return _is_float(match) if "dtype" in cast(SchemaOp, match.op).SCHEMA.index else None


def _is_float(match: Match) -> str | None:
    given = match.arg("dtype")
    return None if given is None or str(getattr(match.op.results[0].type, "element_type", "")) == "f32" else "a dtype"


_float_result = Condition("a result of float32", _is_float)


@condition("a matrix of weights")
def _matrix(match: Match) -> str | None:
    weight = match.type("weight")
    return None if weight is not None and len(weight.get_shape()) == 2 else "weights of one number for each column"


@condition("beta 1 and alpha 1")
def _plain_addmm(match: Match) -> str | None:
    plain = match.arg("beta") == 1 and match.arg("alpha") == 1
    return None if plain else "addmm with another beta or alpha than 1"


FEW_CHANNELS = 8


@condition("a convolution of images or signals with constant weights")
def _convolution(match: Match) -> str | None:
    weight, given = match.type("weight"), match.type("input")
    if weight is None or given is None or len(weight.get_shape()) not in (3, 4):
        return "no convolution of images or signals"
    if len(given.get_shape()) != len(weight.get_shape()):
        return "an image without a batch"
    if not is_constant(match.arg("weight")):
        return "weights that are known at run time only"
    groups, (outer, inner, *_) = match.arg("groups"), weight.get_shape()
    if match.arg("transposed"):
        window = window_of(cast(SchemaOp, match.op))
        if groups != 1 or window.dilation != (1, 1):
            return "a transposed convolution of groups or with a dilated window"
        gaps = any(size < stride for size, stride in zip(window.size, window.stride, strict=True))
        return "a transposed convolution with gaps" if gaps else None
    each = inner == 1 and outer == groups
    wide = groups == 1 or outer // groups >= FEW_CHANNELS
    return None if wide or each or has_small_groups(cast(SchemaOp, match.op)) else "groups of few channels"


@condition("a slice of what the program computes")
def _scattered(match: Match) -> str | None:
    """States, and inputs that change, are written where they are by the kernels, a part of them alone."""
    value = match.arg("self")
    while isinstance(value, SSAValue) and isinstance(value.owner, SchemaOp):
        if operator_of(value.owner) not in (*VIEWS, SCATTER):
            break
        value = value.owner.operands[0]
    is_read = isinstance(value, SSAValue) and isinstance(value.owner, ReadStateOp)
    return "a part of a state" if is_read or _is_stored(match.op.results[0]) else None


def _is_stored(value: SSAValue) -> bool:
    """Whether a tensor, or what it is a part of, becomes the contents of a state or of an input."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, (WriteStateOp, UpdateInputOp)):
            return True
        if isinstance(op, SchemaOp) and operator_of(op) in (*VIEWS, SCATTER) and _is_stored(op.results[0]):
            return True
    return False


@condition("elements by numbers that are known at compile time")
def _taken(match: Match) -> str | None:
    """Numbers outside of a dim are an error of the kernels."""
    if is_dynamic(match):
        return "sizes that are known at run time only"
    op = cast(SchemaOp, match.op)
    if is_long(op):
        return None if is_gathered(op) else f"more than {MOST_RUNS:,} numbers of elements, which are not gathered"
    found = tables_of(op) if is_short(op) else []
    if found is None:
        return "indices that are known at run time only, of several dims, or outside of the dim"
    return None if found else f"more than {MOST_RUNS:,} numbers of elements"


@condition("indices that are known at compile time")
def _select(match: Match) -> str | None:
    """A slice, or any others."""
    given = match.type("self")
    if given is None or not given.get_shape() or DYNAMIC_INDEX in given.get_shape():
        return "a number, or a dim that is known at run time only"
    found = run_of(match.arg("index"))
    size = given.get_shape()[match.arg("dim")]
    inside = found is not None and found.start + (found.count - 1) * found.step < size
    return None if inside else _taken.failure(match)


@condition("windows inside of the image and of zeros around it")
def _pool(match: Match) -> str | None:
    given = match.type("self")
    if given is None or len(given.get_shape()) != (3 if "pool1d" in operator_of(match.op) else 4):
        return "an image or a signal without a batch"
    if any(result.first_use is not None for result in match.op.results[1:]):
        return "the places of the largest elements are read"
    if "adaptive" in operator_of(match.op):
        return _adaptive_pool(cast(SchemaOp, match.op), given.get_shape()[2:])
    if operator_of(match.op) in LARGEST:
        return None
    if counts_inside(match.op):
        return None if can_be_cut(match.op) else "windows without an element of the image, or sizes of the call"
    op = cast(SchemaOp, match.op)
    if own_divisor(op) is None and match.arg("ceil_mode") and _has_cut_windows(op):
        return "a mean of windows that are cut (ceil_mode)"
    return None


def _adaptive_pool(op: SchemaOp, sides: Sequence[int]) -> str | None:
    """Windows of one size, or of sizes that are a few operations; sizes of the call become one pixel."""
    if DYNAMIC_INDEX in sides:
        wanted = op.arg("output_size")
        even = all(size == 1 if n == DYNAMIC_INDEX else n % size == 0 for n, size in zip(sides, wanted, strict=True))
        return None if even else "windows of several sizes"
    runs = uneven_runs(op)
    count = 1 if runs is None else len(runs[0]) * len(runs[1])
    return None if count <= MOST_POOLS else f"windows of several sizes, in {count} runs"


def _has_cut_windows(op: SchemaOp) -> bool:
    """Whether there are more windows than fit into an image of this height and width, with what is around it."""
    types = (cast("TensorType[Attribute]", value.type) for value in (op.arg("self"), op.results[0]))
    given, result = ((1, *type.get_shape()[2:])[-2:] for type in types)
    window = window_of(op)
    sizes = zip(given, window.padding, window.size, window.stride, strict=True)
    return [(n + 2 * p - k) // s + 1 for n, p, k, s in sizes] != [*result]


@condition("running sums of float32 along a dim of known sizes")
def _scan(match: Match) -> str | None:
    given = match.type("self")
    if given is None or not given.get_shape() or is_dynamic(match):
        return "a number, or sizes that are known at run time only"
    return _is_float(match)


@condition("neighbors in one dim or two, without steps and borders")
def _neighbors(match: Match) -> str | None:
    given, sizes = match.type("self"), [*match.arg("kernel_size")]
    if given is None or len(given.get_shape()) != 5 or is_dynamic(match):
        return "an image without a batch, or sizes that are known at run time only"
    if any(match.arg("padding")) or match.arg("divisor_override") is not None or match.arg("ceil_mode"):
        return "windows with a border, or a divisor of their own"
    if any(step != 1 for step in match.arg("stride") or sizes):
        return "windows with steps"
    return "windows of three dims" if len(sizes) != 3 or min(sizes) > 1 else None


@condition("each element several times, or the nearest one of known sizes")
def _upsample(match: Match) -> str | None:
    given, result = match.tensors[0].type, match.op.results[0].type
    if not isinstance(given, TensorType) or not isinstance(result, TensorType):
        return "no image"
    sizes = zip(given.get_shape()[2:], result.get_shape()[2:], strict=True)
    return None if all(a == DYNAMIC_INDEX or b % a == 0 for a, b in sizes) else _taken.failure(match)


@condition("known sizes")
def _static(match: Match) -> str | None:
    return "sizes that are known at run time only" if is_dynamic(match) else None


@condition("an image of known sizes")
def _resize(match: Match) -> str | None:
    """Positions and shares of neighbors are constants of the code."""
    return "sizes that are known at run time only" if is_dynamic(match) else None


def numbers_of(value: object) -> SSAValue | None:
    """The constant numbers of elements that a tensor of integers is views of; None where it is none."""
    while isinstance(value, SSAValue) and isinstance(value.owner, SchemaOp) and is_view(value.owner):
        value = value.owner.operands[0]
    return value if isinstance(value, SSAValue) and is_constant(value) else None


@condition("constant numbers of elements of rows")
def _gather(match: Match) -> str | None:
    """Along the last dim, for all rows."""
    given, index = match.type("self"), match.type("index")
    if given is None or index is None or not given.get_shape() or is_dynamic(match):
        return "a number, or sizes that are known at run time only"
    shape, wanted = given.get_shape(), index.get_shape()
    numbers = numbers_of(match.arg("index"))
    if numbers is None:
        return "indices that are known at run time only"
    if match.arg("dim") % len(shape) != len(shape) - 1 or wanted[:-1] != shape[:-1]:
        return "a gather along another dim than the last one, or of a part of the rows"
    if shape[-1] > LONGEST:
        return f"rows of more than {LONGEST:,} elements"
    count = math.prod(cast(Type, numbers.type).get_shape())
    return f"more than {MOST_NUMBERS:,} indices" if count > MOST_NUMBERS else None


def _gathers() -> list[Row]:
    """Gathers by constants, and by views of them, which each delegate makes itself."""
    found: list[Row] = []
    index: Node | None = None
    for _ in range(MOST_VIEWS + 1):
        node = op(GATHER) if index is None else op(GATHER, index=index)
        found.append(Row(node, (*FLOATS, dtypes("int64", of=("index",)), _gather)))
        inputs = {} if index is None else {"self": index}
        index = op(*(name for name in VIEWS if name not in WITH_CONDITIONS), duplicable=True, inputs=inputs)
    return found


@condition("views of numbers of elements")
def _numbers_viewed(match: Match) -> str | None:
    """What operators that gather read, and nothing else."""
    for use in match.op.results[0].uses:
        user = use.operation
        user = user.body.block.first_op if isinstance(user, GroupOp) else user
        if not isinstance(user, SchemaOp) or operator_of(user) not in (GATHER, *VIEWS):
            return "integers that another operator than a gather reads"
    return "integers that are known at run time only" if numbers_of(match.op.results[0]) is None else None


def viewed_numbers() -> Sequence[Row]:
    """What stands in a function beside what is claimed: views of the numbers that a gather reads."""
    return rows([name for name in VIEWS if name not in WITH_CONDITIONS], *SHAPES, dtypes("int64"), _numbers_viewed)


SHAPES: tuple[Condition, ...] = (bounded, contiguous(), has_elements, known_numbers, _few_dims, sizes_fit)
COMMON: tuple[Condition, ...] = (dtypes("float32"), *SHAPES)
INFERENCE: tuple[Condition, ...] = tuple(c for c in COMMON if c is not has_elements)
"""Of an operator that has results without elements beside its own."""
FLOATS: tuple[Condition, ...] = (
    *SHAPES,
    dtypes("float32", of=("self",)),
)


CLAIMED: list[Row] = []
"""Rows of templates in files of their own."""


def claim(*given: Row) -> None:
    """Take what rows say, too."""
    CLAIMED.extend(given)


def claimed() -> Sequence[Row]:
    """Every row."""
    plain = [name for name in ELEMENTWISE if name not in (*MASKS, *TRUTH)]
    tests = [name for name in TRUTH if name not in (*CONNECTIVES, CAST)]
    return [
        *rows(["aten.linear.default"], *COMMON, _matrix),
        *rows(["aten.mm.default", "aten.bmm.default"], *COMMON),
        *rows(["aten.convolution.default"], *COMMON, _convolution),
        *rows(LARGEST, *FLOATS, _pool),
        *rows([name for name in POOLS if name not in LARGEST], *COMMON, _pool),
        *rows([name for name in REDUCTIONS if name not in QUANTIFIERS], *FLOATS, _reduction),
        *rows(QUANTIFIERS, *SHAPES, between_flags(("bool",), "bool"), of_code),
        *rows([VAR_MEAN], *COMMON),
        *rows([SCAN], *FLOATS, _scan),
        *rows([NEIGHBORS], *COMMON, _neighbors),
        *rows(["aten.addmm.default"], *COMMON, _plain_addmm),
        *rows(plain, *SHAPES, between_flags(("float32",), "float32", "bool"), elementwise_fits()),
        *rows(tests, *SHAPES, between_flags(("bool",), "float32", "bool"), elementwise_fits()),
        *rows(CONNECTIVES, *SHAPES, between_flags(("bool",), "bool"), elementwise_fits(), of_code),
        *rows([CAST], *SHAPES, between_flags(("float32", "bool"), "float32", "bool"), elementwise_fits(), cast_of_code),
        *rows(["aten.where.self"], *SHAPES, *choices("condition", "self", "other"), elementwise_fits()),
        *rows(["aten.masked_fill.Scalar"], *SHAPES, *choices("mask", "self"), elementwise_fits()),
        *rows(["aten._softmax.default", "aten._log_softmax.default"], *COMMON, _softmax),
        *rows([SAFE_SOFTMAX], *COMMON, _float_result, _safe_softmax),
        *rows(["aten.native_layer_norm.default"], *COMMON, _layer_norm),
        *rows(["aten.native_group_norm.default"], *COMMON, _norm),
        *rows(["aten._native_batch_norm_legit.no_stats"], *COMMON, _batch_norm),
        *rows(["aten._native_batch_norm_legit_no_training.default"], *INFERENCE, _constant_batch_norm),
        *rows(["aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default"], *COMMON, _upsample),
        *rows(RESIZES, *COMMON, _resize),
        *_gathers(),
        *rows(["aten.index_select.default"], *FLOATS, _select),
        *rows([name for name in TAKES if name != EMBEDDING], *FLOATS, _taken),
        *rows([EMBEDDING], *SHAPES, dtypes("float32", of=("weight",)), _taken),
        *rows(["aten.repeat.default", "aten.pixel_unshuffle.default", "aten.diagonal_copy.default"], *COMMON, _static),
        *rows([SCATTER], *COMMON, _scattered),
        *rows([name for name in BETWEEN if name not in WITH_CONDITIONS], *COMMON),
        *rows(FLAG_VIEWS, *SHAPES, between_flags(("bool",), "bool"), of_code),
        *CLAIMED,
    ]
