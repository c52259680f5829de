"""Scales without data, and rounding that makes up for what it loses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.dialects.et.program import WeightOp
from etir.dialects.et.weights import BlobAttr
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module
from etir.driver import module_of
from etir.interpret.interpreter import Interpreter
from etir.options import CompileOptions
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline
from etir.quantization.moments import moments_of, parts_of
from etir.quantization.passes.annotate_quantization import AnnotateQuantizationPass
from etir.quantization.passes.round_weights import round_weights
from etir.quantization.report import sqnr
from etir.quantization.rounding import SCALES, Grid, as_rows, from_rows, gptq


def _layer(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A weight with a few large numbers, and correlated inputs of which some are large."""
    rng = np.random.default_rng(seed)
    weight = (rng.standard_t(4, (48, 192)) * 0.05).astype(np.float32)
    mix = rng.normal(size=(192, 192)) * np.exp(rng.normal(size=192) * 0.7)
    return weight, (rng.normal(size=(800, 192)) @ mix / 20).astype(np.float32)


@pytest.mark.parametrize("block", [32, 192])
@pytest.mark.parametrize("bits", [4, 8])
def test_scales(block: int, bits: int) -> None:
    """`minmax` clips nothing, `mse` has the least squared error, `hqq` the least sum of |e|^0.7."""
    weight, _ = _layer()
    grid = Grid(-8, 7, block) if bits == 4 else Grid(-127, 127, block)
    errors: dict[str, np.ndarray] = {}
    for method in SCALES:
        scales = grid.scales(weight, method)
        assert scales.shape == (48, 192 // block)
        assert scales.dtype == np.float32
        errors[method] = weight - grid.values(grid.nearest(weight, scales), scales)
    along = np.repeat(grid.scales(weight, "minmax"), block, axis=1)
    assert (np.abs(errors["minmax"]) <= along * 0.5001).all()
    assert (errors["mse"] ** 2).sum() <= (errors["minmax"] ** 2).sum()
    assert (np.abs(errors["hqq"]) ** 0.7).sum() <= (np.abs(errors["mse"]) ** 0.7).sum() * 1.0001


def test_scales_of_zeros() -> None:
    grid = Grid(-8, 7, 4)
    for method in SCALES:
        scales = grid.scales(np.zeros((2, 8), np.float32), method)
        assert (scales > 0).all()
        assert not grid.nearest(np.zeros((2, 8), np.float32), scales).any()


@pytest.mark.parametrize("block", [32, 192])
def test_gptq(block: int) -> None:
    """Less is lost of the results, though more of the weight; columns in order are better than as they come."""
    weight, inputs = _layer()
    grid = Grid(-8, 7, block)
    scales = grid.scales(weight, "mse")
    moments = inputs.T @ inputs
    before = moments.copy()
    stored = {
        "nearest": grid.nearest(weight, scales),
        "as they come": gptq(weight, moments, scales, grid, ordered=False),
        "ordered": gptq(weight, moments, scales, grid),
    }
    losses = {
        name: sqnr(inputs @ weight.T, inputs @ grid.values(integers, scales).T) for name, integers in stored.items()
    }
    assert losses["ordered"] > losses["as they come"] > losses["nearest"] + 1
    assert losses["ordered"] > losses["nearest"] + 4
    assert all(integers.min() >= -8 and integers.max() <= 7 for integers in stored.values())
    assert np.array_equal(moments, before)


def test_gptq_with_inputs_that_are_always_zero() -> None:
    """Columns that nobody sees are rounded to the nearest; without any input all of them are."""
    weight, inputs = _layer()
    inputs[:, 10:20] = 0
    grid = Grid(-8, 7, 32)
    scales = grid.scales(weight, "mse")
    nearest = grid.nearest(weight, scales)
    found = gptq(weight, inputs.T @ inputs, scales, grid)
    assert np.array_equal(found[:, 10:20], nearest[:, 10:20])
    assert np.array_equal(gptq(weight, np.zeros((192, 192), np.float32), scales, grid), nearest)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows(axis: int) -> None:
    weight = np.arange(24).reshape(2, 3, 4)
    rows = as_rows(weight, axis)
    assert rows.shape == (weight.shape[axis], 24 // weight.shape[axis])
    assert np.array_equal(from_rows(rows, weight.shape, axis), weight)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(32, 16), (2, 3, 32)),
        (nn.Conv2d(6, 12, 3, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2), (2, 6, 9, 9)),
        (nn.Conv1d(8, 16, 3, padding=1), (2, 8, 7)),
        (nn.Conv3d(3, 16, (1, 2, 3)), (1, 3, 4, 4, 4)),
        (nn.Conv2d(32, 32, 3, groups=32), (1, 32, 6, 6)),
    ],
)
def test_moments_are_those_of_what_the_weight_is_multiplied_by(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """The sum of squares of a layer's results, without the bias, follows from its weight and the moments."""
    torch.manual_seed(0)
    samples = [(torch.randn(shape),) for _ in range(2)]
    options = CompileOptions().resolved()
    module = module_of(torch.export.export(layer.eval(), samples[0]), options)
    run_pipeline(EtContext(), module, list(pipeline(options, "aten", "edge")))
    AnnotateQuantizationPass("weight-int8").run(EtContext(), module)
    [found] = moments_of(module, samples).values()
    assert isinstance(layer.weight, torch.Tensor)
    whole = found.squares[:, 0].astype(np.float64)
    assert found.squares.shape[1] == 1
    rows = layer.weight.detach().numpy().reshape(len(whole), -1, whole.shape[1]).astype(np.float64)
    squares = np.einsum("gok,gkl,gol->go", rows, whole, rows).sum()
    with torch.no_grad():
        assert isinstance(layer.bias, torch.Tensor)
        layer.bias.zero_()
        wanted = sum(float((layer(x).double() ** 2).sum()) for (x,) in samples)
    assert squares == pytest.approx(wanted, rel=1e-4)
    assert found.count * len(found.squares) * rows.shape[1] == sum(layer(x).numel() for (x,) in samples)


_EXPERTS = """
et.schema "etir::expert_linear(Tensor input, Tensor weight, Tensor experts, int columns) -> Tensor"
et.weight @w : tensor<144x192xf32> = #et.synthetic<seed = 4>
func.func @forward(%x: tensor<400x192xf32>, %n: tensor<400xi64>) -> tensor<400x36xf32> {
  %w = et.get_weight @w : tensor<144x192xf32>
  %y = edge.etir.expert_linear.default(%x, %w, %n, columns = 36)
    : (tensor<400x192xf32>, tensor<144x192xf32>, tensor<400xi64>) -> tensor<400x36xf32>
  func.return %y : tensor<400x36xf32>
}
"""


@pytest.mark.parametrize("longest", [2048, 128])
def test_each_expert_is_rounded_for_the_rows_that_choose_it(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less is lost of the results of each; one that no row chooses has the nearest integers."""
    monkeypatch.setattr("etir.quantization.moments.LONGEST", longest)  # 64 numbers of a row together, for four experts
    rng = np.random.default_rng(0)
    numbers = np.arange(400) % 3
    # Each sees other inputs.
    mixes = [rng.normal(size=(192, 192)) * np.exp(rng.normal(size=192) * 0.7) for _ in range(3)]
    inputs = np.stack([rng.normal(size=192) @ mixes[n] / 20 for n in numbers]).astype(np.float32)
    sample = (torch.from_numpy(inputs), torch.from_numpy(numbers))
    wanted = Interpreter(_experts()).run(list(sample))[0].numpy()
    errors: dict[str, np.ndarray] = {}
    weights: dict[str, np.ndarray] = {}
    for method in ("mse", "gptq"):
        module = _experts()
        AnnotateQuantizationPass("weight-int4").run(EtContext(), module)
        assert round_weights(module, method, [sample]) == 1
        error = (Interpreter(module).run(list(sample))[0].numpy() - wanted) ** 2
        errors[method] = np.array([error[numbers == n].sum() for n in range(3)])
        [stored] = [op for op in module.body.block.ops if isinstance(op, WeightOp) and "int4" in op.sym_name.data]
        assert isinstance(stored.value, BlobAttr)
        weights[method] = np.frombuffer(stored.value.data.data, np.int8)
    assert (errors["gptq"] < errors["mse"] * (0.6 if longest == 2048 else 0.9)).all()
    last = 108 * 192
    assert np.array_equal(weights["gptq"][last:], weights["mse"][last:])
    assert not np.array_equal(weights["gptq"][:last], weights["mse"][:last])


def _experts() -> ModuleOp:
    module = parse_module(_EXPERTS)
    verify_module(module)
    return module


def test_rows_that_are_too_long() -> None:
    """They are rounded in parts, so that the arithmetic stays one of seconds."""
    assert [parts_of(k) for k in (1, 2048, 2049, 4096, 8192, 4608, 2053)] == [1, 1, 3, 2, 4, 3, 2053]


def test_the_interpreter_agrees() -> None:
    """Weights that are written by the pass are what the program computes with."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 32)).eval()
    samples = [(torch.randn(40, 64) * torch.logspace(-1, 1, 64),) for _ in range(2)]
    options = CompileOptions().resolved()
    exported = torch.export.export(net, samples[0])
    losses: dict[str, float] = {}
    for method in ("nearest", "mse", "hqq", "awq", "gptq"):
        module = module_of(exported, options)
        run_pipeline(EtContext(), module, list(pipeline(options, "aten", "edge")))
        AnnotateQuantizationPass("weight-int4").run(EtContext(), module)
        assert round_weights(module, method, samples) == 2
        outputs = [Interpreter(module).run(list(sample))[0].numpy() for sample in samples]
        losses[method] = sqnr(np.stack([net(x).detach().numpy() for (x,) in samples]), np.stack(outputs))
    assert losses["gptq"] > max(losses[name] for name in ("nearest", "mse", "hqq", "awq")) + 1
    assert losses["awq"] >= losses["mse"] - 0.2
    assert losses["mse"] > losses["nearest"]
