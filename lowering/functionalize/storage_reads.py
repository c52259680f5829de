"""Operators that torch defines on the storage of a tensor instead of on its elements: ``as_strided``, strides, offsets.

``as_strided`` of a view reads what the view's storage holds, wherever the view itself lies in it. Each call becomes one
of the elements in the order of memory: the tensor that the storage came into being with, its dims permuted into their
order in memory, seen as one dim; sizes and strides stay, the offset counts from there. Reading ``y.as_strided([2], [6],
1)`` of ``y = x.t()`` is that of ``x``. Where layout or offset cannot be known, or elements outside of what the program
has are read, it is error E0418.

After ``functionalize`` there is no storage any more: the calls are ``as_strided_copy`` then, which takes the elements
of its operand in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from etir.diagnostics import EtirError
from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.aten.recorded_layout import SELF_LAYOUT, TRACED_AS_COPIES
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp
from etir.dialects.et.layout import Dim, dims_of, tensor_type
from etir.dialects.et.program import GetWeightOp, ReadStateOp
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.build.builder import is_tensor
from etir.lowering.build.dims import product, wrap
from etir.lowering.build.sizes import SizePool, dim_of
from etir.lowering.errors import E0418
from etir.lowering.functionalize.aliases import Alias, AliasSets
from etir.lowering.functionalize.conjugates import conjugate_bits
from etir.lowering.functionalize.element_views import element_views
from etir.lowering.functionalize.emitter import Tensor, tensor_of
from etir.lowering.functionalize.offsets import offset_of, scaled
from etir.lowering.functionalize.strides import (
    Layouts,
    contiguous_strides,
    dim_order,
    input_offset,
    is_view_possible,
    same_layout,
)

NUMBERS = frozenset({"sym_stride", "stride", "sym_storage_offset", "storage_offset"})
"""Operators that give a stride or an offset as a number."""

_VIEWS = frozenset({"as_strided", "_reshape_alias"})


def reads_storage(op: SchemaOp) -> bool:
    """Whether an operator of the ATen level is defined on the storage of its tensor."""
    return op.SCHEMA.namespace == "aten" and op.SCHEMA.name in (_VIEWS | NUMBERS)


class StorageReads:
    """Replaces the storage operators of one method; ``views`` collects the view operators that it makes."""

    def __init__(self, aliases: AliasSets, layouts: Layouts, views: list[Any]):
        self.aliases = aliases
        self.layouts = layouts
        self.emit = aliases.emit
        self.views = views

    def replace(self, op: SchemaOp) -> bool:
        """Replace ``op``; False for one that is a plain view. Raises error E0418."""
        viewed = op.arg("self")
        if not is_tensor(viewed):
            raise self._error(op, "it is given no tensor")
        alias = self.aliases.alias(viewed)
        if op.SCHEMA.name in NUMBERS:
            self._number(op, alias)
            return True
        offset: object = None
        if op.SCHEMA.name == "_reshape_alias":
            if self._is_plain(op, alias):
                return False
        else:
            offset = op.arg("storage_offset")
        self._view(op, alias, op.arg("size"), op.arg("stride"), offset)
        return True

    def resized(self, op: SchemaOp, alias: Alias) -> Alias:
        """The tensor that ``as_strided_`` makes of ``alias``. Raises error E0418."""
        return self._strided(op, alias, op.arg("size"), op.arg("stride"), op.arg("storage_offset"))

    def seen(self, op: SchemaOp, source: Alias) -> Alias:
        """The tensor that ``set_`` makes of ``source``, with its sizes or those given. Raises error E0418."""
        if "size" not in op.SCHEMA.index:
            return self._make(aten.alias.default, source, source.type, same=True)
        stride = op.arg("stride") or list(contiguous_strides(op.arg("size")))  # type: ignore[arg-type]
        return self._strided(op, source, op.arg("size"), stride, op.arg("storage_offset"))

    def row_major(self, op: SchemaOp, alias: Alias, type: Tensor) -> Alias | None:
        """The tensor that resizing makes of ``alias``: what its storage holds from its first element on, row-major.

        None where the storage has fewer elements, or that is not known. Raises error E0418.
        """
        dims = dims_of(type)
        conjugated, negated = conjugate_bits(alias)
        if conjugated or negated:
            raise self._error(op, "its tensor shows the conjugate of what the storage holds")
        flat, first = self._flat(op, alias, None)
        count, wanted = product(dims_of(flat.type)), product(dims)
        if first == 0 and count == wanted:
            sizes = [dim if isinstance(dim, int) else self._value(op, alias, dim) for dim in dims]
            return self._make(aten.view.default, flat, type, size=sizes)
        if not (isinstance(count, int) and isinstance(wanted, int) and isinstance(first, int)):
            return None
        if wanted and first + wanted > count:
            return None
        stride = contiguous_strides(dims)
        return self._make(
            aten.as_strided.default, flat, type, size=list(dims), stride=list(stride), storage_offset=first
        )

    def direct(self, alias: Alias) -> Callable[[SSAValue], tuple[Alias, SSAValue]] | None:
        """``alias`` as one ``as_strided`` of the elements in memory, to write it past the views that it is made of.

        The result makes that view, and what it holds when ``alias`` holds a value. None where ``alias`` is no view, or
        where sizes, strides or the offset are not known.
        """
        point, strides = self.emit.point, self.layouts.strides(alias)
        if alias.view is None or strides is None or not isinstance(point, SchemaOp):
            return None
        dims, (conjugated, negated) = dims_of(alias.type), conjugate_bits(alias)
        if negated or not all(isinstance(n, int) for n in (*dims, *strides)):
            return None
        try:
            flat, first = self._flat(point, alias, None)
        except EtirError:
            return None
        if not isinstance(first, int):
            return None
        arguments = {"size": list(dims), "stride": list(strides), "storage_offset": first}
        view = self._make(aten.as_strided.default, flat, alias.type, **arguments)

        def written(value: SSAValue) -> tuple[Alias, SSAValue]:
            return view, self.emit(aten._conj.default, alias.type, {"self": value}) if conjugated else value

        return written

    def _view(self, op: SchemaOp, alias: Alias, size: Any, stride: Any, offset: object) -> None:
        new = self._strided(op, alias, size, stride, offset)
        new.value.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new.value)
        Rewriter.erase_op(op)

    def _strided(self, op: SchemaOp, alias: Alias, size: Any, stride: Any, offset: Any) -> Alias:
        type = op.results[0].type
        recorded = _recorded(op, alias)
        own = None if recorded is None else (list(dims_of(alias.type)), recorded[:-1], recorded[-1])
        if own is not None and (list(size), list(stride), own[2] if offset is None else offset) == own:
            return self._make(aten.alias.default, alias, type, same=True)
        conjugated, negated = conjugate_bits(alias)
        if negated:
            raise self._error(op, "its tensor shows the negated imaginary parts of what the storage holds")
        flat, first = self._flat(op, alias, recorded)
        if offset is None:
            start = first
        else:
            given = dim_of(offset) if isinstance(offset, SSAValue) else offset
            origin = scaled(input_offset(alias.storage.original), alias.storage.root.type, alias.type)
            if origin == 0:
                start = offset if given is None else given
            elif given is None or origin is None:
                raise self._error(op, "its offset is data, and the input did not start at the beginning of its storage")
            else:
                start = given - origin
        if start is None:
            raise self._error(op, "where the tensor starts in its storage depends on data")
        self._check_range(op, flat, size, stride, start)
        number = start if isinstance(start, (int, SSAValue)) else self._value(op, alias, start)
        new = self._make(aten.as_strided.default, flat, type, size=size, stride=stride, storage_offset=number)
        if conjugated:
            new = self._make(aten._conj.default, new, type)
        return new

    def _make(
        self, operator: type[AtenOp], parent: Alias, type: Attribute, /, *, same: bool = False, **arguments: object
    ) -> Alias:
        """A new view of ``parent``."""
        current = self.aliases.current(parent)
        value = self.emit(operator, type, {"self": current, **arguments})  # type: ignore[dict-item]
        op: Any = value.owner
        self.views.append(op)
        return self.aliases.view(op, parent, 0, [value], same=same, certain=True).aliases[0]

    # --- layouts ----------------------------------------------------------------------------------------------------

    def _flat(self, op: SchemaOp, alias: Alias, recorded: list[int] | None) -> tuple[Alias, Dim | None]:
        """The elements of the storage in the order of memory, as a tensor of the element type of ``alias``, and where
        ``alias`` starts in it; None for an offset from data.
        """
        root, original = alias.storage.root, alias.storage.original
        if alias.doubts:
            raise self._error(op, "its tensor may be a view or a copy: that depends on strides that are not known")
        owner = original.owner
        inside = isinstance(original, BlockArgument) and owner is not self.aliases.entry
        if inside or isinstance(owner, (CondOp, WhileOp, ScanOp)):
            raise self._error(op, "the storage of what control flow passes on is not known")
        dims = dims_of(root.type)
        strides = self.layouts.strides(root)
        order = None if strides is None else dim_order(dims, strides)
        if strides is None or order is None:
            raise self._error(op, f"the layout of {root.type}, which it looks into, is not known, or has gaps")
        first = offset_of(alias, self.layouts)
        self._check_recorded(op, alias, recorded, first)
        flat = root
        if not same_layout(dims, strides, contiguous_strides(dims)):
            element, sizes = root.type.element_type, [dims[d] for d in order]
            flat = self._make(aten.permute.default, flat, tensor_type(element, sizes), dims=list(order))
            flat = self._make(aten.view.default, flat, tensor_type(element, [product(dims)]), size=[-1])
        return self._with_element(op, flat, alias.type.element_type), first

    def _with_element(self, op: SchemaOp, flat: Alias, wanted: Attribute) -> Alias:
        """``flat`` seen with another element type."""
        own = flat.type.element_type
        if own == wanted:
            return flat
        count = product(dims_of(flat.type))
        steps = element_views(count, own, wanted)
        if steps is None:
            raise self._error(op, f"the storage is no whole number of elements of {wanted}")
        flat = self._make(aten.view.default, flat, tensor_type(own, [count]), size=[-1])
        for operator, arguments, type in steps:
            flat = self._make(operator, flat, type, same=False, **arguments)
        return flat

    def _is_plain(self, op: SchemaOp, alias: Alias) -> bool:
        """Whether ``_reshape_alias`` has the strides that ``view`` gives."""
        wanted, stride = dims_of(tensor_of(op.results[0])), op.arg("stride")
        known = self.layouts.strides(alias)
        seen = None if known is None else is_view_possible(dims_of(alias.type), known, wanted)
        given = [dim_of(s) if isinstance(s, SSAValue) else s for s in stride]
        numbers = tuple(s for s in given if s is not None)
        return seen is not None and len(numbers) == len(given) and same_layout(wanted, seen, numbers)

    # --- checks -----------------------------------------------------------------------------------------------------

    def _check_range(self, op: SchemaOp, flat: Alias, size: Sequence[Any], stride: Sequence[Any], start: Any) -> None:
        """Elements outside of the tensor are an error; sizes of the run time are checked by the kernel."""
        if 0 in size:
            return
        if isinstance(start, int) and start < 0:
            raise self._error(op, "it reads what lies before the input in its storage, which the program is not given")
        count = product(dims_of(flat.type))
        if not all(isinstance(n, int) for n in (*size, *stride, start, count)):
            return
        last = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        if isinstance(count, int) and last >= count:
            raise self._error(op, f"it reads element {last} of a storage of which the program has {count}")

    def _check_recorded(self, op: SchemaOp, alias: Alias, recorded: list[int] | None, first: Dim | None) -> None:
        """What follows from the program must be what eager mode has."""
        if recorded is None:
            return
        strides = self.layouts.strides(alias)
        origin = scaled(input_offset(alias.storage.original), alias.storage.root.type, alias.type)
        wrong = strides is not None and not same_layout(dims_of(alias.type), strides, tuple(recorded[:-1]))
        # Export gives attributes that change, and are no buffers, the offset 0; ours is that of the tensor itself.
        is_lost = not recorded[-1] and isinstance(alias.storage.original.owner, (GetWeightOp, ReadStateOp))
        if isinstance(first, int) and isinstance(origin, int) and first + origin != recorded[-1] and not is_lost:
            wrong = True
        if wrong:
            raise self._error(
                op,
                f"at export its tensor had the strides {recorded[:-1]} and the offset {recorded[-1]}, which do not "
                "follow from the program",
            )

    # --- numbers ----------------------------------------------------------------------------------------------------

    def _number(self, op: SchemaOp, alias: Alias) -> None:
        if "offset" in op.SCHEMA.name:
            found = None if alias.doubts else offset_of(alias, self.layouts, input_offset(alias.storage.original))
        elif "dim" not in op.SCHEMA.index:
            raise self._error(op, "it gives a list of numbers; ask for the stride of one dim")
        else:
            strides = None if alias.doubts else self.layouts.strides(alias)
            found = None if strides is None else strides[wrap(op.arg("dim"), len(strides))]
        if found is None:
            raise self._error(op, "the layout of its tensor is not known")
        value = self._value(op, alias, found)
        op.results[0].replace_all_uses_with(value)
        Rewriter.erase_op(op)

    def _value(self, op: SchemaOp, alias: Alias, wanted: Dim) -> SSAValue:
        sources = [alias.value, alias.storage.root.value, *self.aliases.entry.args]
        pool = SizePool(self.emit.insert, sources, lambda operator: operator)
        size = pool.evaluate(wanted)
        if size is None:
            raise self._error(op, f"{wanted} is not known at run time")
        return pool.scalar(size)

    def _error(self, op: SchemaOp, why: str) -> EtirError:
        return E0418.error(f"'{op.name}': {why}", source_location(op.location))


def _recorded(op: SchemaOp, alias: Alias) -> list[int] | None:
    """What the importer saw of the operand's layout; one that does not fit its rank counts for nothing.

    Nor does that of a tensor that torch's trace made by a copy, which eager mode does not make.
    """
    known, one = op.attributes.get(SELF_LAYOUT), alias
    while one.view is not None:
        if one.view.op.name in TRACED_AS_COPIES:
            return None
        one = one.view.parent
    if not isinstance(known, DenseArrayBase) or len(known) != alias.type.get_num_dims() + 1:
        return None
    return [int(n) for n in known.get_values()]


def as_copies(ops: Sequence[Any]) -> dict[SSAValue, SSAValue]:
    """Replace every ``as_strided`` of values that are no storage any more by ``as_strided_copy``: new values by old."""
    replaced: dict[SSAValue, SSAValue] = {}
    for op in ops:
        if not isinstance(op, aten.as_strided.default):
            continue
        copy = aten.as_strided_copy.default.make(op.given_args(), [r.type for r in op.results], location=op.location)
        copy.results[0].name_hint = op.results[0].name_hint
        replaced[op.results[0]] = copy.results[0]
        Rewriter.replace_op(op, copy)
    return replaced
