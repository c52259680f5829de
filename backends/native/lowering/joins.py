"""Operators that put tensors into parts of a larger one: concatenations, padding, and parts that change places.

What computes a part writes it to its place in the whole when the join is its only reader; the others are copied.
"""

from __future__ import annotations

import itertools
import math

from etir.backends.api.patterns import operator_of
from etir.backends.native.asked import saves
from etir.backends.native.lowering.function import JOINS, Lowering, is_join, moves, shape
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.shared import AS_IMAGES
from etir.dialects.schema_op import SchemaOp


def _whole(lowering: Lowering, op: SchemaOp, as_image: bool) -> Place:
    """The memory of a join, made when it is first asked for."""
    result = op.results[0]
    joins = [use for use in result.uses if isinstance(use.operation, SchemaOp) and is_join(use.operation)]
    is_part = result not in lowering.places and len(joins) > 0
    if is_part and saves(lowering.func, "joins") and lowering.joined(result) is not None:
        lowering.places[result] = lowering.buffer(shape(result))
    if as_image and result not in lowering.places and (place := _in_outer(lowering, op)) is not None:
        lowering.places[result] = place
    if result not in lowering.places:
        return lowering.image(result) if as_image and operator_of(op) in AS_IMAGES else lowering.result(result)
    return lowering.places[result]


def _in_outer(lowering: Lowering, op: SchemaOp) -> Place | None:
    """The part that a join is of a larger one, where memory is short."""
    outer = lowering.shares.outer(op) if operator_of(op) in AS_IMAGES else None
    if outer is None or not lowering.is_shared(outer[0]):
        return None
    first = _parts(lowering, outer[0], True)[outer[1]]
    dim = op.arg("dim") % len(first.shape)
    return first.sliced(dim, 0, shape(op.results[0])[dim])


def _parts(lowering: Lowering, op: SchemaOp, as_image: bool) -> list[Place]:
    """Where each operand of a join is in it."""
    whole = _whole(lowering, op, as_image)
    rank = len(whole.shape)
    dim = op.arg("dim") % rank
    tensors = op.arg("tensors")
    if operator_of(op) == "aten.stack.default":
        return [whole.selected(dim, index) for index in range(len(tensors))]
    found: list[Place] = []
    start = 0
    for value in tensors:
        count = shape(value)[dim] if len(shape(value)) == rank else 0
        found.append(whole.sliced(dim, start, count))
        start += count
    return found


JOINS.update({"aten.cat.default": _parts, "aten.stack.default": _parts})


@moves("aten.cat.default", "aten.stack.default")
def join(lowering: Lowering, op: SchemaOp) -> None:
    """The parts that are not there yet are copied."""
    if lowering.is_unjoined(op):
        return
    given = [lowering.place(v) for v in op.arg("tensors")]
    as_image = any(is_image(p) for p in given)
    for source, part in zip(given, _parts(lowering, op, as_image), strict=True):
        if not source.is_same(part) and 0 not in part.shape:
            lowering.copy(source, part, op)


@moves("aten.constant_pad_nd.default")
def pad(lowering: Lowering, op: SchemaOp) -> None:
    """A number around a tensor; less of the tensor where a pad is negative."""
    source = lowering.place(op.arg("self"))
    result = op.results[0]
    whole = lowering.image(result) if is_image(source) else lowering.result(result)
    inner, left = whole, whole
    value = float(op.arg("value") or 0.0)
    rank = len(source.shape)
    pads = op.arg("pad")
    for number in range(len(pads) // 2):
        dim = rank - 1 - number
        before, after = pads[2 * number], pads[2 * number + 1]
        source = source.sliced(dim, max(0, -before), source.shape[dim] + min(0, before) + min(0, after))
        count = source.shape[dim]
        for start, length in ((0, max(0, before)), (max(0, before) + count, max(0, after))):
            if length:
                lowering.fill(left.sliced(dim, start, length), value)
        left = left.sliced(dim, max(0, before), count)
        inner = inner.sliced(dim, max(0, before), count)
    if 0 not in inner.shape:
        lowering.copy(source, inner, op)


@moves("aten.roll.default")
def roll(lowering: Lowering, op: SchemaOp) -> None:
    """What leaves a tensor at the end of a dim comes back at its beginning: each part is copied to where it goes."""
    source = lowering.place(op.arg("self"))
    result = op.results[0]
    whole = lowering.image(result) if is_image(source) else lowering.result(result)
    dims, shifts = op.arg("dims"), op.arg("shifts")
    if not dims:
        dims, count = (0,), (math.prod(source.shape),)
        flat = whole.viewed(count)
        source, whole = lowering.viewed(source, count, op), flat or lowering.buffer(count)
        if flat is None:
            lowering.places[result] = lowering.viewed(whole, shape(result), op)
    by_dim: dict[int, int] = {}
    for dim, shift in zip(dims, shifts, strict=True):
        by_dim[dim % len(source.shape)] = by_dim.get(dim % len(source.shape), 0) + shift
    ways = []
    for dim, shift in by_dim.items():
        n = source.shape[dim]
        first = shift % n
        ways.append(
            [(dim, start, to, count) for start, to, count in ((0, first, n - first), (n - first, 0, first)) if count]
        )
    for parts in itertools.product(*ways):
        given, to = source, whole
        for dim, start, at, count in parts:
            given, to = given.sliced(dim, start, count), to.sliced(dim, at, count)
        lowering.copy(given, to, op)


@moves("aten.slice_scatter.default")
def scatter(lowering: Lowering, op: SchemaOp) -> None:
    """Another tensor in the place of a slice; what is around it is copied."""
    source, given = lowering.place(op.arg("self")), lowering.place(op.arg("src"))
    result = op.results[0]
    whole = lowering.image(result) if is_image(source) else lowering.result(result)
    dim = op.arg("dim") % len(whole.shape)
    n, count, step = whole.shape[dim], given.shape[dim], op.arg("step")
    start = op.arg("start") or 0
    start = max(0, min(start + n if start < 0 else start, n))
    # Between two indices of the slice, too, where it has a step.
    last = start + (count - 1) * step + 1 if count else start
    kept = [(0, start, 1), (last, n - last, 1), *((start + i, count - 1, step) for i in range(1, step))]
    for first, some, by in kept:
        if some > 0:
            lowering.copy(source.sliced(dim, first, some, by), whole.sliced(dim, first, some, by), op)
    if count:
        lowering.copy(given, whole.sliced(dim, start, count, step), op)
