"""What a backend can claim, as data: rows of a pattern and conditions, each condition with its reason.

A :class:`Row` is one thing that a backend can run: an operator, or a tree of operators that it can only claim together
(a convolution and its batch norm, dequantize -> linear -> quantize). The pattern says which operators, the conditions
say when; a condition that does not hold answers with a text, so that "why not" always has an answer.

Operators are named without their level (``aten.linear.default``): the same row is asked at the ATen level, when it has
to be known what decomposition may break up, and at the edge level, when partitions are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.schema_op import SchemaOp

ANY = "*"
"""In the place of an operator's name: every operator."""


@dataclass(frozen=True)
class Node:
    """An operator of a pattern: any of ``names`` (or :data:`ANY`); arguments in ``inputs`` come from further nodes.

    The result of an inner node is used by its match alone. A ``duplicable`` one (dequantize of an activation) may have
    other users: every match has a copy of it. An ``escaping`` one may have other users and is claimed all the same:
    the partition then gives out its result.
    """

    names: tuple[str, ...]
    inputs: Mapping[str, Node] = field(default_factory=dict[str, "Node"])
    capture: str = ""
    duplicable: bool = False
    escaping: bool = False

    def fits(self, operator: str) -> bool:
        """Whether an operator may stand here."""
        return operator in self.names or ANY in self.names

    @property
    def nodes(self) -> list[Node]:
        """This node and the ones below it."""
        return [self, *(inner for node in self.inputs.values() for inner in node.nodes)]


def op(
    *names: str,
    capture: str = "",
    duplicable: bool = False,
    escaping: bool = False,
    inputs: Mapping[str, Node] | None = None,
    **arguments: Node,
) -> Node:
    """A node of a pattern: ``op("aten.relu.default", self=op("aten.convolution.default", capture="conv"))``.

    Keywords are names of schema arguments; ``inputs`` gives those whose names are taken (``inputs={"capture": ...}``).
    """
    return Node(names, {**(inputs or {}), **arguments}, capture, duplicable, escaping)


@dataclass(frozen=True)
class Match:
    """Operations that fit a row's pattern; what conditions look at.

    ``op`` is the root (the last one), ``captures`` the nodes with a name, ``ops`` all of them, the root first.
    """

    op: SchemaOp
    ops: tuple[SchemaOp, ...]
    captures: Mapping[str, SchemaOp]
    duplicable: tuple[SchemaOp, ...] = ()

    def __getitem__(self, capture: str) -> SchemaOp:
        """The operation that a named node matched."""
        return self.captures[capture]

    def arg(self, name: str) -> Any:
        """An argument of the root: an SSA value, a literal, a tuple, or None."""
        return self.op.arg(name)

    def type(self, name: str) -> TensorType[Attribute] | None:
        """The tensor type of an argument of the root, None when it is absent or no tensor."""
        value = self.op.arg(name)
        return value.type if isinstance(value, SSAValue) and isinstance(value.type, TensorType) else None

    @property
    def tensors(self) -> list[SSAValue]:
        """The tensors that enter and leave the match, each once."""
        inner = dict.fromkeys(r for o in self.ops[1:] for r in o.results)
        values = [v for o in self.ops for v in o.operands if v not in inner]
        return [v for v in dict.fromkeys([*values, *self.op.results]) if isinstance(v.type, TensorType)]


@dataclass(frozen=True)
class Condition:
    """Something that has to hold for a match. ``text`` says what, for tables of what a backend claims; ``failure``
    returns None where it holds and otherwise the reason, with the names and numbers of the case.
    """

    text: str
    failure: Callable[[Match], str | None]


def condition(text: str) -> Callable[[Callable[[Match], str | bool | None]], Condition]:
    """Decorator: a condition from a function that returns None or True where it holds, and a reason or False (the
    reason then is ``not TEXT``) where it does not.
    """

    def make(function: Callable[[Match], str | bool | None]) -> Condition:
        def failure(match: Match) -> str | None:
            answer = function(match)
            if answer is None or answer is True:
                return None
            return f"not so: {text}" if answer is False else answer

        return Condition(text, failure)

    return make


@dataclass(frozen=True)
class Row:
    """One row of what a backend can claim: ``Row(op("aten.add.Tensor"), (dtypes("float32"), static_shapes()))``.

    ``label`` names the row in reports, by default after its root.
    """

    pattern: Node
    conditions: tuple[Condition, ...] = ()
    label: str = ""

    @property
    def name(self) -> str:
        """The row's name in reports and tables."""
        return self.label or self.pattern.names[0]

    @property
    def operators(self) -> tuple[str, ...]:
        """Every operator that the pattern names."""
        return tuple(dict.fromkeys(name for node in self.pattern.nodes for name in node.names))

    @property
    def has_duplicable(self) -> bool:
        """Whether matches may copy operations that others use as well."""
        return any(node.duplicable for node in self.pattern.nodes)


def rows(names: Iterable[str], *conditions: Condition) -> tuple[Row, ...]:
    """One row for each operator, all under the same conditions: a table's usual block."""
    return tuple(Row(op(name), conditions) for name in names)


@dataclass(frozen=True)
class Refusal:
    """Why a row does not match an operation; ``satisfied`` counts what did hold, so that the nearest row can answer."""

    row: Row
    reason: str
    satisfied: int


def operator_of(operation: Operation) -> str:
    """The operator's name without its level: ``aten.add.Tensor`` for ``edge.aten.add.Tensor``; else the op's name."""
    return operation.SCHEMA.op_name if isinstance(operation, SchemaOp) else operation.name


class Table:
    """Rows, found by the operator at their root. Larger patterns are tried before smaller ones, else in order."""

    def __init__(self, rows: Sequence[Row]):
        self.rows = tuple(rows)
        self.by_root: dict[str, list[Row]] = {}
        for row in sorted(self.rows, key=lambda r: -len(r.pattern.nodes)):
            for name in row.pattern.names:
                self.by_root.setdefault(name, []).append(row)

    def match(self, operation: Operation) -> tuple[Row, Match] | list[Refusal]:
        """The first row that matches ``operation`` as its root, or why none does (empty: no row has such a root)."""
        if not isinstance(operation, SchemaOp):
            return []
        refusals: list[Refusal] = []
        for row in (*self.by_root.get(operation.SCHEMA.op_name, ()), *self.by_root.get(ANY, ())):
            answer = match_row(row, operation)
            if isinstance(answer, Match):
                return row, answer
            refusals.append(answer)
        return refusals

    def why_not(self, operation: Operation) -> str | None:
        """None when a row matches ``operation`` as its root, else the reason of the row that came nearest."""
        answer = self.match(operation)
        if isinstance(answer, tuple):
            return None
        if not answer:
            return "no pattern has this operator at its root"
        return max(answer, key=lambda refusal: refusal.satisfied).reason


def match_row(row: Row, root: SchemaOp) -> Match | Refusal:
    """Try one row with ``root`` as its root."""
    found: list[tuple[Node, SchemaOp]] = []
    problem = _collect(row.pattern, root, found)
    if problem is not None:
        return Refusal(row, problem, len(found) - 1)
    ops = dict.fromkeys(operation for _, operation in found)
    for node, operation in found[1:]:
        others = [use.operation for r in operation.results for use in r.uses if use.operation not in ops]
        if others and not (node.duplicable or node.escaping):
            reason = f"'{operator_of(operation)}' before it is also used by '{operator_of(others[0])}'"
            return Refusal(row, reason, len(found))
    match = Match(
        root,
        tuple(ops),
        {node.capture: operation for node, operation in found if node.capture},
        tuple(dict.fromkeys(operation for node, operation in found if node.duplicable)),
    )
    for position, wanted in enumerate(row.conditions):
        reason = wanted.failure(match)
        if reason is not None:
            return Refusal(row, reason, len(found) + position)
    return match


def _collect(node: Node, operation: SchemaOp, found: list[tuple[Node, SchemaOp]]) -> str | None:
    found.append((node, operation))
    for name, inner in node.inputs.items():
        if name not in operation.SCHEMA.index:
            return f"'{operator_of(operation)}' has no argument '{name}'"
        value = operation.arg(name)
        owner = value.owner if isinstance(value, SSAValue) else None
        if not isinstance(owner, SchemaOp) or not inner.fits(owner.SCHEMA.op_name):
            wanted = " or ".join(f"'{n}'" for n in inner.names)
            return f"'{name}' does not come from {wanted}"
        problem = _collect(inner, owner, found)
        if problem is not None:
            return problem
    return None
