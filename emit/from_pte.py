"""From a ``.pte`` file to the executable level: any file that ExecuTorch 1.5.1 or etir wrote.

Values keep their order, so that a file that etir wrote comes back with the same numbering and hence the same bytes.
A number that only stands as a kernel's input becomes a literal of the call; one that an instruction may write, or that
is an input or output, becomes ``et.scalar``. Delegates stay blobs. Several chains, which run one after the other,
become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from etir.dialects.dtypes import BY_NUMBER
from etir.dialects.et.arguments import OPERAND, Item, ListArg
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import (
    CallOp,
    DelegateCallOp,
    FreeOp,
    InputsOp,
    JumpFalseOp,
    JumpOp,
    MoveOp,
    NextOp,
    ReturnOp,
)
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.payloads import DelegateOp, NamedDataOp
from etir.dialects.et.program import GetWeightOp, NoneOp, StateOp, StringOp, WeightOp
from etir.dialects.et.values import BufferOp, ScalarOp, ViewOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.emit.errors import E0863, E0864
from etir.emit.formats.buffers import Buffer
from etir.emit.ptd.model import FlatTensor
from etir.emit.pte import model
from etir.emit.pte.reader import read_pte
from etir.emit.unwritten import unwritten

_NUMBERS = (model.Int, model.Bool, model.Double)
_LISTS = (model.IntList, model.DoubleList, model.BoolList, model.TensorList, model.OptionalTensorList)
_CHECKS = frozenset({"etir::check_size", "etir::check_number", "etir::check"})
_PRIMITIVE_KERNELS = frozenset({"aten::sym_size.int", "aten::sym_numel", "aten::_local_scalar_dense"}) | _CHECKS
_DYNAMIC = {
    model.TensorShapeDynamism.STATIC: None,
    model.TensorShapeDynamism.DYNAMIC_BOUND: "bound",
    model.TensorShapeDynamism.DYNAMIC_UNBOUND: "unbound",
}


def is_primitive(kernel: str) -> bool:
    """Whether a kernel works on values of the interpreter itself: its last argument is the result, with no slot."""
    return kernel.startswith("executorch_prim::") or kernel in _PRIMITIVE_KERNELS


def read_program(data: Buffer, external: Mapping[str, FlatTensor] | None = None, *, name: str = "<pte>") -> ModuleOp:
    """The module of a ``.pte`` file; ``name`` is what errors call it.

    ``external`` are ``.ptd`` files by tag, which hold the weights that the program keeps outside of itself. The module
    refers to ``data`` (its weights are not copied), so ``data`` must not change. Raises the errors of the reader
    (E08xx), E0863 for external data that is not given, and E0864 for a file that uses a value as both a literal list
    and something that instructions change.
    """
    program = read_pte(data, name)
    reader = _Reader(program, external or {})
    methods: list[Operation] = [_MethodReader(reader, plan).run() for plan in program.execution_plan]
    named: list[Operation] = [
        NamedDataOp(key, BlobAttr(_blob(entry.data)), entry.alignment if entry.alignment > 1 else None)
        for key, entry in program.named_data.items()
    ]
    for op in named:
        op.location = NameLoc(StringAttr("named_data"), UnknownLoc())
    return ModuleOp([*reader.symbols, *named, *methods])


def _blob(data: Buffer) -> Blob:
    return Blob.of(data if isinstance(data, memoryview) else memoryview(data))


class _Reader:
    """What methods share: symbols of constants, states and delegates."""

    def __init__(self, program: model.Program, external: Mapping[str, FlatTensor]):
        self.program = program
        self.external = external
        self.symbols: list[Operation] = []
        self._constants: dict[tuple[object, Attribute], str] = {}
        self._states: dict[tuple[str, Attribute, tuple[int, int]], str] = {}
        self._taken: dict[str, None] = dict.fromkeys(plan.name for plan in program.execution_plan)

    def name(self, wanted: str) -> str:
        """A symbol name that is not taken."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken[name] = None
        return name

    def _add(self, op: Operation, label: str) -> None:
        op.location = NameLoc(StringAttr(label), UnknownLoc())
        self.symbols.append(op)

    def constant(self, tensor: model.Tensor, type: Attribute) -> str:
        """The weight of a constant tensor, in the program or in an external file."""
        attributes: dict[str, Attribute] = {}
        key: object = tensor.data_buffer_idx
        label = f"constant_{tensor.data_buffer_idx}"
        if tensor.is_external:
            assert tensor.extra_tensor_info is not None
            fqn = tensor.extra_tensor_info.fully_qualified_name or ""
            key, label = fqn, _symbol(fqn)
            tag, data = self._external(fqn)
            attributes = {"fqn": StringAttr(fqn), "external": StringAttr(tag)}
        else:
            data = self.program.constants[tensor.data_buffer_idx]
        known = self._constants.get((key, type))
        if known is None:
            known = self._constants[(key, type)] = self.name(label)
            data = memoryview(data)[: tensor.nbytes]
            self._add(WeightOp(known, type, BlobAttr(_blob(data)), attributes), known)
        return known

    def _external(self, fqn: str) -> tuple[str, Buffer]:
        for tag, file in self.external.items():
            if fqn in file.named_data:
                return tag, file.named_data[fqn].data
        raise E0863.error(f"the program keeps '{fqn}' in a .ptd file, and no given file has it")

    def state(self, index: int, tensor: model.Tensor, type: Attribute) -> str:
        """The state of a tensor with initial bytes, with a name, or with what a run leaves to the next."""
        fqn = None if tensor.extra_tensor_info is None else tensor.extra_tensor_info.fully_qualified_name
        place = tensor.allocation_info
        # Methods have the first memory each for itself; in others a buffer of one name and place is the same one.
        shared = (fqn, type, (place.memory_id, place.memory_offset)) if fqn and place and place.memory_id > 1 else None
        if shared in self._states:
            return self._states[shared]
        name = self.name(_symbol(fqn) if fqn else f"state_{index}")
        if shared is not None:
            self._states[shared] = name
        value = None
        attributes: dict[str, Attribute] = {"fqn": StringAttr(fqn)} if fqn else {}
        if tensor.is_external:
            tag, data = self._external(fqn or "")
            value = BlobAttr(_blob(memoryview(data)[: tensor.nbytes]))
            attributes["external"] = StringAttr(tag)
        elif tensor.data_buffer_idx:
            data = memoryview(self.program.mutable_data[tensor.data_buffer_idx])[: tensor.nbytes]
            value = BlobAttr(_blob(data))
        self._add(StateOp(name, type, value, attributes), name)
        return name

    def delegate(self, delegate: model.BackendDelegate) -> str:
        """The symbol of a delegate's payload; every call has its own, as in the file."""
        name = self.name("delegate_0")
        specs = [(spec.key, bytes(spec.value)) for spec in delegate.compile_specs]
        self._add(DelegateOp(name, delegate.id, BlobAttr(_blob(delegate.data)), specs, inline=delegate.inline), name)
        return name


def _symbol(text: str) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_$.") else "_" for c in text)
    return name if name and (name[0].isalpha() or name[0] == "_") else f"_{name}"


class _MethodReader:
    def __init__(self, reader: _Reader, plan: model.ExecutionPlan):
        self.reader = reader
        self.plan = plan
        self.unwritten = unwritten(plan)
        self.values: dict[int, SSAValue] = {}
        self.definitions: list[Operation] = []
        self.kernels = [op.full_name for op in plan.operators]

    def run(self) -> MethodOp:
        plan = self.plan
        written = self._written()
        for index in self._in_order():
            op = self._definition(index, plan.values[index], written)
            if op is not None:
                if isinstance(op.location, UnknownLoc):
                    op.location = NameLoc(StringAttr(f"value {index}"), UnknownLoc())
                self.definitions.append(op)
                self.values[index] = op.results[0]
        blocks = self._body()
        first = blocks[0].first_op
        assert first is not None
        for op in self.definitions:
            blocks[0].insert_op_before(op, first)
        meta = plan.container_meta_type
        devices = [(d.buffer_idx, int(d.device_type), d.device_index) for d in plan.non_const_buffer_device]
        method = MethodOp(
            plan.name,
            Region(blocks),
            pools=plan.non_const_buffer_sizes or (0,),
            in_spec=None if meta is None else meta.encoded_inp_str,
            out_spec=None if meta is None else meta.encoded_out_str,
            devices=devices,
        )
        method.location = NameLoc(StringAttr(plan.name), UnknownLoc())
        if any(chain.stacktrace is not None for chain in plan.chains):
            method.attributes["stacktrace"] = StringAttr("kept")
        return method

    def _in_order(self) -> Iterator[int]:
        """The numbers of values; a view that comes before its base in the file comes after it here."""
        bases = {**self.unwritten.views, **self.unwritten.late}
        done: dict[int, None] = {}
        for index in range(len(self.plan.values)):
            waiting: list[int] = []
            step: int | None = index
            while step is not None and step not in done:
                waiting.append(step)
                step = bases.get(step)
            done.update(dict.fromkeys(reversed(waiting)))
            yield from reversed(waiting)

    # --- values -----------------------------------------------------------------------------------------------------

    def _written(self) -> dict[int, None]:
        """Values that cannot be literals: what instructions may write, and what the caller sets or reads."""
        found = dict.fromkeys([*self.plan.inputs, *self.plan.outputs])
        conditions: dict[int, None] = {}
        for chain in self.plan.chains:
            for instruction in chain.instructions:
                match instruction:
                    case model.KernelCall(op_index, args):
                        kernel = self.kernels[op_index]
                        if args and is_primitive(kernel) and kernel not in _CHECKS:
                            found[args[-1]] = None
                    case model.DelegateCall(_, args):
                        found.update(dict.fromkeys(args))
                    case model.MoveCall(source, target):
                        found.update({source: None, target: None})
                    case model.JumpFalseCall(condition, _):
                        conditions[condition] = None
                    case _:
                        pass
        # A jump on a constant that is false always goes: that is et.jump, and the constant stays a literal.
        found.update((i, None) for i in conditions if self.plan.values[i] != model.Bool(False))
        for index in list(found):
            if isinstance(self.plan.values[index], _LISTS):
                raise E0864.error(
                    f"method '{self.plan.name}': value {index} is a list that is an input, an output or written"
                )
        return found

    def _definition(self, index: int, value: model.EValue, written: Mapping[int, None]) -> Operation | None:
        if isinstance(value, model.Tensor):
            return self._tensor(index, value)
        if index not in written:
            return None
        if isinstance(value, model.Null):
            return NoneOp()
        if isinstance(value, model.String):
            return StringOp(value.string_val)
        assert isinstance(value, _NUMBERS)
        return ScalarOp(_number(value))

    def _tensor(self, index: int, tensor: model.Tensor) -> Operation:
        element = BY_NUMBER[int(tensor.scalar_type)].type
        type = tensor_type(element, tensor.sizes, tensor.dim_order)
        dynamic = _DYNAMIC[tensor.shape_dynamism]
        place = None
        if tensor.allocation_info is not None:
            place = (tensor.allocation_info.memory_id, tensor.allocation_info.memory_offset)
        if place is None and (tensor.data_buffer_idx or tensor.is_external):
            return GetWeightOp(self.reader.constant(tensor, type), type)
        if (base := self.unwritten.views.get(index)) is not None:
            return ViewOp(self.values[base], type, self._offset(tensor, base), dynamic=dynamic)
        if (base := self.unwritten.late.get(index)) is not None:
            return ViewOp(self.values[base], type, dynamic=dynamic, late=True)
        has_name = tensor.extra_tensor_info is not None and bool(tensor.extra_tensor_info.fully_qualified_name)
        is_state = bool(tensor.data_buffer_idx) or has_name or index in self.unwritten.states
        state = self.reader.state(index, tensor, type) if is_state else None
        op = BufferOp(type, state=state, dynamic=dynamic, place=place)
        if place is None and not op.is_allocated:
            op.caller = BufferOp(type, caller=True).caller
            op.state = None
        return op

    def _offset(self, view: model.Tensor, base: int) -> int:
        """Bytes from the beginning of a base to that of a view of it."""
        tensor = self.plan.values[base]
        assert isinstance(tensor, model.Tensor) and tensor.allocation_info is not None
        assert view.allocation_info is not None
        return view.allocation_info.memory_offset - tensor.allocation_info.memory_offset

    # --- instructions -----------------------------------------------------------------------------------------------

    def _body(self) -> list[Block]:
        entries, frames = self._flat_instructions()
        targets = sorted({t for t in (self._target(i) for i in entries) if t is not None})
        starts = {0: None, **dict.fromkeys(targets)}
        for position, instruction in enumerate(entries):
            if isinstance(instruction, model.JumpFalseCall):
                starts[position + 1] = None
        blocks = {position: Block() for position in sorted(starts)}
        current = blocks[0]
        self._add(current, InputsOp([self.values[i] for i in self.plan.inputs]), None)
        for position, instruction in enumerate(entries):
            if position and position in blocks:
                if not _ends(current):
                    self._add(current, NextOp(blocks[position]), None)
                current = blocks[position]
            if isinstance(instruction, model.JumpFalseCall) and instruction.cond_value_index not in self.values:
                op: Operation = JumpOp(blocks[instruction.destination_instruction])
            elif isinstance(instruction, model.JumpFalseCall):
                op = JumpFalseOp(
                    self.values[instruction.cond_value_index],
                    blocks[instruction.destination_instruction],
                    blocks[position + 1],
                )
            else:
                op = self._instruction(instruction)
            self._add(current, op, frames[position])
        end = len(entries)
        if end in blocks and end:
            if not _ends(current):
                self._add(current, NextOp(blocks[end]), None)
            current = blocks[end]
        self._add(current, ReturnOp([self.values[i] for i in self.plan.outputs]), None)
        return list(blocks.values())

    def _flat_instructions(self) -> tuple[list[model.Instruction], list[model.FrameList | None]]:
        """The instructions of all chains in one list, jump targets shifted."""
        entries: list[model.Instruction] = []
        frames: list[model.FrameList | None] = []
        for chain in self.plan.chains:
            base = len(entries)
            for instruction in chain.instructions:
                if isinstance(instruction, model.JumpFalseCall):
                    instruction = model.JumpFalseCall(
                        instruction.cond_value_index, instruction.destination_instruction + base
                    )
                entries.append(instruction)
            frames += chain.stacktrace if chain.stacktrace is not None else [None] * len(chain.instructions)
        return entries, frames

    @staticmethod
    def _target(instruction: model.Instruction) -> int | None:
        return instruction.destination_instruction if isinstance(instruction, model.JumpFalseCall) else None

    def _add(self, block: Block, op: Operation, frames: model.FrameList | None) -> None:
        op.location = _location(frames, self.plan.name)
        block.add_op(op)

    def _instruction(self, instruction: model.Instruction) -> Operation:
        match instruction:
            case model.KernelCall(op_index, args):
                kernel = self.kernels[op_index]
                operands: list[SSAValue] = []
                if is_primitive(kernel):
                    return CallOp(kernel, tuple(self._item(a, operands) for a in args), operands)
                template = tuple(self._item(a, operands) for a in args[:-1])
                returns = (self._item(args[-1], operands),) if args else None
                return CallOp(kernel, template, operands, returns)
            case model.DelegateCall(index, args):
                operands = []
                template = tuple(self._item(a, operands) for a in args)
                return DelegateCallOp(self.reader.delegate(self.plan.delegates[index]), template, operands)
            case model.MoveCall(source, target):
                return MoveOp(self.values[source], self.values[target])
            case model.FreeCall(value):
                return FreeOp(self.values[value])
            case _:
                raise AssertionError(instruction)

    def _item(self, index: int, operands: list[SSAValue]) -> Item | ListArg:
        """An argument as an operand or as the literal that it is."""
        known = self.values.get(index)
        if known is not None:
            operands.append(known)
            return OPERAND
        value = self.plan.values[index]
        match value:
            case model.Null():
                return None
            case model.String(text):
                return text
            case model.IntList(items):
                return ListArg("ints", tuple(cast(Item, self._item(i, operands)) for i in items))
            case model.TensorList(items):
                return ListArg("tensors", tuple(cast(Item, self._item(i, operands)) for i in items))
            case model.OptionalTensorList(items):
                return ListArg(
                    "optionals", tuple(None if i < 0 else cast(Item, self._item(i, operands)) for i in items)
                )
            case model.DoubleList(items):
                return ListArg("doubles", tuple(items))
            case model.BoolList(items):
                return ListArg("bools", tuple(items))
            case _:
                assert isinstance(value, _NUMBERS)
                return _number(value)


def _number(value: model.Int | model.Bool | model.Double) -> int | bool | float:
    match value:
        case model.Int(number):
            return number
        case model.Bool(flag):
            return flag
        case model.Double(number):
            return number


def _ends(block: Block) -> bool:
    return isinstance(block.last_op, (JumpFalseOp, JumpOp, NextOp))


def _location(frames: model.FrameList | None, method: str) -> LocationAttr:
    if frames is None or not frames.items:
        return NameLoc(StringAttr(method), UnknownLoc())
    frame = frames.items[-1]
    place = FileLineColLoc(StringAttr(frame.filename or "?"), IntAttr(max(frame.lineno, 0)), IntAttr(0))
    return NameLoc(StringAttr(frame.name), place) if frame.name else place
