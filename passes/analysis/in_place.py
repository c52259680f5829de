"""Which operands an instruction may write its result over.

A kernel's row says which of its operands the result may share bytes with (``in_place``): element i of the result is
written after element i of the operand was last read, and no other element depends on it. Whether one call may do so is
a matter of its types: the operand has the result's dtype, dims and dim order, so that it is not broadcast, and nothing
else that the call reads lies in the operand's bytes at another place. Dims that change at run time are the same when
there is nothing else that the result could take them from.

Whether the operand's contents are needed afterwards is not asked here: that is liveness (``memory_effects.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.dialects.et.arguments import OPERAND, flatten
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.schema import OpSchema
from etir.targets.manifest import available, load

InPlaceKernels: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each kernel that can work in place, the operands that its first result may be written over."""


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
    """``result`` may be written ``displacement`` bytes into ``operand``, a buffer that the call reads."""

    operand: BufferOp
    result: BufferOp
    displacement: int


def overwritable(op: CallOp, schema: OpSchema, kernels: InPlaceKernels) -> list[Overwritable]:
    """The operands that a call may write its first result over, in the order of the schema, each buffer once.

    ``schema`` is the kernel's, with as many arguments as the call has. Buffers of the caller and of state are left out.
    """
    names = kernels.get(op.kernel.data, ())
    if not names or len(schema.arguments) != len(op.template.data):
        return []
    operands = iter(op.arguments)
    read: list[tuple[str, SSAValue]] = []
    written: list[SSAValue] = []
    for argument, item in zip(schema.arguments, op.template.data, strict=True):
        count = sum(1 for element in flatten((item,)) if element is OPERAND)
        values = [v for v in (next(operands) for _ in range(count)) if isinstance(v.type, TensorType)]
        if argument.is_write and argument.kwarg_only:
            written += values
        else:
            read += [(argument.name, value) for value in values]
    if not written or not isinstance(written[0].owner, BufferOp) or not _is_private(written[0].owner):
        return []
    result = written[0].owner
    found: dict[BufferOp, Overwritable] = {}
    for name, value in read:
        base, displacement = _place_in(value)
        if name not in names or base is None or base in found or not _is_private(base):
            continue
        if _is_elementwise(value, result, read) and _is_read_there_only(value, names, read):
            found[base] = Overwritable(base, result, displacement)
    return list(found.values())


def _is_private(op: BufferOp) -> bool:
    """Whether a buffer is the program's own: neither the caller's memory nor state."""
    return op.caller is None and op.state is None


def _place_in(value: SSAValue) -> tuple[BufferOp | None, int]:
    """The buffer that a value lies in and the byte where it begins; none for weights and for what is placed late."""
    owner, offset = value.owner, 0
    while isinstance(owner, ViewOp) and owner.late is None:
        offset += owner.offset.value.data
        owner = owner.base.owner
    return (owner, offset) if isinstance(owner, BufferOp) else (None, 0)


def _is_elementwise(value: SSAValue, result: BufferOp, read: Sequence[tuple[str, SSAValue]]) -> bool:
    """Whether the elements of an operand and of the result lie at the same places, now and at run time."""
    if value.type != result.result.type:
        return False
    if not _is_dynamic(value) and result.dynamic is None:
        return True
    if not _is_dynamic(value) or result.dynamic is None or result.dynamic.data != "bound":
        return False
    # Types are upper bounds: another operand could have more elements at run time, unless it has one only.
    others = [other for _, other in read if other is not value]
    return all(not _is_dynamic(other) and _is_single(other) for other in others)


def _is_dynamic(value: SSAValue) -> bool:
    return isinstance(value.owner, (BufferOp, ViewOp)) and value.owner.dynamic is not None


def _is_single(value: SSAValue) -> bool:
    assert isinstance(value.type, TensorType)
    return all(size == 1 for size in value.type.get_shape())


def _is_read_there_only(value: SSAValue, names: Sequence[str], read: Sequence[tuple[str, SSAValue]]) -> bool:
    """Whether all that the call reads of the buffer of ``value`` are the same elements, by operands in ``names``."""
    base, displacement = _place_in(value)
    for name, other in read:
        if _storage(other) is not base:
            continue
        if name not in names or other.type != value.type or _place_in(other) != (base, displacement):
            return False
    return True


def _storage(value: SSAValue) -> BufferOp | None:
    owner = value.owner
    while isinstance(owner, ViewOp):
        owner = owner.base.owner
    return owner if isinstance(owner, BufferOp) else None
