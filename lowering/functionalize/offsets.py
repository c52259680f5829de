"""Where a view starts in memory, in elements from the start of the tensor that the storage came into being with.

Views say it by their arguments and the strides of what they look at; a view of another element type counts in its own
elements. The answer is None where an argument is data.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import SSAValue

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.sym.expr import as_expr, sym_max, sym_min
from etir.lowering.build.dims import as_int_if_const, wrap
from etir.lowering.build.sizes import dim_of
from etir.lowering.functionalize.aliases import Alias
from etir.lowering.functionalize.emitter import Tensor, tensor_of
from etir.lowering.functionalize.strides import Layouts

_SPLITS = frozenset(
    {
        "split",
        "split_with_sizes",
        "chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "unsafe_chunk",
        "tensor_split",
        "hsplit",
        "vsplit",
        "dsplit",
    }
)


def offset_of(alias: Alias, layouts: Layouts, start: Dim = 0) -> Dim | None:
    """The position of the first element of ``alias``, if that of its storage's first tensor is ``start``.

    ``start`` counts in elements of that tensor, the result in elements of ``alias``. None where it is not known.
    """
    chain: list[Alias] = []
    one = alias
    while one.view is not None:
        chain.append(one)
        one = one.view.parent
    offset: Dim | None = start
    for each in reversed(chain):
        assert each.view is not None and offset is not None
        offset = scaled(offset, each.view.parent.type, each.type)
        step = _step(each, layouts)
        if offset is None or step is None:
            return None
        offset = as_int_if_const(offset + step)
    return offset


def scaled(offset: Dim, source: Tensor, target: Tensor) -> Dim | None:
    """A number of elements of ``source`` in elements of ``target``; None when that is not a whole number."""
    sizes = [dtype_of(type.element_type).itemsize for type in (source, target)]
    if sizes[0] == sizes[1]:
        return offset
    if sizes[0] % sizes[1] == 0:
        return as_int_if_const(offset * (sizes[0] // sizes[1]))
    ratio = sizes[1] // sizes[0]
    if isinstance(offset, int):
        return offset // ratio if offset % ratio == 0 else None
    return as_int_if_const(offset // ratio) if offset % ratio == 0 else None


def _step(alias: Alias, layouts: Layouts) -> Dim | None:
    """How far ``alias`` starts after what it looks at, in its own elements."""
    view = alias.view
    assert view is not None
    if view.same:
        return 0
    op, dims = view.op, dims_of(view.parent.type)
    name, rank = op.SCHEMA.name, len(dims)
    if name == "imag":
        return 1 if isinstance(view.parent.type.element_type, ComplexType) else None
    if name == "as_strided":
        # It was resolved: what it looks at are the elements in the order of memory.
        return _number(op.arg("storage_offset") or 0)
    if name not in _MOVES:
        return 0
    strides = layouts.strides(view.parent)
    if strides is None:
        return None
    if name in ("diagonal", "linalg_diagonal"):
        offset = op.arg("offset")
        return (
            offset * strides[wrap(op.arg("dim2"), rank)]
            if offset > 0
            else -offset * strides[wrap(op.arg("dim1"), rank)]
        )
    if name in ("hsplit", "vsplit", "dsplit"):
        position = {"hsplit": 0 if rank == 1 else 1, "vsplit": 0, "dsplit": 2}[name]
    else:
        position = wrap(op.arg("dim"), rank)
    if name in _SPLITS:
        before: Dim = 0
        for piece in op.results[: alias.index]:
            before = before + dims_of(tensor_of(piece))[position]
        return before * strides[position]
    if name == "unbind":
        return alias.index * strides[position]
    start = _number(0 if (given := op.arg("index" if name == "select" else "start")) is None else given)
    if start is None:
        return None
    size = dims[position]
    if isinstance(start, int) and start < 0:
        start = size + start
    if name == "slice":
        start = as_int_if_const(sym_max(sym_min(as_expr(start), size), 0))
    return start * strides[position]


_MOVES = _SPLITS | {"slice", "narrow", "select", "unbind", "diagonal", "linalg_diagonal"}
"""Views that need not start where their tensor starts."""


def _number(value: object) -> Dim | None:
    return dim_of(value) if isinstance(value, SSAValue) else value  # type: ignore[return-value]
