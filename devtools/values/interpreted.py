"""Values from the interpreter, at any level: every one that an operation's location marks as one of the program's.

The key of a value is the origin and the number of the result, so that values of two levels are the same one when their
keys are equal. Where a value is computed several times (in a loop, in a buffer that is written again) the last one
counts; what is read as an input counts as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, OpResult, SSAValue

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.values.arrays import largest_of, like
from etir.devtools.values.nodes import NodeWatch
from etir.devtools.values.room import Room
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import InputsOp
from etir.dialects.et.origin import Mark, origins_in
from etir.dialects.et.program import StateOp
from etir.interpret.interpreter import Interpreter

Key: TypeAlias = tuple[int, int]
"""Origin, and number of the result."""


def marks_of(value: SSAValue) -> tuple[Mark, ...]:
    """The marks of one value of the IR."""
    if isinstance(value, OpResult):
        found = origins_in(value.owner.location)
        return () if found is None else tuple(mark for mark in found.marks if mark.at == value.index)
    found = origins_in(value.location) if isinstance(value, BlockArgument) else None
    return () if found is None else found.marks


def interpreted_values(
    module: ModuleOp, inputs: Sequence[Any], method: str = "forward", evaluator: str = "auto"
) -> dict[Key, np.ndarray[Any, Any]]:
    """What every marked tensor of a method is when it runs once with ``inputs``, which are not changed.

    Raises what the interpreter does (E10xx).
    """
    return {key: found[-1] for key, found in observe(module, inputs, method, evaluator=evaluator).values.items()}


@dataclass(frozen=True)
class NodeForm:
    """A value of the program as a node inside of a delegate has it.

    Attributes:
        key: of the value.
        first: the value that the node computes, of which the other one is only another form.
        array: in the shape of the program's.
        stored: an array of that shape as the node has it.
    """

    key: Key
    first: Key
    array: np.ndarray[Any, Any]
    stored: Callable[[Any], Any]


@dataclass
class Observed:
    """What one run of the interpreter showed.

    Attributes:
        values: by key, one array for each time that it was computed; an input counts as it was given.
        dtypes: by key.
        values_of: by key the value of the IR, in the order in which they were computed first; not of what is inside of
            delegates.
        delegates: by key the symbol of the delegate that the value is inside of, and what the node there computes.
        outputs: arrays and Python values.
        scale: the largest finite number of all that was computed, marked or not.
        states: by the name of the user's module, what the run leaves in mutable buffers.
        largest: by key the largest finite number among what the operation was computed from.
    """

    values: dict[Key, list[np.ndarray[Any, Any]]] = field(default_factory=dict[Key, "list[np.ndarray[Any, Any]]"])
    dtypes: dict[Key, str] = field(default_factory=dict[Key, str])
    values_of: dict[Key, SSAValue] = field(default_factory=dict[Key, SSAValue])
    delegates: dict[Key, tuple[str, Key]] = field(default_factory=dict[Key, "tuple[str, Key]"])
    outputs: list[Any] = field(default_factory=list[Any])
    largest: dict[Key, float] = field(default_factory=dict[Key, float])
    scale: float = 0.0
    states: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, "np.ndarray[Any, Any]"])


def observe(
    module: ModuleOp,
    inputs: Sequence[Any],
    method: str = "forward",
    *,
    instead: Callable[[Key, int], np.ndarray[Any, Any] | None] | None = None,
    inside: Callable[[str, int, Any], NodeForm | None] | None = None,
    evaluator: str = "auto",
) -> Observed:
    """Run a method once with ``inputs``, which are not changed, and keep every marked tensor.

    ``instead`` is asked, by key and how often that was computed before, for an array that takes the place of the value
    after it was kept: what comes after is computed from that. ``inside`` says of a delegate's symbol, the number of
    one of its nodes and a tensor whose value of the program that is. Raises what the interpreter does (E10xx), and
    error E1415 when the values do not fit into memory.
    """
    found, room = Observed(), Room()
    given = _inputs_of(module, method)
    interpreter = Interpreter(module, evaluator, backend_of_runtime_id)
    largest: dict[SSAValue, float] = {}

    def watch(value: SSAValue, held: Any) -> Any:
        if not interpreter.evaluator.is_tensor(held):
            return None
        replaced: Any = None
        nbytes, what = int(held.nbytes), f"what '{_made_by(value)}' gives"
        room.check(nbytes, what)
        largest[value] = largest_of(held)
        found.scale = max(found.scale, largest[value])
        inputs = value.owner.operands if isinstance(value, OpResult) else ()
        for mark in marks_of(value):
            key = (mark.origin, mark.result)
            known = found.values.setdefault(key, [])
            if known and value in given:
                continue
            room.take(nbytes, what)
            known.append(np.array(as_array(held)))
            found.dtypes[key] = str(held.dtype).rpartition(".")[2]
            found.values_of.setdefault(key, value)
            found.largest[key] = max([found.largest.get(key, 0.0), *(largest.get(v, 0.0) for v in inputs)])
            if instead is not None and (other := instead(key, len(known) - 1)) is not None:
                replaced = like(held, other)
        return replaced

    def node(symbol: str, number: int, held: Any) -> Any:
        form = None if inside is None else inside(symbol, number, held)
        if form is None:
            return None
        known = found.values.setdefault(form.key, [])
        room.take(int(form.array.nbytes), f"what a node inside of delegate {symbol} gives")
        known.append(np.array(form.array))
        found.dtypes[form.key] = str(held.dtype).rpartition(".")[2]
        found.delegates[form.key] = symbol, form.first
        other = None if instead is None else instead(form.key, len(known) - 1)
        return None if other is None else like(held, form.stored(other))

    interpreter.watch = watch
    if inside is not None:
        nodes = NodeWatch(node)
        interpreter.runner_of, interpreter.before_instruction = nodes.runner, nodes.begin
    outputs = interpreter.run([copied(value) for value in inputs], method)
    found.outputs = [as_array(v) if hasattr(v, "shape") else v for v in outputs]
    for symbol, held in interpreter.states(method).items():
        op = interpreter.symbols.get(symbol)
        if isinstance(op, StateOp) and interpreter.evaluator.is_tensor(held):
            found.states[state_name(op)] = np.array(as_array(held))
    return found


def state_name(op: StateOp) -> str:
    """The name that a mutable buffer has in the user's module, its symbol where it has none."""
    fqn = op.attributes.get("fqn")
    return fqn.data if isinstance(fqn, StringAttr) else op.sym_name.data  # type: ignore[attr-defined]


def _made_by(value: SSAValue) -> str:
    return value.owner.name if isinstance(value, OpResult) else value.name_hint or "input"


def _inputs_of(module: ModuleOp, method: str) -> dict[SSAValue, None]:
    for op in module.walk():
        if isinstance(op, InputsOp):
            parent = op.parent_op()
            if isinstance(parent, MethodOp) and parent.sym_name.data == method:
                return dict.fromkeys(op.arguments)
    return {}


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A tensor of torch or NumPy as an array; what NumPy has no dtype for as float32."""
    if isinstance(value, np.ndarray):
        return value
    tensor = value.detach()
    if str(tensor.dtype) in ("torch.bfloat16",) or str(tensor.dtype).startswith("torch.float8"):
        tensor = tensor.float()
    return np.asarray(tensor.resolve_conj().resolve_neg().cpu())


def copied(value: Any) -> Any:
    """An input that a method may write into without the caller's being changed."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.clone() if hasattr(value, "clone") else value
