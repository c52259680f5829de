"""Operators that the backend claims whose dims are known at run time only: conditions of its rows.

A dim needs an upper bound, which is what memory is planned for. Rows of products, batches, lengths, and the height and
width of images may be such dims; where code would have to decide by them, an operator stays with the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.patterns import Condition, Match, condition, operator_of
from etir.backends.native.dims import bounds_around, dims
from etir.backends.native.folds import FOLDS, may_be_none, reduced_count
from etir.backends.native.sizes import at_least, expr_of, is_known
from etir.backends.native.statistics import VAR_MEAN
from etir.backends.native.windows import MEANS
from etir.dialects.et.layout import dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import SymExpr, symbol
from etir.lowering.build.sizes import dim_of
from etir.passes.delegation.sizes_inside import telling

SIZES = {
    "aten.view_copy.default": ("size",),
    "aten.expand_copy.default": ("size",),
    "aten.slice_copy.Tensor": ("end",),
    "aten.native_group_norm.default": ("N", "C", "HxW"),
}
"""Operators whose tensors say what a runtime scalar is, and the arguments that have one."""


def _type(value: SSAValue) -> TensorType[Attribute]:
    return cast("TensorType[Attribute]", value.type)


def is_dynamic(match: Match) -> bool:
    """Whether a tensor of the match has a dim that is known at run time only."""
    return any(DYNAMIC_INDEX in _type(v).get_shape() for v in match.tensors)


@condition("bounded dims")
def bounded(match: Match) -> str | None:
    """Every dim has an upper bound."""
    for value in match.tensors:
        if DYNAMIC_INDEX not in _type(value).get_shape():
            continue
        known = bounds_around(value)
        for n in dims_of(_type(value)):
            missing = [name for name in n.symbols if name not in known] if isinstance(n, SymExpr) else []
            if missing:
                return f"the dim '{missing[0]}' has no upper bound"
    return None


@condition("numbers that are known, or sizes")
def known_numbers(match: Match) -> str | None:
    """Scalars are literals, or sizes that the operator's tensors tell."""
    given = [match.arg(name) for name in SIZES.get(operator_of(match.op), ())]
    allowed = [item for value in given for item in (value if isinstance(value, tuple) else (value,))]
    told = [n for v in telling(match.op) for n in dims_of(_type(v))]
    for value in match.op.operands:
        if isinstance(value.type, TensorType):
            continue
        if not any(value is item for item in allowed):
            return "a runtime scalar"
        expr = dim_of(value)
        if expr is None:
            return "a runtime scalar that is no size of a tensor"
        if isinstance(expr, SymExpr) and not all(any(is_linear(n, name) for n in told) for name in expr.symbols):
            return f"the size '{expr}', which its tensors do not tell"
    return None


def is_linear(n: int | SymExpr, name: str) -> bool:
    """Whether a dim is ``a * name + b``, which tells ``name``."""
    if isinstance(n, int) or n.symbols != (name,):
        return False
    rest = n.substitute({name: 0})
    factor = n.substitute({name: 1}) - rest
    return rest.is_const and factor.is_const and int(factor) > 0 and factor * symbol(name) + rest == n


@condition("sizes that code can be made for")
def sizes_fit(match: Match) -> str | None:
    """What an operator asks of dims that are known at run time only."""
    if not is_dynamic(match):
        return None
    name = operator_of(match.op)
    check = _CHECKS.get(name)
    return None if check is None else check(match)


def _dims(match: Match, argument: str) -> tuple[int, ...]:
    return dims(match.arg(argument))


def _result(match: Match) -> tuple[int, ...]:
    return dims(match.op.results[0])


def _elementwise(match: Match) -> str | None:
    """Each dim of an operand is that of the result, or 1."""
    result = _result(match)
    for value in match.op.operands:
        if isinstance(value.type, TensorType) and (reason := _broadcasts(dims(value), result)) is not None:
            return reason
    return None


def _broadcasts(given: Sequence[int], result: Sequence[int]) -> str | None:
    for n, wanted in zip(reversed(given), reversed(result), strict=False):
        if n not in (1, wanted):
            return f"the dim '{expr_of(n)}' of an operand, where the result has '{expr_of(wanted)}'"
    return None


def _product(match: Match) -> str | None:
    depths = {"linear": ("input", "weight", -1), "addmm": ("mat1", "mat2", 0), "mm": ("self", "mat2", 0)}
    left, right, dim = depths.get(operator_of(match.op).split(".")[1], ("self", "mat2", -2))
    a, b = _dims(match, left), _dims(match, right)
    if a[-1] != b[dim]:
        return f"the depths '{expr_of(a[-1])}' and '{expr_of(b[dim])}'"
    if len(a) == 3 and len(b) == 3 and a[0] != b[0]:
        return f"the batches '{expr_of(a[0])}' and '{expr_of(b[0])}'"
    bias = {"linear": "bias", "addmm": "self"}.get(operator_of(match.op).split(".")[1])
    value = match.arg(bias) if bias is not None else None
    return None if value is None else _broadcasts(dims(value), _result(match))


def _view(match: Match) -> str | None:
    given, result = math.prod(_dims(match, "self")), math.prod(_result(match))
    return None if given == result else f"'{expr_of(given)}' elements under dims of '{expr_of(result)}'"


def _expand(match: Match) -> str | None:
    return _broadcasts(_dims(match, "self"), _result(match))


def _slice(match: Match) -> str | None:
    given = _dims(match, "self")
    dim = match.arg("dim") % len(given)
    start, step = match.arg("start") or 0, match.arg("step")
    if isinstance(start, SSAValue) or isinstance(step, SSAValue):
        return "a slice that starts at a runtime scalar"
    n, count = given[dim], _result(match)[dim]
    first = n + start if start < 0 else start
    inside = at_least(first, 0) and at_least(n, first + (count - 1) * step + 1)
    return None if inside else f"a slice of '{expr_of(n)}' that may end before it starts"


def _select(match: Match) -> str | None:
    given = _dims(match, "self")
    n, index = given[match.arg("dim") % len(given)], match.arg("index")
    inside = at_least(n, -index if index < 0 else index + 1)
    return None if inside else f"the index {index} of '{expr_of(n)}' elements"


def _normalized(match: Match) -> str | None:
    count = len(match.arg("normalized_shape"))
    return None if is_known(_dims(match, "input")[-count:]) else "a norm along dims that are known at run time"


def _reduction(match: Match) -> str | None:
    op = cast(SchemaOp, match.op)
    if operator_of(op) in FOLDS and may_be_none(op):
        return "the largest or smallest number of dims that may be empty"
    if "correction" not in op.SCHEMA.index or op.arg("correction") == 0 or is_known([reduced_count(op)]):
        return None
    return "a variance of a number of elements that is known at run time only"


def _join(match: Match) -> str | None:
    result = _result(match)
    dim = match.arg("dim") % len(result)
    stacked = operator_of(match.op) == "aten.stack.default"
    total = 0
    for value in match.arg("tensors"):
        given = dims(value)
        if len(given) != len(result) - stacked:
            return "parts of other ranks"
        rest = [n for d, n in enumerate(result) if d != dim]
        if (given if stacked else tuple(n for d, n in enumerate(given) if d != dim)) != tuple(rest):
            return "parts whose other dims may differ"
        total += 1 if stacked else given[dim]
    return None if total == result[dim] else f"parts of '{expr_of(total)}' in '{expr_of(result[dim])}'"


def _pad(match: Match) -> str | None:
    if any(isinstance(n, SSAValue) for n in match.arg("pad")):
        return "a pad that is a runtime scalar"
    return None


def _split(match: Match) -> str | None:
    given = _dims(match, "self")
    dim = match.arg("dim") % len(given)
    counts = [dims(result)[dim] for result in match.op.results]
    return None if sum(counts) == given[dim] else f"parts of '{expr_of(given[dim])}' that may not be all of it"


def _glu(match: Match) -> str | None:
    given = _dims(match, "self")
    dim = match.arg("dim") % len(given)
    return None if 2 * _result(match)[dim] == given[dim] else f"halves of '{expr_of(given[dim])}'"


def _image(match: Match, argument: str) -> tuple[int, ...]:
    """The height and width of an image, or the length of a signal."""
    return _dims(match, argument)[2:]


def _convolution(match: Match) -> str | None:
    given = _dims(match, "input")
    if not is_known((given[1], *_result(match)[1:2])):
        return "channels that are known at run time only"
    if match.arg("transposed") and not is_known(given[2:]):
        return "a transposed convolution of an image whose height or width is known at run time only"
    return None


def _pool(match: Match) -> str | None:
    if is_known(_image(match, "self")):
        return None
    if "adaptive" in operator_of(match.op):
        whole = is_known(_result(match)[2:]) and set(_result(match)[2:]) == {1}
        return None if whole else "windows of an image whose height or width is known at run time only"
    return "windows that are cut, of an image of any height or width" if match.arg("ceil_mode") else None


def _scatter(match: Match) -> str | None:
    start, step = match.arg("start"), match.arg("step")
    if isinstance(start, SSAValue) or isinstance(step, SSAValue):
        return "a slice that starts at a runtime scalar"
    dim = match.arg("dim")
    known = is_known((_dims(match, "self")[dim], _dims(match, "src")[dim]))
    return None if known else "a slice of a dim that is known at run time only"


def _roll(match: Match) -> str | None:
    given = _dims(match, "self")
    turned = [given[dim] for dim in match.arg("dims")] or [math.prod(given)]
    return None if is_known(turned) else "a roll along dims that are known at run time only"


def _upsample(match: Match) -> str | None:
    given, result = dims(match.op.operands[0]), _result(match)
    factors = [b // a for a, b in zip(given[2:], result[2:], strict=True)]
    exact = all(a * f == b for a, b, f in zip(given[2:], result[2:], factors, strict=True))
    return None if is_known(factors) and exact else "an image that does not become a whole number of times as large"


def _group_norm(match: Match) -> str | None:
    return None if is_known(_dims(match, "input")[1:2]) else "channels that are known at run time only"


_CHECKS = {
    **dict.fromkeys(
        ["aten.linear.default", "aten.mm.default", "aten.bmm.default", "aten.addmm.default"],
        _product,
    ),
    **dict.fromkeys(
        ["aten.view_copy.default", "aten.unsqueeze_copy.default", "aten.squeeze_copy.dims", "aten.squeeze_copy.dim"],
        _view,
    ),
    **dict.fromkeys([*FOLDS, VAR_MEAN], _reduction),
    **dict.fromkeys(["aten.cat.default", "aten.stack.default"], _join),
    "aten.expand_copy.default": _expand,
    "aten.slice_copy.Tensor": _slice,
    "aten.select_copy.int": _select,
    "aten.native_layer_norm.default": _normalized,
    "aten.constant_pad_nd.default": _pad,
    "aten.roll.default": _roll,
    "aten.slice_scatter.default": _scatter,
    "aten.split_with_sizes_copy.default": _split,
    "aten.glu.default": _glu,
    "aten.convolution.default": _convolution,
    **dict.fromkeys(
        [
            "aten.max_pool2d_with_indices.default",
            *MEANS,
            "aten._adaptive_avg_pool2d.default",
            "aten.adaptive_avg_pool2d.default",
            "aten.adaptive_avg_pool1d.default",
            "aten.adaptive_max_pool2d.default",
        ],
        _pool,
    ),
    **dict.fromkeys(
        [
            "aten.native_group_norm.default",
            "aten._native_batch_norm_legit.no_stats",
            "aten._native_batch_norm_legit_no_training.default",
        ],
        _group_norm,
    ),
    **dict.fromkeys(["aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default"], _upsample),
}


def elementwise_fits() -> Condition:
    """Conditions of elementwise operators."""
    return Condition("operands of the result's dims", lambda match: _elementwise(match) if is_dynamic(match) else None)
