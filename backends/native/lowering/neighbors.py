"""Means of neighbors in one dim of three or in two, without steps: ``avg_pool3d``, of squares in a local response norm.

Windows go along channels, rows or columns as they lie in memory: vectors are those of the innermost dim, which may be
the one whose neighbors are summed.
"""

from __future__ import annotations

from etir.backends.native.dialect import GroupOp
from etir.backends.native.lowering.function import Lowering, Outside, lowers, members, shape
from etir.backends.native.lowering.orders import result_in_order, turned
from etir.backends.native.places import Place
from etir.backends.native.tile import PoolOp, identity


@lowers("neighbors")
def lower_neighbors(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One operation, with taps along the dims that windows have more than one element of."""
    (op,) = members(group)
    x = lowering.place(outside[op.arg("self")])
    value = group.outputs[0]
    if 1 not in _steps(x):
        x = lowering.copy(x, like=op)
    order = turned(x)
    wanted = shape(value)
    out = lowering.result(value, wanted) if order is None else result_in_order(lowering, value, order, wanted)
    inner = next(d for d in reversed(range(5)) if x.strides[d] == 1 and (x.shape[d] != 1 or 1 not in _steps(x)))
    to = out
    if out.strides[inner] != 1:
        dims = [*(d for d in range(5) if d != inner), inner]
        to = lowering.dense_buffer(tuple(wanted[d] for d in dims)).permuted([dims.index(d) for d in range(5)])
    sizes = (1, 1, *op.arg("kernel_size"))
    taps = [d for d in range(5) if sizes[d] > 1]
    outer = [d for d in range(5) if d != inner]
    lead = 2 - len(taps)
    a = Place(
        x.base,
        (*(wanted[d] for d in outer), *[1] * lead, *(sizes[d] for d in taps), wanted[inner]),
        (*(x.strides[d] for d in outer), *[0] * lead, *(x.strides[d] for d in taps), 1),
        x.offset,
    )
    c = to.permuted([*outer, inner])
    lowering.add(PoolOp("mean", lowering.memref(a), lowering.memref(c), [], identity()), group)
    if to is not out:
        lowering.copy(to, out, op)


def _steps(x: Place) -> list[int]:
    """The strides of dims of more than one element."""
    return [step for n, step in zip(x.shape, x.strides, strict=True) if n != 1]
