"""One stage of a comparison: a level in the interpreter, or a program on a runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from etir.devtools.checks import difference
from etir.devtools.comparison.findings import Row, Stage
from etir.devtools.comparison.inside import NodeForms, rounding
from etir.devtools.comparison.links import Links, TraceLinks
from etir.devtools.comparison.reference import Reference
from etir.devtools.values.arrays import allowed, roundoff
from etir.devtools.values.interpreted import Key, Observed, observe, state_name
from etir.devtools.values.recorded import RecordedRun, Runtime
from etir.devtools.values.replayed import Step, method_of, replay, written
from etir.diagnostics import EtirError
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp, MoveOp
from etir.dialects.et.program import StateOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.emit.to_pte import instructions_of, operator_of
from etir.passes.analysis.memory_effects import storage_of
from etir.passes.analysis.view_reads import ViewReads

QUANTIZED = 3e-2
"""How far values of a quantized program may be from those of the reference: a step of 8 bits, and a few of them."""


@dataclass(frozen=True)
class Subject:
    """What all stages of a comparison share: the method, its samples, what they should give."""

    method: str
    samples: Sequence[Sequence[Any]]
    references: Sequence[Reference]
    links: Links
    wanted: frozenset[Key] = frozenset()
    """The values that are counted."""
    tolerance: float = 1e-4
    quantized: bool = False

    def allowed(self, dtype: str, *, through_steps: bool = False) -> float:
        """The tolerance for a value; ``through_steps`` when numbers of 8 bits were on the way to it."""
        found = allowed(dtype, self.tolerance)
        return max(found, QUANTIZED) if through_steps and self.quantized else found

    def error(self, reference: Reference, key: Key, wanted: Any, got: Any) -> float:
        """The difference of a value from the reference's, but for what is rounding."""
        dtype = reference.dtypes.get(key, "float32")
        spare = roundoff(dtype, reference.largest.get(key, 0.0))
        if dtype in ("int8", "uint8") and "quantize" in self.links.operator(key):
            spare = 1.0
        return difference(wanted, _shaped(got, wanted), spare)


def _shaped(got: Any, wanted: Any) -> Any:
    """``got`` in the shape of ``wanted``, where the sizes are equal: a level may have a value in another one."""
    array = np.asarray(got)
    return array.reshape(np.shape(wanted)) if array.size == np.size(wanted) else array


def _differences(subject: Subject, reference: Reference, key: Key, got: Sequence[Any]) -> float | None:
    """Of a value that was computed so often as the reference did; of the last ones otherwise."""
    wanted = reference.values.get(key)
    if not wanted or not got or key[0] in reference.random:
        return None
    if not subject.links.exact and np.size(wanted[-1]) != np.size(got[-1]):
        return None
    pairs = zip(wanted, got, strict=True) if len(wanted) == len(got) else [(wanted[-1], got[-1])]
    return max(subject.error(reference, key, a, b) for a, b in pairs)


def _output_rows(subject: Subject, stage: Stage) -> list[Row]:
    if not stage.outputs:
        dtypes = [str(getattr(v, "dtype", "")) for v in subject.references[0].outputs]
        rows = [Row(f"output {i}", allowed=subject.allowed(d, through_steps=True)) for i, d in enumerate(dtypes)]
        stage.outputs = rows
    return stage.outputs


def _outputs(subject: Subject, reference: Reference, stage: Stage, got: Sequence[Any], *, local: bool) -> None:
    rows = _output_rows(subject, stage)[: len(reference.outputs)]
    if reference.random and not local:
        return
    for i, row in enumerate(rows):
        wanted = reference.outputs[i]
        spare = roundoff(str(getattr(wanted, "dtype", "")), reference.scale)
        error = difference(wanted, got[i], spare) if len(got) == len(rows) else float("inf")
        row.add(None if local else error, error if local else None)


def _states(subject: Subject, reference: Reference, stage: Stage, got: Mapping[str, Any], *, local: bool) -> None:
    """Rows for what the run left in mutable buffers, after those of the outputs."""
    if reference.random and not local:
        return
    rows = {row.what: row for row in stage.outputs}
    for name, wanted in reference.states.items():
        if name not in got:
            continue
        what = f"state {name}"
        if what not in rows:
            dtype = str(getattr(wanted, "dtype", ""))
            rows[what] = Row(what, allowed=subject.allowed(dtype, through_steps=True))
            stage.outputs.append(rows[what])
        spare = roundoff(str(getattr(wanted, "dtype", "")), reference.scale)
        error = difference(wanted, _shaped(got[name], wanted), spare)
        rows[what].add(None if local else error, error if local else None)


NO_MEMORY = frozenset({"E1006", "E1205", "E1415", "E1416"})
"""Errors that say something of the machine, and nothing of a level or a runtime."""


def raise_if_no_memory(error: EtirError) -> None:
    """Let an error end the comparison when values did not fit into memory."""
    if NO_MEMORY.intersection(error.ids):
        raise error


# --- levels ----------------------------------------------------------------------------------------------------------


def level_stage(name: str, module: ModuleOp | str, subject: Subject) -> Stage:
    """A level in the interpreter: what it computes by itself, and what each operation makes of right inputs.

    For the second, every value that the reference has takes the place of the one that was computed. Where operations
    write into their arguments that is not possible, since a value is no longer what it was when it was computed.
    """
    stage = Stage(name)
    if isinstance(module, str):
        stage.failure = module
        return stage
    rows: dict[Key, Row] = {}
    local = not writes_arguments(module)
    try:
        for inputs, reference in zip(subject.samples, subject.references, strict=True):
            _level_sample(module, inputs, reference, subject, stage, rows, local=local)
    except EtirError as error:
        raise_if_no_memory(error)
        stage.failure = f"not run: {error.diagnostics[0].message}"
        stage.broken = any(id in ("E1002", "E1004", "E1005") for id in error.ids)
    stage.rows = list(rows.values())
    found = [key for key, row in rows.items() if row.accumulated is not None]
    stage.compared, stage.total = _counted(found, subject, len(rows))
    return stage


def _counted(found: Sequence[Key], subject: Subject, every: int) -> tuple[int, int]:
    if not subject.wanted:
        return len(found), every
    return len(subject.wanted.intersection(found)), len(subject.wanted)


def writes_arguments(module: ModuleOp) -> bool:
    """Whether there are operators that change what they are given: at the first level, before that is made plain."""
    return any(isinstance(op, SchemaOp) and op.SCHEMA.kind is not SchemaKind.FUNCTIONAL for op in module.walk())


def _level_sample(
    module: ModuleOp,
    inputs: Sequence[Any],
    reference: Reference,
    subject: Subject,
    stage: Stage,
    rows: dict[Key, Row],
    *,
    local: bool,
) -> None:
    def random(key: Key, count: int) -> Any:
        known = reference.values.get(key, ()) if key[0] in reference.random else ()
        return known[count] if count < len(known) else None

    links = subject.links
    inside = NodeForms(links.trace, module, reference.values) if isinstance(links, TraceLinks) else None
    own = observe(module, inputs, subject.method, instead=random if reference.random else None, inside=inside)
    describe = _Describe(module, subject)
    for key in own.values:
        if key in reference.values and key not in rows and subject.links.operator(key) != "input":
            rows[key] = describe.row(key, own)
    for key, got in own.values.items():
        if key in rows:
            rows[key].add(_differences(subject, reference, key, got), None)
    _outputs(subject, reference, stage, own.outputs, local=False)
    _states(subject, reference, stage, own.states, local=False)
    if not local:
        return

    def right(key: Key, count: int) -> Any:
        known = reference.values.get(key, ())
        same = len(known) == len(own.values.get(key, ()))
        return known[count] if same and count < len(known) else random(key, count)

    led = observe(module, inputs, subject.method, instead=right, inside=inside)
    for key, got in led.values.items():
        if key in rows and len(got) == len(reference.values[key]):
            rows[key].add(None, _differences(subject, reference, key, got))
    _outputs(subject, reference, stage, led.outputs, local=True)
    _states(subject, reference, stage, led.states, local=True)


class _Describe:
    """What to call the operations of a level."""

    def __init__(self, module: ModuleOp, subject: Subject):
        self.subject = subject
        method = method_of(module, subject.method)
        self.writers: dict[SSAValue, tuple[int, Operation]] = {}
        for number, op in enumerate(instructions_of(method) if method is not None else ()):
            for value in written(module, op):
                self.writers.setdefault(value, (number, op))

    def row(self, key: Key, seen: Observed) -> Row:
        value = seen.values_of.get(key)
        while value is not None and isinstance(value.owner, ViewOp):
            value = value.owner.base
        number: int | None = None
        links, named = self.subject.links, key
        if value is None:
            symbol, named = seen.delegates[key]
            what = f"{links.operator(named)} in delegate {symbol}"
        elif value in self.writers:
            number, op = self.writers[value]
            what = instruction_text(number, op)
        else:
            what = value.owner.name if isinstance(value.owner, Operation) else "input"
        limit = self.subject.allowed(seen.dtypes[key], through_steps=True)
        return Row(
            f"{what} ({links.name(named)})",
            links.where(named),
            key[0],
            allowed=limit,
            instruction=number,
        )


def _elements(value: SSAValue) -> int:
    return math.prod(value.type.get_shape()) if isinstance(value.type, TensorType) else -1


def instruction_text(number: int, op: Operation) -> str:
    """``instruction 31 aten::linear.out``."""
    if isinstance(op, CallOp):
        return f"instruction {number} {operator_of(op.kernel.data).full_name}"
    if isinstance(op, DelegateCallOp):
        return f"instruction {number} delegate {op.delegate.root_reference.data}"
    return f"instruction {number} {op.name}"


# --- runtimes --------------------------------------------------------------------------------------------------------


def runtime_stage(name: str, runtime: Runtime, data: bytes, module: ModuleOp, subject: Subject) -> Stage:
    """A program on a runtime; ``module`` is the program at the executable level.

    What the runtime left is compared with the reference, and each instruction with what the interpreter makes of the
    inputs that the runtime had.
    """
    stage = Stage(name)
    rows: dict[tuple[int, int], Row] = {}
    method = method_of(module, subject.method)
    assert method is not None
    table = _Instructions(module, method, subject)
    keys: dict[Key, None] = {}
    for inputs, reference in zip(subject.samples, subject.references, strict=True):
        try:
            run = runtime(data, subject.method, inputs)
        except EtirError as error:
            raise_if_no_memory(error)
            stage.failure, stage.broken = f"not run: {error.diagnostics[0].message}", True
            return stage
        keys |= _accumulated(run, reference, table, subject, rows)
        _outputs(subject, reference, stage, run.outputs, local=False)
        _states(subject, reference, stage, table.states(run), local=False)
        try:
            steps = replay(module, subject.method, inputs, run)
        except EtirError as error:
            raise_if_no_memory(error)
            stage.failure = f"not compared step by step: {error.diagnostics[0].message}"
            continue
        for step in steps.steps:
            if step.error is not None:
                row = table.row(rows, step.place[0], step.value, step.dtype)
                off = step.error <= row.allowed or not subject.quantized
                row.add(None, step.error if off else _but_for_rounding(step, run, module, table))
        for row, error in zip(stage.outputs[: len(steps.outputs)], steps.outputs, strict=False):
            row.add(None, error)
    stage.rows = [rows[place] for place in sorted(rows)]
    if keys:
        stage.compared, stage.total = _counted(list(keys), subject, len(subject.references[0].values))
    else:
        stage.compared = sum(row.local is not None for row in stage.rows)
        stage.total = len(rows)
    return stage


def _but_for_rounding(step: Step, run: RecordedRun, module: ModuleOp, table: _Instructions) -> float | None:
    """The error of a step; of a delegate's result without what rounding to 8 bits inside of it comes to."""
    op, arrays = table.ops[step.place[0]], run.values[step.place]
    if not isinstance(op, DelegateCallOp) or len(arrays) != len(op.arguments) or any(a is None for a in arrays):
        return step.error
    try:
        made, spare = rounding(module, op.delegate.root_reference.data, arrays)
    except EtirError as error:
        raise_if_no_memory(error)
        return step.error
    at = list(op.arguments).index(step.value) - (len(arrays) - len(made))
    return step.error if at < 0 else difference(made[at], step.recorded, spare[at])


class _Instructions:
    """The instructions of a file: what each writes, and whose values that is."""

    def __init__(self, module: ModuleOp, method: MethodOp, subject: Subject):
        ops, method_ops = instructions_of(method), list(method.body.blocks[0].ops)
        self.ops, self.subject = ops, subject
        self.writes = [written(module, op) for op in ops]
        self.first: dict[SSAValue, int] = {}
        for number, values in enumerate(self.writes):
            for value in values:
                self.first.setdefault(value, number)

        self.reads = ViewReads()
        self.same: dict[SSAValue, list[SSAValue]] = {}
        for op in ops:
            if isinstance(op, CallOp) and op.kernel.data.startswith("executorch_prim::et_view"):
                self.same.setdefault(op.arguments[0], []).append(op.arguments[-1])
        for op in method_ops:
            if isinstance(op, ViewOp) and op.result.type.get_shape() and _elements(op.result) == _elements(op.base):
                self.same.setdefault(op.base, []).append(op.result)

        self.held: dict[SSAValue, str] = {
            op.result: state_name(symbol)
            for op in method_ops
            if isinstance(op, BufferOp)
            and op.state is not None
            and isinstance(symbol := SymbolTable.lookup_symbol(module, op.state), StateOp)
        }
        for op, values in zip(ops, self.writes, strict=True):
            for value in op.operands if isinstance(op, MoveOp) else values:
                whole = storage_of(value)
                if whole is not None and (isinstance(op, MoveOp) or whole.result is not value):
                    self.held.pop(whole.result, None)

    def states(self, run: RecordedRun) -> dict[str, Any]:
        """What the last instructions that wrote mutable buffers left there; not of those that are written in parts."""
        found: dict[str, Any] = {}
        for (number, _), recorded in run.values.items():  # in the order of execution
            there = self.writes[number] if number < len(self.writes) else []
            first = len(there) - len(recorded)
            for position, value in list(enumerate(there))[max(first, 0) :]:
                array = recorded[position - first] if first >= 0 else None
                if value in self.held and array is not None:
                    found[self.held[value]] = array
        return found

    def keys(self, number: int, position: int, value: SSAValue) -> list[Key]:
        """Whose values an instruction leaves: what it writes, and the views of that which are still read."""
        found = dict.fromkeys(self.subject.links.keys(number, position, value))
        waiting = list(self.same.get(value, ()))
        while waiting:
            view = waiting.pop()
            if not self.reads.after(self.ops[number], view):
                continue
            found |= dict.fromkeys(self.subject.links.keys(-1, 0, view))
            waiting += self.same.get(view, ())
        return list(found)

    def row(self, rows: dict[tuple[int, int], Row], number: int, value: SSAValue, dtype: str) -> Row:
        """The row of a value that an instruction writes."""
        position = self.writes[number].index(value)
        if (number, position) not in rows:
            links, op = self.subject.links, self.ops[number]
            keys = self.keys(number, position, value)
            key = keys[0] if keys else None
            named = f" ({links.name(key)})" if key is not None else ""
            # A delegate's numbers may have 8 bits inside, and so has what stands for many operations.
            steps = isinstance(op, DelegateCallOp)
            where = links.where(key) if key is not None else links.where_of(number, op)
            limit = self.subject.allowed(dtype, through_steps=steps or key is None)
            made = Row(instruction_text(number, op) + named, where, key[0] if key else 0, allowed=limit)
            made.instruction = number
            rows[number, position] = made
        return rows[number, position]


def _accumulated(
    run: RecordedRun,
    reference: Reference,
    table: _Instructions,
    subject: Subject,
    rows: dict[tuple[int, int], Row],
) -> dict[Key, None]:
    """Add the differences from the reference to the rows; returns whose values were compared."""
    found: dict[Key, None] = {}
    by_key, makers = _by_key(run, table)
    for key, got in by_key.items():
        error = _differences(subject, reference, key, got)
        if error is not None:
            number, value = makers[key][-1]
            table.row(rows, number, value, reference.dtypes.get(key, "float32")).add(error, None)
            found[key] = None
    return found


def recorded_values(run: RecordedRun, module: ModuleOp, method: str, subject: Subject) -> dict[Key, list[Any]]:
    """What a run left, by the keys of the values that its instructions compute."""
    found = method_of(module, method)
    assert found is not None
    return _by_key(run, _Instructions(module, found, subject))[0]


def _by_key(
    run: RecordedRun, table: _Instructions
) -> tuple[dict[Key, list[Any]], dict[Key, list[tuple[int, SSAValue]]]]:
    """By key what a run left, and the instructions that wrote it."""
    by_key: dict[Key, list[Any]] = {}
    makers: dict[Key, list[tuple[int, SSAValue]]] = {}
    for (number, _), recorded in run.values.items():
        there = table.writes[number] if number < len(table.writes) else []
        if len(recorded) > len(there):
            continue
        first = len(there) - len(recorded)
        for position, value in list(enumerate(there))[first:]:
            array = recorded[position - first]
            for key in table.keys(number, position, value) if array is not None else ():
                # A delegate's inputs are logged with its results: their values are somebody else's.
                if isinstance(table.ops[number], DelegateCallOp) and table.first[value] != number:
                    continue
                by_key.setdefault(key, []).append(array)
                makers.setdefault(key, []).append((number, value))
    return by_key, makers
