"""Channels that can be scaled: which values share them, and that scaling changes no bit of any result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.driver import module_of
from etir.interpret.interpreter import Interpreter
from etir.options import CompileOptions
from etir.passes.infra.base import methods
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline
from etir.quantization.channels import channel_groups
from etir.quantization.parameters import Parameters
from etir.quantization.passes.correct_bias import correct_bias
from etir.quantization.passes.equalize_channels import equalize


def _edge(module: nn.Module, *inputs: torch.Tensor) -> ModuleOp:
    options = CompileOptions(delegates=("xnnpack",)).resolved()
    found = module_of(torch.export.export(module.eval(), inputs), options)
    run_pipeline(EtContext(), found, list(pipeline(options, "aten", "edge")))
    return found


def _uneven(module: nn.Module) -> nn.Module:
    """Weights of channels that differ by powers of ten."""
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                sizes = 10.0 ** rng.uniform(-3, 3, parameter.shape[0])
                parameter *= torch.tensor(sizes, dtype=torch.float32).reshape(-1, *[1] * (parameter.ndim - 1))
    return module


class _Residual(nn.Module):
    """Both operands of a sum and everything that reads it have one set of factors."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 6, 3, padding=1, groups=3), nn.Conv2d(6, 4, 1)
        self.up = nn.ConvTranspose2d(4, 5, 2, 2)
        self.head = nn.Linear(5 * 4 * 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.leaky_relu(self.a(x)), 2)
        x = F.relu(self.c(x + self.b(x)))
        x = F.pad(self.up(F.avg_pool2d(x, 2, 1)), (1, 1, 1, 1))
        return self.head(F.adaptive_avg_pool2d(x, 4).flatten(1))


class _Moves(nn.Module):
    """Channels that are the last dim, then the second one, then a part of a dim."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 6), nn.Conv1d(6, 3, 2), nn.Linear(3 * 4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.a(x)).transpose(1, 2)
        return self.c(F.relu(self.b(y)).reshape(2, 12)).unsqueeze(1)


CASES: dict[str, tuple[type[nn.Module], tuple[int, ...], int, int]] = {
    "residual": (_Residual, (2, 2, 12, 12), 3, 2),
    "moves": (_Moves, (2, 5, 4), 2, 2),
}
"""Modules, their inputs, the groups of channels and how many of them are uneven."""


@pytest.mark.parametrize("name", CASES)
def test_no_bit_changes(name: str) -> None:
    """Factors are powers of two, so that products and sums are as exact as before."""
    torch.manual_seed(0)
    make, shape, count, uneven = CASES[name]
    x = torch.randn(shape)
    module = _edge(_uneven(make()), x)
    before = Interpreter(module).run([x])[0]
    [func] = methods(module)
    assert len(channel_groups(func, Parameters(module))) == count
    assert equalize(module) == uneven
    after = Interpreter(module).run([x])[0]
    assert torch.equal(before, after)


def test_weights_are_of_one_size() -> None:
    torch.manual_seed(0)
    module = _edge(_uneven(_Residual()), torch.randn(2, 2, 12, 12))
    equalize(module)
    parameters = Parameters(module)
    for group in channel_groups(methods(module)[0], parameters):
        sizes = [
            np.max([end.ranges(parameters.array(_weight(end.op)), reads=reads) for end in ends], axis=0)
            for ends, reads in ((group.writers, False), (group.readers, True))
        ]
        ratios = sizes[0] / sizes[1]
        assert ratios.max() / ratios.min() < 4.1  # Exponents are rounded: two times, and two for the other side.
    assert equalize(module.clone()) == 0


def _weight(op: Any) -> Any:
    return op.weight


class _Pinned(nn.Module):
    def __init__(self, between: Any):
        super().__init__()
        self.a, self.b, self.between = nn.Linear(4, 4), nn.Linear(4, 4), between

    def forward(self, x: torch.Tensor) -> Any:
        return self.between(self, self.a(x), x)


@pytest.mark.parametrize(
    "between",
    [
        lambda m, y, x: m.b(F.relu6(y)),
        lambda m, y, x: m.b(F.gelu(y)),
        lambda m, y, x: m.b(y + x),
        lambda m, y, x: (m.b(y), y),
        lambda m, y, x: m.b(y.softmax(-1)),
        lambda m, y, x: m.b(y * x),
        lambda m, y, x: m.b(y.transpose(0, 1)),
        lambda m, y, x: m.b(F.pad(y[:, :2], (1, 1))),
        lambda m, y, x: m.b(F.relu(y)) + y.mean(1, keepdim=True),
        lambda m, y, x: m.a(y),
        lambda m, y, x: m.b(F.pad(y, (0, 0, 1, 1), value=1.0)),
    ],
)
def test_channels_that_somebody_else_sees(between: Any) -> None:
    """Whoever reads the numbers themselves, or mixes channels, pins them."""
    torch.manual_seed(0)
    module = _edge(_uneven(_Pinned(between)), torch.randn(4, 4))
    assert channel_groups(methods(module)[0], Parameters(module)) == []
    assert equalize(module) == 0


def test_a_layer_norm_writes_channels() -> None:
    """Smoothing scales them; equalization, which compares filters, does not."""
    module = _edge(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4)), torch.randn(3, 8))
    [group] = channel_groups(methods(module)[0], Parameters(module))
    assert [end.is_layer for end in group.writers] == [False]
    assert equalize(module) == 0


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(3, 4, 3, padding=1), (2, 3, 5, 5)),
        (nn.Conv2d(4, 8, 3, groups=2, bias=False), (2, 4, 5, 5)),
        (nn.Conv1d(3, 4, 2), (2, 3, 7)),
        (nn.Linear(16, 4), (2, 3, 16)),
    ],
)
def test_means_are_those_of_the_floats(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """With biases corrected, the mean of each channel over the data is what it was; without, it was another one."""
    from etir.quantization.passes.annotate_quantization import AnnotateQuantizationPass
    from etir.quantization.passes.materialize_quantization import MaterializeQuantizationPass

    torch.manual_seed(0)
    samples = [(torch.rand(shape) + 1,) for _ in range(3)]
    channels = -1 if isinstance(layer, nn.Linear) else 1
    float_means = _means(torch.cat([layer(x) for (x,) in samples]).detach(), channels)
    module = _edge(layer, *samples[0])
    annotate = AnnotateQuantizationPass("static-int8", ("xnnpack",))
    annotate.run(EtContext(), module)
    found: list[torch.Tensor] = []
    for correct in (False, True):
        if correct:
            assert correct_bias(module, samples) == 1
        stored = module.clone()
        MaterializeQuantizationPass().run(EtContext(), stored)
        run = Interpreter(stored)
        found.append(_means(torch.cat([run.run(list(sample))[0] for sample in samples]), channels))
    errors = [(means - float_means).abs().max().item() for means in found]
    assert errors[1] < 1e-5 < errors[0]


def _means(x: torch.Tensor, channels: int) -> torch.Tensor:
    return x.movedim(channels, 0).flatten(1).double().mean(1)
