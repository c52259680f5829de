"""The rules that a program has to follow so that the runtime can load and run it.

The reader checks what it decoded and the writer what it is given with the same function. The runtime checks some of
these rules when it loads a method, and relies on the rest; breaking one of those crashes the process that runs the
program, so none is left to the runtime here.

Equal objects are often the same object (the reader shares what the file shares), so what has been checked is
remembered by identity: a list that a million values refer to is looked at once. A list whose elements come before it
at its first use comes after them at every later one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from etir.diagnostics import Diagnostic, ErrorId, SourceLocation
from etir.emit.errors import (
    E0814,
    E0820,
    E0821,
    E0822,
    E0823,
    E0824,
    E0825,
    E0826,
    E0827,
    E0828,
    E0829,
    E0830,
    E0831,
    E0832,
    E0833,
    E0834,
    E0835,
    E0836,
    E0837,
    E0839,
)
from etir.emit.formats.buffers import buffer_bytes
from etir.emit.formats.checks import is_alignment, name_error, quoted, text_error
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.formats.shape import shape_error
from etir.emit.pte.model import (
    Bool,
    Chain,
    CompileSpec,
    DelegateCall,
    Double,
    ExecutionPlan,
    ExtraTensorInfo,
    FrameList,
    FreeCall,
    Instruction,
    Int,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Null,
    OptionalTensorList,
    Program,
    String,
    Tensor,
    TensorList,
    TensorShapeDynamism,
)
from etir.emit.pte.schema import VERSION

Path = tuple[str | int, ...]
"""Where something is: the plan's index, its part (``values``, ``instructions`` ...) and the index in that."""

MAX_DIAGNOSTICS = 64
"""More mistakes than this say nothing new about a program."""

MAX_OPERATOR_NAME = 99

_I8, _I32, _I64 = 1 << 7, 1 << 31, 1 << 63
_INPUT_KINDS = (Tensor, Int, Bool, Double, String, Null)


def validate_program(
    program: Program, *, file: str | None = None, position_of: Callable[[Path], int | None] | None = None
) -> list[Diagnostic]:
    """Everything that is wrong with ``program``, at most :data:`MAX_DIAGNOSTICS` errors.

    ``file`` names the file the program was read from and ``position_of`` gives the byte position of a part of it.
    """
    location = None if file is None else SourceLocation(file)
    return [diagnostic.at(location) for diagnostic in islice(_check_program(program, position_of), MAX_DIAGNOSTICS)]


def _check_program(program: Program, position_of: Callable[[Path], int | None] | None) -> Iterator[Diagnostic]:
    if program.version != VERSION:
        yield E0814.diagnostic(f"schema version {program.version} is not {VERSION}")
    for field in ("segment_alignment", "constant_alignment", "delegate_alignment"):
        if not is_alignment(value := getattr(program.layout, field)):
            yield E0836.diagnostic(f"{field} {value} is not a power of two up to 2^20")
    if not program.constants or buffer_bytes(program.constants[0]):
        yield E0827.diagnostic("entry 0 of the constants is reserved and has to be empty")
    if program.mutable_data and buffer_bytes(program.mutable_data[0]):
        yield E0827.diagnostic("entry 0 of the mutable data is reserved and has to be empty")
    for key, named in program.named_data.items():
        if (problem := name_error(key)) is not None:
            yield E0828.diagnostic(f"key of named data {problem}")
        elif (problem := text_error(key)) is not None:
            yield E0835.diagnostic(f"key of named data {problem}")
        if not is_alignment(named.alignment):
            yield E0836.diagnostic(f"alignment {named.alignment} of named data {quoted(key)} is not a power of two")
    names: set[str] = set()
    for index, plan in enumerate(program.execution_plan):
        checker = _PlanChecker(program, plan, index, position_of)
        if plan.name in names:
            yield checker.report(E0831, "an earlier method has the same name")
        names.add(plan.name)
        yield from checker.check()


class _PlanChecker:
    """Checks one method."""

    def __init__(
        self, program: Program, plan: ExecutionPlan, index: int, position_of: Callable[[Path], int | None] | None
    ):
        self.program = program
        self.plan = plan
        self.index = index
        self.position_of = position_of
        self.count = len(plan.values)
        self.checked: set[tuple[type, int]] = set()
        self.shapes: dict[tuple[ScalarType, tuple[int, ...], tuple[int, ...]], str | None] = {}

    def report(self, error: ErrorId, message: str, part: str = "", index: int = 0, chain: int = 0) -> Diagnostic:
        where = f"method {quoted(self.plan.name)}"
        path: Path = (self.index,)
        if part == "instructions":
            where += f", chain {chain}" if len(self.plan.chains) > 1 else ""
            path = (self.index, part, chain, index)
        elif part:
            path = (self.index, part, index)
        if part:
            where += f", {part.removesuffix('s')} {index}"
        position = self.position_of(path) if self.position_of is not None else None
        suffix = "" if position is None else f" (at byte {position}, 0x{position:x})"
        return error.diagnostic(f"{where}: {message}{suffix}")

    def check(self) -> Iterator[Diagnostic]:
        yield from self.check_text("name", self.plan.name, "", 0, name=True)
        if self.plan.container_meta_type is not None:
            yield from self.check_text("input description", self.plan.container_meta_type.encoded_inp_str, "", 0)
            yield from self.check_text("output description", self.plan.container_meta_type.encoded_out_str, "", 0)
        yield from self.check_memories()
        yield from self.check_values()
        yield from self.check_interface()
        yield from self.check_operators()
        yield from self.check_delegates()
        if not self.plan.chains:
            yield self.report(E0834, "there is no chain of instructions")
        for index, chain in enumerate(self.plan.chains):
            yield from self.check_chain(index, chain)

    def is_new(self, kind: type, checked: object) -> bool:
        """Whether ``checked`` has not been checked as a ``kind`` before; marks it."""
        key = (kind, id(checked))
        if key in self.checked:
            return False
        self.checked.add(key)
        return True

    def check_text(self, what: str, text: str, part: str, index: int, *, name: bool = False) -> Iterator[Diagnostic]:
        if not name and not self.is_new(str, text):
            return
        if name and (problem := name_error(text)) is not None:
            yield self.report(E0828, f"{what} {problem}", part, index)
        elif (problem := text_error(text)) is not None:
            yield self.report(E0835, f"{what} {problem}", part, index)

    def is_value(self, index: int) -> bool:
        return 0 <= index < self.count

    def unknown_value(self, what: str, value: int, part: str, index: int, chain: int = 0) -> Diagnostic:
        message = f"{what} is value {value}, but the method has {self.count} values"
        return self.report(E0820, message, part, index, chain)

    # Memories and values

    def check_memories(self) -> Iterator[Diagnostic]:
        sizes = self.plan.non_const_buffer_sizes
        if not sizes:
            yield self.report(E0834, "non_const_buffer_sizes is empty, expected at least the reserved entry 0")
        for index, size in enumerate(sizes):
            if not 0 <= size < _I64:
                yield self.report(E0830, f"memory {index} has {size} bytes, expected 0 to 2^63-1")
        for device in self.plan.non_const_buffer_device:
            if not 1 <= device.buffer_idx < len(sizes):
                yield self.report(E0826, f"a device is given for memory {device.buffer_idx}, there are {len(sizes)}")
            if not -_I8 <= device.device_index < _I8:
                yield self.report(E0830, f"device index {device.device_index} of a memory is not in -128 to 127")

    def check_values(self) -> Iterator[Diagnostic]:
        for index, value in enumerate(self.plan.values):
            kind = type(value)
            if kind is Null or kind is Bool or kind is Double or not self.is_new(kind, value):
                continue
            if isinstance(value, Tensor):
                yield from self.check_tensor(index, value)
            elif isinstance(value, Int):
                if not -_I64 <= value.int_val < _I64:
                    yield self.report(E0830, f"{value.int_val} is not a 64-bit int", "values", index)
            elif isinstance(value, IntList | TensorList | OptionalTensorList):
                if self.is_new(kind, value.items):
                    yield from self.check_list(index, value)
            elif isinstance(value, String):
                yield from self.check_text("string", value.string_val, "values", index)

    def check_list(self, index: int, value: IntList | TensorList | OptionalTensorList) -> Iterator[Diagnostic]:
        expected = Int if isinstance(value, IntList) else Tensor
        optional = isinstance(value, OptionalTensorList)
        for position, item in enumerate(value.items):
            if optional and item == -1:
                continue
            element = f"element {position} of the list"
            if not self.is_value(item):
                yield self.unknown_value(element, item, "values", index)
            elif (kind := type(self.plan.values[item])) is not expected:
                message = f"{element} is value {item} of kind {kind.__name__}, expected {expected.__name__}"
                yield self.report(E0824, message, "values", index)
            elif item >= index and expected is Tensor:
                message = f"{element} is value {item}, which does not come before the list"
                yield self.report(E0824, message, "values", index)

    def check_tensor(self, index: int, tensor: Tensor) -> Iterator[Diagnostic]:
        key = (tensor.scalar_type, tensor.sizes, tensor.dim_order)
        if key not in self.shapes:
            self.shapes[key] = shape_error(*key)
        if (problem := self.shapes[key]) is not None:
            yield self.report(E0825, problem, "values", index)
            return
        if tensor.storage_offset:
            yield self.report(E0832, f"storage offset {tensor.storage_offset} is not 0", "values", index)
        given = tensor.allocation_info is not None or tensor.data_buffer_idx or tensor.is_external
        if tensor.shape_dynamism is TensorShapeDynamism.DYNAMIC_UNBOUND and given:
            yield self.report(E0832, "the tensor is DYNAMIC_UNBOUND, but has memory", "values", index)
        if not -_I8 <= tensor.layout < _I8:
            yield self.report(E0830, f"layout {tensor.layout} is not in -128 to 127", "values", index)
        if tensor.extra_tensor_info is not None:
            yield from self.check_extra(index, tensor.extra_tensor_info)
        if tensor.is_external:
            if not 0 <= tensor.data_buffer_idx < 2 * _I32:
                yield self.report(E0830, f"data_buffer_idx {tensor.data_buffer_idx} is not a u32", "values", index)
        elif tensor.data_buffer_idx:
            yield from self.check_data(index, tensor)
        if tensor.allocation_info is not None:
            yield from self.check_allocation(index, tensor)

    def check_extra(self, index: int, extra: ExtraTensorInfo) -> Iterator[Diagnostic]:
        if extra.fully_qualified_name:
            yield from self.check_text("name", extra.fully_qualified_name, "values", index, name=True)
        elif extra.location:
            yield self.report(E0833, "the tensor is external, but has no fully_qualified_name", "values", index)
        if not 0 <= extra.mutable_data_segments_idx < 2 * _I64:
            message = f"mutable_data_segments_idx {extra.mutable_data_segments_idx} is not a u64"
            yield self.report(E0830, message, "values", index)
        if not -_I8 <= extra.device_index < _I8:
            yield self.report(E0830, f"device index {extra.device_index} is not in -128 to 127", "values", index)

    def check_data(self, index: int, tensor: Tensor) -> Iterator[Diagnostic]:
        constant = tensor.allocation_info is None
        store = self.program.constants if constant else self.program.mutable_data
        name = "constants" if constant else "mutable data"
        entry = tensor.data_buffer_idx
        if not 0 < entry < len(store):
            message = f"data_buffer_idx is {entry}, but the {name} have {len(store)} entries"
            yield self.report(E0827, message, "values", index)
        elif tensor.nbytes > (size := buffer_bytes(store[entry])):
            message = f"the tensor has {tensor.nbytes} bytes, entry {entry} of the {name} has {size}"
            yield self.report(E0827, message, "values", index)

    def check_allocation(self, index: int, tensor: Tensor) -> Iterator[Diagnostic]:
        place, sizes = tensor.allocation_info, self.plan.non_const_buffer_sizes
        if place is None:
            return
        if not 0 < place.memory_id < len(sizes):
            message = f"memory id {place.memory_id} is not in 1 to {len(sizes) - 1}"
            yield self.report(E0826, message, "values", index)
        elif place.memory_offset < 0 or place.memory_offset + tensor.nbytes > sizes[place.memory_id]:
            message = (
                f"{tensor.nbytes} bytes at offset {place.memory_offset} end outside of memory {place.memory_id}, "
                f"which has {sizes[place.memory_id]} bytes"
            )
            yield self.report(E0826, message, "values", index)

    # Interface and tables

    def check_interface(self) -> Iterator[Diagnostic]:
        for index, value in enumerate(self.plan.inputs):
            if not self.is_value(value):
                yield self.unknown_value("the input", value, "inputs", index)
            elif not isinstance(self.plan.values[value], _INPUT_KINDS):
                kind = type(self.plan.values[value]).__name__
                yield self.report(E0837, f"the input is value {value}, a {kind}", "inputs", index)
        for index, value in enumerate(self.plan.outputs):
            if not self.is_value(value):
                yield self.unknown_value("the output", value, "outputs", index)

    def check_operators(self) -> Iterator[Diagnostic]:
        for index, operator in enumerate(self.plan.operators):
            if (problem := name_error(operator.name)) is None and "\0" in operator.overload:
                problem = f"with overload {quoted(operator.overload)} has a NUL character"
            problem = problem or name_error(operator.full_name, MAX_OPERATOR_NAME)
            if problem is not None:
                yield self.report(E0828, f"name {problem}", "operators", index)
            elif (problem := text_error(operator.full_name)) is not None:
                yield self.report(E0835, f"name {problem}", "operators", index)

    def check_delegates(self) -> Iterator[Diagnostic]:
        for index, delegate in enumerate(self.plan.delegates):
            yield from self.check_text("id", delegate.id, "delegates", index, name=True)
            if self.is_new(CompileSpec, delegate.compile_specs):
                for spec in delegate.compile_specs:
                    yield from self.check_text("compile spec key", spec.key, "delegates", index)

    # Instructions

    def check_chain(self, chain_index: int, chain: Chain) -> Iterator[Diagnostic]:
        for what, indices in (("input", chain.inputs), ("output", chain.outputs)):
            for value in indices:
                if not self.is_value(value):
                    yield self.unknown_value(f"an {what} of chain {chain_index}", value, "", 0)
        for index, instruction in enumerate(chain.instructions):
            if isinstance(instruction, KernelCall | DelegateCall):
                yield from self.check_call(chain_index, index, instruction)
            else:
                for error, message in self.control_problems(instruction, len(chain.instructions)):
                    yield self.report(error, message, "instructions", index, chain_index)
        if chain.stacktrace is not None:
            yield from self.check_stacktrace(chain_index, chain)

    def check_call(self, chain: int, index: int, call: KernelCall | DelegateCall) -> Iterator[Diagnostic]:
        if isinstance(call, KernelCall):
            if not 0 <= call.op_index < len(self.plan.operators):
                message = f"calls operator {call.op_index}, but the method has {len(self.plan.operators)} operators"
                yield self.report(E0821, message, "instructions", index, chain)
        elif not 0 <= call.delegate_index < len(self.plan.delegates):
            message = f"calls delegate {call.delegate_index}, but the method has {len(self.plan.delegates)} delegates"
            yield self.report(E0822, message, "instructions", index, chain)
        args = call.args
        if args and self.is_new(KernelCall, args) and (min(args) < 0 or max(args) >= self.count):
            for position, value in enumerate(args):
                if not self.is_value(value):
                    yield self.unknown_value(f"argument {position}", value, "instructions", index, chain)

    def control_problems(self, instruction: Instruction, length: int) -> Iterator[tuple[ErrorId, str]]:
        """What is wrong with a move, jump or free in a chain of ``length`` instructions."""
        values = self.plan.values
        match instruction:
            case MoveCall(move_from=source, move_to=target):
                operands = (("source", source), ("target", target))
            case JumpFalseCall(cond_value_index=condition):
                operands = (("condition", condition),)
            case FreeCall(value_index=freed):
                operands = (("freed value", freed),)
            case _:
                operands = ()
        known = True
        for what, value in operands:
            if not self.is_value(value):
                known = False
                yield E0820, f"the {what} is value {value}, but the method has {self.count} values"
        if isinstance(instruction, JumpFalseCall):
            if not 0 <= instruction.destination_instruction <= length:
                message = f"jumps to instruction {instruction.destination_instruction} of a chain of {length}"
                yield E0823, message
            if known:
                value = values[instruction.cond_value_index]
                is_mask = isinstance(value, Tensor) and value.scalar_type is ScalarType.BOOL
                if not is_mask and not isinstance(value, Bool):
                    kind = f"{value.scalar_type.name} tensor" if isinstance(value, Tensor) else type(value).__name__
                    yield E0829, f"the condition is value {instruction.cond_value_index}, a {kind}"
        elif isinstance(instruction, FreeCall) and known and not isinstance(values[instruction.value_index], Tensor):
            kind = type(values[instruction.value_index]).__name__
            yield E0829, f"the freed value is value {instruction.value_index}, a {kind}"

    def check_stacktrace(self, chain_index: int, chain: Chain) -> Iterator[Diagnostic]:
        frames = chain.stacktrace or ()
        if len(frames) != len(chain.instructions):
            message = f"chain {chain_index} has {len(chain.instructions)} instructions and {len(frames)} stack traces"
            yield self.report(E0839, message)
        for index, frame_list in enumerate(frames):
            for frame in frame_list.items if self.is_new(FrameList, frame_list.items) else ():
                if not -_I32 <= frame.lineno < _I32:
                    message = f"line number {frame.lineno} is not a 32-bit int"
                    yield self.report(E0830, message, "instructions", index, chain_index)
                for text in (frame.filename, frame.name, frame.context):
                    if self.is_new(str, text) and (problem := text_error(text)) is not None:
                        yield self.report(E0835, f"frame {problem}", "instructions", index, chain_index)
