"""New contents of a state where the old ones are: outputs that may have the memory of an input.

A step of a recurrent layer reads a state and makes its new contents. If those are outputs with memory of their own, all
of them wait until the delegate has run and are copied then. So an output that is stored into a state whose old contents
are an input, and that nothing else reads afterwards, is written *over* that input: the method gives the same tensor for
both. The attribute ``native.over`` of an outlined function has such pairs, input ``i`` and output ``j``.

That is right where an output is written after the input was read for the last time, or float for float by the operation
that does so. Where it is not, as when a cache moves on by a few rows, the output is computed in a buffer, which is
copied as soon as the input has been read: what the kernels do, too. The same is done to the program for the kernels in
the place of code. Both hold for tensors at different places as well: nothing is said at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.errors import E1165
from etir.backends.native.functions import outputs_of
from etir.backends.native.kernels import template_of
from etir.backends.native.passes.tile_forward import is_copy
from etir.backends.native.tile import BufferOp, MapOp, TemplateOp, YieldOp, body_of, lie_alike
from etir.backends.native.users import base_of, place_of, readers_of, writers_of
from etir.backends.native.view import view_of
from etir.dialects.text import source_location
from etir.dialects.walking import ops_of

if TYPE_CHECKING:
    from etir.backends.native.frame import Frame
    from etir.diagnostics import SourceLocation

OVER = "native.over"
"""Of an outlined function: an input and an output of one memory, for each such pair."""

Pair = tuple[int, int]


def set_pairs(func: FuncOp, frame: Frame) -> None:
    """Give an outlined function the attribute, as its call allows; none where no output is a state's."""
    func.attributes.pop(OVER, None)
    found = frame.over(func.sym_name.data)
    if found:
        func.attributes[OVER] = ArrayAttr([DenseArrayBase.from_list(i64, pair) for pair in found])


def pairs_of(func: FuncOp) -> list[Pair]:
    """The pairs of an outlined function. Raises E1165 for what is no input and output of one type."""
    found = func.attributes.get(OVER)
    rows = found.data if isinstance(found, ArrayAttr) else ()
    types = func.function_type
    pairs: list[Pair] = []
    for row in rows:
        pair = tuple(row.get_values()) if isinstance(row, DenseArrayBase) else ()
        if len(pair) != 2 or not (0 <= pair[0] < len(types.inputs) and 0 <= pair[1] < len(types.outputs)):
            raise E1165.error(f"{OVER} has {row}, which is no input and output of @{func.sym_name.data}", _place(func))
        if types.inputs.data[pair[0]] != types.outputs.data[pair[1]]:
            raise E1165.error(f"{OVER} has {row}, which differ in @{func.sym_name.data}", _place(func))
        pairs.append((pair[0], pair[1]))
    return pairs


def _place(func: FuncOp) -> SourceLocation | None:
    return source_location(func.location)


def write_over(func: FuncOp, pairs: Sequence[Pair]) -> None:
    """Let a function of ``tile`` write outputs over inputs: through a buffer where it cannot do so at once."""
    for given, made in pairs:
        if not is_over(func, (given, made)):
            _buffered(func, given, made)
        else:
            _copied_early(func, given, made)


def is_over(func: FuncOp, pair: Pair) -> bool:
    """Whether an output may be at the place of an input."""
    old, new = _arguments(func, pair)
    last_read, first_write = -1, None
    ops = ops_of(func.body.block)
    for number, op in enumerate(ops):
        if isinstance(op, TemplateOp):
            if any(base_of(value) is old for value in op.reads()):
                last_read = number
            if first_write is None and any(base_of(value) is new for value in op.writes()):
                first_write = number
    if first_write is None or last_read < first_write:
        return first_write is not None
    return last_read == first_write and _is_in_place(ops[first_write], old, new)


def _is_in_place(op: object, old: SSAValue, new: SSAValue) -> bool:
    """Whether an operation reads each float of an input before it writes the same one of an output."""
    if not isinstance(op, TemplateOp) or len(op.makes()) != 1:
        return False
    to = op.makes()[0]
    allowed = [*template_of(op).in_place_always(op)]
    reads = [value for value in op.operands if base_of(value) is old]
    return base_of(to) is new and all(
        value in allowed and lie_alike(value.type, to.type) and place_of(value).offset == place_of(to).offset
        for value in reads
    )


def _buffered(func: FuncOp, given: int, made: int) -> None:
    """Compute an output in a buffer, and copy that once the input has been read."""
    block = func.body.block
    old, new = _arguments(func, (given, made))
    buffer = BufferOp(new.type)
    first = block.first_op
    assert first is not None
    buffer.location = first.location
    new.replace_all_uses_with(buffer.result)
    block.insert_op_before(buffer, first)
    after = buffer
    for op in block.ops:
        if isinstance(op, TemplateOp):
            reads = any(base_of(value) is old for value in op.reads())
            if reads or any(base_of(value) is buffer.result for value in op.writes()):
                after = op
    region = body_of(1)
    region.block.add_op(YieldOp(region.block.args[0]))
    copy = MapOp(new, [buffer.result], region)
    copy.location = after.location
    block.insert_op_after(copy, after)


def _copied_early(func: FuncOp, given: int, made: int) -> None:
    """Copy what becomes an output as a whole as soon as it is there and the input has been read."""
    old, new = _arguments(func, (given, made))
    writers = writers_of(new)
    if len(writers) != 1 or not isinstance(writers[0], MapOp) or not is_copy(writers[0]) or readers_of(new):
        return
    copy = writers[0]
    source = base_of(copy.inputs[0])
    before: Operation | None = None
    for op in func.body.block.ops:
        if op is copy:
            break
        reads = isinstance(op, TemplateOp) and any(base_of(value) is old for value in op.reads())
        if reads or (isinstance(op, TemplateOp) and any(base_of(value) is source for value in op.writes())):
            before = op
    if before is None:
        return
    views = [value.owner for value in copy.operands if view_of(value.owner) is not None]
    for op in (*views, copy):
        # A view of a view stays before it.
        if isinstance(op, Operation) and not _is_before(op, before) and _is_ready(op, before):
            op.detach()
            func.body.block.insert_op_after(op, before)
            before = op


def _is_before(op: Operation, other: Operation) -> bool:
    return op is not other and op.is_before_in_block(other)


def _is_ready(op: Operation, at: Operation) -> bool:
    """Whether what an operation reads is there after another one."""
    return all(not isinstance(v.owner, Operation) or v.owner is at or _is_before(v.owner, at) for v in op.operands)


def _arguments(func: FuncOp, pair: Pair) -> tuple[SSAValue, SSAValue]:
    args = func.body.block.args
    return args[pair[0]], args[len(args) - outputs_of(func) + pair[1]]
