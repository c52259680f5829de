"""The inside of delegates without taps: what the nodes of a blob make of the inputs that a runtime gave it.

A runtime logs what goes into a delegate's call and what comes out of it. A backend that knows what its nodes mean
(:meth:`~etir.backends.api.interface.Backend.node_values`) says what is in between: so faults of what is written in the
file are seen at the node that has them. That the runtime half computes it, too, is seen by the results of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.comparison.levels import context
from etir.devtools.trace.changes import origin_numbers
from etir.devtools.trace.read import Trace
from etir.devtools.values.interpreted import Key, as_array, marks_of
from etir.devtools.values.recorded import RecordedRun
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.text import parse_module
from etir.emit.to_pte import instructions_of
from etir.interpret.evaluator import Evaluator
from etir.interpret.interpreter import Interpreter
from etir.passes.delegation.attributes import delegate_of


@dataclass
class Inside:
    """What is inside of a delegate, for its last call.

    Attributes:
        symbol: the delegate.
        values: what its nodes compute, by the marks of their locations; the later one where two have the same.
        by_origin: the same for nodes without a mark, by the last operation that they come from.
        results: what the runtime gave, and what the nodes give, for each result of the call.
    """

    symbol: str
    values: dict[Key, Any]
    by_origin: dict[int, Any]
    results: list[tuple[Any, Any]]


def inside_of_delegates(run: RecordedRun, final: ModuleOp, method: str, trace: Trace) -> list[Inside]:
    """The delegates that a run called and whose backend knows its nodes, in the order of their first calls.

    ``final`` is the program at the executable level, with the names of the trace. A call of which the runtime logged
    no arguments, and a blob that cannot be interpreted, are left out.
    """
    whole = method_of(final, method)
    ops = [] if whole is None else instructions_of(whole)
    found: dict[str, Inside] = {}
    for (number, _), arrays in run.values.items():
        op = ops[number]
        if not isinstance(op, DelegateCallOp) or any(array is None for array in arrays):
            continue
        symbol = op.delegate.root_reference.data
        if len(arrays) == len(op.arguments) and symbol in trace.delegates:
            try:
                inside = _inside(symbol, final, trace, arrays)
            except EtirError:
                continue
            if inside is not None:
                found[symbol] = inside
    return list(found.values())


def _inside(symbol: str, final: ModuleOp, trace: Trace, arrays: Sequence[Any]) -> Inside | None:
    nodes = _nodes(symbol, str(trace.delegates[symbol].columns["text"]))
    values, outputs = (_run(final, symbol, arrays, of_nodes=of_nodes) for of_nodes in (True, False))
    if len(values) != len(nodes):
        return None
    found = Inside(symbol, {}, {}, list(zip(arrays[len(arrays) - len(outputs) :], outputs, strict=True)))
    for ops, value in zip(nodes, values, strict=True):
        keys = [(mark.origin, mark.result) for mark in marks_of(ops[-1].results[0])] if ops[-1].results else []
        for key in keys:
            found.values[key] = value
        origins = [number for op in ops for number in origin_numbers(op.location)]
        if not keys and origins:
            found.by_origin[max(origins)] = value
    return found


def _nodes(symbol: str, text: str) -> list[list[Operation]]:
    """The operations of a delegate that its runtime half reports."""
    module = parse_module(text, context(), name=symbol)
    func = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    delegate = delegate_of(func)
    return [] if delegate is None else delegate.backend.event_nodes(func, delegate.options)


def _run(final: ModuleOp, symbol: str, arrays: Sequence[Any], *, of_nodes: bool) -> list[Any]:
    """What the nodes, or else the results, of a delegate are. Raises E1001 where its backend does not know."""
    runner = _Nodes if of_nodes else backend_of_runtime_id
    interpreter = Interpreter(final, "auto", runner)  # type: ignore[arg-type]
    given = [interpreter.evaluator.from_user(np.array(array)) for array in arrays]
    return [as_array(value) for value in interpreter.delegate(symbol)(given)]


class _Nodes:
    """A backend whose blobs give what their nodes compute."""

    def __init__(self, runtime_id: str):
        self.backend = backend_of_runtime_id(runtime_id)

    def lowered_function(self, *_: Any) -> None:
        return None

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        return None if self.backend is None else self.backend.node_values(blob, named_data, evaluator)


def fitting(array: Any, wanted: Any) -> list[Any]:
    """An array as what has the shape of another one: as it is, or as an image whose channels lie last.

    Dims of size 1 do not count. Empty where it has another shape; both forms where both fit.
    """
    shape = tuple(np.shape(wanted))
    forms = [np.asarray(array)]
    if forms[0].ndim == 4:
        forms.append(forms[0].transpose(0, 3, 1, 2))
    return [form.reshape(shape) for form in forms if _without_ones(form.shape) == _without_ones(shape)]


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]
