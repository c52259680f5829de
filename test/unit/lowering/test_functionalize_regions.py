"""Pass ``functionalize``: changes inside of branches and loops, against eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.while_loop import while_loop
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.et.program import StateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module
from etir.interpret.interpreter import Interpreter

from etir_testing.lowering.functionalize_models import CALLS, Model, check, functionalized, values


def cond_on_buffer(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    view = m.cache[0]

    def positive(x: Tensor) -> Tensor:
        m.cache.add_(x)
        m.count.add_(1)
        return x + 1

    def negative(x: Tensor) -> Tensor:
        m.cache[1:].mul_(2)
        return x - 1

    y = torch.cond(x.sum() > 0, positive, negative, (x,))
    return y, view + 0, m.cache.sum()


def cond_on_clone(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x.clone()
    row = y[1]

    def yes(x: Tensor, y: Tensor, row: Tensor) -> Tensor:
        y.view(-1)[2:8].zero_()
        return x + row

    def no(x: Tensor, y: Tensor, row: Tensor) -> Tensor:
        return x * 2 + row

    z = torch.cond(x.sum() > 0, yes, no, (x, y, row.clone()))
    y.add_(1)
    return z, y, row


def sizes_after_a_region(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    """A tensor of which only a branch has seen a view gets other sizes."""
    y = x * 2
    z = torch.cond(x.sum() > 0, lambda x, y: x + y.view(-1)[:6], lambda x, y: x - y.view(-1)[6:12], (x, y))
    return z, y.t_(), y + 0


def nested_conds(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    def outer(x: Tensor) -> Tensor:
        def inner(x: Tensor) -> Tensor:
            m.cache.add_(1)
            return x + 1

        y = torch.cond(x[0, 0] > -9, inner, lambda x: x * 2, (x,))
        m.row.add_(y[0])
        return y

    return torch.cond(x.sum() > 0, outer, lambda x: x - 1, (x,)), m.cache[0] + m.row


def while_on_buffer(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    def condition(i: Tensor, a: Tensor) -> Tensor:
        return i < 3

    def body(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        m.cache[1].add_(a[0])
        b = a.clone()
        b.mul_(2)
        return i + 1, b + m.cache

    i, a = while_loop(condition, body, (torch.zeros((), dtype=torch.int64), x))
    return i, a, m.cache * 1


def mapped(m: Model, x: Tensor) -> Tensor:
    def body(row: Tensor) -> Tensor:
        y = row.clone()
        y[1:3].mul_(2)
        return y

    m.row.add_(1)
    return torch_map(body, x) + m.row


CONTROL = {
    f.__name__: f for f in (cond_on_buffer, cond_on_clone, sizes_after_a_region, nested_conds, while_on_buffer, mapped)
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str) -> None:
    check(CONTROL[name], values(4, 6), others=[(-values(4, 6),), (values(4, 6) * 0,)])


SCAN = """
et.state @cache : tensor<4xf32> = #et.blob<"sha256:374708fff7719dd5979ec875d56cd228", 16>
func.func @forward(%x: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>, tensor<2xf32>) {
  %cache = et.read_state @cache : tensor<4xf32>
  %tail = aten.slice.Tensor(%cache, start = 2) : (tensor<4xf32>) -> tensor<2xf32>
  %zero = aten.full.default(size = [4], fill_value = 0) : () -> tensor<4xf32>
  %last, %ys = control.scan carry (%c = %zero) over (%r = %x) : (tensor<4xf32>), (tensor<3x4xf32>)
      -> (tensor<4xf32>, tensor<3x4xf32>) {
    %0 = aten.add_.Scalar(%tail, other = 1) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = aten.add.Tensor(%c, %cache) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = aten.mul.Tensor(%r, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    control.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  %3 = aten.clone.default(%tail) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %last, %ys, %3 : tensor<4xf32>, tensor<3x4xf32>, tensor<2xf32>
}
"""


def parsed(text: str) -> ModuleOp:
    """A module whose blobs are zeros."""
    module = parse_module(text)
    for op in module.walk():
        if isinstance(op, StateOp) and isinstance(op.value, BlobAttr):
            op.properties["value"] = BlobAttr(Blob.of(bytes(op.value.data.size)))
    verify_module(module)
    return module


def test_scan_carries_the_buffer() -> None:
    """torch traces no scan that changes a buffer; the interpreter runs one in place for comparison."""
    before, after = Interpreter(parsed(SCAN), "torch"), Interpreter(functionalized(parsed(SCAN)), "torch")
    for _ in range(CALLS):
        for a, b in zip(after.run([values(3, 4)]), before.run([values(3, 4)]), strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(after.state("cache"), before.state("cache"))
    assert after.state("cache")[2] == 3 * CALLS
