"""Images that are read where they are joined to others, and joins that are a part of a larger one.

In a dense block every layer joins what all layers before it have made, so that each join begins with all of the one
before. In memory of their own, the same numbers are there twice at least. Where memory is short, the largest of such
joins has memory, the others are parts of it, and what makes a part writes it there, whoever reads it besides.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.dims import dims
from etir.dialects.schema_op import SchemaOp

SHARED = "shared"
"""What a function does without whose joins have the images of others (``savings.py``)."""
AS_IMAGES = ("aten.cat.default",)
"""Joins of images that are an image; one more dim makes none of them."""


class Shares:
    """What shares memory in a function that does not change meanwhile: each answer is found once, since a block of many
    layers asks for the same ones at each of its joins.
    """

    def __init__(self) -> None:
        self._found: dict[SSAValue, tuple[SchemaOp, int] | None] = {}

    def of(self, value: SSAValue) -> tuple[SchemaOp, int] | None:
        """The join that can have memory for a tensor which others may read, too, and the operand that it is there; None
        where two joins want it that are no part of each other.
        """
        if value not in self._found:
            self._found[value] = _shared_in(value)
        return self._found[value]

    def outer(self, join: SchemaOp) -> tuple[SchemaOp, int] | None:
        """The larger join that has memory for all operands of another one, and the operand of it where that begins."""
        found = [self.of(part) for part in _parts(join)]
        first = found[0]
        if first is None or first[0] is join or any(one is None or one[0] is not first[0] for one in found):
            return None
        start = _start_in(join, first[0])
        return None if start is None else (first[0], start)


def _shared_in(value: SSAValue) -> tuple[SchemaOp, int] | None:
    users = dict.fromkeys(use.operation for use in value.uses)
    joins = [op for op in users if isinstance(op, SchemaOp) and operator_of(op) in AS_IMAGES]
    if not joins:
        return None
    largest = max(joins, key=lambda join: len(_parts(join)))
    parts = _parts(largest)
    # An operand that is there twice can be in one place only.
    if len({*parts}) != len(parts):
        return None
    if any(join is not largest and _start_in(join, largest) is None for join in joins):
        return None
    return largest, parts.index(value)


def _start_in(join: SchemaOp, outer: SchemaOp) -> int | None:
    """The operand of a larger join, all of whose operands differ, where those of another one begin, side by side."""
    some, others = _parts(join), _parts(outer)
    if len(some) >= len(others) or _dim(join) != _dim(outer) or some[0] not in others:
        return None
    start = others.index(some[0])
    return start if others[start : start + len(some)] == some else None


def _parts(join: SchemaOp) -> list[SSAValue]:
    return [*join.arg("tensors")]


def _dim(join: SchemaOp) -> int:
    return join.arg("dim") % len(dims(join.results[0]))
