"""The inside of delegates without taps: what the nodes of a blob compute in the interpreter.

A runtime logs what goes into a delegate's call and what comes out of it. A backend that knows what its nodes mean
(:mod:`etir.devtools.values.nodes`) says what is in between: so faults of what is written in the file are seen at the
node that has them. That the runtime half computes it, too, is seen by the results of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from etir.devtools.checks import difference
from etir.devtools.comparison.levels import context
from etir.devtools.trace.changes import origin_numbers
from etir.devtools.trace.read import Trace
from etir.devtools.values.arrays import like
from etir.devtools.values.interpreted import Key, NodeForm, as_array, marks_of
from etir.devtools.values.nodes import NodeWatch, Told
from etir.devtools.values.recorded import RecordedRun
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.text import parse_module
from etir.emit.to_pte import instructions_of
from etir.interpret.interpreter import Interpreter
from etir.passes.delegation.attributes import delegate_of

STIR = 2.0**-20
"""By how much the numbers inside of a delegate may differ for nothing, each relative to itself: sums in another order,
and the fixed-point multipliers of XNNPACK's kernels."""
STIRS = 2
"""Runs with such numbers, and how often the largest difference that they made is taken for rounding."""


@dataclass
class Inside:
    """What is inside of a delegate, for its last call.

    Attributes:
        symbol: the delegate.
        values: what its nodes compute, by the marks of their locations; the later one where two have the same.
        by_origin: the same for nodes without a mark, by the last operation that they come from; not where another node
            comes from it later, which then computes something else of it, as a sum that is limited at once.
        results: what the runtime gave, and what the nodes give, for each result of the call.
    """

    symbol: str
    values: dict[Key, Any] = field(default_factory=dict[Key, Any])
    by_origin: dict[int, Any] = field(default_factory=dict[int, Any])
    results: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])


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
    nodes = delegate_nodes(trace, symbol)
    values: dict[int, Any] = {}
    outputs = _run(final, symbol, arrays, lambda _, number, held: values.update({number: np.array(as_array(held))}))
    if not values or max(values) >= len(nodes):
        return None
    found = Inside(symbol, results=list(zip(arrays[len(arrays) - len(outputs) :], outputs, strict=True)))
    for number, node in enumerate(nodes):
        for origin in node.origins:
            found.by_origin.pop(origin, None)
        if number not in values:
            continue
        found.values |= dict.fromkeys(node.keys, values[number])
        if not node.keys and node.origins:
            found.by_origin[max(node.origins)] = values[number]
    return found


@dataclass(frozen=True)
class NodeMarks:
    """Whose values a node computes, and which operations it comes from."""

    keys: tuple[Key, ...]
    origins: tuple[int, ...]


def delegate_nodes(trace: Trace, symbol: str) -> list[NodeMarks]:
    """The nodes of a delegate that its runtime half reports, as the trace has them."""
    module = parse_module(str(trace.delegates[symbol].columns["text"]), context(), name=symbol)
    func = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    delegate = delegate_of(func)
    nodes: list[list[Operation]] = [] if delegate is None else delegate.backend.event_nodes(func, delegate.options)
    found: list[NodeMarks] = []
    for ops in nodes:
        marks = marks_of(ops[-1].results[0]) if ops[-1].results else ()
        origins = tuple(number for op in ops for number in origin_numbers(op.location))
        found.append(NodeMarks(tuple((mark.origin, mark.result) for mark in marks), origins))
    return found


def _run(final: ModuleOp, symbol: str, arrays: Sequence[Any], told: Told) -> list[Any]:
    """The results of a delegate. Raises E1001 where its backend does not know."""
    interpreter = Interpreter(final, "auto", NodeWatch(told, symbol).runner)
    given = [interpreter.evaluator.from_user(np.array(array)) for array in arrays]
    return [as_array(value) for value in interpreter.delegate(symbol)(given)]


def rounding(final: ModuleOp, symbol: str, arrays: Sequence[Any]) -> tuple[list[Any], list[float]]:
    """The results of a delegate for a call's arguments, and by how much two ways to compute them may differ by rounding
    alone.

    What is rounded to 8 bits inside makes a step of a difference in the seventh digit, and a step in the first layer is
    another number in all that follow. How far that goes is a property of the network, so it is measured: the nodes run
    with their values moved by ``STIR``. Zero where no node can be seen. Raises what the interpreter does.
    """
    made = _run(final, symbol, arrays, lambda *_: None)
    found = [0.0] * len(made)
    for seed in range(STIRS):
        moved = _run(final, symbol, arrays, partial(_stirred, np.random.default_rng(seed)))
        for i, (one, other) in enumerate(zip(made, moved, strict=True)):
            with np.errstate(invalid="ignore"):  # infinities of the same sign
                off = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
            found[i] = max(found[i], STIRS * float(off[np.isfinite(off)].max(initial=0.0)))
    return made, found


def _stirred(random: np.random.Generator, symbol: str, number: int, held: Any) -> Any:
    array = as_array(held)
    if array.dtype.kind != "f":
        return None
    return like(held, array * (1 + STIR * random.uniform(-1, 1, array.shape)))


class NodeForms:
    """What nodes inside of a module's delegates compute, as values of the imported program.

    A node's value is the last one that it has the mark of: a product that is stored as integers has the marks of the
    product, of the operator that rounds it, and of the one that multiplies it out again. One that is integers, whose
    numbers those are not, has no form, and neither has one that the method itself has: ``outside`` are the keys of
    those. ``wanted`` are the reference's values, whose shapes are taken.
    """

    def __init__(self, trace: Trace, module: ModuleOp, wanted: Mapping[Key, Sequence[Any]]):
        self.trace, self.wanted = trace, wanted
        self.outside = {(m.origin, m.result) for op in module.walk() for r in op.results for m in marks_of(r)}
        self.nodes: dict[str, list[NodeMarks]] = {}

    def __call__(self, symbol: str, number: int, held: Any) -> NodeForm | None:
        if symbol not in self.nodes:
            self.nodes[symbol] = delegate_nodes(self.trace, symbol) if symbol in self.trace.delegates else []
        keys = self.nodes[symbol][number].keys if number < len(self.nodes[symbol]) else ()
        wanted = self.wanted.get(max(keys)) if keys else None
        if not wanted or max(keys) in self.outside or np.asarray(wanted[-1]).dtype.kind != "f":
            return None
        array = as_array(held)
        forms = _orders(array.shape, wanted[-1].shape)
        if not forms:
            return None
        off = [difference(wanted[-1], _ordered(array, form, wanted[-1])) for form in forms]
        best = forms[off.index(min(off))]
        return NodeForm(max(keys), min(keys), _ordered(array, best, wanted[-1]), partial(_stored, array.shape, best))


def fitting(array: Any, wanted: Any) -> list[Any]:
    """An array as what has the shape of another one, in each order of dims that gives it, as of images whose channels
    lie last: a node has a layout of its own, which nothing names. Dims of size 1 do not count.
    """
    return [_ordered(np.asarray(array), order, wanted) for order in _orders(np.shape(array), np.shape(wanted))]


def _orders(shape: Sequence[int], wanted: Sequence[int]) -> list[tuple[int, ...]]:
    """The orders of the dims of ``shape`` that are not 1 in which they are those of ``wanted``; as they are, first."""
    sizes, given = [size for size in wanted if size != 1], [size for size in shape if size != 1]
    if sorted(sizes) != sorted(given):
        return []
    every = permutations(range(len(given))) if len(given) <= 4 else iter([tuple(range(len(given)))])
    return [order for order in every if [given[d] for d in order] == sizes]


def _ordered(array: Any, order: tuple[int, ...], wanted: Any) -> Any:
    plain = array.reshape([size for size in array.shape if size != 1])
    return plain.transpose(order).reshape(np.shape(wanted))


def _stored(shape: Sequence[int], order: tuple[int, ...], value: Any) -> Any:
    """A value of the program as a node has it; the reverse of :func:`_ordered`."""
    sizes = [size for size in shape if size != 1]
    plain = np.reshape(value, [sizes[d] for d in order])
    return plain.transpose(np.argsort(order)).reshape(shape) if order else plain.reshape(shape)
