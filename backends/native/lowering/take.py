"""Elements from elsewhere: ``tile.take``, and what copies and strides can say.

An image stays one, and what windows are read of becomes one, with the border that its readers want.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.backends.native.dialect import GroupOp
from etir.backends.native.kinds import WITH_WINDOWS
from etir.backends.native.lowering.function import Lowering, moves, shape
from etir.backends.native.lowering.gather import gather, gathers
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known
from etir.backends.native.take import Numbers, TakeOp
from etir.backends.native.taken import MOST_RUNS, TAKES, is_table, source_of, tables_of
from etir.dialects.schema_op import SchemaOp


def _result(lowering: Lowering, value: SSAValue, source: Place) -> Place:
    """Where a result is: an image if it is read as one, or made of one and not given back; else in order."""
    reads = any(isinstance(u.operation, GroupOp) and u.operation.kind.data in WITH_WINDOWS for u in value.uses)
    stays = is_image(source) and len(source.shape) == len(shape(value)) and value not in lowering.outputs
    return lowering.image(value) if len(shape(value)) in (3, 4) and (reads or stays) else lowering.result(value)


def _is_table(op: SchemaOp) -> bool:
    """Whether an operator is one that :func:`take` lowers, to a result of as many dims."""
    is_one = is_table(op) and not gathers(op)
    return is_one and len(shape(source_of(op))) == len(shape(op.results[0]))


@moves(*TAKES)
def take(lowering: Lowering, op: SchemaOp) -> None:
    """One operation, together with those before it that nothing else reads: what is taken in between is not there."""
    if gathers(op):
        gather(lowering, op)
        return
    result = op.results[0]
    uses = [*result.uses]
    user = uses[0].operation if len(uses) == 1 else None
    if isinstance(user, SchemaOp) and _is_table(op) and _is_table(user) and result is source_of(user):
        return
    tables = _tables(op)
    given = source_of(op)
    while given not in lowering.places and isinstance(before := given.owner, SchemaOp):
        tables = [_after(t, b) for t, b in zip(tables, _tables(before), strict=True)]
        given = source_of(before)
    source = lowering.place(given)
    dims = tuple(n if t is None else len(t) for n, t in zip(shape(given), tables, strict=True))
    target = lowering.result(result, dims) if dims != shape(result) else _result(lowering, result, source)
    lowering.add(TakeOp(lowering.memref(source), lowering.memref(target), tables), op)


def _tables(op: SchemaOp) -> Sequence[Numbers]:
    found = tables_of(op)
    assert found is not None
    return found


def _after(numbers: Numbers, before: Numbers) -> Numbers:
    """The numbers of what is taken of something taken."""
    if numbers is None or before is None:
        return before if numbers is None else numbers
    return [before[n] for n in numbers]


def shuffled(lowering: Lowering, op: SchemaOp, place: Place) -> bool:
    """Make an image of one whose channels are in another order, as groups of channels are shuffled: parts of them are
    several dims, which strides cannot make one of. Says whether it is that.
    """
    result = op.results[0]
    dims, parts = shape(result), place.shape[1:-2]
    if len(dims) != 4 or len(parts) < 2 or not is_known((*dims, *place.shape, *place.strides)):
        return False
    channels, steps = dims[1], place.strides[1:-2]
    if dims[2:] != place.shape[-2:] or dims[0] != place.shape[0] or math.prod(parts) != channels or 0 in dims:
        return False
    numbers = [0]
    for count, step in zip(parts, steps, strict=True):
        numbers = [at + k * step for at in numbers for k in range(count)]
    whole = Place(place.base, dims, (place.strides[0], 1, *place.strides[-2:]), place.offset)
    if sorted(numbers) != [*range(channels)] or not is_image(whole) or len(numbers) > MOST_RUNS:
        return False
    target = _result(lowering, result, whole)
    lowering.add(TakeOp(lowering.memref(whole), lowering.memref(target), [None, numbers, None, None]), op)
    return True


@moves("aten.repeat.default")
def repeat(lowering: Lowering, op: SchemaOp) -> None:
    """All of a tensor several times, in each dim: a copy of what has strides of 0."""
    source, result, times = lowering.place(op.arg("self")), op.results[0], op.arg("repeats")
    lead = len(times) - len(source.shape)
    target = _result(lowering, result, source)
    dims = [n for t, extent in zip(times, (*[1] * lead, *source.shape), strict=True) for n in (t, extent)]
    strides = [s for step in (*[0] * lead, *source.strides) for s in (0, step)]
    to = target.viewed(dims)
    assert to is not None
    lowering.copy(Place(source.base, tuple(dims), tuple(strides), source.offset), to, op)


@moves("aten.pixel_unshuffle.default")
def pixel_unshuffle(lowering: Lowering, op: SchemaOp) -> None:
    """Pixels of each square become channels, those of one place in it after the other."""
    source, result, factor = lowering.place(op.arg("self")), op.results[0], op.arg("downscale_factor")
    target = _result(lowering, result, source)
    rank = len(source.shape)
    channels, (rows, columns) = source.shape[rank - 3], shape(result)[-2:]
    for number in range(factor**2):
        pixels = source.sliced(rank - 2, number // factor, rows, factor)
        pixels = pixels.sliced(rank - 1, number % factor, columns, factor)
        lowering.copy(pixels, target.sliced(rank - 3, number, channels, factor**2), op)


@moves("aten.diagonal_copy.default")
def diagonal(lowering: Lowering, op: SchemaOp) -> None:
    """A dim that goes along two others at once, the last one."""
    place, result, offset = lowering.place(op.arg("self")), op.results[0], op.arg("offset")
    rank = len(place.shape)
    first, second = op.arg("dim1") % rank, op.arg("dim2") % rank
    kept = [d for d in range(rank) if d not in (first, second)]
    start = place.offset + max(0, offset) * place.strides[second] + max(0, -offset) * place.strides[first]
    strides = (*(place.strides[d] for d in kept), place.strides[first] + place.strides[second])
    lowering.places[result] = Place(place.base, shape(result), strides, start)
