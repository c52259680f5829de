"""Operators that reduce dims, sort along one, or scan it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import i1, i64, ui8
from etir.dialects.et.layout import Dim
from etir.lowering.build.dims import wrap, wrap_all
from etir.lowering.build.inference import Call, contiguous, rule, size_as_dim
from etir.lowering.build.promotion import BOOL, INTEGER, category_of, real_of, to_floating

Tensor = TensorType[Attribute]


def reduced_dims(dims: Sequence[Dim], dim: int | Sequence[int] | None, keepdim: bool) -> list[Dim]:
    """The dims that are left; None or an empty list reduces all."""
    given = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    reduced = wrap_all(given, len(dims)) or range(len(dims))
    return [1 if i in reduced else d for i, d in enumerate(dims) if keepdim or i not in reduced]


def _argument(call: Call, name: str) -> object:
    return call[name] if name in call.schema.index else None


def _reduced(call: Call, element: Attribute) -> Tensor:
    dim = _argument(call, "dim")
    assert dim is None or isinstance(dim, (int, tuple, list))
    if isinstance(dim, (tuple, list)) and not dim and call.schema.op_name in ("aten.any.dims", "aten.all.dims"):
        return contiguous(element, call.dims())
    return contiguous(element, reduced_dims(call.dims(), dim, bool(_argument(call, "keepdim"))))


def _total_type(element: Attribute) -> Attribute:
    return i64 if category_of(element) in (BOOL, INTEGER) else element


@rule("aten.sum.default", "aten.sum.dim_IntList", "aten.prod.default", "aten.prod.dim_int", "aten.nansum.default")
def total(call: Call) -> Tensor:
    """Integers are summed as i64."""
    return _reduced(call, _argument(call, "dtype") or _total_type(call.element()))  # type: ignore[arg-type]


@rule("aten.mean.default", "aten.mean.dim", "aten.logsumexp.default")
def average(call: Call) -> Tensor:
    """The input's floating type, or the one asked for."""
    return _reduced(call, _argument(call, "dtype") or to_floating(call.element()))  # type: ignore[arg-type]


@rule("aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default")
def extremum(call: Call) -> Tensor:
    """The input's element type."""
    return _reduced(call, call.element())


@rule("aten.linalg_vector_norm.default")
def vector_norm(call: Call) -> Tensor:
    """A real floating type."""
    return _reduced(call, call["dtype"] or real_of(call.element()))


@rule("aten.var.default", "aten.var.dim", "aten.var.correction", "aten.std.correction")
def variance(call: Call) -> Tensor:
    """A real floating type."""
    return _reduced(call, real_of(call.element()))


@rule("aten.var_mean.correction")
def variance_and_mean(call: Call) -> list[Attribute]:
    """A real variance, and a mean of the input's type."""
    return [_reduced(call, real_of(call.element())), _reduced(call, call.element())]


@rule(*(f"aten.{name}.{overload}" for name in ("any", "all") for overload in ("default", "dim", "dims")))
def quantifier(call: Call) -> Tensor:
    """Bool, but ui8 for ui8."""
    return _reduced(call, ui8 if call.element() == ui8 else i1)


@rule("aten.argmax.default", "aten.argmin.default")
def index_of_extremum(call: Call) -> Tensor:
    """Indices."""
    return _reduced(call, i64)


@rule("aten.max.dim", "aten.min.dim")
def extremum_with_index(call: Call) -> list[Attribute]:
    """Values and indices."""
    return [_reduced(call, call.element()), _reduced(call, i64)]


@rule("aten.sort.default", "aten.sort.stable")
def sort(call: Call) -> list[Attribute]:
    """Values and indices."""
    return [contiguous(call.element(), call.dims()), contiguous(i64, call.dims())]


@rule("aten.topk.default")
def topk(call: Call) -> list[Attribute]:
    """Values and indices, ``k`` along one dim."""
    dims = list(call.dims())
    if dims:
        dims[wrap(call["dim"], len(dims))] = size_as_dim(call["k"])
    return [contiguous(call.element(), dims), contiguous(i64, dims)]


@rule("aten.cumsum.default", "aten.cumprod.default")
def running_total(call: Call) -> Tensor:
    """Integers are summed as i64."""
    return contiguous(call["dtype"] or _total_type(call.element()), call.dims())
