"""Running methods at any level.

One :class:`Interpreter` keeps the state of a module between calls, as a loaded program does. Above the executable level
operators are computed one by one; regions, state and views have their plain meaning. Methods at the executable level
are handed to ``executable.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from etir.diagnostics import EtirError
from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.aten.recorded_layout import DIM_ORDERS, INPUT_ORDER, recorded_offset, recorded_order
from etir.dialects.backend.ops import CallDelegateOp, ViewOp
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, YieldOp
from etir.dialects.control.traits import ExecutesBodyOnce
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.layout import dims_of, order_of
from etir.dialects.et.payloads import DelegateOp, NamedDataOp
from etir.dialects.et.program import (
    ConstantOp,
    GetWeightOp,
    NoneOp,
    ReadStateOp,
    StateOp,
    StringOp,
    UpdateInputOp,
    WeightOp,
    WriteStateOp,
    dense_bytes,
)
from etir.dialects.et.weights import payload_of
from etir.dialects.literals import scalar_of
from etir.dialects.quant.ops import ObserveOp
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.dialects.signatures import input_names, requirements_of
from etir.dialects.sym.ops import BY_NAME, ArithmeticOp, AssertOp, DimOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.sym.requirements import Requirements
from etir.dialects.text import source_location
from etir.interpret.errors import E1001, E1002, E1003, E1005, E1006
from etir.interpret.evaluator import Evaluator, flat, is_out_of_memory
from etir.interpret.evaluators import get_evaluator
from etir.interpret.executable import ExecutableMethod
from etir.interpret.numbers import VARYING_NUMBERS, is_another, number_of
from etir.passes.infra.base import is_private

MAX_ITERATIONS = 10_000_000
"""Iterations of one loop before the interpreter gives up: the runtimes' limit on instructions."""


Watch = Callable[[SSAValue, Any], Any]
"""Hears of a value of the IR and what it is: a tensor of the evaluator, or a Python value. What it returns, unless that
is None, takes the place of the value of an operation."""


class BlobRunner(Protocol):
    """What runs blobs of one kind, and functions at levels of its own: a backend, as the interpreter sees it."""

    def lowered_function(
        self, func: FuncOp, weight: Callable[[str], Any], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """A function that runs ``func`` on the evaluator's tensors, or None for one that is at no level of its own."""

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """A function that runs the blob on the evaluator's tensors, or None when there is no such way."""


class Interpreter:
    """Runs the methods of one module; mutable buffers keep their contents between calls.

    ``evaluator`` is ``"torch"``, ``"numpy"`` or ``"auto"``. ``runner_of`` gives what runs the blobs of a backend by the
    name that the file has for it (``backends.api.registry.backend_of_runtime_id``); without it blobs cannot be run.
    ``watch`` is told of every value when it has been computed, each time; it must not change what it is given.
    """

    def __init__(
        self,
        module: ModuleOp,
        evaluator: str | Evaluator = "auto",
        runner_of: Callable[[str], BlobRunner | None] | None = None,
        watch: Watch | None = None,
    ):
        self.module = module
        self.watch = watch
        self.runner_of = runner_of
        self.evaluator = get_evaluator(evaluator) if isinstance(evaluator, str) else evaluator
        self.symbols: dict[str, Operation] = {}
        for op in module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self.symbols[name.data] = op
        self._weights: dict[str, Any] = {}
        self._states: dict[str, Any] = {}
        self._methods: dict[str, Any] = {}
        self._requirements: dict[FuncOp, Requirements] = {}
        self._shared_memory: dict[int, Any] = {}
        self.initialized: dict[str, None] = {}
        self.observe: Callable[[ObserveOp, Any], None] | None = None
        """Called with what each observed value is. While it is set, values are freed after their last use."""
        self.before_instruction: Callable[[Operation], None] | None = None
        """Called with each instruction of a method at the executable level before it runs."""
        self._last_uses: dict[Block, dict[Operation, list[SSAValue]]] = {}
        self.delegates: dict[str, Callable[[Sequence[Any]], list[Any]]] = {}

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in order."""
        return [
            n
            for n, op in self.symbols.items()
            if isinstance(op, MethodOp) or (isinstance(op, FuncOp) and not is_private(op))
        ]

    def shared_memory(self, memory_id: int) -> Any:
        """The bytes of a planned memory that all methods share, as large as the largest plan for it."""
        if memory_id not in self._shared_memory:
            plans = [op.pool_sizes or () for op in self.symbols.values() if isinstance(op, MethodOp)]
            size = max(sizes[memory_id] for sizes in plans if memory_id < len(sizes))
            self._shared_memory[memory_id] = np.zeros(size, np.uint8)
        return self._shared_memory[memory_id]

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Run a method once and return its flat outputs.

        Raises error E1003 for an unknown method, E1002 for inputs that do not fit, E1001 for operations that cannot be
        run, E1004 when an operator fails, E1006 for what does not fit into memory.
        """
        op = self.symbols.get(method)
        if isinstance(op, MethodOp):
            known = self._methods.get(method)
            if known is None:
                try:
                    known = self._methods[method] = ExecutableMethod(self, op)
                except MemoryError as error:
                    place = source_location(op.location)
                    raise E1006.error(f"what is planned for '{method}': {error or 'no memory'}", place) from error
            return known.run(inputs)
        if not isinstance(op, FuncOp):
            raise E1003.error(f"there is no method '{method}'; the module has {', '.join(self.methods) or 'none'}")
        return self.call(op, inputs)

    def states(self, method: str) -> dict[str, Any]:
        """By symbol what a method that ran has left in the mutable buffers that it uses."""
        loaded = self._methods.get(method)
        return dict(self._states) if loaded is None else loaded.states()

    def call(self, func: FuncOp, inputs: Sequence[Any]) -> list[Any]:
        """Run one function above the executable level."""
        block = func.body.block
        checked = self.check_inputs([a.type for a in block.args], inputs)
        _check_numbers(func, checked)
        self._check_sizes(func, checked)
        laid_out = self._laid_out(func, checked)
        values: dict[SSAValue, Any] = dict(zip(block.args, laid_out, strict=True))
        if self.watch is not None:
            for argument, value in values.items():
                self.watch(argument, value)
        outputs = _Frame(self, values).run(block)
        for given, used in zip(checked, laid_out, strict=True):
            if used is not given:
                self.evaluator.assign(given, used)
        return outputs

    def _laid_out(self, func: FuncOp, inputs: list[Any]) -> list[Any]:
        """The inputs in the places in their storage that they had at export, where the method can see that."""
        if not any(op.name in _STORAGE_OPERATORS for op in func.walk()):
            return inputs
        found = list(inputs)
        for index, argument in enumerate(func.body.block.args):
            if isinstance(argument.type, TensorType):
                attributes = {} if func.arg_attrs is None else func.arg_attrs.data[index].data
                if isinstance(attributes.get(INPUT_ORDER), UnitAttr):
                    continue
                order = recorded_order(attributes.get(INPUT_ORDER)) or order_of(argument.type)
                found[index] = self.evaluator.laid_out(inputs[index], order, recorded_offset(attributes))
        return found

    def check_inputs(self, types: Sequence[Attribute], inputs: Sequence[Any]) -> list[Any]:
        """The inputs as the evaluator's values. Raises error E1002 when count, rank, dtype or a static dim differs."""
        if len(inputs) != len(types):
            raise E1002.error(f"the method takes {len(types)} inputs, {len(inputs)} given")
        checked: list[Any] = []
        for index, (type, value) in enumerate(zip(types, inputs, strict=True)):
            if not isinstance(type, TensorType):
                checked.append(number_of(value))
                continue
            tensor = self.evaluator.from_user(value)
            shape = tuple(tensor.shape)
            fits = len(shape) == type.get_num_dims() and all(
                not isinstance(d, int) or d == s for d, s in zip(dims_of(type), shape, strict=True)
            )
            if not fits or self.evaluator.dtype(tensor).type != type.element_type:
                raise E1002.error(
                    f"input {index} has shape {list(shape)} and dtype {self.evaluator.dtype(tensor).torch_name}, the "
                    f"method takes {type}"
                )
            checked.append(tensor)
        return checked

    def _check_sizes(self, func: FuncOp, inputs: Sequence[Any]) -> None:
        """Raises error E1002 for sizes that do not go with each other, or are outside of the declared ranges."""
        known = self._requirements.get(func)
        if known is None:
            ranges = {name: op.range for name, op in self.symbols.items() if isinstance(op, DimOp)}
            known = self._requirements[func] = requirements_of(func, ranges)
        shapes = [
            tuple(v.shape) if self.evaluator.is_tensor(v) else (v,) if isinstance(v, int) else None for v in inputs
        ]
        broken = [f"{rule.text}, not {size}" for rule, size in known.broken(shapes)]
        if broken:
            raise E1002.error("; ".join(broken))

    def weight(self, name: str, order: tuple[int, ...] | None = None) -> Any:
        """The tensor of a weight, in memory in the dim order ``order`` if that is given."""
        if name not in self._weights:
            op = self.symbols.get(name)
            if not isinstance(op, WeightOp) or not isinstance(op.type, TensorType):
                raise E1001.error(f"there is no weight @{name}")
            weight = self.evaluator.from_bytes(payload_of(op.value, op.type).data, op.type)
            self._weights[name] = weight if order is None else self.evaluator.laid_out(weight, order, 0)
        return self._weights[name]

    def delegate(self, name: str) -> Callable[[Sequence[Any]], list[Any]]:
        """A function that runs a delegate's blob, or the function that was outlined for it.

        Buffers that the delegate owns keep their contents between its calls.
        Raises error E1001 for a blob that only runs on its backend.
        """
        op = self.symbols.get(name)
        if isinstance(op, FuncOp):
            text = op.attributes.get("backend.delegate")
            lowered = self.lowered_function(op, text.data.partition("{")[0]) if isinstance(text, StringAttr) else None
            return (
                (lambda arguments: self.call(op, arguments[: len(op.body.block.args)])) if lowered is None else lowered
            )
        if not isinstance(op, DelegateOp):
            raise E1001.error(f"delegate @{name} is neither a function nor a blob of the module")
        backend = None if self.runner_of is None else self.runner_of(op.backend.data)
        named = {o.key.data: o.value.data.data for o in self.module.ops if isinstance(o, NamedDataOp)}
        found = None if backend is None else backend.executable(op.value.data.data, named, self.evaluator)
        if found is None:
            raise E1001.error(f"@{name} cannot be interpreted: a delegate's blob only runs on '{op.backend.data}'")
        return found

    def lowered_function(self, func: FuncOp, backend: str) -> Callable[[Sequence[Any]], list[Any]] | None:
        """What runs an outlined function that its backend has lowered to a level of its own."""
        runner = None if self.runner_of is None else self.runner_of(backend)
        return None if runner is None else runner.lowered_function(func, self.weight, self.evaluator)

    def last_uses(self, block: Block) -> dict[Operation, list[SSAValue]]:
        """The values of a block that nothing after an operation uses, by that operation."""
        known = self._last_uses.get(block)
        if known is None:
            last: dict[SSAValue, Operation] = {}
            for op in block.ops:
                last.update(dict.fromkeys(op.results, op))
                last.update(dict.fromkeys((v for inner in op.walk() for v in inner.operands), op))
            known = self._last_uses[block] = {}
            for value, op in last.items():
                known.setdefault(op, []).append(value)
        return known

    def state(self, name: str, order: tuple[int, ...] | None = None) -> Any:
        """The tensor of a mutable buffer: the same one for every caller. Zero where it has no initial value.

        ``order`` is its dim order in memory, if that is not the one of its type.
        """
        if name not in self._states:
            op = self.symbols.get(name)
            if not isinstance(op, StateOp) or not isinstance(op.type, TensorType):
                raise E1001.error(f"there is no state @{name}")
            if op.value is None:
                self._states[name] = self.evaluator.stack([], op.type)
            else:
                initial = self.evaluator.from_bytes(payload_of(op.value, op.type).data, op.type)
                self._states[name] = self.evaluator.clone(initial)
            if order is not None:
                self._states[name] = self.evaluator.laid_out(self._states[name], order, 0)
        return self._states[name]


_STORAGE_OPERATORS = frozenset(
    {
        "aten.as_strided.default",
        "aten.as_strided_.default",
        "aten._reshape_alias.default",
        "aten.sym_storage_offset.default",
        "aten.sym_stride.int",
    }
)
"""Operators by which a program sees how its inputs lie in memory."""


READ_IN_MEMORY = frozenset({"cortex_m.pad.default"})
"""Operators whose other arguments are in the order in which the elements of ``input`` lie in memory."""


def _order(op: Operation) -> tuple[int, ...] | None:
    """The dim order in memory of what ``op`` reads, where an importer recorded one."""
    return recorded_order(op.attributes.get(DIM_ORDERS))


def _check_numbers(func: FuncOp, inputs: Sequence[Any]) -> None:
    """Raises error E1002 for an input that export has written into the program, and that is another one now."""
    for index, attributes in enumerate([] if func.arg_attrs is None else func.arg_attrs.data):
        fixed = attributes.data.get("et.value")
        if fixed is None:
            continue
        value = fixed.data if isinstance(fixed, StringAttr) else scalar_of(fixed)
        given = inputs[index]
        if is_another(given, value):
            raise E1002.error(
                f"input '{input_names(func)[index]}' is {given!r}, the program was compiled for {value!r}",
                help=VARYING_NUMBERS,
            )


class _Frame:
    """The values of one activation."""

    def __init__(self, interpreter: Interpreter, values: dict[SSAValue, Any]):
        self.interpreter = interpreter
        self.evaluator = interpreter.evaluator
        self.values = values
        self.pending: list[tuple[Any, Any]] = []

    def run(self, block: Block) -> list[Any]:
        """Run a function's block and return what it returns."""
        for op in block.ops:
            if isinstance(op, FuncReturnOp):
                outputs = [self.values[v] for v in op.arguments]
                if self.pending:
                    # What is returned was computed before the stores, and may be a view of what they overwrite.
                    outputs = [self.evaluator.clone(o) if self.evaluator.is_tensor(o) else o for o in outputs]
                for target, value in [(t, self.evaluator.clone(v)) for t, v in self.pending]:
                    self.evaluator.assign(target, value)
                return outputs
            self.operation(op)
            if self.interpreter.observe is not None:
                self._free(op, block)
        return []

    def _free(self, op: Operation, block: Block) -> None:
        """Forget what no operation of the block after ``op`` uses."""
        for value in self.interpreter.last_uses(block).get(op, ()):
            self.values.pop(value, None)

    def region(self, block: Block) -> list[Any]:
        """Run a region's block and return what it yields."""
        for op in block.ops:
            if isinstance(op, YieldOp):
                return [self.values[v] for v in op.arguments]
            self.operation(op)
        return []

    def body(self, block: Block) -> list[Any]:
        """Run the only block of an operation of any dialect: what its terminator takes."""
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return [self.values[v] for v in op.operands]
            self.operation(op)
        return []

    def operation(self, op: Operation) -> None:
        """Run one operation."""
        try:
            for result, value in zip(op.results, self._results(op), strict=True):
                self.values[result] = value
            if self.interpreter.watch is not None:
                for result in op.results:
                    given = self.interpreter.watch(result, self.values[result])
                    if given is not None:
                        self.values[result] = given
        except EtirError as error:
            place = source_location(op.location)
            raise EtirError([d.at(place) for d in error.diagnostics]) from error.__cause__
        except Exception as error:
            # Who watches may look at more than there is memory for, as an expanded tensor's magnitudes.
            if not is_out_of_memory(error):
                raise
            message = (str(error).splitlines() or [""])[0] or "no memory"
            raise E1006.error(f"'{op.name}': {message}", source_location(op.location)) from error

    def _results(self, op: Operation) -> Sequence[Any]:
        values = self.values
        match op:
            case SchemaOp():
                return self._operator(op)
            case GetWeightOp():
                return [self.interpreter.weight(op.symbol.root_reference.data, _order(op))]
            case ReadStateOp():
                return [self.interpreter.state(op.symbol.root_reference.data, _order(op))]
            case WriteStateOp():
                self.pending.append((self.interpreter.state(op.symbol.root_reference.data), values[op.value]))
                return []
            case UpdateInputOp():
                self.pending.append((values[op.input], values[op.value]))
                return []
            case ConstantOp():
                return [self.evaluator.from_bytes(dense_bytes(op.value), op.value.get_type())]  # type: ignore[arg-type]
            case SymConstantOp():
                return [scalar_of(op.value)]
            case ArithmeticOp():
                return [BY_NAME[op.name].function(*(values[a] for a in op.arguments))]
            case NoneOp():
                return [None]
            case StringOp():
                return [op.value.data]
            case AssertOp():
                if not values[op.condition]:
                    raise E1002.error(f"what the program asserts of its inputs does not hold: {op.message.data}")
                return []
            case ViewOp():
                return [self._view(op)]
            case ObserveOp():
                if self.interpreter.observe is not None:
                    self.interpreter.observe(op, values[op.input])
                return [values[op.input]]
            case CondOp():
                taken = op.then_region if self._truth(op.predicate) else op.else_region
                return self.region(taken.block)
            case WhileOp():
                return self._while(op)
            case ScanOp():
                return self._scan(op)
            case CallDelegateOp():
                callee = self.interpreter.symbols.get(op.callee.root_reference.data)
                arguments = [values[a] for a in op.arguments]
                if isinstance(callee, FuncOp):
                    lowered = self.interpreter.lowered_function(callee, op.backend.data)
                    return self.interpreter.call(callee, arguments) if lowered is None else lowered(arguments)
                name = op.callee.root_reference.data
                if name not in self.interpreter.delegates:
                    self.interpreter.delegates[name] = self.interpreter.delegate(name)
                return self.interpreter.delegates[name](arguments)
            case Operation() if op.has_trait(ExecutesBodyOnce):
                body = op.regions[0].block
                values.update(zip(body.args, [values[v] for v in op.operands], strict=True))
                return self.body(body)
            case OpaqueOp():
                raise E1001.error(f"'{op.target.data}' is opaque: {op.attributes.get('reason')}")
            case _:
                raise E1001.error(f"'{op.name}' has no meaning in the interpreter")

    def _truth(self, value: SSAValue) -> bool:
        held = self.values[value]
        return bool(self.evaluator.item(held)) if self.evaluator.is_tensor(held) else bool(held)

    def _operator(self, op: SchemaOp) -> Sequence[Any]:
        schema = op.SCHEMA
        if schema.kind is not SchemaKind.FUNCTIONAL and self.evaluator.name != "torch":
            raise E1001.error(f"'{op.name}' writes its arguments: run functionalize first, or install torch")
        # A missing argument without a default is None: convolution's bias.
        arguments: dict[str, Any] = {a.name: None for a in schema.arguments if not a.has_default}
        arguments.update((name, self._argument(value)) for name, value in op.given_args().items())
        if schema.op_name in READ_IN_MEMORY:
            value = op.operands[0]
            assert isinstance(value.type, TensorType)
            arguments["input"] = self.evaluator.laid_out(self.values[value], order_of(value.type), 0)
        outputs = flat(self.evaluator.call(schema, arguments))
        if len(outputs) != len(op.results):
            raise E1001.error(f"'{op.name}' gave {len(outputs)} results, the operation has {len(op.results)}")
        return outputs

    def _argument(self, value: Any) -> Any:
        if isinstance(value, SSAValue):
            return self.values[value]
        if isinstance(value, tuple):
            return [self._argument(v) for v in value]
        return value

    def _view(self, op: ViewOp) -> Any:
        base = self.values[op.base]
        assert isinstance(op.result.type, TensorType)
        if op.reinterprets:
            count = dtype_of(op.result.type.element_type).itemsize * math.prod(op.result.type.get_shape())
            data = self.evaluator.to_bytes(base)[op.byte_offset : op.byte_offset + count]
            return self.evaluator.from_bytes(data, op.result.type)
        named = iter([self.values[v] for v in op.sizes])
        sizes = [d if isinstance(d, int) else next(named, -1) for d in dims_of(op.result.type)]
        flattened = base.reshape(-1)
        if -1 not in sizes:
            count = 1
            for size in sizes:
                count *= size
            flattened = flattened[op.element_offset : op.element_offset + count]
        return flattened.reshape(sizes)

    def _while(self, op: WhileOp) -> Sequence[Any]:
        carried = [self.values[v] for v in op.inits]
        for _ in range(MAX_ITERATIONS):
            self.values.update(zip(op.condition.block.args, carried, strict=True))
            condition = self.region(op.condition.block)[0]
            if not (self.evaluator.item(condition) if self.evaluator.is_tensor(condition) else condition):
                return carried
            self.values.update(zip(op.body.block.args, carried, strict=True))
            carried = self.region(op.body.block)
        raise E1005.error(f"the loop ran {MAX_ITERATIONS} times")

    def _scan(self, op: ScanOp) -> Sequence[Any]:
        carried = [self.values[v] for v in op.inits]
        inputs = [self.values[v] for v in op.inputs]
        columns: list[list[Any]] = [[] for _ in op.outputs[len(carried) :]]
        for index in range(inputs[0].shape[0]):
            pieces = [tensor[index] for tensor in inputs]
            self.values.update(zip(op.body.block.args, [*carried, *pieces], strict=True))
            yielded = self.region(op.body.block)
            carried = yielded[: len(carried)]
            for column, value in zip(columns, yielded[len(carried) :], strict=True):
                column.append(value)
        types = [o.type for o in op.outputs[len(carried) :]]
        return [*carried, *(self.evaluator.stack(c, t) for c, t in zip(columns, types, strict=True))]
