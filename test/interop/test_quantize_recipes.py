"""Recipes for layers: scales that are found at run time, weights of 8 and 4 bits, tables; on both runtimes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.dialects.text import parse_module, print_module
from etir.quantization.recipes import ALIASES, RECIPES
from etir.quantization.report import sqnr
from etir.quantized import Quantized

from etir_testing.interop.program_runs import Function
from etir_testing.interop.xnnpack_runs import facts_of, run_own, run_stock


class _Net(nn.Module):
    """A table, layers that share an input, products with constant matrices, rows that are no blocks, a convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.up, self.gate, self.down = (
            nn.Embedding(100, 64),
            nn.Linear(64, 96),
            nn.Linear(64, 96),
            nn.Linear(96, 50),
        )
        self.matrix, self.mix = nn.Parameter(torch.randn(50, 64) / 7), nn.Conv1d(64, 64, 3, padding=1)
        self.head, self.bias = nn.Parameter(torch.randn(64, 40) / 8), nn.Parameter(torch.randn(40))

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        x = self.table(i)
        y = self.down(F.gelu(self.up(x)) * self.gate(x)) @ self.matrix + x
        y = self.mix(y.transpose(1, 2)).transpose(1, 2)
        return torch.addmm(self.bias, y.flatten(0, 1), self.head)


MODULE = _Net().eval()
INDICES = torch.randint(0, 100, (2, 7), generator=torch.Generator().manual_seed(0))
EXPORTED = torch.export.export(MODULE, (INDICES,))
WANTED = MODULE(INDICES).detach()
TARGETS: dict[str, dict[str, Any]] = {
    "executorch": {"delegates": ["xnnpack"]},
    "etir": {"target": "etir", "delegates": ["xnnpack"], "link_backends": ["XnnpackBackend"]},
}


def _stored(found: Quantized) -> dict[str, str]:
    layers = {layer.name if "/" not in layer.name else "": layer.stored for layer in found.report.layers}
    return {name: layers[name] for name in ("table", "up", "down", "mix")}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("recipe", "least"), [("dynamic-int8", 38), ("8da8w", 38), ("8da4w", 17)])
def test_at_run_time(recipe: str, least: float, target: str) -> None:
    """The numbers of the interpreter, so those of the report; one convert for layers that share an input."""
    found = etir.quantize(EXPORTED, recipe, calibration=[(INDICES,)], **TARGETS[target])
    data = found.compile().buffer
    output = (run_own if target == "etir" else run_stock)(data, [INDICES])[0]
    loss = sqnr(WANTED.numpy(), output.numpy())
    assert found.report.output_sqnr is not None
    assert loss > least
    assert abs(loss - found.report.output_sqnr) < 1
    facts = facts_of(data)
    assert (facts.delegate_calls, len(facts.kernels)) == (1, 1)  # the table stays outside
    assert (facts.nodes["fully_connected"], facts.nodes["convert"]) == (5, 4)
    weights = "int8 at run time" if recipe != "8da4w" else "int8 at run time, int4 weights"
    assert _stored(found) == {"table": "float32", "up": weights, "down": weights, "mix": "float32"}
    convolution = next(layer for layer in found.report.layers if layer.name == "mix")
    assert "slower than in float32" in convolution.reason


def test_the_file_has_half_a_byte_for_each_weight() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).eval()
    exported = torch.export.export(module, (torch.randn(3, 256),))
    size = len(etir.quantize(exported, "8da4w", delegates=["xnnpack"]).compile().buffer)
    assert size < 2 * 256 * 512 * (0.5 + 2 / 32) + 8000


@pytest.mark.parametrize("target", ["executorch", "etir"])
@pytest.mark.parametrize(("recipe", "least"), [("weight-int8", 38), ("weight-int4", 15)])
def test_weights_only(recipe: str, least: float, target: str) -> None:
    """Without a delegate and without data: integers in the file for layers, tables and convolutions."""
    found = etir.quantize(EXPORTED, recipe, target=target)
    data = found.compile().buffer
    output = (run_own if target == "etir" else run_stock)(data, [INDICES])[0]
    assert sqnr(WANTED.numpy(), output.numpy()) > least
    floats = sum(4 * p.numel() for p in MODULE.parameters())
    assert len(data) < 0.55 * floats
    four = "int4 weights" if recipe == "weight-int4" else "int8 weights"
    assert _stored(found) == {"table": four, "up": four, "down": four, "mix": "int8 weights"}
    if target == "etir":
        kernel = "embedding_4bit" if recipe == "weight-int4" else "embedding_byte"
        assert f"quantized_decomposed::{kernel}.out" in facts_of(data).kernels


def test_recipes_follow_each_other() -> None:
    dynamic = etir.quantize(EXPORTED, "dynamic-int8", delegates=["xnnpack"])
    both = etir.quantize(dynamic.module, "weight-int8", skip=["mix"], delegates=["xnnpack"])
    assert _stored(both)["table"] == "int8 weights"
    output = run_stock(both.compile().buffer, [INDICES])[0]
    assert sqnr(WANTED.numpy(), output.numpy()) > 38


@pytest.mark.parametrize("recipe", RECIPES)
def test_text(recipe: str) -> None:
    """What is marked can be read, and is the same each time."""
    texts = []
    for _ in "ab":
        found = etir.quantize(EXPORTED, recipe, calibration=[(INDICES,)], **TARGETS["executorch"])
        texts.append(print_module(found.observed))
    assert texts[0] == texts[1]
    assert print_module(parse_module(texts[0])) == texts[0]
    assert ("quant.dynamic" in texts[0]) == (RECIPES[recipe].scheme == "dynamic")


@pytest.mark.parametrize("recipe", ["dynamic-int8", "8da4w", *ALIASES])
@pytest.mark.parametrize("options", [{}, {"target": "etir", "delegates": ["reference"]}])
def test_targets_that_do_not(recipe: str, options: dict[str, Any]) -> None:
    with pytest.raises(EtirError, match="scales that are found at run time") as caught:
        etir.quantize(EXPORTED, recipe, **options)
    assert caught.value.ids == ("E1502",)


def test_a_net_of_convolutions() -> None:
    """Nothing is left of it for scales at run time, and the error says what to do."""
    x = torch.randn(1, 3, 8, 8)
    exported = torch.export.export(nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU()).eval(), (x,))
    with pytest.raises(EtirError, match="use static-int8 or weight-int8") as caught:
        etir.quantize(exported, "dynamic-int8", delegates=["xnnpack"])
    assert caught.value.ids == ("E1506",)


def test_rows_of_different_sizes() -> None:
    """Rows of zeros, of one sign, of very different sizes: each has its own scale."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 32).eval()
    x = torch.cat([torch.zeros(1, 64), torch.rand(1, 64), -torch.rand(1, 64), torch.randn(1, 64) * 1e4]).unsqueeze(0)
    rows = torch.export.Dim("rows", min=1, max=9)
    exported = torch.export.export(Function(layer), (x,), dynamic_shapes={"args": ({1: rows},)})
    data = etir.quantize(exported, "dynamic-int8", delegates=["xnnpack"]).compile().buffer
    for count in (4, 1, 2):
        output, wanted = run_stock(data, [x[:, :count]])[0], layer(x[:, :count]).detach()
        error = (output - wanted).abs().amax(-1)
        assert bool((error <= 0.02 * x[:, :count].abs().amax(-1) + 1e-5).all())


def test_a_bias_far_above_the_products() -> None:
    """A layer whose input is next to nothing beside its bias stays on integers: its weight has wider scales."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    with torch.no_grad():
        module[0].bias.mul_(100)
        module[0].bias[::2] = 0
        module[0].weight[1::2].mul_(1e-9)
    samples = [(torch.randn(4, 32) * 1e-3,) for _ in range(3)]
    exported = torch.export.export(module, samples[0])
    found = etir.quantize(exported, calibration=samples, delegates=["xnnpack"])
    data = found.compile().buffer
    assert (facts_of(data).delegate_calls, len(facts_of(data).kernels)) == (1, 0)
    assert facts_of(data).nodes == {"convert": 2, "fully_connected": 2}
    with torch.no_grad():
        wanted = torch.cat([module(*sample) for sample in samples])
    assert sqnr(wanted.numpy(), torch.cat([run_stock(data, list(s))[0] for s in samples]).numpy()) > 35


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("recipe", "share", "least"), [("weight-int8", 0.29, 40), ("weight-int4", 0.2, 18)])
def test_weights_inside_of_a_delegate(recipe: str, share: float, least: float, target: str) -> None:
    """Layers, and convolutions that are layers, compute in float32 from integers in the file; others are told."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(64, 128, 1), nn.ReLU(), nn.Flatten(2), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)
    ).eval()
    x = torch.randn(1, 64, 8, 8)
    exported = torch.export.export(module, (x,))
    found = etir.quantize(exported, recipe, calibration=[(x,)], **TARGETS[target])
    data = found.compile().buffer
    output = (run_own if target == "etir" else run_stock)(data, [x])[0]
    loss = sqnr(module(x).detach().numpy(), output.numpy())
    assert loss > least
    assert abs(loss - (found.report.output_sqnr or 0)) < 0.1
    assert len(data) < share * sum(4 * p.numel() for p in module.parameters()) + 6000
    facts = facts_of(data)
    assert (facts.delegate_calls, facts.nodes["fully_connected"], facts.nodes["conv2d"]) == (1, 3, 0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_bias_beside_a_weight_that_is_multiplied_out(layers: int, dynamic: bool) -> None:
    """XNNPACK reads wild memory for a constant bias beside a computed filter: the bias is a sum of its own."""
    torch.manual_seed(1)
    module = nn.Sequential(*(nn.Linear(64, 64) for _ in range(layers))).eval()
    x = torch.randn(4, 64)
    shapes = ({0: torch.export.Dim("n", max=8)},) if dynamic else None
    exported = torch.export.export(module, (x,), dynamic_shapes=shapes)
    found = etir.quantize(exported, "weight-int4", **TARGETS["executorch"])
    data = found.compile().buffer
    assert facts_of(data).nodes["add"] == facts_of(data).nodes["fully_connected"] == layers
    for rows in (4, 7) if dynamic else (4,):
        x = torch.randn(rows, 64)
        assert sqnr(module(x).detach().numpy(), run_stock(data, [x])[0].numpy()) > 14


def test_filters_that_would_not_stay_integers() -> None:
    x = torch.randn(1, 8, 8, 8)
    exported = torch.export.export(nn.Sequential(nn.Conv2d(8, 16, 3), nn.Conv2d(16, 32, 1)).eval(), (x,))
    found = etir.quantize(exported, "weight-int8", delegates=["xnnpack"])
    assert [layer.stored for layer in found.report.layers] == ["float32", "int8 weights"]
    assert "float32 in the file all the same" in found.report.layers[0].reason
    assert [layer.stored for layer in etir.quantize(exported, "weight-int8").report.layers] == ["int8 weights"] * 2


class _Branches(nn.Module):
    """Layers of one input: in both branches, and before and after them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x) * 2, (x,))
        return y, self.c(x)


@pytest.mark.parametrize("recipe", ["dynamic-int8", "8da4w", "static-int8"])
@pytest.mark.parametrize("target", [{"target": "etir"}, *TARGETS.values()], ids=["kernels", *TARGETS])
def test_branches_that_round_the_same_value(recipe: str, target: dict[str, Any]) -> None:
    module = _Branches().eval()
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    data = etir.quantize(torch.export.export(module, (x,)), recipe, calibration=[(x,), (-x,)], **target).compile()
    for sample in (x, -x):
        runs = run_stock if "target" not in target else run_own
        for found, wanted in zip(runs(data.buffer, [sample]), module(sample), strict=True):
            assert sqnr(wanted.detach().numpy(), found.numpy()) > (15 if recipe == "8da4w" else 30)


@pytest.mark.parametrize("target", [{"target": "etir"}, *TARGETS.values(), {"link_libraries": ["cortex_m"]}])
def test_numbers_of_all_sizes(target: dict[str, Any]) -> None:
    """A program whose units are small, picofarads or so, is no less exact."""
    torch.manual_seed(0)
    x = torch.randn(4, 32)
    for size in (1e-6, 1e-15, 1e-24, 1e6, 1e15):
        module = nn.Sequential(nn.Linear(32, 16, bias=False), nn.ReLU(), nn.Linear(16, 8, bias=False)).eval()
        exported = torch.export.export(module, (x,))
        found = etir.quantize(exported, calibration=[(x * size,)], **target)
        runs = run_own if target.get("target") == "etir" or "link_libraries" in target else run_stock
        output = runs(found.compile().buffer, [x * size])[0]
        assert sqnr(module(x).detach().numpy(), output.numpy() / size) > 30
