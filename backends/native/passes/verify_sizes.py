"""What ``verify-tile`` asks of functions whose dims are known at run time only.

That an access lies inside of its memory is proven for all values of the symbols: the last float that it touches is an
expression, and so is the number of floats that are there. What is written before it is read, and twice, are questions
about single floats; they are asked of the function with numbers in the place of its symbols, for the ends of their
ranges and some values between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DictionaryAttr, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from etir.backends.native.errors import E1166
from etir.backends.native.functions import outputs_of
from etir.backends.native.loop import LoopOp
from etir.backends.native.print_sizes import given_sizes, memory_of, numbers_of
from etir.backends.native.sizes import Range, Size, at_least, expr_of, ranges_of
from etir.backends.native.sizes_attr import SizesAttr, shown
from etir.backends.native.specialize import specialized
from etir.backends.native.tile import TemplateOp, shape_of
from etir.backends.native.touched import Base
from etir.backends.native.users import drop_unused
from etir.diagnostics import Diagnostic, EtirError
from etir.dialects.text import source_location

MOST = 200
"""The largest value of a symbol for which single floats are looked at: more than a tile and a block are high."""


def sizes_problem(type: MemRefType[Attribute]) -> str | None:
    """What speaks against a type with sizes."""
    assert isinstance(type.layout, SizesAttr)
    rows = type.layout.rows
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return "does not have dims and strides"
    if tuple(shown(rows[0])) != type.get_shape():
        return "has other dims in its layout"
    if any(not isinstance(n, Size) and n < 1 for n in rows[0]):
        return "has dims that are no positive numbers"
    has_signs = all(at_least(s, 0) or at_least(-s, 0) for s in rows[1])
    return None if has_signs else "has strides that may be positive and negative"


def outside(shape: Sequence[int], strides: Sequence[int], offset: int, base: Base) -> str | None:
    """The floats that are touched, where they are not proven to be in ``base``."""
    steps = [((n - 1) * s, at_least(s, 0), at_least(-s, 0)) for n, s in zip(shape, strides, strict=True)]
    first = sum((step for step, is_up, _ in steps if not is_up), offset)
    last = sum((step for step, is_up, _ in steps if is_up), offset)
    if at_least(first, 0) and at_least(base.floats - 1, last) and all(up or down for _, up, down in steps):
        return None
    said = f"floats {expr_of(first)} to {expr_of(last)} of {base.name}, which has {expr_of(base.floats)}"
    return f"{said}: not all are in it for all values of the symbols"


def size_problems(func: FuncOp) -> list[Diagnostic]:
    """Symbols that have several ranges (E1166), or that no input tells (E1174)."""
    where = source_location(func.location)
    seen: dict[str, Range] = {}
    for value in memory_of(func):
        for name, range in ranges_of(n for row in numbers_of(value) for n in row).items():
            if seen.setdefault(name, range) != range:
                return [E1166.diagnostic(f"'{name}' is {_text(seen[name])}, and elsewhere {_text(range)}", where)]
    try:
        given_sizes(func, outputs_of(func))
    except EtirError as error:
        return list(error.diagnostics)
    return []


def _text(range: Range) -> str:
    return f"{range[0]} to {range[1]}"


def instances(func: FuncOp) -> Iterator[FuncOp]:
    """The function for some values of its symbols, without operations that then have nothing to do."""
    ranges = ranges_of(n for value in memory_of(func) for row in numbers_of(value) for n in row)
    for values in _points(ranges):
        found = specialized(func, values)
        inside: set[Operation] = set()  # of operations that are gone
        for op in [op for op in found.walk() if isinstance(op, TemplateOp)]:
            empty = isinstance(op, LoopOp) and 0 in op.extents
            if op in inside:
                continue
            if empty or any(0 in shape_of(value) for value in op.writes()):
                inside |= {*op.walk()}
                op.detach()
                op.erase()
            else:
                _without_schedule(op)
        drop_unused(found.body.block)
        if all(n > 0 for value in memory_of(found) for n in shape_of(value)):
            yield found


def depths_of(func: FuncOp) -> tuple[Attribute | None, ...]:
    """What the order of accesses depends on of schedules."""
    return tuple(_depth(op) for op in func.walk() if isinstance(op, TemplateOp))


def _depth(op: TemplateOp) -> Attribute | None:
    return None if op.schedule is None else op.schedule.data.get("depth")


def _without_schedule(op: TemplateOp) -> None:
    """Schedules are of the function as it is; what of one the order of accesses depends on stays."""
    depth = _depth(op)
    op.schedule = None if depth is None else DictionaryAttr({"depth": depth})


def _points(ranges: dict[str, Range]) -> list[dict[str, int]]:
    low = {name: max(1, least) for name, (least, _) in ranges.items()}
    high = {name: max(low[name], min(most, MOST)) for name, (_, most) in ranges.items()}
    middle = {name: max(low[name], 2 * high[name] // 3) for name in ranges}
    points = [high, low, middle]
    for name in ranges:
        points += [{**high, name: low[name]}, {**low, name: high[name]}]
    return [point for i, point in enumerate(points) if point not in points[:i]]
