"""Pass ``functionalize``: buffers, parameters and inputs that a method changes, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from etir.dialects.et.program import StateOp
from etir.dialects.text import print_module
from etir.interpret.interpreter import Interpreter
from etir.lowering.import_fx import import_program

from etir_testing.lowering.functionalize_models import Model, X, check, compare, export, functionalized, values


def counter(m: Model, x: Tensor) -> Tensor:
    m.count.add_(1)
    return x * m.count


def returned_alias(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    before = m.cache * 1
    v = m.cache[1]
    m.cache.add_(x)
    return before, v, m.cache, m.cache.view(-1)[2:4]


def cache_slices(m: Model, x: Tensor) -> Tensor:
    m.cache[1:3].copy_(x[:2])
    m.cache[:, 2:4] = x[:, :2]
    return m.cache.sum(0) + x[0]


def cache_index_put(m: Model, x: Tensor, position: Tensor) -> Tensor:
    m.cache.index_put_((position,), x[:2])
    m.cube[:, position] = x[:2, :4].unsqueeze(1)
    return m.cache @ x.t()


def ring(m: Model, x: Tensor) -> Tensor:
    m.cache[1:].copy_(m.cache[:-1].clone())
    m.cache[0].copy_(x[0])
    return m.cache.mean(0)


def overwritten(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    v = m.cache[0]
    m.cache.copy_(x)
    m.row.zero_()
    w = v + 1
    m.cache.copy_(x * 2)
    return v, w, m.row


def mutated_input(m: Model, x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    y[0].copy_(x[1])
    x[:, 0].zero_()
    return x.sum() + y.sum()


def input_into_state(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    m.cache.copy_(x)
    x.mul_(2)
    m.cache.add_(x)
    return m.cache, x


def swapped(m: Model, x: Tensor) -> Tensor:
    old = m.row.clone()
    m.row.copy_(x[0])
    x[0].copy_(old)
    return old


def batch_norm(m: Model, x: Tensor) -> Tensor:
    return m.get_submodule("norm")(x).relu_()


MODELS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    f.__name__: (f, inputs)
    for f, inputs in [
        (counter, X),
        (returned_alias, X),
        (cache_slices, X),
        (cache_index_put, (values(4, 6), torch.tensor([2, 0]))),
        (ring, X),
        (overwritten, X),
        (mutated_input, (values(4, 6), values(2, 6))),
        (input_into_state, X),
        (swapped, X),
    ]
}


@pytest.mark.parametrize("name", MODELS)
def test_equal_to_eager(name: str) -> None:
    forward, inputs = MODELS[name]
    check(forward, *inputs)


def test_batch_norm_training() -> None:
    module = check(batch_norm, values(4, 6), parts={"norm": nn.BatchNorm1d(6)}, train=True)
    states = [op.sym_name.data for op in module.body.block.ops if isinstance(op, StateOp)]
    assert states == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


def test_batch_norm_2d_training() -> None:
    check(batch_norm, values(2, 3, 2, 2), parts={"norm": nn.BatchNorm2d(3)}, train=True)


def test_batch_norm_inference_is_untouched() -> None:
    module = export(Model(lambda m, x: m.get_submodule("norm")(x), {"norm": nn.BatchNorm1d(6)}).eval(), X)
    before = print_module(module)
    assert print_module(functionalized(module)) == before


def test_two_methods_share_a_buffer() -> None:
    def set_row(m: Model, x: Tensor) -> Tensor:
        m.row.copy_(x[0])
        return x

    with torch.no_grad():
        write = torch.export.export(Model(set_row), X)
        read = torch.export.export(Model(lambda m, x: x + m.row), X)
    interpreter = Interpreter(functionalized(import_program({"write": write, "read": read})), "torch")
    interpreter.run(X, "write")
    torch.testing.assert_close(interpreter.run(X, "read")[0], X[0] + X[0][0])


def test_changed_parameter_becomes_state() -> None:
    """A parameter that the method changes keeps the change, as in eager mode; the compiler's own constants may not."""

    def forward(m: Model, x: Tensor) -> Tensor:
        m.weight.add_(1)
        return x * m.weight

    module = check(forward, *X)
    (state,) = [op for op in module.body.block.ops if isinstance(op, StateOp)]
    assert state.sym_name.data == "weight" and state.value is not None


class Observed(nn.Module):
    """Notes the range of what it rounds, as while training for integers: what is written comes after a mask."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in (("low", -1.0), ("high", 1.0), ("scale", 0.1)):
            self.register_buffer(name, torch.tensor([value]))
        self.register_buffer("zero", torch.tensor([0], dtype=torch.int32))
        self.register_buffer("on", torch.tensor([1]))

    def forward(self, x: Tensor) -> Tensor:
        state = (self.low, self.high, self.scale, self.zero)
        return torch.fused_moving_avg_obs_fake_quant(x, self.on, self.on, *state, 0.01, -128, 127, -1)


def test_results_between_the_own_ones_and_the_new_contents() -> None:
    model, x = Observed(), torch.linspace(-3, 2, 12).reshape(3, 4)
    compare(model, functionalized(export(model, [x])), [x])
