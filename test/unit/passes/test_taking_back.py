"""A pattern that makes operations and then leaves the root alone has changed nothing: the driver takes them back."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.et.layout import tensor_of
from etir.dialects.text import parse_module, print_module
from etir.passes.infra.base import methods
from etir.passes.infra.rewriting import Observer, Pattern, PatternRewriter, apply_patterns_greedily

TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


class _GivesUp(Pattern):
    """Two operations, one of the other, and then a reason; with ``reads`` the root reads them all the same."""

    name = "gives-up"

    def __init__(self, reads: bool = False):
        self.reads, self.count = reads, 0

    def rewrite(self, op: aten.relu.default, rewriter: PatternRewriter) -> None:
        self.count += 1
        if self.count > 1 and self.reads:
            return
        first = rewriter.insert_op(aten.neg.default.make({"self": op.operands[0]}, [tensor_of(op.operands[0])]))
        second = rewriter.insert_op(aten.neg.default.make({"self": first.results[0]}, [tensor_of(op.operands[0])]))
        if self.reads:
            op.operands[0] = second.results[0]
        rewriter.notify_match_failure("not this one")


@pytest.fixture
def ctx() -> EtContext:
    ctx = EtContext()
    ctx.attachments.set(Observer, Observer())
    return ctx


@pytest.fixture
def module(ctx: EtContext) -> ModuleOp:
    return parse_module(TEXT, ctx=ctx)


@pytest.mark.parametrize("erase_dead", [True, False])
def test_operations_that_nothing_reads_are_taken_back(ctx: EtContext, module: ModuleOp, erase_dead: bool) -> None:
    pattern, before = _GivesUp(), print_module(module)
    assert not apply_patterns_greedily(ctx, methods(module)[0], [pattern], erase_dead=erase_dead)
    assert pattern.count == 1
    assert print_module(module) == before


def test_operations_that_something_reads_stay(ctx: EtContext, module: ModuleOp) -> None:
    assert apply_patterns_greedily(ctx, methods(module)[0], [_GivesUp(reads=True)])
    assert print_module(module).count("aten.neg.default") == 2
