"""An ETDump as plain data: what a runtime saw, as a list of blocks of events.

The first block of the stock runtime, ``Default``, is the loading of the method; then comes one ``Execute`` per run.
The events of a block are in the order in which they end. Those of an instruction are, in this order, a
:class:`DebugEvent` for each value that was logged, a :class:`ProfileEvent` ``native_call_<operator>`` and one
``OPERATOR_CALL`` around it; a delegate's own events come before its ``DELEGATE_CALL``. Events of the framework
(``Method::execute``) have chain -1 and instruction 0. Times are ticks, nanoseconds on hosts.

The bytes of tensors are in a second file, the buffer of values; :attr:`TensorValue.offset` is a place in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.formats.shape import tensor_bytes

NO_DATA = -1
"""The offset of a tensor whose bytes are not in the buffer: an empty one."""


class ValueKind(IntEnum):
    """What a :class:`Value` is. The format has no place for a string's text."""

    NULL = 0
    INT = 1
    BOOL = 2
    FLOAT = 3
    DOUBLE = 4
    TENSOR = 5
    TENSOR_LIST = 6
    STRING = 7


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor: ``sizes`` and ``strides`` in elements, ``offset`` in bytes of the buffer of values."""

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return tensor_bytes(self.scalar_type, self.sizes)


Content: TypeAlias = "TensorValue | tuple[TensorValue, ...] | float | bool | int | None"


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was logged; ``output`` says whether it is an output of the program, where the file says anything."""

    kind: ValueKind
    content: Content = None
    output: bool | None = None

    @property
    def tensors(self) -> tuple[TensorValue, ...]:
        """The tensors of it."""
        if isinstance(self.content, TensorValue):
            return (self.content,)
        return self.content if isinstance(self.content, tuple) else ()


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """Something that took from ``start_time`` to ``end_time``.

    ``delegate_id`` is what the backend calls the event inside of a delegate, a number or a text, and None outside.
    """

    name: str | None
    chain_index: int
    instruction_id: int
    start_time: int
    end_time: int
    delegate_id: int | str | None = None
    metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class DebugEvent:
    """A value that an instruction, or an operation inside of a delegate, left. Chain -1 for outputs of the program."""

    chain_index: int
    instruction_id: int
    value: Value | None
    delegate_id: int | str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AllocationEvent:
    """Memory that was taken from an allocator, by its index in the block."""

    allocator_id: int
    allocation_size: int


Event: TypeAlias = ProfileEvent | DebugEvent | AllocationEvent


@dataclass(frozen=True, slots=True)
class Block:
    """Events of one run, or of loading. ``bundled_input_index`` is -1 where the inputs are not a bundled program's."""

    name: str | None
    events: tuple[Event, ...] = ()
    bundled_input_index: int = -1
    allocators: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ETDump:
    """A whole file."""

    blocks: tuple[Block, ...] = ()
    version: int = 0
