"""Strides of tensors before mutation is gone: whether ``reshape``, ``contiguous`` and ``to`` gave a view or a copy.

Only eager PyTorch's strides decide that, and types do not have them. They follow from the program: inputs and weights
are laid out as their types say, views rearrange strides, pointwise operators keep those of their operands, most others
give contiguous results. Where that does not follow from the program an importer records what eager PyTorch gives, as
the attribute ``dim_orders``. If nothing is known the answer is None, and it is an error only if the difference shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, TensorType, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, OpResult, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.recorded_layout import (
    DIM_ORDERS,
    INPUT_OFFSET,
    INPUT_ORDER,
    recorded_offset,
    recorded_order,
)
from etir.dialects.aten.table import load_table
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, yielded
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import Dim, dims_of, order_of
from etir.dialects.et.program import ConstantOp, GetWeightOp, ReadStateOp
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.dims import as_int_if_const, product, wrap
from etir.lowering.build.sizes import dim_of
from etir.lowering.functionalize.aliases import Alias, AliasSets
from etir.lowering.functionalize.emitter import Tensor, tensor_of
from etir.lowering.functionalize.permutations import permutation, squeezed

Strides: TypeAlias = tuple[Dim, ...]

_ODD_LAYOUTS = (
    "aten.scaled_dot_product", "aten._scaled_dot_product", "aten.linalg_", "aten._linalg", "aten.fft_", "aten._fft",
    "aten.stft", "aten.istft", "aten.einsum", "aten.tensordot", "aten.lstm", "aten.gru", "aten.rnn", "aten.cholesky",
    "aten.triangular_solve", "aten.qr", "aten.svd", "aten.index.", "aten.channel_shuffle", "aten.empty_strided",
    "aten.empty_permuted", "aten.new_empty_strided", "aten.lu_", "aten.geqrf", "aten.ormqr", "aten.multi_head",
)  # fmt: skip
"""Operators whose results need not be contiguous for contiguous operands, by the beginning of their names."""

_FACTORIES_LIKE = frozenset(
    {"clone", "_to_copy", "to", "contiguous", "dropout", "native_dropout"}
    | {f"{name}_like" for name in ("empty", "zeros", "ones", "full", "rand", "randn", "randint")}
)
"""Operators that keep the layout of their tensor unless a memory format is given."""

_COPYING_RESHAPES = frozenset({"reshape", "flatten", "ravel", "reshape_as"})
"""Operators that copy where they cannot give a view, into a contiguous tensor."""

_UNKNOWN = object()


def has_odd_layout(name: str) -> bool:
    """Whether results of operator ``name`` need not be contiguous where its operands are."""
    return name.startswith(_ODD_LAYOUTS)


def contiguous_strides(dims: Sequence[Dim], order: Sequence[int] | None = None) -> Strides:
    """The strides of a dense tensor with its dims in ``order``, outermost first; in torch an empty dim counts as 1."""
    strides: list[Dim] = [1] * len(dims)
    step: Dim = 1
    for position in reversed(range(len(dims)) if order is None else list(order)):
        strides[position] = step
        step = step * (1 if dims[position] == 0 else dims[position])
    return tuple(strides)


def same_layout(dims: Sequence[Dim], a: Strides, b: Strides) -> bool:
    """Whether two strides place the elements alike: those of dims of size 1 do not count."""
    return all(x == y for size, x, y in zip(dims, a, b, strict=True) if size != 1)


def dim_order(dims: Sequence[Dim], strides: Strides) -> tuple[int, ...] | None:
    """The dims from the outermost to the innermost one; None when the elements leave gaps in memory or overlap."""
    if 0 in dims:
        return tuple(range(len(dims)))
    left = [i for i, size in enumerate(dims) if size != 1]
    # Dims of size 1 take no room: they are the outermost ones.
    order = [i for i, size in enumerate(dims) if size == 1]
    inner: list[int] = []
    step: Dim = 1
    while left:
        found = next((i for i in left if strides[i] == step), None)
        if found is None:
            return None
        left.remove(found)
        inner.append(found)
        step = step * dims[found]
    return (*order, *reversed(inner))


def is_view_possible(dims: Sequence[Dim], strides: Strides, wanted: Sequence[Dim]) -> Strides | None:
    """The strides with which the elements can be seen with the sizes ``wanted``; None when that takes a copy.

    Neighboring dims that are dense among themselves form runs; each run must be made up of whole new dims.
    """
    runs: list[tuple[Dim, Dim]] = []  # (number of elements, stride of the innermost), from the outermost
    for size, stride in zip(dims, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    result: list[Dim] = [1] * len(wanted)
    position = len(wanted) - 1
    for count, stride in reversed(runs):
        filled: Dim = 1
        while filled != count:
            if position < 0:
                return None
            result[position] = stride * filled
            filled = filled * wanted[position]
            position -= 1
            if isinstance(filled, int) and isinstance(count, int) and filled > count:
                return None
    return tuple(result) if all(d == 1 for d in wanted[: position + 1]) else None


class Layouts:
    """Strides of the tensors of one method."""

    def __init__(self, aliases: AliasSets):
        self.aliases = aliases
        self._roots: dict[SSAValue, Strides | None] = {}

    def strides(self, alias: Alias) -> Strides | None:
        """The strides of a tensor, or None when they are not known."""
        chain: list[Alias] = []
        one = alias
        while one.strides is None and one.view is not None:
            chain.append(one)
            one = one.view.parent
        if one.strides is None:
            known = self._of_value(one.storage.original)
            one.strides = _UNKNOWN if known is None else known
        for each in reversed(chain):
            assert each.view is not None
            parent = each.view.parent
            known = None if parent.strides is _UNKNOWN else _strides_of_view(each, parent.strides)  # type: ignore[arg-type]
            each.strides = _UNKNOWN if known is None else known
        return None if alias.strides is _UNKNOWN else alias.strides  # type: ignore[return-value]

    def _of_value(self, value: SSAValue) -> Strides | None:
        """The strides of a value of the program that is no view; its producers are looked at without recursion."""
        pending = [value]
        while pending:
            top = pending[-1]
            if top in self._roots:
                pending.pop()
                continue
            missing = [v for v in map(self._original, _layout_sources(top)) if v not in self._roots]
            if missing:
                pending.extend(missing)
                continue
            self._roots[top] = self._compute(top)
            pending.pop()
        return self._roots[value]

    def _tensor(self, value: SSAValue) -> Alias | None:
        known = self.aliases
        return known.before.get(value) or known.of.get(value) or known.stands_for.get(value)

    def _original(self, value: SSAValue) -> SSAValue:
        """The value that brought the storage of ``value`` into being: changes do not move elements."""
        alias = self._tensor(value)
        return value if alias is None else alias.storage.original

    def _known(self, value: SSAValue) -> Strides | None:
        """The strides of a value; those of its original are known."""
        alias = self._tensor(value)
        return self._roots[value] if alias is None else self.strides(alias)

    def _compute(self, value: SSAValue) -> Strides | None:
        type = tensor_of(value)
        dims = dims_of(type)
        if product(dims) == 1:
            return contiguous_strides(dims)
        if isinstance(value, BlockArgument) and value.owner is self.aliases.entry:
            return _recorded_or_typed(_argument_attributes(value).get(INPUT_ORDER), type)
        sources = _passed_on(value)
        if sources is not None:
            return self._agreed(dims, sources, is_slice=not isinstance(value, OpResult))
        if not isinstance(value, OpResult):
            return None
        op = value.op
        if isinstance(op, (GetWeightOp, ReadStateOp, ConstantOp)):
            recorded = op.attributes.get(DIM_ORDERS)
            return _recorded_or_typed(recorded.data[0] if isinstance(recorded, ArrayAttr) else None, type)
        if not isinstance(op, SchemaOp):
            return None
        if (order := _recorded_order(value)) is not None:
            return contiguous_strides(dims, order)
        if op.SCHEMA.name in _COPYING_RESHAPES:
            return contiguous_strides(dims)
        if op.SCHEMA.name in _FACTORIES_LIKE and (known := self._kept_or_given(op, type)) is not None:
            return known
        if has_odd_layout(op.name):
            return None
        operands = [(tensor_of(v), self._known(v)) for v in _layout_sources(value)]
        if any(strides is None for _, strides in operands):
            return None
        if all(same_layout(dims_of(t), s, contiguous_strides(dims_of(t))) for t, s in operands):  # type: ignore[arg-type]
            return contiguous_strides(dims)
        if "p" in load_table().flags(op.name) or op.SCHEMA.name in _FACTORIES_LIKE:
            full: list[Strides] = [s for t, s in operands if dims_of(t) == dims]  # type: ignore[misc]
            small = [t for t, _ in operands if dims_of(t) != dims]
            if (
                full
                and not small
                and all(same_layout(dims, full[0], s) for s in full)
                and dim_order(dims, full[0]) is not None
            ):
                return full[0]
        return None

    def _agreed(self, dims: Sequence[Dim], sources: Sequence[SSAValue], *, is_slice: bool) -> Strides | None:
        """The strides that control flow passes on: those in which all ``sources`` agree.

        A source with another rank is a scanned tensor and its slice, or a slice and the tensor that it is stacked in.
        """
        found: list[Strides] = []
        for source in sources:
            known, own = self._known(source), dims_of(tensor_of(source))
            if known is None:
                return None
            if len(own) > len(dims) and is_slice:
                known = known[1:]
            elif len(own) != len(dims):
                if not same_layout(own, known, contiguous_strides(own)):
                    return None
                known = contiguous_strides(dims)
            found.append(known)
        return found[0] if all(same_layout(dims, found[0], other) for other in found) else None

    def _kept_or_given(self, op: SchemaOp, type: Tensor) -> Strides | None:
        word = op.arg("memory_format") if "memory_format" in op.SCHEMA.index else None
        dims = dims_of(type)
        if word == "contiguous" or (word is None and op.SCHEMA.name == "contiguous"):
            return contiguous_strides(dims)
        return memory_format_strides(word, dims)


def memory_format_strides(word: object, dims: Sequence[Dim]) -> Strides | None:
    """The strides of a memory format; None for ``preserve`` and for none given."""
    match word:
        case "contiguous" | 0:
            return contiguous_strides(dims)
        case "channels_last" | "channels_last_3d":
            return contiguous_strides(dims, (0, *range(2, len(dims)), 1))
        case _:
            return None


def _passed_on(value: SSAValue) -> list[SSAValue] | None:
    """What control flow passes on as ``value``, a result or an argument of a region; None for anything else."""
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    if not isinstance(op, (CondOp, WhileOp, ScanOp)):
        return None
    assert isinstance(value, (OpResult, BlockArgument))
    index = value.index
    if isinstance(op, CondOp):
        return [yielded(region)[index] for region in op.regions]
    if isinstance(value, BlockArgument):
        # What the region changes was appended to the carried values; the operation itself may not have it yet.
        added = len(value.block.args) - len(op.operands)
        return [op.operands[index - added if index >= len(op.inits) + added else index]]
    if isinstance(op, ScanOp) and index >= len(op.inits):
        return [yielded(op.body)[index]]
    return [op.inits[index], yielded(op.body)[index]]


def _layout_sources(value: SSAValue) -> list[SSAValue]:
    """The tensors whose layout that of a result may depend on."""
    passed = _passed_on(value)
    if passed is not None:
        return [v for v in passed if isinstance(v.type, TensorType)]
    if not isinstance(value, OpResult) or not isinstance(value.op, SchemaOp):
        return []
    return [v for v in value.op.operands if isinstance(v.type, TensorType)]


def _argument_attributes(value: BlockArgument) -> Mapping[str, Attribute]:
    """The attributes of an argument of a method."""
    method = value.owner.parent_op()
    given = method.arg_attrs if isinstance(method, FuncOp) else None
    return {} if given is None else given.data[value.index].data


def input_offset(value: SSAValue) -> int:
    """Where an input started in its storage at export; 0 for anything else."""
    return recorded_offset(_argument_attributes(value)) if isinstance(value, BlockArgument) else 0


def forget_inputs(method: FuncOp) -> None:
    """Drop what was recorded of the inputs' layouts."""
    if method.arg_attrs is None:
        return
    kept = [
        DictionaryAttr({k: v for k, v in given.data.items() if k not in (INPUT_ORDER, INPUT_OFFSET)})
        for given in method.arg_attrs.data
    ]
    if any(given.data for given in kept):
        method.properties["arg_attrs"] = ArrayAttr(kept)
    else:
        method.properties.pop("arg_attrs")


def _recorded_or_typed(recorded: Attribute | None, type: Tensor) -> Strides | None:
    """The strides of a tensor from outside of the program: as recorded, ``unit`` for none, else as its type says."""
    if isinstance(recorded, UnitAttr):
        return None
    return contiguous_strides(dims_of(type), recorded_order(recorded) or order_of(type))


def _recorded_order(value: OpResult) -> tuple[int, ...] | None:
    """The dim order that an importer has recorded for a result; one that does not fit the result counts for nothing."""
    recorded = value.op.attributes.get(DIM_ORDERS)
    if not isinstance(recorded, ArrayAttr) or len(recorded.data) != len(value.op.results):
        return None
    order = recorded.data[value.index]
    if not isinstance(order, DenseArrayBase):
        return None
    found = tuple(int(d) for d in order.get_values())
    return found if sorted(found) == list(range(tensor_of(value).get_num_dims())) else None


def _of_other_elements(parent: Strides, source: Tensor, target: Tensor) -> Strides | None:
    """The strides under ``view.dtype``: the innermost dim, of stride 1, is the one that gets longer or shorter."""
    sizes = [dtype_of(type.element_type).itemsize for type in (source, target)]
    if sizes[0] == sizes[1] or not parent:
        return parent
    if sizes[0] > sizes[1]:
        return (*(s * (sizes[0] // sizes[1]) for s in parent[:-1]), 1)
    outer = tuple(_divided(s, sizes[1] // sizes[0]) for s in parent[:-1])
    return None if any(s is None for s in outer) else (*outer, 1)  # type: ignore[arg-type]


def _divided(stride: Dim, by: int) -> Dim | None:
    return as_int_if_const(stride // by) if stride % by == 0 else None


def _strides_of_view(alias: Alias, parent: Strides) -> Strides | None:
    view = alias.view
    assert view is not None
    op, dims = view.op, dims_of(view.parent.type)
    wanted = dims_of(alias.type)
    rank = len(dims)
    if view.same:
        return parent
    if product(wanted) == 1:
        return contiguous_strides(wanted)
    order = permutation(op, rank)
    if order is not None:
        return tuple(parent[d] for d in order)
    removed = squeezed(op, dims)
    if removed is not None:
        return tuple(s for i, s in enumerate(parent) if i not in removed)
    match op.SCHEMA.name:
        case "slice":
            position, step = wrap(op.arg("dim"), rank), op.arg("step")
            return (
                tuple(s * step if i == position else s for i, s in enumerate(parent)) if isinstance(step, int) else None
            )
        case "narrow" | "split" | "split_with_sizes" | "chunk" | "tensor_split" | "hsplit" | "vsplit" | "dsplit":
            return parent
        case "unsafe_split" | "unsafe_split_with_sizes" | "unsafe_chunk":
            return parent
        case "select" | "unbind":
            position = wrap(op.arg("dim"), rank)
            return parent[:position] + parent[position + 1 :]
        case "unsqueeze":
            position = wrap(op.arg("dim"), rank + 1)
            inner = dims[position] * parent[position] if position < rank else 1
            return (*parent[:position], inner, *parent[position:])
        case "expand" | "expand_as" | "broadcast_to":
            new = len(wanted) - rank
            kept = [s if dims[i] == wanted[new + i] else 0 for i, s in enumerate(parent)]
            return (*([0] * new), *kept)
        case "diagonal" | "linalg_diagonal":
            first, second = wrap(op.arg("dim1"), rank), wrap(op.arg("dim2"), rank)
            rest = tuple(s for i, s in enumerate(parent) if i not in (first, second))
            return (*rest, parent[first] + parent[second])
        case "unfold":
            position = wrap(op.arg("dimension"), rank) if rank else 0
            moved = tuple(s * op.arg("step") if i == position else s for i, s in enumerate(parent))
            return (*moved, parent[position] if rank else 1)
        case "as_strided":
            given = [dim_of(s) if isinstance(s, SSAValue) else s for s in op.arg("stride")]
            found = tuple(s for s in given if s is not None)
            return found if len(found) == len(given) else None
        case "real" | "imag":
            return tuple(s * 2 for s in parent)
        case "view_as_real":
            return (*(s * 2 for s in parent), 1)
        case "view" if isinstance(op, aten.view.dtype):
            return _of_other_elements(parent, view.parent.type, alias.type)
        case "view_as_complex":
            halves = tuple(_divided(s, 2) for s in parent[:-1])
            return None if any(s is None for s in halves) else halves  # type: ignore[return-value]
        case (
            "view" | "reshape" | "flatten" | "unflatten" | "view_as" | "reshape_as" | "ravel" | "_unsafe_view"
            | "_reshape_alias" | "atleast_1d" | "atleast_2d" | "atleast_3d"
        ):  # fmt: skip
            if product(dims) == 0:
                return contiguous_strides(wanted)
            return is_view_possible(dims, parent, wanted)
        case _:
            return None
