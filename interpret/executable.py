"""Running ``et.method``: instructions over buffers that share memory exactly as planned.

Planned buffers are slices of one array of bytes for each memory id, so that two buffers placed on each other overwrite
each other here as they would on a device: a wrong plan gives wrong numbers. Where a result shares bytes with an operand
and no kernel is known to work in place there, the result is filled with rubbish before the operands are read, as a
kernel may do. Memory id 1 belongs to one method, the others to all methods of the program, which is how they share
state. Before planning every buffer has memory of its own. Kernels are computed by the functional operator whose out
variant they are, and the result is written to the outs; a dynamic out takes the result's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from etir.diagnostics import EtirError
from etir.dialects.aten.table import load_table
from etir.dialects.dtypes import BY_NUMBER, dtype_of
from etir.dialects.et.arguments import OPERAND, ListArg
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
from etir.dialects.et.layout import order_of, tensor_type
from etir.dialects.et.program import GetWeightOp, NoneOp, SchemaDeclOp, StateOp, StringOp
from etir.dialects.et.values import BufferOp, ScalarOp, ViewOp
from etir.dialects.et.weights import payload_of
from etir.dialects.literals import scalar_of
from etir.dialects.schema import Kind, OpSchema, parse_schema
from etir.dialects.sym.ops import BY_NAME
from etir.dialects.text import source_location
from etir.interpret.errors import E1001, E1002, E1005, E1006
from etir.interpret.evaluator import flat
from etir.interpret.kernel_schemas import KernelSchemas
from etir.interpret.numbers import VARYING_NUMBERS, is_another, number_of
from etir.passes.analysis.in_place import InPlaceKernels, known_in_place_kernels
from etir.passes.analysis.moves import MOVES, Moves
from etir.passes.analysis.view_reads import ViewReads
from etir.passes.analysis.workspaces import workspaces_of

if TYPE_CHECKING:
    from etir.interpret.interpreter import Interpreter

MAX_INSTRUCTIONS = 10_000_000
"""Executed instructions before the interpreter gives up, as in the runtimes."""

_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": BY_NAME["sym.add"].function,
    "sub": BY_NAME["sym.sub"].function,
    "mul": BY_NAME["sym.mul"].function,
    "floordiv": BY_NAME["sym.floordiv"].function,
    "truediv": BY_NAME["sym.truediv"].function,
    # The runtimes compute the remainder as C++ does: its sign is the dividend's.
    "mod": lambda a, b: a - b * int(a / b),
    "eq": BY_NAME["sym.eq"].function,
    "gt": BY_NAME["sym.gt"].function,
    "lt": BY_NAME["sym.lt"].function,
    "ge": BY_NAME["sym.ge"].function,
    "le": BY_NAME["sym.le"].function,
    "neg": BY_NAME["sym.neg"].function,
    "ceil": BY_NAME["sym.ceil"].function,
    "round": BY_NAME["sym.round"].function,
    "trunc": BY_NAME["sym.trunc"].function,
    "sym_float": float,
    "sym_int": int,
    "sym_not": BY_NAME["sym.not"].function,
    "sym_max": max,
    "sym_min": min,
    "sym_ite": BY_NAME["sym.ite"].function,
}
"""Primitive operators on numbers, by the name between ``executorch_prim::`` and the overload."""


_READERS = (CallOp, DelegateCallOp, JumpFalseOp, MoveOp)
"""Instructions that read a number. One among the inputs that none of them reads was written into the program."""


class _Cell:
    """The memory of a tensor: bytes, element type, dim order, the current shape."""

    def __init__(self, memory: Any, type: TensorType[Any]):
        self.memory = memory
        self.type = type
        self.shape: tuple[int, ...] = type.get_shape()


class ExecutableMethod:
    """A loaded method: its arenas and values stay between runs."""

    def __init__(self, interpreter: Interpreter, method: MethodOp):
        self.interpreter = interpreter
        self.evaluator = interpreter.evaluator
        self.method = method
        self.workspaces = workspaces_of(method)
        sizes = method.pool_sizes or (0,)
        self.arenas = [
            np.zeros(size, np.uint8) if memory_id <= 1 else interpreter.shared_memory(memory_id)
            for memory_id, size in enumerate(sizes)
        ]
        self.cells: dict[SSAValue, _Cell] = {}
        self.numbers: dict[SSAValue, Any] = {}
        self.delegates: dict[DelegateCallOp, Callable[[Sequence[Any]], list[Any]]] = {}
        for op in method.body.blocks[0].ops:
            if op.results:
                self._define(op)
        self._in_place: InPlaceKernels | None = None
        self._reads = ViewReads()
        self._op: Operation = method
        self.schemas = KernelSchemas(
            parse_schema(op.schema.data) for op in interpreter.module.body.block.ops if isinstance(op, SchemaDeclOp)
        )

    # --- memory -----------------------------------------------------------------------------------------------------

    def _define(self, op: Operation) -> None:
        value = op.results[0]
        match op:
            case BufferOp():
                self.cells[value] = _Cell(self._memory(op), op.result.type)
                if op.state is not None:
                    self._initialize(value, op.state.root_reference.data)
            case ViewOp():
                base = self.cells[op.base]
                offset = op.offset.value.data
                memory = base.memory[offset : offset + _size(op.result.type)]
                self.cells[value] = _Cell(memory, op.result.type)
            case GetWeightOp():
                assert isinstance(op.result.type, TensorType)
                data = np.frombuffer(self._weight_bytes(op), np.uint8)
                self.cells[value] = _Cell(data, op.result.type)
            case ScalarOp():
                self.numbers[value] = scalar_of(op.value)
            case StringOp():
                self.numbers[value] = op.value.data
            case NoneOp():
                self.numbers[value] = None
            case _:
                raise E1001.error(f"'{op.name}' does not define a value")

    def _memory(self, op: BufferOp) -> Any:
        size = _size(op.result.type)
        if op.place is None:
            return np.zeros(size, np.uint8)
        memory_id, offset = op.place
        arena = self.arenas[memory_id] if memory_id < len(self.arenas) else np.zeros(0, np.uint8)
        if offset + size > len(arena):
            raise E1002.error(f"a buffer of {size} bytes at {offset} does not fit memory {memory_id} ({len(arena)})")
        return arena[offset : offset + size]

    def _initialize(self, value: SSAValue, name: str) -> None:
        state = self.interpreter.symbols.get(name)
        owner = value.owner
        assert isinstance(owner, BufferOp)
        if owner.place is not None and owner.place[0] > 1:
            # Another method may have written it since it was loaded.
            if name in self.interpreter.initialized:
                return
            self.interpreter.initialized[name] = None
        if isinstance(state, StateOp) and state.value is not None:
            assert isinstance(state.type, TensorType)
            data = np.frombuffer(payload_of(state.value, state.type).data, np.uint8)
            self.cells[value].memory[: len(data)] = data

    def _weight_bytes(self, op: GetWeightOp) -> memoryview:
        weight = self.interpreter.symbols[op.symbol.root_reference.data]
        return payload_of(weight.properties["value"], weight.properties["type"]).data  # type: ignore[arg-type]

    def read(self, value: SSAValue) -> Any:
        """The current value: a tensor of the evaluator (a copy), or a number."""
        cell = self.cells.get(value)
        if cell is None:
            return self.numbers[value]
        type = tensor_type(cell.type.element_type, cell.shape, order_of(cell.type))
        return self.evaluator.from_bytes(cell.memory[: _size(type)].tobytes(), type)

    def states(self) -> dict[str, Any]:
        """By symbol what the mutable buffers of the method hold now."""
        buffers = [op for op in self.method.body.blocks[0].ops if isinstance(op, BufferOp)]
        return {op.state.root_reference.data: self.read(op.result) for op in buffers if op.state is not None}

    def write(self, value: SSAValue, tensor: Any) -> None:
        """Store a result. Raises error E1002 when it does not fit the buffer."""
        self._store(value, tensor)
        self._tell(value)

    def _tell(self, value: SSAValue) -> None:
        """Let who watches the interpreter know what a value is now, and the views of it; it may give other values."""
        watch = self.interpreter.watch
        if watch is None:
            return
        given = watch(value, self.read(value))
        if given is not None:
            self._store(value, given)
        self._tell_views(value)

    def _tell_views(self, value: SSAValue) -> None:
        """The same of the views that are still read: others do not stand for what is in their bytes now."""
        for use in value.uses:
            view = use.operation
            if isinstance(view, ViewOp) and view.late is None and self._reads.after(self._op, view.result):
                self._tell(view.result)

    def _store(self, value: SSAValue, tensor: Any) -> None:
        cell = self.cells.get(value)
        if cell is None:
            self.numbers[value] = self.evaluator.item(tensor) if self.evaluator.is_tensor(tensor) else tensor
            return
        shape = tuple(tensor.shape)
        owner = value.owner
        dynamic = isinstance(owner, (BufferOp, ViewOp)) and owner.dynamic is not None
        got = self.evaluator.dtype(tensor)
        if got.type != cell.type.element_type or (shape != cell.shape and not dynamic):
            raise E1002.error(
                f"a result of shape {list(shape)} and dtype {got.torch_name} is written to a buffer of {cell.type}"
            )
        order = order_of(cell.type)
        data = np.frombuffer(self.evaluator.to_bytes(_permuted(tensor, order)), np.uint8)
        if isinstance(owner, BufferOp) and owner.is_allocated:
            cell.memory = np.zeros(len(data), np.uint8)
        if len(data) > len(cell.memory):
            raise E1002.error(f"a result of shape {list(shape)} is larger than its buffer of {cell.type}")
        cell.shape = shape
        cell.memory[: len(data)] = data

    # --- instructions -----------------------------------------------------------------------------------------------

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the method once."""
        block = self.method.body.blocks[0]
        op: Operation | None = block.first_op
        while op is not None and not isinstance(op, InputsOp):
            op = op.next_op
        if op is not None and self.interpreter.watch is not None:
            self._op = op
            for state in [o for o in block.ops if isinstance(o, BufferOp) and o.state is not None]:
                self._tell_views(state.result)
        outputs: list[Any] = []
        for _ in range(MAX_INSTRUCTIONS):
            if op is None:
                break
            self._op = op
            try:
                following = self._step(op, inputs)
            except EtirError as error:
                place = source_location(op.location)
                raise EtirError([d.at(place) for d in error.diagnostics]) from error.__cause__
            except MemoryError as error:
                raise E1006.error(f"'{op.name}': {error or 'no memory'}", source_location(op.location)) from error
            if isinstance(op, ReturnOp):
                outputs = [self.read(v) for v in op.arguments]
                self._update_inputs(inputs)
                break
            op = op.next_op if following is None else following
        else:
            raise E1005.error(f"the method ran {MAX_INSTRUCTIONS} instructions")
        return outputs

    def _step(self, op: Operation, inputs: Sequence[Any]) -> Operation | None:
        """Run one instruction; returns the next one when it is not simply the next."""
        if self.interpreter.before_instruction is not None:
            self.interpreter.before_instruction(op)
        match op:
            case InputsOp():
                self._set_inputs(op, inputs)
            case CallOp():
                self._call(op)
            case DelegateCallOp():
                self._call_delegate(op)
            case MoveOp():
                if op.source in self.cells:
                    self.cells[op.target] = self.cells[op.source]
                else:
                    self.numbers[op.target] = self.numbers[op.source]
                self._tell(op.target)
            case JumpFalseOp():
                held = self.read(op.condition)
                holds = bool(held.all()) if self.evaluator.is_tensor(held) else bool(held)
                return (op.fallthrough if holds else op.target).first_op
            case JumpOp() | NextOp():
                return op.target.first_op
            case ReturnOp() | FreeOp():
                pass
            case _:
                raise E1001.error(f"'{op.name}' cannot be interpreted: a delegate's blob only runs on its backend")
        return None

    def _call_delegate(self, op: DelegateCallOp) -> None:
        """Run a delegate's blob, where its backend has a way to do that without its runtime half."""
        if op not in self.delegates:
            self.delegates[op] = self.interpreter.delegate(op.delegate.root_reference.data)
        # The file does not say where the inputs end: the blob does, by what it takes. A workspace is nobody's tensor.
        arguments = list(op.arguments)[: -1 if op in self.workspaces else None]
        outputs = self.delegates[op]([self.read(v) for v in arguments])
        for target, output in zip(arguments[len(arguments) - len(outputs) :], outputs, strict=True):
            self.write(target, self._as_declared(output, target))

    def _as_declared(self, output: Any, target: SSAValue) -> Any:
        """What a delegate gives with its dims in the order of the memory, as files of the stock pipeline have it."""
        cell = self.cells.get(target)
        if cell is None or not self.evaluator.is_tensor(output) or tuple(output.shape) == cell.shape:
            return output
        order = order_of(cell.type)
        if tuple(output.shape) != tuple(cell.shape[d] for d in order):
            return output
        return _permuted(output, [order.index(d) for d in range(len(order))])

    def _set_inputs(self, op: InputsOp, inputs: Sequence[Any]) -> None:
        if len(inputs) != len(op.arguments):
            raise E1002.error(f"the method takes {len(op.arguments)} inputs, {len(inputs)} given")
        for index, (value, given) in enumerate(zip(op.arguments, inputs, strict=True)):
            if value in self.cells:
                self.write(value, self.evaluator.from_user(given))
                continue
            number = number_of(given)
            if any(isinstance(use.operation, _READERS) for use in value.uses):
                self.write(value, number)
            elif is_another(number, own := self.numbers[value]):
                name = value.name_hint or str(index)
                raise E1002.error(
                    f"input '{name}' is {number!r}, the program was compiled for {own!r}", help=VARYING_NUMBERS
                )

    def _update_inputs(self, inputs: Sequence[Any]) -> None:
        """Hand what a method wrote into the caller's memory back to the caller's tensors."""
        op = next(o for o in self.method.instructions if isinstance(o, InputsOp))
        for value, given in zip(op.arguments, inputs, strict=True):
            if isinstance(value.owner, BufferOp) and value.owner.caller is not None:
                self.evaluator.assign(self.evaluator.from_user(given), self.read(value))

    def _items(self, op: CallOp) -> list[Any]:
        """The arguments: SSA values where operands stand, literals, and lists of both."""
        operands = iter(op.arguments)

        def item(element: Any) -> Any:
            return next(operands) if element is OPERAND else element

        return [
            [item(e) for e in entry.items] if isinstance(entry, ListArg) else item(entry) for entry in op.template.data
        ]

    def _value(self, item: Any) -> Any:
        if isinstance(item, SSAValue):
            return self.read(item)
        return [self._value(e) for e in item] if isinstance(item, list) else item

    def _call(self, op: CallOp) -> None:
        kernel = op.kernel.data
        items = self._items(op)
        if kernel.startswith("executorch_prim::"):
            self._primitive(kernel.removeprefix("executorch_prim::"), items)
            return
        if kernel == "aten::sym_size.int":
            self.write(items[2], int(self._value(items[0]).shape[self._value(items[1])]))
        elif kernel == "aten::sym_numel":
            self.write(items[1], int(np.prod(self._value(items[0]).shape)))
        elif kernel == "aten::_local_scalar_dense":
            self.write(items[1], self.evaluator.item(self._value(items[0])))
        elif kernel == "etir::check_size":
            dim, low, high, step, text = (self._value(item) for item in items[1:])
            size = self._value(items[0]).shape[dim]
            if not _is_among(size, low, high, step):
                raise E1002.error(f"dim {dim} of an input has a size of {size}: {text}")
        elif kernel == "etir::check_number":
            number, low, high, step, text = (self._value(item) for item in items)
            # Of a float or a bool nothing is said, as on the runtime: the instruction stands for that the input varies.
            if type(number) is int and not _is_among(number, low, high, step):
                raise E1002.error(f"an input is {number}: {text}")
        elif kernel == "etir::check":
            if not self._value(items[0]):
                raise E1002.error(f"what the program asserts of its inputs does not hold: {self._value(items[1])}")
        else:
            self._kernel(kernel, items)

    def _primitive(self, name: str, items: list[Any]) -> None:
        base, _, overload = name.partition(".")
        if base == "et_view":
            source, sizes, target = items
            self.cells[target].memory = self.cells[source].memory
            count = int(np.prod(self.cells[source].shape))
            shape = [self._value(s) for s in sizes]
            known = int(np.prod([s for s in shape if s != -1]))
            self.cells[target].shape = tuple(s if s != -1 else count // max(known, 1) for s in shape)
            self._tell(target)
        elif base == "et_copy_index":
            target, source, index = items
            piece, position = self._value(source), self._value(index)
            cell = self.cells[target]
            data = np.frombuffer(self.evaluator.to_bytes(piece), np.uint8)
            if isinstance(target.owner, BufferOp) and target.owner.is_allocated:
                cell.memory = np.append(cell.memory[: position * len(data)], data)
            cell.shape = (position + 1, *piece.shape)
            cell.memory[position * len(data) : (position + 1) * len(data)] = data
            self._tell(target)
        elif base in _NUMBERS:
            self.write(items[-1], _NUMBERS[base](*(self._value(i) for i in items[:-1])))
        else:
            raise E1001.error(f"there is no primitive operator 'executorch_prim::{name}'")

    def _kernel(self, kernel: str, items: list[Any]) -> None:
        schema, functional = self.schemas.of(kernel)
        if len(items) != len(schema.arguments):
            raise E1002.error(f"'{kernel}' takes {len(schema.arguments)} arguments, {len(items)} given")
        self._spoil_overlaps(kernel, schema, items)
        arguments: dict[str, Any] = {}
        outs: list[Any] = []
        for argument, item in zip(schema.arguments, items, strict=True):
            if argument.is_write:
                outs += item if isinstance(item, list) else [item]
            if argument.name not in functional.index:
                continue
            value = self._value(item)
            kind = argument.kind
            if kind is Kind.DTYPE and isinstance(value, int):
                value = BY_NUMBER[value].type
            elif kind is Kind.MEMORY_FORMAT:
                value = None
            counterpart = functional.arguments[functional.index[argument.name]]
            if value is None and counterpart.has_default and counterpart.default is not None:
                continue
            arguments[argument.name] = value
        for argument in functional.arguments:
            # A functional overload that creates a tensor needs the dtype that the out variant reads off its out; a
            # reduction that is given none computes in that of its out, too.
            if argument.name == "dtype" and arguments.get("dtype") is None and outs:
                arguments["dtype"] = self.cells[outs[0]].type.element_type
        results = flat(self.evaluator.call(functional, arguments))
        for out, result in zip([o for o in outs if o is not None], results, strict=False):
            if result is not None:  # a gradient that nobody asked for
                self.write(out, self._converted(result, out))

    def _spoil_overlaps(self, kernel: str, schema: OpSchema, items: Sequence[Any]) -> None:
        """Fill results that have bytes of operands with rubbish, unless the kernel may write them over those."""
        tensors = [
            (argument, value, self.cells[value])
            for argument, item in zip(schema.arguments, items, strict=True)
            for value in (item if isinstance(item, list) else [item])
            if isinstance(value, SSAValue) and value in self.cells
        ]
        outs = [row for row in tensors if row[0].is_write and row[0].kwarg_only]
        moves, written = MOVES.get(kernel), 0
        for number, (result, made, out) in enumerate(outs):
            size = _size(out.type)
            before, written = written, written + size
            listed = 0
            for argument, value, cell in tensors:
                start, listed = listed, listed + (_size(cell.type) if argument.is_list else 0)
                if argument.is_write or not np.may_share_memory(out.memory, cell.memory):
                    continue
                if self._in_place is None:
                    self._in_place = known_in_place_kernels()
                if result.is_list:  # each may stay where the operand has it
                    same = _address(out) == _address(cell) + before
                elif argument.is_list:
                    same = _address(cell) == _address(out) + start and number == 0
                elif moves is not None:
                    same = _address(out) == _address(cell) and self._moves(moves, value, made)
                else:
                    same = _address(out) == _address(cell) and out.type == cell.type and number == 0
                if not (same and argument.name in self._in_place.get(kernel, ())):
                    out.memory[:size] = 0xFF

    def _moves(self, moves: Moves, operand: SSAValue, result: SSAValue) -> bool:
        """Whether the call that is executed can move the elements of a buffer to where the result has them."""
        op, owner = self._op, result.owner
        return isinstance(op, CallOp) and isinstance(owner, BufferOp) and moves(op, operand, owner)

    def _converted(self, result: Any, out: SSAValue) -> Any:
        """A result in the dtype of its out: kernels cast what they write."""
        cell = self.cells.get(out)
        if cell is None or self.evaluator.dtype(result).type == cell.type.element_type:
            return result
        schema = load_table().get("aten._to_copy.default")
        assert schema is not None
        return self.evaluator.call(schema, {"self": result, "dtype": cell.type.element_type})


def _address(cell: _Cell) -> int:
    return cell.memory.__array_interface__["data"][0]


def _size(type: TensorType[Any]) -> int:
    size = dtype_of(type.element_type).itemsize
    for dim in type.get_shape():
        size *= dim
    return size


def _is_among(number: int, low: int, high: int, step: int) -> bool:
    """Whether a number is one of ``low``, ``low + step``, ... up to ``high``."""
    return low <= number <= high and (step <= 1 or (number - low) % step == 0)


def _permuted(tensor: Any, order: Sequence[int]) -> Any:
    """The tensor with its dims in storage order, so that its row-major bytes are those of the dim order."""
    if list(order) == list(range(len(order))):
        return tensor
    return tensor.permute(*order) if hasattr(tensor, "permute") else np.transpose(tensor, order)
