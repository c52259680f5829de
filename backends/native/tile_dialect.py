"""The operations of the ``tile`` dialect, which ``tile.py`` and ``loop.py`` define."""

from __future__ import annotations

from xdsl.ir import Dialect

from etir.backends.native.loop import LoopOp
from etir.backends.native.tile import (
    BrgemmOp,
    BufferOp,
    DepthwiseOp,
    MapOp,
    NormOp,
    PackOp,
    PoolOp,
    ReduceOp,
    SoftmaxOp,
    WeightOp,
    YieldOp,
)

TILE = Dialect(
    "tile",
    [
        YieldOp, WeightOp, BufferOp, BrgemmOp, DepthwiseOp, PoolOp, ReduceOp, PackOp, MapOp, SoftmaxOp, NormOp, LoopOp,
    ],
    [],
)  # fmt: skip
