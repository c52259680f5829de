"""Kernels of a delegate whose inputs are not all in its workspace: the order in which they need least of it."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from etir.backends.api.interface import Outlined
from etir.backends.reference.lowered import LoweredFunction
from etir.dialects.context import EtContext
from etir.dialects.et.workspace import APART
from etir.dialects.text import parse_module

TEXT = """
func.func private @part(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = edge.aten.permute_copy.default(%x, dims = [1, 0]) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = edge.aten.cat.default([%y, %y], dim = 1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x128xf32>
  %2 = edge.aten.sum.dim_IntList(%1, dim = [1], keepdim = true) : (tensor<64x128xf32>) -> tensor<64x1xf32>
  %3 = edge.aten.add.Tensor(%0, %2) : (tensor<64x64xf32>, tensor<64x1xf32>) -> tensor<64x64xf32>
  func.return %3 : tensor<64x64xf32>
}
"""
"""What is made of %x has as many bytes (16,384); what is made of %y in between has twice as many."""


def needed(known: list[int | None] | None) -> int:
    """Bytes of the workspace with %x apart, when the order was chosen for what is ``known`` of that."""
    ctx = EtContext()
    module = parse_module(TEXT, ctx)
    (func,) = module.body.block.ops
    assert isinstance(func, FuncOp)
    lowered = LoweredFunction(Outlined(ctx, module, func, {}), within=True, around=known)
    return lowered.plan_within([APART, None, None]).size


def test_an_input_that_stays() -> None:
    """%x in the workspace would make room for %0: early or late is the same, and the text's order stays, in which %0,
    %y and %1 are there together. If it is apart, %0 only takes room before the sum is made.
    """
    assert needed([APART, None, None]) == 16_384 + 32_768
    assert needed(None) >= 2 * 16_384 + 32_768
