"""What rewrites of ``tile`` ask: who reads and who writes a buffer, and what two bodies are as one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from xdsl.ir import Block, SSAValue

from etir.backends.native.places import Place
from etir.backends.native.tile import BufferOp, TemplateOp, WeightOp, YieldOp, shape_of, strides_of
from etir.backends.native.view import VIEWS, source_of, view_of
from etir.dialects.walking import ops_of


def place_of(value: SSAValue) -> Place:
    """An operand as a place in its base."""
    offset = 0
    base = value
    while (view := view_of(base.owner)) is not None:
        base, start = view
        offset += start
    return Place(base, shape_of(value), strides_of(value.type), offset)


def base_of(value: SSAValue) -> SSAValue:
    """The memory that an operand is in."""
    while (source := source_of(value.owner)) is not None:
        value = source
    return value


def readers_of(value: SSAValue) -> list[TemplateOp]:
    """What reads the memory of a value, an operation as often as operands of it do."""
    return [*_readers(base_of(value))]


def writers_of(value: SSAValue) -> list[TemplateOp]:
    """What writes the memory of a value."""
    return [op for op, _ in _writes(base_of(value))]


def only_reader(value: SSAValue) -> TemplateOp | None:
    """The operation that reads the buffer of a value, if one operand of one operation does."""
    found = [*islice(_readers(base_of(value)), 2)]
    return found[0] if len(found) == 1 else None


def is_read_once(value: SSAValue) -> bool:
    """Whether one operand of one operation reads the buffer of a value."""
    return only_reader(value) is not None


def is_read_last(value: SSAValue, op: TemplateOp) -> bool:
    """Whether one operand of an operation reads the buffer of a value, and nothing reads it later in its block."""
    found = readers_of(value)
    return found.count(op) == 1 and all(other is op or other.is_before_in_block(op) for other in found)


def only_writer(value: SSAValue) -> TemplateOp | None:
    """What writes the whole buffer that a value is in, if that is one operation."""
    place = place_of(value)
    if not isinstance(place.base.owner, BufferOp):
        return None
    found = [*islice(_writes(place.base), 2)]
    if len(found) != 1:
        return None
    written = place_of(found[0][1])
    same = math.prod(written.shape) == math.prod(place.shape) and written.offset == place.offset
    return found[0][0] if same else None


def _readers(base: SSAValue) -> Iterator[TemplateOp]:
    for op in _users(base):
        yield from (op for value in op.reads() if base_of(value) is base)


def _writes(base: SSAValue) -> Iterator[tuple[TemplateOp, SSAValue]]:
    for op in _users(base):
        yield from ((op, value) for value in op.writes() if base_of(value) is base)


def _users(base: SSAValue) -> Iterator[TemplateOp]:
    """The operations that have an operand in some memory, each once. They come from the uses of its casts, as they are
    now: a rewrite that asks costs what that memory is used, not what the function holds."""
    seen: dict[TemplateOp, None] = {}
    values = [base]
    while values:
        for use in values.pop().uses:
            op = use.operation
            if type(op) in VIEWS:
                values.extend(op.results)
            elif isinstance(op, TemplateOp) and op not in seen:
                seen[op] = None
                yield op


def inline(source: Block, arguments: Sequence[SSAValue], to: Block, values: dict[SSAValue, SSAValue]) -> SSAValue:
    """Put a body at the end of another one; what it yields."""
    values.update(zip(source.args, arguments, strict=True))
    for op in source.ops:
        if isinstance(op, YieldOp):
            return values.get(op.values[0], op.values[0])
        clone = op.clone(values)
        to.add_op(clone)
    raise AssertionError("a body ends with tile.yield")


def drop_unused(block: Block) -> None:
    """Erase casts, buffers and weights that nothing uses."""
    for op in reversed(ops_of(block)):
        if type(op) in _WITHOUT_EFFECT:
            (result,) = op.results
            if result.first_use is None:
                block.erase_op(op)


_WITHOUT_EFFECT = (*VIEWS, BufferOp, WeightOp)
