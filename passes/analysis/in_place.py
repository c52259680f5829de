"""Which operands an instruction may write its result over.

A kernel's row says which of its operands the result may share bytes with (``in_place``): element i of the result is
written after element i of the operand was last read, and no other element depends on it. Whether one call may do so is
a matter of its types: the operand has the result's dtype, dims and dim order, so that it is not broadcast, and nothing
else that the call reads lies in the operand's bytes at another place. Dims that change at run time are the same when
both are said to be (``sizes`` of the buffers), or when there is nothing else that the result could take them from.

Kernels of ``moves.py`` move elements instead: the result has other dims, and all of the operand's bytes.

An operand that is a list of tensors is a concatenation: each of them may already be where the result has it, if the
dims before the one that grows have one element, so that a part of the result is a run of bytes. Results that are a list
are the reverse of that: each may stay where the operand has it.

Whether the operand's contents are needed afterwards is not asked here: that is liveness (``memory_effects.py``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.arguments import OPERAND, flatten
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.layout import Dim, is_contiguous
from etir.dialects.et.values import BufferOp, ViewOp, sizes_of
from etir.dialects.schema import OpSchema
from etir.passes.analysis.moves import MOVES
from etir.targets.manifest import available, load

InPlaceKernels: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each kernel that can work in place, the operands that its first result may be written over."""

RunTimeSizes: TypeAlias = "Mapping[SSAValue, tuple[Dim | None, ...]]"
"""The dims of tensors at run time (``passes/et/run_time_sizes.py``); None where nothing is known of one."""


def in_place_kernels(target: str) -> InPlaceKernels:
    """What a target's manifest says. Raises E0601 and E0602 as :func:`etir.targets.manifest.load`."""
    return {name: entry.in_place for name, entry in load(target).kernels.items() if entry.in_place}


def known_in_place_kernels() -> InPlaceKernels:
    """What any of the targets that etir brings says: for a program whose target nobody named."""
    found: dict[str, tuple[str, ...]] = {}
    for target in available():
        for name, operands in in_place_kernels(target).items():
            found[name] = tuple(dict.fromkeys([*found.get(name, ()), *operands]))
    return found


@dataclass(frozen=True, slots=True)
class Overwritable:
    """``result`` may be written ``displacement`` bytes into ``operand``, a buffer that the call reads; a negative
    displacement says how many bytes into ``result`` the whole of ``operand`` may be.
    """

    operand: BufferOp
    result: BufferOp
    displacement: int


@dataclass(frozen=True, slots=True)
class _Read:
    """A tensor that a call reads: the argument that it is of, and whether that is a list."""

    name: str
    value: SSAValue
    listed: bool


def overwritable(
    op: CallOp, schema: OpSchema, kernels: InPlaceKernels, *, sizes: RunTimeSizes | None = None
) -> list[Overwritable]:
    """The operands that a call may write its result over, in the order of the schema: of several results the first, and
    of a list each.

    ``schema`` is the kernel's, with as many arguments as the call has. Buffers of state are left out, and
    whoever asks knows whether those of the caller are planned.
    ``sizes`` are those of dynamic tensors whose definitions do not say them.
    """
    names = kernels.get(op.kernel.data, ())
    if not names or len(schema.arguments) != len(op.template.data):
        return []
    operands = iter(op.arguments)
    read: list[_Read] = []
    written: list[SSAValue] = []
    splits = False
    for argument, item in zip(schema.arguments, op.template.data, strict=True):
        count = sum(1 for element in flatten((item,)) if element is OPERAND)
        values = [v for v in (next(operands) for _ in range(count)) if isinstance(v.type, TensorType)]
        if argument.is_write and argument.kwarg_only:
            written += values
            splits |= argument.is_list
        else:
            read += [_Read(argument.name, value, argument.is_list) for value in values]
    if splits and len(read) == 1:
        return list(_pieces_of(read[0].value, written, _dim_of(op, schema)))
    if not written or not isinstance(written[0].owner, BufferOp) or not _is_private(written[0].owner):
        return []
    result = written[0].owner
    if any(one.listed and one.name in names for one in read):
        return list(_parts_of(result, [one.value for one in read if one.listed], _dim_of(op, schema)))
    moves = MOVES.get(op.kernel.data)
    found: dict[BufferOp, Overwritable] = {}
    for one in read:
        base, displacement = _place_in(one.value)
        if one.name not in names or base is None or base in found or not _is_private(base):
            continue
        if moves is not None:
            fits = _has_sizes_of(one.value, result) and moves(op, one.value, result)
        else:
            fits = _is_elementwise(one.value, result, read, sizes or {})
        if fits and _is_read_there_only(one.value, names, read):
            found[base] = Overwritable(base, result, displacement)
    return list(found.values())


def _is_private(op: BufferOp) -> bool:
    """Whether a buffer is planned for one run: no state, and not allocated at run time."""
    return op.state is None and not op.is_allocated


def _place_in(value: SSAValue) -> tuple[BufferOp | None, int]:
    """The buffer that a value lies in and the byte where it begins; none for weights.

    A view that is pointed at its base at run time begins where that does.
    """
    owner, offset = value.owner, 0
    while isinstance(owner, ViewOp):
        offset += owner.offset.value.data
        owner = owner.base.owner
    return (owner, offset) if isinstance(owner, BufferOp) else (None, 0)


def _has_sizes_of(value: SSAValue, result: BufferOp) -> bool:
    """Whether a result has as many elements as the operand that its sizes come from, up to the bounds of both."""
    if not _is_dynamic(value) or result.dynamic is None:
        return not _is_dynamic(value) and result.dynamic is None
    return result.dynamic.data == "bound"


def _is_elementwise(value: SSAValue, result: BufferOp, read: Sequence[_Read], known: RunTimeSizes) -> bool:
    """Whether the elements of an operand and of the result lie at the same places, now and at run time."""
    if value.type != result.result.type:
        return False
    if not _is_dynamic(value) and result.dynamic is None:
        return True
    if not _is_dynamic(value) or result.dynamic is None or result.dynamic.data != "bound":
        return False
    sizes = _sizes(value)
    if sizes is not None and sizes == sizes_of(result):
        return True
    dims = known.get(value, (None,))
    if None not in dims and dims == known.get(result.result):
        return True
    # Types are upper bounds: another operand could have more elements at run time, unless it has one only.
    others = [other.value for other in read if other.value is not value]
    return all(not _is_dynamic(other) and _is_single(other) for other in others)


def _pieces_of(value: SSAValue, results: Sequence[SSAValue], dim: int) -> Iterator[Overwritable]:
    """The buffers that may stay in the tensor that is split along ``dim``, which may go away (``unbind``)."""
    base, start = _place_in(value)
    if base is None or not _is_private(base) or not _is_run(value, dim):
        return
    for result in results:
        owner = result.owner
        if _is_dynamic(result) or not isinstance(owner, BufferOp) or not is_contiguous(owner.result.type):
            return
        size = _bytes(result.type)
        if size and _is_private(owner) and owner is not base:
            yield Overwritable(base, owner, start)
        start += size


def _is_run(value: SSAValue, dim: int) -> bool:
    """Whether the elements of a static tensor for one index of ``dim`` lie one after the other."""
    type = value.type
    assert isinstance(type, TensorType)
    shape = type.get_shape()
    return (
        not _is_dynamic(value)
        and is_contiguous(type)
        and bool(shape)
        and all(n == 1 for n in shape[: dim % len(shape)])
    )


def _parts_of(result: BufferOp, items: Sequence[SSAValue], dim: int) -> Iterator[Overwritable]:
    """The buffers that may be parts of a concatenation along ``dim``, which may be one that it adds (``stack``)."""
    if not _is_run(result.result, dim):
        return
    type = result.result.type
    start = 0
    uses = Counter(_place_in(value)[0] for value in items)
    for value in items:
        if _is_dynamic(value) or not isinstance(value.type, TensorType) or not is_contiguous(value.type):
            return
        if value.type.element_type != type.element_type:
            return
        size = _bytes(value.type)
        base, offset = _place_in(value)
        whole = base is not None and not offset and _bytes(base.result.type) == size and base.dynamic is None
        if base is not None and whole and size and uses[base] == 1 and _is_private(base):
            yield Overwritable(base, result, -start)
        start += size


def _dim_of(op: CallOp, schema: OpSchema) -> int:
    """The dim along which a call concatenates."""
    for argument, item in zip(schema.arguments, op.template.data, strict=True):
        if argument.name == "dim" and isinstance(item, int):
            return item
    return 0


def _is_dynamic(value: SSAValue) -> bool:
    return isinstance(value.owner, (BufferOp, ViewOp)) and value.owner.dynamic is not None


def _sizes(value: SSAValue) -> str | None:
    return sizes_of(value.owner) if isinstance(value.owner, (BufferOp, ViewOp)) else None


def _is_single(value: SSAValue) -> bool:
    assert isinstance(value.type, TensorType)
    return all(size == 1 for size in value.type.get_shape())


def _bytes(type: Attribute) -> int:
    assert isinstance(type, TensorType)
    return math.prod(type.get_shape()) * dtype_of(type.element_type).itemsize


def _is_read_there_only(value: SSAValue, names: Sequence[str], read: Sequence[_Read]) -> bool:
    """Whether all that the call reads of the buffer of ``value`` are the same elements, by operands in ``names``."""
    place = _place_in(value)
    for other in read:
        if _place_in(other.value)[0] is not place[0]:
            continue
        if other.name not in names or other.value.type != value.type or _place_in(other.value) != place:
            return False
    return True
