"""Tensors of a module that are views of one another: one piece of memory, which every name looks into.

``self.row = self.cache[0]`` gives an exported program two tensors. A write to one is seen through the other, in the
same call, in the next one and in other methods. Tensors whose bytes overlap are a group if a method changes one of
them: the group is one state, the tensor that has all bytes of the group, or the bytes in a row where none of them has
all. Every tensor of the group is read as views of it, and ``functionalize`` puts changes of those back.

Overlap is a matter of addresses, so that names of several programs are in one group as well; programs that were loaded
one by one have copies of their own, which are groups of their own with the same names and contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from xdsl.ir import Block, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.errors import E0404
from etir.lowering.functionalize.element_views import element_views
from etir.lowering.functionalize.emitter import Tensor, tensor_of
from etir.lowering.functionalize.strides import contiguous_strides, dim_order, same_layout
from etir.lowering.import_fx.types import ELEMENT_TYPES

Key = tuple[str, str]
"""A program and the qualified name of one of its tensors."""


@dataclass
class Group:
    """Tensors whose bytes overlap, by program and name: ``start`` and ``end`` are addresses."""

    start: int
    end: int
    members: dict[Key, torch.Tensor] = field(default_factory=dict)
    unread: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors of the module with the same bytes that no method reads: ``self.cache`` where only its rows are read."""

    @property
    def names(self) -> list[str]:
        """The qualified names of the tensors."""
        return list(dict.fromkeys(fqn for _, fqn in self.members))

    @cached_property
    def base(self) -> tuple[str, torch.Tensor]:
        """Name and tensor of what has all bytes of the group. Raises error E0404."""
        named = sorted(self.members.items(), key=lambda item: is_lifted(item[0][1]))
        for fqn, tensor in (*((fqn, tensor) for (_, fqn), tensor in named), *self.unread.items()):
            if (_first_byte(tensor), _last_byte(tensor)) == (self.start, self.end) and tensor.is_contiguous():
                return fqn, tensor
        for (_, fqn), tensor in sorted(named, key=lambda item: -item[1].element_size()):
            size = tensor.element_size()
            distance = _first_byte(tensor) - self.start
            if distance % size == 0 and (self.end - self.start) % size == 0:
                first = tensor.storage_offset() - distance // size
                count = (self.end - self.start) // size
                inside = first >= 0 and (first + count) * size <= tensor.untyped_storage().nbytes()
                if inside:
                    return f"{fqn}.storage", tensor.detach().as_strided((count,), (1,), first)
        raise E0404.error(f"the tensors {', '.join(self.names)} share bytes that no element type of theirs divides")


def groups_of(
    tensors: Mapping[Key, torch.Tensor],
    changed: Iterable[str],
    storage_read: Iterable[str],
    unread: Mapping[Key, torch.Tensor] | None = None,
) -> dict[Key, Group]:
    """The groups among the tensors of all programs that are read as one piece of memory, for each of their members.

    ``changed`` are the names of tensors that some method changes, ``storage_read`` of those whose storage an operator
    like ``as_strided`` reads: these have all of their storage in the group; ``unread`` are tensors that no method uses,
    which may give a group its name. Raises error E0404.
    """
    changed, storage_read = set(changed), set(storage_read)
    found: dict[Key, Group] = {}
    spaces: dict[object, list[tuple[int, int, Key]]] = {}
    for key, tensor in tensors.items():
        if not _has_memory(tensor):
            continue
        start, end = _first_byte(tensor), _last_byte(tensor)
        if key[1] in storage_read and not _is_all_of_its_storage(tensor):
            start = _storage_address(tensor)
            end = start + tensor.untyped_storage().nbytes()
        spaces.setdefault(_space(tensor), []).append((start, end, key))
    for ranges in spaces.values():
        group: Group | None = None
        for start, end, key in sorted(ranges, key=lambda r: r[0]):
            if group is None or start >= group.end:
                group = Group(start, end)
            group.end = max(group.end, end)
            group.members[key] = tensors[key]
            found[key] = group
    wanted: dict[Key, Group] = {}
    for key in tensors:
        group = found.get(key)
        if group is not None and _is_shared(group, changed, storage_read):
            _check_plain(group)
            wanted[key] = group
    _check_names(tensors, wanted, changed)
    by_range = {(_space(tensors[key]), group.start, group.end): group for key, group in wanted.items()}
    for (_, fqn), tensor in (unread or {}).items():
        if _has_memory(tensor):
            group = by_range.get((_space(tensor), _first_byte(tensor), _last_byte(tensor)))
            if group is not None:
                group.unread.setdefault(fqn, tensor)
    return wanted


def _is_shared(group: Group, changed: set[str], storage_read: set[str]) -> bool:
    names = group.names
    if len(names) > 1 and any(name in changed for name in names):
        return True
    return any(fqn in storage_read and not _is_all_of_its_storage(t) for (_, fqn), t in group.members.items())


def _check_plain(group: Group) -> None:
    for (_, fqn), tensor in group.members.items():
        if tensor.is_conj() or tensor.is_neg():
            raise E0404.error(
                f"'{fqn}' is a lazily {'conjugated' if tensor.is_conj() else 'negated'} view of memory that "
                f"{', '.join(n for n in group.names if n != fqn) or 'it'} shares",
                help="resolve it when the module is made: resolve_conj(), resolve_neg()",
            )


def _check_names(tensors: Mapping[Key, torch.Tensor], groups: Mapping[Key, Group], changed: set[str]) -> None:
    """A name must share memory with the same names in every program, or methods would see different states."""
    seen: dict[str, tuple[str, list[str]]] = {}
    for key in tensors:
        program, fqn = key
        if is_lifted(fqn):
            continue
        group = groups.get(key)
        names = [fqn] if group is None else sorted(n for n in group.names if not is_lifted(n))
        before = seen.setdefault(fqn, (program, names))
        if before[1] != names and (fqn in changed or any(n in changed for n in (*names, *before[1]))):
            raise E0404.error(
                f"'{fqn}' shares memory with {_others(names, fqn)} in method '{program}', and with "
                f"{_others(before[1], fqn)} in method '{before[0]}'",
                help="export the methods from one module, and compile the programs without saving them one by one",
            )


def is_lifted(fqn: str) -> bool:
    """Whether a name is one that ``torch.export`` gave to a constant without name: it means another one elsewhere."""
    return fqn.rpartition(".")[2].startswith("lifted_tensor_")


def _others(names: list[str], fqn: str) -> str:
    return ", ".join(f"'{n}'" for n in names if n != fqn) or "nothing"


# --- addresses ------------------------------------------------------------------------------------------------------


def _has_memory(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) or isinstance(tensor, FakeTensor)
    if not plain or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return False
    return tensor.dtype in ELEMENT_TYPES and tensor.numel() > 0


def _space(tensor: torch.Tensor) -> object:
    """What addresses count in: those of tensors without data do in each storage by itself."""
    return tensor.untyped_storage()._cdata if isinstance(tensor, FakeTensor) else None


def _storage_address(tensor: torch.Tensor) -> int:
    return 0 if isinstance(tensor, FakeTensor) else tensor.untyped_storage().data_ptr()


def _first_byte(tensor: torch.Tensor) -> int:
    return _storage_address(tensor) + int(tensor.storage_offset()) * tensor.element_size()


def _last_byte(tensor: torch.Tensor) -> int:
    """The address after the last element."""
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return _first_byte(tensor) + reach * tensor.element_size()


def _is_all_of_its_storage(tensor: torch.Tensor) -> bool:
    """Whether the storage has no other elements and the tensor each one once, in any order of its dims."""
    return (
        tensor.storage_offset() == 0
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        and dim_order(list(tensor.shape), tuple(tensor.stride())) is not None
    )


# --- views ----------------------------------------------------------------------------------------------------------


def view_into(group: Group, tensor: torch.Tensor, base: SSAValue, block: Block) -> SSAValue:
    """``tensor`` as views of the group's ``base``, appended to ``block``; ``base`` itself where that is the tensor."""
    whole = group.base[1]
    type = tensor_type(ELEMENT_TYPES[tensor.dtype], list(tensor.shape))
    dims, strides = list(tensor.shape), tuple(tensor.stride())
    distance = _first_byte(tensor) - group.start
    views = _Views(block)
    if tensor.dtype == whole.dtype:
        if distance == 0 and base.type == type and same_layout(dims, strides, contiguous_strides(dims)):
            return base
        part = views.part(base, dims, strides, distance // tensor.element_size())
        if part is not None:
            return part
    flat = views.view(base, [-1], [whole.numel()])
    own = tensor_of(base).element_type
    steps = element_views(whole.numel(), own, type.element_type)
    if steps is None or distance % tensor.element_size() != 0:
        raise E0404.error(f"the tensors {', '.join(group.names)} share bytes at places that no element type has")
    for operator, arguments, result in steps:
        flat = views(operator, flat, result, **arguments)
    return views.strided(flat, dims, strides, distance // tensor.element_size())


class _Views:
    """Appends view operators to a block."""

    def __init__(self, block: Block):
        self.block = block

    def __call__(self, operator: type[AtenOp], value: SSAValue, type: Tensor, **arguments: Any) -> SSAValue:
        op = operator.make({"self": value, **arguments}, [type])
        self.block.add_op(op)
        return op.results[0]

    def view(self, value: SSAValue, size: list[int], dims: list[int]) -> SSAValue:
        """``value`` with other sizes."""
        type = tensor_of(value)
        if list(dims_of(type)) == dims:
            return value
        return self(aten.view.default, value, tensor_type(type.element_type, dims), size=size)

    def permuted(self, value: SSAValue, order: list[int]) -> SSAValue:
        """``value`` with its dims in another order."""
        if order == list(range(len(order))):
            return value
        type = tensor_of(value)
        dims = [dims_of(type)[d] for d in order]
        return self(aten.permute.default, value, tensor_type(type.element_type, dims), dims=order)

    def sliced(self, value: SSAValue, dim: int, start: int, end: int, step: int = 1) -> SSAValue:
        """``value[start:end:step]`` along one dim."""
        type = tensor_of(value)
        dims = list(dims_of(type))
        if (start, end, step) == (0, dims[dim], 1):
            return value
        dims[dim] = (end - start + step - 1) // step
        result = tensor_type(type.element_type, dims)
        return self(aten.slice.Tensor, value, result, dim=dim, start=start, end=end, step=step)

    def strided(self, flat: SSAValue, dims: list[int], strides: tuple[int, ...], offset: int) -> SSAValue:
        """Elements of a row: a slice with its dims in another order, or ``as_strided`` where there are gaps."""
        element = tensor_of(flat).element_type
        order = dim_order(dims, strides)
        if order is None:
            type = tensor_type(element, dims)
            return self(aten.as_strided.default, flat, type, size=dims, stride=list(strides), storage_offset=offset)
        count = 1
        for size in dims:
            count *= size
        stored = [dims[d] for d in order]
        value = self.view(self.sliced(flat, 0, offset, offset + count), stored, stored)
        return self.permuted(value, [order.index(d) for d in range(len(dims))])

    def part(self, base: SSAValue, dims: list[int], strides: tuple[int, ...], offset: int) -> SSAValue | None:
        """Slices along the dims of ``base``, in any order; None for a tensor that is no such part."""
        sizes = [int(d) for d in dims_of(tensor_of(base))]  # type: ignore[arg-type]
        steps = [int(s) for s in contiguous_strides(sizes)]  # type: ignore[arg-type]
        starts: list[int] = []
        for step in steps:
            starts.append(offset // step)
            offset %= step
        taken: dict[int, int] = {}
        for position, (size, stride) in enumerate(zip(dims, strides, strict=True)):
            if size == 1:
                continue
            fits = (
                d
                for d in range(len(sizes))
                if d not in taken and sizes[d] > 1 and stride > 0 and stride % steps[d] == 0
                and starts[d] + (size - 1) * (stride // steps[d]) < sizes[d]
            )  # fmt: skip
            found = next(fits, None)
            if found is None:
                return None
            taken[found] = position
        value = base
        for d in reversed(range(len(sizes))):
            if d in taken:
                step = strides[taken[d]] // steps[d]
                value = self.sliced(value, d, starts[d], starts[d] + (dims[taken[d]] - 1) * step + 1, step)
            else:
                type = tensor_of(value)
                rest = [n for i, n in enumerate(dims_of(type)) if i != d]
                result = tensor_type(type.element_type, rest)
                value = self(aten.select.int, value, result, dim=d, index=starts[d])
        present = [taken[d] for d in sorted(taken)]
        value = self.permuted(value, [present.index(p) for p in sorted(present)])
        for position, size in enumerate(dims):
            if size == 1:
                type = tensor_of(value)
                grown = list(dims_of(type))
                grown.insert(position, 1)
                value = self(aten.unsqueeze.default, value, tensor_type(type.element_type, grown), dim=position)
        return value
