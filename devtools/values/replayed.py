"""A recorded run step by step beside the interpreter: is each instruction right for the inputs that it had?

The interpreter runs the program's instructions, and after each one what the runtime left takes the place of what it
computed itself. What differs is the work of that one instruction: of its kernel, or of memory that something else wrote
after the runtime had logged it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.checks import difference
from etir.devtools.values.arrays import dtype_name, largest_of, like, roundoff
from etir.devtools.values.interpreted import as_array, copied
from etir.devtools.values.recorded import Place, RecordedRun
from etir.dialects.aten.table import load_table
from etir.dialects.et.arguments import OPERAND, ListArg
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp
from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.schema import parse_schema
from etir.emit.to_pte import instructions_of
from etir.interpret.evaluator import Evaluator
from etir.interpret.interpreter import BlobRunner, Interpreter
from etir.passes.analysis.workspaces import workspaces_of


@dataclass(frozen=True)
class Step:
    """A value that an execution of an instruction left, and what the interpreter makes of the same inputs.

    ``error`` is None where there is nothing to compare: random results, values that were not logged.
    """

    place: Place
    value: SSAValue
    recorded: Any
    error: float | None
    dtype: str


@dataclass(frozen=True)
class Replay:
    """The steps in the order in which they ran; errors of the outputs against those that are recorded."""

    steps: list[Step]
    outputs: list[float]


def method_of(module: ModuleOp, name: str) -> MethodOp | None:
    """The method of that name at the executable level."""
    return next((op for op in module.body.block.ops if isinstance(op, MethodOp) and op.sym_name.data == name), None)


def replay(module: ModuleOp, method: str, inputs: Sequence[Any], recorded: RecordedRun) -> Replay:
    """Compare a recorded run of a module at the executable level, from its first instruction on.

    Raises what the interpreter does (E10xx), also where a run went another way than the interpreter goes.
    """
    return _Replay(module, method, recorded).run(inputs)


class _Replay:
    def __init__(self, module: ModuleOp, method: str, recorded: RecordedRun):
        op = method_of(module, method)
        assert op is not None
        self.method, self.recorded = method, recorded
        self.index = {instruction: i for i, instruction in enumerate(instructions_of(op))}
        self.workspaces = workspaces_of(op)
        self.writes = {instruction: written(module, instruction) for instruction in self.index}
        self.interpreter = Interpreter(module, "auto", self.runner)
        self.interpreter.before_instruction = self.begin
        self.interpreter.watch = self.watch
        self.counts: dict[int, int] = {}
        self.place: Place | None = None
        self.logged: dict[SSAValue, Any] = {}
        self.random = self.quantized = False
        self.largest: dict[SSAValue, float] = {}
        self.inputs = 0.0
        self.steps: list[Step] = []

    def run(self, inputs: Sequence[Any]) -> Replay:
        outputs = self.interpreter.run([copied(value) for value in inputs], self.method)
        arrays = [as_array(v) if hasattr(v, "shape") else v for v in outputs]
        pairs = zip(self.recorded.outputs, arrays, strict=False)
        return Replay(self.steps, [difference(a, b) for a, b in pairs])

    def begin(self, op: Operation) -> None:
        number = self.index.get(op)
        self.logged, self.place = {}, None
        if number is None:
            return
        occurrence = self.counts.get(number, 0)
        self.counts[number] = occurrence + 1
        self.place = (number, occurrence)
        found = self.recorded.values.get(self.place, [])
        there = self.writes[op] if not isinstance(op, DelegateCallOp) else list(op.arguments)
        if len(found) <= len(there):  # the stock runtime logs the last result of a kernel
            self.logged = dict(zip(there[len(there) - len(found) :], found, strict=True))
            # What a delegate works in, and what it has read, may have other contents afterwards.
            gone = self.workspaces.get(op) if isinstance(op, DelegateCallOp) else None
            for value in () if gone is None else (*op.operands[: len(gone[0].inputs)], op.operands[-1]):
                self.logged.pop(value, None)
        self.random = isinstance(op, CallOp) and is_random(op.kernel.data)
        self.quantized = isinstance(op, CallOp) and "quantize" in op.kernel.data
        self.inputs = max((self.largest.get(v, 0.0) for v in op.operands), default=0.0)

    def watch(self, value: SSAValue, held: Any) -> Any:
        tensor = self.interpreter.evaluator.is_tensor(held)
        if self.place is None or self.logged.get(value) is None:
            self.largest[value] = largest_of(held) if tensor else 0.0
            return None
        recorded = self.logged[value]
        dtype = dtype_name(held) if tensor else "number"
        replaced = like(held, recorded)
        if replaced is None:
            error: float | None = float("inf")
        else:
            self.largest[value] = largest_of(replaced) if tensor else 0.0
            step = 1.0 if self.quantized and dtype in ("int8", "uint8") else 0.0
            spare = max(roundoff(dtype, self.inputs), step)
            error = None if self.random else difference(as_array(held) if tensor else held, recorded, spare)
        self.steps.append(Step(self.place, value, recorded, error, dtype))
        return replaced

    def runner(self, backend: str) -> BlobRunner | None:
        return _Logged(self, backend_of_runtime_id(backend))


class _Logged:
    """A backend whose blobs, where they cannot be interpreted, give what the runtime logged."""

    def __init__(self, replay: _Replay, inner: BlobRunner | None):
        self.replay, self.inner = replay, inner

    def lowered_function(self, func: Any, weight: Callable[[str], Any], evaluator: Evaluator) -> Any:
        return None if self.inner is None else self.inner.lowered_function(func, weight, evaluator)

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]]:
        found = None if self.inner is None else self.inner.executable(blob, named_data, evaluator)
        return self.from_log if found is None else found

    def from_log(self, arguments: Sequence[Any]) -> list[Any]:
        results = [self.replay.logged.get(v) for v in self.replay.logged]
        changed = [
            i
            for i, (before, after) in enumerate(zip(arguments, results, strict=False))
            if after is None or np.shape(before) != np.shape(after) or difference(as_array(before), after) != 0
        ]
        first = min(changed, default=len(arguments))
        made = [like(a, r) for a, r in zip(arguments, results, strict=False)]
        return [arguments[i] if made[i] is None else made[i] for i in range(first, len(made))]


def is_random(kernel: str) -> bool:
    """Whether a kernel's results are other ones in every run, or are not defined."""
    namespace, _, rest = kernel.partition("::")
    name = rest.partition(".")[0]
    packet = f"{namespace}.{name}"
    return name.startswith("empty") or any("r" in load_table().flags(one) for one in load_table().overloads(packet))


def written(module: ModuleOp, op: Operation) -> list[SSAValue]:
    """The values that a call of a kernel writes, in the order of its arguments; those that a delegate may write."""
    if isinstance(op, DelegateCallOp):
        return list(op.arguments)
    if not isinstance(op, CallOp):
        return []
    operands = iter(op.arguments)
    items: list[list[SSAValue]] = []
    for entry in op.template.data:
        several = entry.items if isinstance(entry, ListArg) else (entry,)
        items.append([next(operands) for element in several if element is OPERAND])
    kernel = op.kernel.data
    namespace, _, rest = kernel.partition("::")
    name, _, overload = rest.partition(".")
    op_name = f"{namespace}.{name}.{overload or 'default'}"
    declared = (parse_schema(o.schema.data) for o in module.body.block.ops if isinstance(o, SchemaDeclOp))
    schema = load_table().get(op_name) or next((s for s in declared if s.op_name == op_name), None)
    if schema is None or len(schema.arguments) != len(items):
        return items[-1] if items else []
    return [v for argument, found in zip(schema.arguments, items, strict=True) if argument.is_write for v in found]
