"""What a pass changed, by identity: operations that are gone, new, or other than before, each with its text.

No texts are compared: an operation object that is there before and after a pass is the same one, and it has changed if
its operands, attributes, types or location have. Texts are made when they are needed, from what the operation was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.devtools.trace.places import AttributeTexts
from etir.dialects.et.origin import origins_in
from etir.passes.infra.rewriting import Pattern

LONGEST = 200
"""Characters of an attribute in the text of a change."""


class Snapshot(NamedTuple):
    """An operation as it was: enough to see whether it is another one now, and to write it."""

    name: str
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    types: list[Attribute]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    location: LocationAttr


def snapshot_of(op: Operation) -> Snapshot:
    """The operation as it is now."""
    results = tuple(op.results)
    return Snapshot(
        op.name,
        op._operands,  # pyright: ignore[reportPrivateUsage]
        results,
        [*map(_type_of, results)],
        dict(op.properties),
        dict(op.attributes),
        op.location,
    )


_type_of: Callable[[SSAValue], Attribute] = attrgetter("_type")
"""What the property of a value reads."""


def _is_still(op: Operation, was: Snapshot) -> bool:
    """Whether an operation is what it was. Most are, after most passes: containers are compared, none is made; what is
    one object is equal without a look inside.
    """
    # Fields, not the properties that read them: this is asked of every operation after every pass.
    results = op.results
    return (
        op._operands == was.operands  # pyright: ignore[reportPrivateUsage]
        and op.properties == was.properties
        and op.attributes == was.attributes
        and (op.location is was.location or op.location == was.location)
        and [*map(_type_of, results)] == was.types
        and op.name == was.name
    )


@dataclass
class Rewrites:
    """What the rewrite driver told during one pass."""

    applied: Counter[str] = field(default_factory=Counter[str])
    made: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """New operation to the pattern that made it."""
    roots: dict[tuple[str, LocationAttr], str] = field(default_factory=dict[tuple[str, LocationAttr], str])
    """Name and location of a rewritten operation to the pattern."""
    missed: Counter[tuple[str, str, tuple[int, ...], str]] = field(
        default_factory=Counter[tuple[str, str, tuple[int, ...], str]]
    )
    """Pattern, operation, its origins, reason: how often."""

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, made: Sequence[Operation]) -> None:
        """A pattern has replaced or changed an operation."""
        self.applied[pattern.name] += 1
        self.roots[op_name, location] = pattern.name
        for op in made:
            self.made[op] = pattern.name

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """A pattern has left an operation alone."""
        self.missed[pattern.name, op.name, origin_numbers(op.location), reason] += 1


def origin_numbers(location: LocationAttr) -> tuple[int, ...]:
    """The numbers of a location's origins."""
    found = origins_in(location)
    return () if found is None else found.numbers


class Texts:
    """Writes snapshots, each value under one name through the whole compilation: its hint, numbered to be unique."""

    def __init__(self, attributes: AttributeTexts) -> None:
        self._names: dict[SSAValue, str] = {}
        self._taken: dict[str, int] = {}
        self._attributes = attributes

    def value(self, value: SSAValue) -> str:
        """The name of a value."""
        known = self._names.get(value)
        if known is None:
            hint = value.name_hint or "v"
            count = self._taken.get(hint, 0)
            self._taken[hint] = count + 1
            known = self._names[value] = f"%{hint}" if value.name_hint and not count else f"%{hint}_{count}"
        return known

    def attribute(self, attribute: Attribute) -> str:
        """The text of an attribute or a type, cut off where it is long."""
        text = self._attributes.get(attribute)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."

    def text(self, was: Snapshot) -> str:
        """One line: ``%y = edge.aten.relu.default(%x) {...} : tensor<2xf32>``."""
        given = [
            f"{name} = {self.attribute(value)}" for name, value in (*was.properties.items(), *was.attributes.items())
        ]
        head = f"{', '.join(map(self.value, was.results))} = " if was.results else ""
        tail = f" : {', '.join(map(self.attribute, was.types))}" if was.types else ""
        inside = f" {{{', '.join(given)}}}" if given else ""
        return f"{head}{was.name}({', '.join(map(self.value, was.operands))}){inside}{tail}"


class Watcher:
    """Knows every operation of a module as it was after the last pass."""

    def __init__(self, module: ModuleOp, attributes: AttributeTexts):
        self._ops = _operations(module)
        self._known = [snapshot_of(op) for op in self._ops]
        self._texts = Texts(attributes)

    def changes(self, module: ModuleOp, rewrites: Rewrites) -> dict[str, Any] | None:
        """What is different since the last call, as data; None when nothing is."""
        before, known = self._ops, self._known
        count = len(before)
        ops = _operations(module)
        still = [*map(_is_still, ops, known)] if ops == before else []
        if still and all(still):
            return None
        now: list[Snapshot] = []
        new: list[list[Any]] = []
        changed: list[list[Any]] = []
        gone = [True] * count
        # Most operations come in the order that they had. Where one does not it is looked up, by its address: these
        # objects live, and their hash is that of the address, by a way through Python.
        places: dict[int, int] = {}
        place = 0  # of the one that comes next if nothing has changed
        for op in ops:
            if place < count and before[place] is op:
                found = place
            else:
                places = places or dict(zip(map(id, before), range(len(before)), strict=True))
                found = places.get(id(op), -1)
            if found < 0:
                now.append(current := snapshot_of(op))
                new.append(self._row(current, rewrites.made.get(op)))
                continue
            place = found + 1
            gone[found] = False
            was = known[found]
            if still[found] if still else _is_still(op, was):
                now.append(was)
                continue
            now.append(current := snapshot_of(op))
            row = self._row(current, rewrites.roots.get((op.name, was.location)))
            changed.append([self._texts.text(was), *row])
        lost = [
            self._row(was, rewrites.roots.get((was.name, was.location)))
            for was, is_gone in zip(known, gone, strict=True)
            if is_gone
        ]
        self._ops, self._known = ops, now
        if not (lost or new or changed):
            return None
        return {"gone": lost, "new": new, "changed": changed}

    def _row(self, was: Snapshot, pattern: str | None) -> list[Any]:
        return [self._texts.text(was), list(origin_numbers(was.location)), pattern]


def _operations(module: ModuleOp) -> list[Operation]:
    """Every operation in the module, in order: ``walk`` without its generators, which take longer than the rest."""
    found: list[Operation] = []

    def add(op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                inner = block.first_op
                while inner is not None:
                    found.append(inner)
                    if inner.regions:
                        add(inner)
                    inner = inner._next_op  # pyright: ignore[reportPrivateUsage]

    add(module)
    return found
