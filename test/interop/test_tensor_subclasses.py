"""Weights that are tensor subclasses: models that torchao has quantised, imported as they are exported."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup
from xnnpack_runs import run_stock

import etir
from etir.diagnostics import EtirError
from etir.dialects.text import print_module
from etir.interpret.interpreter import Interpreter

CONFIGS: dict[str, tuple[Any, float]] = {
    "8da4w": (Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)), 0.02),
    "8da8w": (Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0)), 0.02),
    "4w by group": (IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), 1e-4),
    "4w by channel": (IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0)), 1e-4),
    "8w by channel": (IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)), 1e-4),
    "8w, written out": (Int8WeightOnlyConfig(version=2), 1e-4),
}
"""Configuration, and how far from eager XNNPACK may be: it rounds activations at run time in another way."""


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def quantized(name: str) -> nn.Module:
    """A model whose weights are quantised."""
    model = _Net().eval()
    quantize_(model, CONFIGS[name][0])
    return model


X = torch.linspace(-1, 1, 192).reshape(3, 64)


@pytest.mark.parametrize("name", CONFIGS)
def test_import_and_xnnpack(name: str) -> None:
    """The parts of a weight are weights of their own; the module computes as eager, and so does XNNPACK."""
    model = quantized(name)
    program = torch.export.export(model, (X,))
    wanted = model(X).detach()
    module = etir.import_program(program)
    assert '{fqn = "up.weight.qdata", kind = "constant"}' in print_module(module)
    torch.testing.assert_close(Interpreter(module).run([X])[0], wanted, rtol=1e-5, atol=1e-5)
    compiled = etir.compile(module, delegates=["xnnpack"])
    assert compiled.delegation is not None and not compiled.delegation.fallback
    (found,) = run_stock(compiled.buffer, [X])
    torch.testing.assert_close(found, wanted, rtol=0, atol=CONFIGS[name][1])


class _Pair(torch.Tensor):
    """Two tensors in one, which operators take whole."""

    @staticmethod
    def __new__(cls, first: torch.Tensor, second: torch.Tensor) -> _Pair:
        return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)  # type: ignore

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["first", "second"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(str(func))


def test_a_weight_that_is_taken_whole() -> None:
    """It has no bytes to import, and the error says what to do."""
    program = torch.export.export(_Net().eval(), (X,))
    weight = program.state_dict["up.weight"].detach()
    program.state_dict["up.weight"] = _Pair(weight, weight)
    with pytest.raises(EtirError, match=r"'up.weight' is a _Pair(.|\n)*run_decompositions") as caught:
        etir.import_program(program)
    assert caught.value.ids == ("E0404",)
