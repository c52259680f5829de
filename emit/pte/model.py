"""A ``.pte`` program as plain data: the tables of the Program schema, with data held as buffers.

The classes mirror the schema, except for what only says where bytes are in the file. Constants, initial values of
mutable buffers, delegate blobs and named data are buffers (``bytes`` or zero-copy views into the file that was read)
instead of segment indices, 64-bit offsets are one int instead of two halves, and a union is the class of its member.

Instances are immutable and compare by content. Indices (of values, operators, delegates, instructions) count from 0
and are the file's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

from etir.emit.formats.buffers import SEGMENT_ALIGNMENT, Buffer
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.formats.shape import tensor_bytes


class TensorShapeDynamism(IntEnum):
    """Whether the sizes of a tensor can change at run time; the runtime refuses ``DYNAMIC_UNBOUND``."""

    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class TensorDataLocation(IntEnum):
    """Where the data of a tensor comes from: this program, or a map of named data given at load time."""

    SEGMENT = 0
    EXTERNAL = 1


class DeviceType(IntEnum):
    """The kind of device that holds a tensor or a memory."""

    CPU = 0
    CUDA = 1


@dataclass(frozen=True, slots=True)
class AllocationDetails:
    """Where memory planning put a tensor: ``memory_offset`` bytes into ``non_const_buffer_sizes[memory_id]``."""

    memory_id: int
    memory_offset: int


@dataclass(frozen=True, slots=True)
class ExtraTensorInfo:
    """What only few tensors have: a name, data outside of the program, a device other than the CPU."""

    mutable_data_segments_idx: int = 0
    fully_qualified_name: str | None = None
    location: TensorDataLocation = TensorDataLocation.SEGMENT
    device_type: DeviceType = DeviceType.CPU
    device_index: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor. ``sizes`` are upper bounds where dynamic; ``dim_order`` lists the dims from outermost to innermost.

    With ``data_buffer_idx`` > 0 the bytes are ``Program.constants[idx]``, or ``Program.mutable_data[idx]`` copied to
    the planned place at load time when there is an ``allocation_info``.
    """

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    allocation_info: AllocationDetails | None = None
    data_buffer_idx: int = 0
    shape_dynamism: TensorShapeDynamism = TensorShapeDynamism.STATIC
    requires_grad: bool = False
    storage_offset: int = 0
    layout: int = 0
    extra_tensor_info: ExtraTensorInfo | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor at its greatest sizes."""
        return tensor_bytes(self.scalar_type, self.sizes)

    @property
    def is_external(self) -> bool:
        """Whether the data is looked up by name at load time; ``data_buffer_idx`` means nothing then."""
        return self.extra_tensor_info is not None and self.extra_tensor_info.location is TensorDataLocation.EXTERNAL


@dataclass(frozen=True, slots=True)
class Null:
    """None."""


@dataclass(frozen=True, slots=True)
class Int:
    """A 64-bit int, also a dtype, layout or memory format."""

    int_val: int


@dataclass(frozen=True, slots=True)
class Bool:
    """A bool."""

    bool_val: bool


@dataclass(frozen=True, slots=True)
class Double:
    """A double; inf and nan are allowed."""

    double_val: float


@dataclass(frozen=True, slots=True)
class String:
    """A string."""

    string_val: str


@dataclass(frozen=True, slots=True)
class IntList:
    """A list of ints as indices of ``Int`` values, so that elements can change at run time."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleList:
    """A list of literal doubles."""

    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolList:
    """A list of literal bools."""

    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors as indices of values that precede the list."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OptionalTensorList:
    """A list of tensors as indices of values that precede the list; -1 is None."""

    items: tuple[int, ...]


EValue: TypeAlias = (
    Null | Int | Bool | Double | Tensor | String | IntList | DoubleList | BoolList | TensorList | OptionalTensorList
)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator by its name (``aten::add``) and overload (``out``, empty for the default one)."""

    name: str
    overload: str = ""

    @property
    def full_name(self) -> str:
        """What the runtime looks up: ``aten::add.out``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True, slots=True)
class CompileSpec:
    """One option that a delegate's preprocessing was given, kept for the delegate's runtime half."""

    key: str
    value: Buffer


@dataclass(frozen=True, slots=True)
class BackendDelegate:
    """A delegate call's compiled blob. Equal blobs share a segment; ``inline`` blobs lie inside the FlatBuffer."""

    id: str
    data: Buffer
    compile_specs: tuple[CompileSpec, ...] = ()
    inline: bool = False


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call ``operators[op_index]`` with ``args``: one value per schema argument, then the returned value."""

    op_index: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Run ``delegates[delegate_index]`` on ``args``: inputs, then outputs."""

    delegate_index: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveCall:
    """Copy a value; of a tensor that is the handle, not the bytes."""

    move_from: int
    move_to: int


@dataclass(frozen=True, slots=True)
class JumpFalseCall:
    """Continue at ``destination_instruction`` of the chain when a Bool, or any element of a bool tensor, is false."""

    cond_value_index: int
    destination_instruction: int


@dataclass(frozen=True, slots=True)
class FreeCall:
    """Drop the data of a dynamic tensor."""

    value_index: int


Instruction: TypeAlias = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of source code that an instruction comes from."""

    filename: str
    lineno: int
    name: str
    context: str


@dataclass(frozen=True, slots=True)
class FrameList:
    """The frames of one instruction."""

    items: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Instructions that run in order. ``stacktrace`` has one entry per instruction, or is None."""

    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    stacktrace: tuple[FrameList, ...] | None = None


@dataclass(frozen=True, slots=True)
class ContainerMetadata:
    """How the flat inputs and outputs nest: pytree descriptions that the runtime hands out but does not read."""

    encoded_inp_str: str
    encoded_out_str: str


@dataclass(frozen=True, slots=True)
class NonConstBufferDevice:
    """The device of one planned memory; memories that are not listed are on the CPU."""

    buffer_idx: int = 0
    device_type: DeviceType = DeviceType.CPU
    device_index: int = 0


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A method. ``non_const_buffer_sizes`` is in bytes, indexed by memory id; entry 0 is reserved and 0."""

    name: str
    values: tuple[EValue, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[Chain, ...]
    operators: tuple[Operator, ...] = ()
    delegates: tuple[BackendDelegate, ...] = ()
    non_const_buffer_sizes: tuple[int, ...] = (0,)
    non_const_buffer_device: tuple[NonConstBufferDevice, ...] = ()
    container_meta_type: ContainerMetadata | None = None


@dataclass(frozen=True, slots=True)
class NamedData:
    """A blob found by its key at load time. ``alignment`` in bytes applies beside the segment alignment."""

    data: Buffer
    alignment: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Alignments in bytes, powers of two: of segments, of constants in theirs, of delegate blobs."""

    segment_alignment: int = SEGMENT_ALIGNMENT
    constant_alignment: int = 16
    delegate_alignment: int = 16


_NO_NAMED_DATA: Mapping[str, NamedData] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Program:
    """A whole file.

    ``constants`` is indexed by ``Tensor.data_buffer_idx`` and so is ``mutable_data``; their entry 0 is reserved and
    empty, and ``mutable_data`` has no entries at all when no buffer has initial bytes. ``named_data`` keeps its order.
    ``layout`` is what reproduces the file byte for byte, and does not take part in comparison.
    """

    execution_plan: tuple[ExecutionPlan, ...]
    constants: tuple[Buffer, ...] = (b"",)
    mutable_data: tuple[Buffer, ...] = ()
    named_data: Mapping[str, NamedData] = field(default_factory=lambda: _NO_NAMED_DATA)
    version: int = 0
    layout: FileLayout = field(default=FileLayout(), compare=False)
