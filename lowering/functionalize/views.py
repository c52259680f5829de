"""View operators: which results alias which argument, and how a changed view is put back into what it looks at.

Putting back is the inverse that functionalization needs for each view: ``slice_scatter`` for ``slice``, the opposite
permutation for ``permute``, a view back for ``view``. A view with overlapping elements has none (``unfold`` with a step
smaller than its size): error E0413; of ``expand`` a part that has no element twice may change, and any part may be
filled with one value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import dtype_of, i1, i64
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.schema import OpSchema, SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import is_tensor
from etir.lowering.build.dims import product, wrap
from etir.lowering.build.sizes import dim_of
from etir.lowering.functionalize.aliases import Alias
from etir.lowering.functionalize.conjugates import conjugate_bits
from etir.lowering.functionalize.emitter import SymInt, Tensor, tensor_of, with_element
from etir.lowering.functionalize.expand_scatter import of_written_copies
from etir.lowering.functionalize.permutations import permutation, squeezed
from etir.lowering.functionalize.strides import (
    Layouts,
    Strides,
    dim_order,
    is_view_possible,
    memory_format_strides,
    same_layout,
)
from etir.lowering.functionalize.view_chain import Step

# --- which operators give views -------------------------------------------------------------------------------------

_RETURNS_INPUT = {
    "aten.dropout.default": "train",
    "aten.feature_dropout.default": "train",
    "aten.alpha_dropout.default": "train",
    "aten.feature_alpha_dropout.default": "train",
}
"""Operators whose schema says nothing of aliases and that return their input itself unless the named flag is set."""

_HIDDEN_VIEWS = frozenset(
    {
        *(f"aten.atleast_{n}d.default" for n in (1, 2, 3)),
        "aten.unsafe_split.Tensor",
        "aten.unsafe_split_with_sizes.default",
        "aten.unsafe_chunk.default",
        "aten._unsafe_view.default",
    }
)
"""Operators whose schema says nothing of aliases and whose result is always a view."""


def _same_elements(op: SchemaOp, source: Tensor) -> bool:
    return tensor_of(op.results[0]).element_type == source.element_type


def _is_product_of_one(op: SchemaOp, source: Tensor) -> bool:
    dims = dims_of(source)
    return product(dims) == 1 or dims[wrap(op.arg("dim"), len(dims))] == 1


_CASTS = ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")

_HIDDEN_SAME: dict[str, Callable[[SchemaOp, Tensor], bool]] = {
    "aten.sum_to_size.default": lambda op, source: dims_of(tensor_of(op.results[0])) == dims_of(source),
    "aten.conj_physical.default": lambda op, source: not isinstance(source.element_type, ComplexType),
    "aten.cumprod_backward.default": _is_product_of_one,
    **dict.fromkeys(
        (
            "aten.type_as.default",
            "aten.to_dense.default",
            "aten.dequantize.self",
            *(f"aten._cast_{name}.default" for name in _CASTS),
        ),
        _same_elements,
    ),
    **dict.fromkeys(
        (
            "aten.data.default",
            "aten.lift.default",
            "aten.to_dense_backward.default",
            "aten.to_mkldnn_backward.default",
        ),
        lambda op, source: True,
    ),
}
"""Operators whose schema says nothing of aliases, and when they return their input itself."""

_RESHAPES = frozenset({"reshape", "flatten", "ravel", "reshape_as"})
_NEW_MEMORY = frozenset({"pin_memory", "coalesce"})
_ONLY_COMPLEX = frozenset({"_conj", "conj", "real", "resolve_conj", "resolve_neg"})
_RESOLVES = ("resolve_conj", "resolve_neg")
_AUTOCASTS = ("_autocast_to_full_precision", "_autocast_to_reduced_precision")
_SOMETIMES_NEW = frozenset({"to", *_RESOLVES, *_AUTOCASTS})
_SAME = frozenset(
    {
        "alias",
        "detach",
        "lift_fresh",
        "contiguous",
        "to",
        "positive",
        "resolve_conj",
        "resolve_neg",
        "_fw_primal",
        *_AUTOCASTS,
    }
)
"""Views with every element of their operand in its place."""


@lru_cache(maxsize=4096)
def viewed_argument(schema: OpSchema) -> str | None:
    """The argument that the results of a functional schema may alias."""
    if schema.kind is not SchemaKind.FUNCTIONAL or schema.name in _NEW_MEMORY:
        return None
    if schema.op_name in _RETURNS_INPUT or schema.op_name in _HIDDEN_VIEWS or schema.op_name in _HIDDEN_SAME:
        return schema.arguments[0].name
    aliased = [r.alias for r in schema.returns if r.alias is not None]
    if not aliased:
        return None
    return next(
        (a.name for a in schema.arguments if a.alias is not None and a.kind.value == "Tensor"),
        None,
    )


def may_copy(schema: OpSchema) -> bool:
    """Whether results that may alias an argument may be new tensors, too, laid out as eager PyTorch chooses."""
    return schema.name in _SOMETIMES_NEW or schema.op_name in _RETURNS_INPUT or schema.op_name in _HIDDEN_SAME


def is_same_tensor(op: SchemaOp, source: Tensor) -> bool:
    """Whether a view is its operand under another name."""
    name = op.SCHEMA.name
    is_real = not isinstance(source.element_type, ComplexType)
    is_hidden = op.name in _RETURNS_INPUT or op.name in _HIDDEN_SAME
    return name in _SAME or is_hidden or (name in _ONLY_COMPLEX and is_real)


def gives_view(op: SchemaOp, alias: Alias, layouts: Layouts) -> bool | None:
    """Whether the result of ``op`` shares the storage of its operand ``alias``; None when strides leave it open."""
    name = op.SCHEMA.name
    flag = _RETURNS_INPUT.get(op.name)
    if flag is not None:
        return not op.arg(flag) or op.arg("p") == 0
    if op.name in _HIDDEN_SAME:
        return _HIDDEN_SAME[op.name](op, alias.type)
    if name == "to":
        return _is_conversion_free(op, alias, layouts)
    if name in _RESOLVES:
        return not conjugate_bits(alias)[_RESOLVES.index(name)]
    if name in _AUTOCASTS:
        return _same_elements(op, alias.type)
    dims = dims_of(alias.type)
    if name == "contiguous":
        wanted = memory_format_strides(op.arg("memory_format"), dims)
        known = layouts.strides(alias)
        return None if known is None or wanted is None else same_layout(dims, known, wanted)
    if name in _RESHAPES:
        result = dims_of(tensor_of(op.results[0]))
        if result == dims:
            return True
        known = layouts.strides(alias)
        return None if known is None else is_view_possible(dims, known, result) is not None
    return True


def _is_conversion_free(op: SchemaOp, alias: Alias, layouts: Layouts) -> bool | None:
    result = tensor_of(op.results[0])
    if op.arg("copy") or result.element_type != alias.type.element_type:
        return False
    dims = dims_of(alias.type)
    wanted = memory_format_strides(op.arg("memory_format"), dims)
    if wanted is None:
        return True
    known = layouts.strides(alias)
    return None if known is None else same_layout(dims, known, wanted)


def keeps_elements(functional: OpSchema, op: SchemaOp, source: Tensor) -> bool | None:
    """Whether in-place ``op`` leaves its tensor as it is; None when its variant ``functional`` is a real view."""
    flag = _RETURNS_INPUT.get(functional.op_name)
    if flag is not None:
        return not op.arg(flag) or op.arg("p") == 0
    if functional.op_name in _HIDDEN_SAME:
        return not isinstance(source.element_type, ComplexType)
    is_squeeze = functional.name == "squeeze"
    return True if is_squeeze and tensor_of(op.results[0]).get_num_dims() == source.get_num_dims() else None


def operand_index(op: SchemaOp, name: str) -> int:
    """The index of the operand that a tensor argument is."""
    return sum(op.segments[: op.SCHEMA.index[name]])


# --- putting a changed view back ------------------------------------------------------------------------------------


def put_back(step: Step) -> SSAValue:
    """What the parent holds after the view of ``step`` was changed. Raises error E0413."""
    op = step.op
    if step.view.same:
        return step.emit.ordered(step.new, step.type)
    order = permutation(op, len(step.dims))
    if order is not None:
        return _unpermute(step, order)
    removed = squeezed(op, step.dims)
    if removed is not None:
        return _unsqueeze_all(step, removed)
    function = _INVERSES.get(op.SCHEMA.name)
    if function is None:
        raise step.unsupported("it is not known how to put the change back")
    return function(step)


def _unpermute(step: Step, order: list[int]) -> SSAValue:
    if order == list(range(len(order))):
        return step.emit.ordered(step.new, step.type)
    value = step.make(
        aten.permute.default,
        self=step.new,
        dims=[order.index(d) for d in range(len(order))],
    )
    if step.op.SCHEMA.name in ("mH", "adjoint", "matrix_H") and isinstance(step.type.element_type, ComplexType):
        value = step.make(aten._conj.default, self=value)
    return value


def _unsqueeze_all(step: Step, removed: list[int]) -> SSAValue:
    value, dims = step.new, list(dims_of(tensor_of(step.new)))
    for position in removed:
        dims.insert(position, 1)
        type = tensor_type(step.type.element_type, dims)
        value = step.emit(aten.unsqueeze.default, type, {"self": value, "dim": position})
    return step.emit.ordered(value, step.type)


def _slice(step: Step) -> SSAValue:
    op = step.op
    return step.slice_scatter(op.arg("dim"), op.arg("start"), op.arg("end"), op.arg("step"))


def _narrow(step: Step) -> SSAValue:
    op = step.op
    start, length = op.arg("start"), op.arg("length")
    if is_tensor(start):
        start = step.emit(aten._local_scalar_dense.default, i64, {"self": start})
    dim = wrap(op.arg("dim"), len(step.dims))
    if isinstance(start, int) and start < 0:
        start = step.emit.add(start, step.emit.size(step.base(), dim))
    return step.slice_scatter(dim, start, step.emit.add(start, length))


def _select(step: Step) -> SSAValue:
    op = step.op
    return step.make(
        aten.select_scatter.default,
        self=step.base(),
        src=step.new,
        dim=op.arg("dim"),
        index=op.arg("index"),
    )


def _unbind(step: Step) -> SSAValue:
    dim = step.op.arg("dim")
    return step.make(
        aten.select_scatter.default,
        self=step.base(),
        src=step.new,
        dim=dim,
        index=step.alias.index,
    )


_SPLIT_DIMS = {
    "hsplit": lambda rank: 0 if rank == 1 else 1,
    "vsplit": lambda _: 0,
    "dsplit": lambda _: 2,
}


def _split(step: Step) -> SSAValue:
    op = step.op
    fixed = _SPLIT_DIMS.get(op.SCHEMA.name)
    dim = wrap(op.arg("dim"), len(step.dims)) if fixed is None else fixed(len(step.dims))
    start: SymInt = 0
    for piece in op.results[: step.alias.index]:
        start = step.emit.add(start, step.emit.size(piece, dim))
    end = step.emit.add(start, step.emit.size(op.results[step.alias.index], dim))
    return step.slice_scatter(dim, start, end)


def _view(step: Step) -> SSAValue:
    if isinstance(step.op, aten.view.dtype):
        return step.make(aten.view.dtype, self=step.new, dtype=step.type.element_type)
    return step.reshape()


def _unsqueeze(step: Step) -> SSAValue:
    position = wrap(step.op.arg("dim"), len(step.dims) + 1)
    return step.make(aten.squeeze.dim, self=step.new, dim=position)


def _expand(step: Step) -> SSAValue:
    if not repeats(step.alias):
        return step.reshape()
    dims = dims_of(step.alias.type)
    new = len(dims) - len(step.dims)
    written = step.written[0]
    strides, sizes = step.layouts.strides(written), dims_of(written.type)
    twice = strides is None or any(stride == 0 and size != 1 for size, stride in zip(sizes, strides, strict=True))
    if twice and not step.fills:
        raise step.unsupported("several of its elements are one element of the expanded tensor")
    expanded = [*range(new), *(i + new for i, d in enumerate(step.dims) if d != dims[i + new])]
    marks = _written_elements(step) if step.element is None else step.new
    return of_written_copies(step, marks, expanded)


def _written_elements(step: Step) -> SSAValue:
    """Which elements of the view that ``step`` puts back are written: a bool each.

    All of the written view are, and the views between the two put that back just as they do the values.
    """
    emit = step.emit
    one, value = step.written
    marks = emit.full(True, with_element(one.type, i1), lambda: value)
    while one is not step.alias:
        assert one.view is not None
        view = one.view
        sizes = [dtype_of(type.element_type).itemsize for type in (one.type, view.parent.type)]
        name = view.op.SCHEMA.name
        if name in ("view_as_real", "view_as_complex") or (
            isinstance(view.op, aten.view.dtype) and sizes[0] != sizes[1]
        ):
            raise step.unsupported(f"it sees parts of elements of an expanded tensor, through '{view.op.name}'")
        if name not in _ELEMENTS_IN_PLACE and not isinstance(view.op, aten.view.dtype):
            marks = put_back(Step(emit, one, view, _unmarked(step), marks, step.layouts, step.written, i1))
        one = view.parent
    return marks


def _unmarked(step: Step) -> Callable[[Alias], SSAValue]:
    def nothing(parent: Alias) -> SSAValue:
        return step.emit.full(False, with_element(parent.type, i1), lambda: step.current(parent))

    return nothing


_ELEMENTS_IN_PLACE = frozenset({"real", "imag", "_conj", "conj", "_neg_view"})
"""Views that compute something of every element, in its place."""


def repeats(alias: Alias) -> bool:
    """Whether a view has elements of its parent more than once."""
    if alias.view is None or _INVERSES.get(alias.view.op.SCHEMA.name) is not _expand:
        return False
    dims, parent = dims_of(alias.type), dims_of(alias.view.parent.type)
    return dims[len(dims) - len(parent) :] != parent or any(d != 1 for d in dims[: len(dims) - len(parent)])


def _diagonal(step: Step) -> SSAValue:
    op = step.op
    first, second = op.arg("dim1"), op.arg("dim2")
    return step.make(
        aten.diagonal_scatter.default,
        self=step.base(), src=step.new, offset=op.arg("offset"), dim1=first, dim2=second,
    )  # fmt: skip


def _as_strided(step: Step) -> SSAValue:
    """Into the elements in the order of memory, which ``storage_reads.py`` made the parent of every ``as_strided``."""
    op = step.op
    size, stride = op.arg("size"), op.arg("stride")
    if not all(isinstance(n, int) for n in (*size, *stride)):
        numbers = [dim_of(n) if isinstance(n, SSAValue) else n for n in stride]
        known = tuple(n for n in numbers if n is not None)
        if len(known) < len(numbers) or not _are_apart(dims_of(step.alias.type), known):
            raise step.unsupported("several of its elements may be one element in memory")
    elif _overlaps(size, stride) and not (step.fills and step.written[0] is step.alias):
        raise step.unsupported("several of its elements are one element in memory")
    source, size, stride = step.new, list(size), list(stride)
    for dim, (count, distance) in enumerate(zip(size, stride, strict=True)):
        if distance == 0 and count > 1:
            # One number is written: the first of the elements that are one is enough.
            size[dim], stride[dim] = 1, 1
            type = tensor_type(step.type.element_type, size)
            source = step.emit(aten.slice.Tensor, type, {"self": source, "dim": dim, "start": 0, "end": 1})
    return step.make(
        aten.as_strided_scatter.default,
        self=step.base(), src=source, size=size, stride=stride, storage_offset=op.arg("storage_offset"),
    )  # fmt: skip


def _are_apart(dims: Strides, strides: Strides) -> bool:
    """Whether no two elements are one in memory, whatever the sizes are: one line of them, or all of them dense."""
    line = [stride for size, stride in zip(dims, strides, strict=True) if size != 1]
    return 0 not in line and (len(line) <= 1 or dim_order(dims, strides) is not None)


_MAX_COUNTED = 1_000_000
"""How many elements are looked at one by one, where strides alone do not say whether two are one."""


def _overlaps(size: Strides, stride: Strides) -> bool:
    """Whether two indices meet: not when each stride steps over all that the smaller ones reach, else by counting."""
    reach, nested, count = 0, True, 1
    counts = sorted((int(s), int(n)) for s, n in zip(stride, size, strict=True) if n != 1)
    if any(n == 0 for _, n in counts):
        return False
    for step, n in counts:
        nested = nested and step > reach
        reach += step * (n - 1)
        count *= n
    if nested:
        return False
    if count > min(reach + 1, _MAX_COUNTED):
        return True
    places = {0}
    for step, n in counts:
        places = {place + step * i for place in places for i in range(n)}
    return len(places) != count


def _unfold(step: Step) -> SSAValue:
    op = step.op
    dim, size, stride = (
        wrap(op.arg("dimension"), len(step.dims)),
        op.arg("size"),
        op.arg("step"),
    )
    windows = dims_of(step.alias.type)[dim] if step.dims else 1
    if stride < size and windows != 1 and not (step.fills and step.written[0] is step.alias):
        raise step.unsupported("its windows overlap")
    if not isinstance(windows, int):
        raise step.unsupported("the number of its windows is dynamic")
    value, last = step.base(), len(step.dims)
    column_type = tensor_type(step.type.element_type, dims_of(step.alias.type)[:-1])
    for offset in range(size):
        column = step.emit(
            aten.select.int,
            column_type,
            {"self": step.new, "dim": last, "index": offset},
        )
        end = offset + (windows - 1) * stride + 1
        value = step.make(
            aten.slice_scatter.default,
            self=value,
            src=column,
            dim=dim,
            start=offset,
            end=end,
            step=stride,
        )
    return value


def _real(step: Step) -> SSAValue:
    imaginary = step.emit(aten.imag.default, tensor_of(step.new), {"self": step.base()})
    return step.make(aten.complex.default, real=step.new, imag=imaginary)


def _imag(step: Step) -> SSAValue:
    real = step.emit(aten.real.default, tensor_of(step.new), {"self": step.base()})
    return step.make(aten.complex.default, real=real, imag=step.new)


_INVERSES: dict[str, Callable[[Step], SSAValue]] = {
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    "unbind": _unbind,
    **dict.fromkeys(
        (
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
        ),
        _split,
    ),
    "view": _view,
    **dict.fromkeys(
        (
            "view_as",
            "_unsafe_view",
            "reshape",
            "reshape_as",
            "flatten",
            "unflatten",
            "ravel",
            "_reshape_alias",
            "atleast_1d",
            "atleast_2d",
            "atleast_3d",
        ),
        _view,
    ),
    "unsqueeze": _unsqueeze,
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    "diagonal": _diagonal,
    "linalg_diagonal": _diagonal,
    "as_strided": _as_strided,
    "unfold": _unfold,
    "real": _real,
    "imag": _imag,
    "view_as_real": lambda step: step.make(aten.view_as_complex.default, self=step.new),
    "view_as_complex": lambda step: step.make(aten.view_as_real.default, self=step.new),
    "_conj": lambda step: step.make(aten._conj.default, self=step.new),
    "conj": lambda step: step.make(aten._conj.default, self=step.new),
    "_neg_view": lambda step: step.make(aten.neg.default, self=step.new),
}
"""How each view is put back, by the operator's name."""
