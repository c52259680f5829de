"""The operations of the ``tile`` dialect, which ``tile.py``, ``flags.py``, ``gather.py``, ``inside.py``, ``loop.py``,
``resize.py``, ``row_loop.py``, ``scan.py``, ``view.py`` and ``winograd.py`` define."""

from __future__ import annotations

from xdsl.ir import Dialect

from etir.backends.native.flags import FlagsOp
from etir.backends.native.gather import GatherOp
from etir.backends.native.inside import DepthwiseInsideOp
from etir.backends.native.loop import LoopOp
from etir.backends.native.resize import ResizeOp
from etir.backends.native.row_loop import RowsOp
from etir.backends.native.scan import ScanOp
from etir.backends.native.sizes_attr import SizesAttr
from etir.backends.native.take import TakeOp
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
from etir.backends.native.view import ViewOp
from etir.backends.native.winograd import WinogradInputOp, WinogradOp, WinogradOutputOp
from etir.dialects.definitions import quick

TILE = quick(Dialect(
    "tile",
    [
        YieldOp, WeightOp, BufferOp, BrgemmOp, DepthwiseOp, DepthwiseInsideOp, PoolOp, ReduceOp, PackOp, MapOp,
        SoftmaxOp, NormOp, ResizeOp, GatherOp, TakeOp, ScanOp, LoopOp, RowsOp, ViewOp, FlagsOp,
        WinogradInputOp, WinogradOutputOp, WinogradOp,
    ],
    [SizesAttr],
))  # fmt: skip
