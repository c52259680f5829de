"""``index_select`` with constant indices at one distance from each other, which is a slice: a view of the memory.

Models spell slices so that a tracer is to follow (``x.index_select(3, arange(n))``); for the kernels it is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from etir.dialects.et.program import ConstantOp, dense_bytes


@dataclass(frozen=True)
class Run:
    """``count`` indices from ``start`` on, ``step`` from one to the next."""

    start: int
    count: int
    step: int


def run_of(index: object) -> Run | None:
    """The slice that indices are; None where they are not constant, or no slice."""
    owner = getattr(index, "owner", None)
    if not isinstance(owner, ConstantOp) or not isinstance(owner.value, DenseIntOrFPElementsAttr):
        return None
    import numpy as np

    data = dense_bytes(owner.value)
    count = owner.value.type.get_shape()
    if len(count) != 1 or not count[0]:
        return None
    found = np.frombuffer(data, {4: np.int32, 8: np.int64}[len(data) // count[0]])
    step = int(found[1] - found[0]) if len(found) > 1 else 1
    is_run = found[0] >= 0 and step > 0 and bool((np.diff(found) == step).all())
    return Run(int(found[0]), len(found), step) if is_run else None
