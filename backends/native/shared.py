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


def shared_in(value: SSAValue) -> tuple[SchemaOp, int] | None:
    """The join that can have memory for a tensor which others may read, too, and the operand that it is there; None
    where two joins want it that are no part of each other.
    """
    users = dict.fromkeys(use.operation for use in value.uses)
    joins = [op for op in users if isinstance(op, SchemaOp) and operator_of(op) in AS_IMAGES]
    if not joins:
        return None
    largest = max(joins, key=lambda join: len(_parts(join)))
    parts = _parts(largest)
    if any(join is not largest and _start_in(join, largest) is None for join in joins):
        return None
    # An operand that is there twice can be in one place only.
    return (largest, parts.index(value)) if len({*parts}) == len(parts) else None


def outer_of(join: SchemaOp) -> tuple[SchemaOp, int] | None:
    """The larger join that has memory for all operands of another one, and the operand of it where that begins."""
    found = shared_in(_parts(join)[0])
    start = None if found is None or found[0] is join else _start_in(join, found[0])
    if found is None or start is None:
        return None
    outer = found[0]
    return (outer, start) if all((shared_in(part) or (None,))[0] is outer for part in _parts(join)) else None


def _start_in(join: SchemaOp, outer: SchemaOp) -> int | None:
    """The operand of a larger join where all operands of another one begin, side by side."""
    some, all_of_them = _parts(join), _parts(outer)
    if len(some) >= len(all_of_them) or _dim(join) != _dim(outer):
        return None
    starts = range(len(all_of_them) - len(some) + 1)
    return next((n for n in starts if all_of_them[n : n + len(some)] == some), None)


def _parts(join: SchemaOp) -> list[SSAValue]:
    return [*join.arg("tensors")]


def _dim(join: SchemaOp) -> int:
    return join.arg("dim") % len(dims(join.results[0]))
