"""Operators that are other strides of the same memory."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.asked import saves
from etir.backends.native.dialect import GroupOp
from etir.backends.native.lowering.function import RESHAPES, Lowering, moves, shape
from etir.backends.native.lowering.take import shuffled, take
from etir.backends.native.places import Place
from etir.backends.native.runs import run_of
from etir.backends.native.sizes import Size
from etir.backends.native.taken import is_table
from etir.dialects.schema_op import SchemaOp


def _bounded(index: int, extent: int) -> int:
    if isinstance(extent, Size):
        return extent + index if index < 0 else index
    return max(0, min(index + extent if index < 0 else index, extent))


def is_batch(value: SSAValue) -> bool:
    """Whether a tensor is an operand of batches of matrices alone, or of what only reshapes it to one."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, GroupOp):
            root = op.root
            arg = op.body.block.args[use.index]
            if operator_of(root) != "aten.bmm.default" or any(u.operation is not root for u in arg.uses):
                return False
        elif not isinstance(op, SchemaOp) or operator_of(op) not in RESHAPES or not is_batch(op.results[0]):
            return False
    return value.first_use is not None


def _source(lowering: Lowering, op: SchemaOp) -> Place:
    return lowering.place(op.arg("self"))


@moves("aten.permute_copy.default")
def permute(lowering: Lowering, op: SchemaOp) -> None:
    """Dims in another order."""
    place = _source(lowering, op)
    rank = len(place.shape)
    lowering.places[op.results[0]] = place.permuted([d % rank for d in op.arg("dims")])


@moves("aten.transpose_copy.int")
def transpose(lowering: Lowering, op: SchemaOp) -> None:
    """Two dims change places."""
    place = _source(lowering, op)
    rank = len(place.shape)
    order = [*range(rank)]
    if rank:
        first, second = op.arg("dim0") % rank, op.arg("dim1") % rank
        order[first], order[second] = second, first
    lowering.places[op.results[0]] = place.permuted(order)


@moves("aten.t_copy.default")
def reverse(lowering: Lowering, op: SchemaOp) -> None:
    """Both dims of a matrix."""
    place = _source(lowering, op)
    lowering.places[op.results[0]] = place.permuted([*reversed(range(len(place.shape)))])


@moves("aten.expand_copy.default")
def expand(lowering: Lowering, op: SchemaOp) -> None:
    """Strides of 0."""
    lowering.places[op.results[0]] = _source(lowering, op).broadcast(shape(op.results[0]))


@moves("aten.select_copy.int")
def select(lowering: Lowering, op: SchemaOp) -> None:
    """One index of a dim."""
    place = _source(lowering, op)
    dim = op.arg("dim") % len(place.shape)
    lowering.places[op.results[0]] = place.selected(dim, _bounded(op.arg("index"), place.shape[dim]))


@moves("aten.slice_copy.Tensor")
def slice_(lowering: Lowering, op: SchemaOp) -> None:
    """Some indices of a dim."""
    place = _source(lowering, op)
    dim = op.arg("dim") % len(place.shape)
    start = _bounded(op.arg("start") or 0, place.shape[dim])
    lowering.places[op.results[0]] = place.sliced(dim, start, shape(op.results[0])[dim], op.arg("step"))


@moves("aten.index_select.default")
def run(lowering: Lowering, op: SchemaOp) -> None:
    """A slice that is spelled as its indices, or any others."""
    if is_table(op):
        take(lowering, op)
        return
    place, found = _source(lowering, op), run_of(op.arg("index"))
    assert found is not None
    dim = op.arg("dim") % len(place.shape)
    lowering.places[op.results[0]] = place.sliced(dim, found.start, found.count, found.step)


@moves("aten.split_with_sizes_copy.default")
def split(lowering: Lowering, op: SchemaOp) -> None:
    """Slices one after another."""
    place = _source(lowering, op)
    dim = op.arg("dim") % len(place.shape)
    start = 0
    for result in op.results:
        count = shape(result)[dim]
        lowering.places[result] = place.sliced(dim, start, count)
        start += count


@moves("aten.unbind_copy.int")
def unbind(lowering: Lowering, op: SchemaOp) -> None:
    """Every index of a dim."""
    place = _source(lowering, op)
    dim = op.arg("dim") % len(place.shape)
    for index, result in enumerate(op.results):
        lowering.places[result] = place.selected(dim, index)


@moves("aten.clone.default", "aten.alias_copy.default")
def same(lowering: Lowering, op: SchemaOp) -> None:
    """Nothing."""
    lowering.places[op.results[0]] = _source(lowering, op)


@moves("aten.view_copy.default", "aten.unsqueeze_copy.default", "aten.squeeze_copy.dims", "aten.squeeze_copy.dim")
def view(lowering: Lowering, op: SchemaOp) -> None:
    """Other dims of the same elements in order; a copy where strides cannot say it. Where that takes too much memory,
    batches of matrices are read as they lie, under the dims that the batch is made of (``heads``).
    """
    given, result = op.arg("self"), op.results[0]
    place = lowering.batches.get(given) or lowering.place(given)
    dims = shape(result)
    is_apart = place.viewed(dims) is None and place.shape[-2:] == dims[-2:] and is_batch(result)
    if is_apart and saves(lowering.func, "heads"):
        lowering.batches[result] = place
    elif place.viewed(dims) is not None or not shuffled(lowering, op, place):
        lowering.places[result] = lowering.viewed(place, dims, op)
