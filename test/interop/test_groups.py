"""Weights in groups on etir's own runtime: which kernels read them, that a file has them packed and once, and what the
results lose.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.emit.pte.reader import read_pte
from etir.quantization.report import sqnr
from etir.runtime import load

OWN = {"target": "etir"}


def _kernels(program: Any) -> list[str]:
    return [op.full_name for op in read_pte(program.buffer).execution_plan[0].operators]


def _linear_layers(*sizes: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False))).eval()


@pytest.mark.parametrize(
    ("recipe", "kernel", "bits", "least"),
    [
        ("8da4w", "int4_group_dynamic_linear", 4, 15),
        ("weight-int4", "int4_group_linear", 4, 15),
        ("weight-int8", "int8_group_linear", 8, 35),
    ],
)
def test_recipes(recipe: str, kernel: str, bits: int, least: float) -> None:
    """Numbers have their bits in the file, also for a dynamic number of rows, and threads change no bit."""
    model, x = _linear_layers(96, 160, 64), torch.randn(9, 96)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", max=64)},))
    quantized = etir.quantize(exported, recipe, **OWN)
    compiled = quantized.compile()
    assert set(_kernels(compiled)) - {"etir::check_size"} == {f"etir::{kernel}.out"}
    weights = 96 * 160 + 160 * 64
    assert len(compiled.buffer) < weights * bits / 8 + weights / 32 * 2 + 160 * 4 * 4 + 4000
    program, threaded = load(compiled), load(compiled, threads=2)
    for rows in (1, 9, 64):
        x = torch.randn(rows, 96)
        found = program.forward(x)[0]
        with torch.no_grad():
            assert sqnr(model(x).numpy(), found.numpy()) > least
        assert torch.equal(found, threaded.forward(x)[0])


def test_a_table_has_the_integers_of_its_head() -> None:
    """A file has the matrix once, with the nearest integers: GPTQ's for the head would be poor ones of the table."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(320, 96)
            self.inner = nn.Linear(96, 96)
            self.head = nn.Linear(96, 320, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(self.inner(self.table(tokens))) * torch.logspace(-1, 1, 96))

    torch.manual_seed(0)
    model, tokens = Words().eval(), [torch.randint(0, 320, (1, 64)) for _ in range(4)]
    exported = torch.export.export(model, (tokens[0],))
    calibration = [(ids,) for ids in tokens]
    found = {}
    for rounding in ("mse", "gptq"):
        quantized = etir.quantize(exported, "weight-int4", rounding=rounding, calibration=calibration, **OWN)
        compiled = quantized.compile()
        assert "etir::int4_group_embedding.out" in _kernels(compiled)
        assert len(compiled.buffer) < (320 * 96 + 96 * 96) * 9 / 16 + 4000
        table, inner, head = (layer for layer in quantized.report.layers if layer.stored == "int4 weights")
        assert table.weight_sqnr == head.weight_sqnr
        found[rounding] = table.weight_sqnr, inner.alone_sqnr
    assert found["gptq"][0] == found["mse"][0]
    assert found["gptq"][1] > found["mse"][1] + 1


@pytest.mark.parametrize("form", ["asymmetric rows", "symmetric groups"])
@pytest.mark.parametrize("bits", [4, 8])
def test_torchao_dynamic(form: str, bits: int) -> None:
    """torchao's affine operators around a layer, as its configurations export them, are one call."""
    pytest.importorskip("torchao")
    from torchao.quantization import quant_primitives as q

    torch.manual_seed(1)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    weight = torch.randint(low, high + 1, (48, 64), dtype=torch.int8)
    scales = (torch.rand(48, 2) * 0.01 + 0.001).half().float()
    mapping, block = (
        (q.MappingType.ASYMMETRIC, [1, 64]) if form == "asymmetric rows" else (q.MappingType.SYMMETRIC, [1, 32])
    )

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", weight)
            self.register_buffer("scales", scales)
            self.bias = nn.Parameter(torch.randn(48))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale, point = q.choose_qparams_affine(
                x, mapping, block, torch.int8, -128, 127, None, torch.float32, torch.int8
            )
            numbers = q.quantize_affine(x, block, scale, point, torch.int8, -128, 127)
            x = q.dequantize_affine(numbers, block, scale, point, torch.int8, -128, 127)
            return F.linear(
                x, q.dequantize_affine(self.weight, [1, 32], self.scales, None, torch.int8, low, high), self.bias
            )

    layer, x = Layer().eval(), torch.randn(5, 64)
    compiled = etir.compile(torch.export.export(layer, (x,)), **OWN)
    assert _kernels(compiled) == [f"etir::int{bits}_group_dynamic_linear.out"]
    with torch.no_grad():
        assert sqnr(layer(x).numpy(), load(compiled).forward(x)[0].numpy()) > 45


@pytest.mark.parametrize(("columns", "depth"), [(3, 10), (5, 64), (48, 60)])
def test_torchao_dynamic_of_any_size(columns: int, depth: int) -> None:
    """A scale for each whole row on both sides; a layer that is too small for the kernel is other operators."""
    pytest.importorskip("torchao")
    from torchao.quantization import quant_primitives as q

    torch.manual_seed(1)
    bounds = (torch.int8, -128, 127)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-127, 128, (columns, depth), dtype=torch.int8))
            self.register_buffer("scales", torch.rand(columns, 1) * 0.01 + 0.001)
            self.bias = nn.Parameter(torch.randn(columns))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            block = [1, depth]
            scale, point = q.choose_qparams_affine(
                x, q.MappingType.SYMMETRIC, block, *bounds, None, torch.float32, torch.int8
            )
            x = q.dequantize_affine(q.quantize_affine(x, block, scale, point, *bounds), block, scale, point, *bounds)
            return F.linear(x, q.dequantize_affine(self.weight, block, self.scales, None, *bounds), self.bias)

    layer, x = Layer().eval(), torch.randn(5, depth)
    compiled = etir.compile(torch.export.export(layer, (x,)), **OWN)
    assert ("etir::int8_group_dynamic_linear.out" in _kernels(compiled)) == (columns == 48)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(load(compiled).forward(x)[0]), layer(x), rtol=1e-5, atol=1e-5)


class _Tied(nn.Module):
    """A table and a head of the same numbers: each multiplied out by an operator of its own, or both by one."""

    def __init__(self, bits: int, zeros: torch.Tensor | None, shared: bool) -> None:
        super().__init__()
        import torch.ao.quantization.fx._decomposed

        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        self.bounds, self.shared, self.zeros = (low, high), shared, zeros
        self.register_buffer("table", torch.randint(low, high + 1, (160, 64), dtype=torch.int8))
        self.register_buffer("scales", (torch.rand(160, 2) * 0.01 + 0.001).half().float())

    def whole(self) -> torch.Tensor:
        return torch.ops.quantized_decomposed.dequantize_per_channel_group(
            self.table, self.scales, self.zeros, *self.bounds, torch.int8, 32, torch.float32
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        table = self.whole()
        return F.linear(F.embedding(tokens, table), table if self.shared else self.whole())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_tied_head(bits: int, low: bool, shared: bool) -> None:
    """The file has the matrix once. Zero points that are no integers become minimums, of 16 bits as they were."""
    torch.manual_seed(2)
    zeros = None
    model = _Tied(bits, None, shared).eval()
    if low:
        minimums = torch.randn(160, 2).mul(0.05).half().float()
        zeros = model.zeros = -minimums / model.scales - (1 << (bits - 1))
    tokens = torch.randint(0, 160, (1, 7))
    compiled = etir.compile(torch.export.export(model, (tokens,)), **OWN)
    assert _kernels(compiled) == [f"etir::int{bits}_group_embedding.out", f"etir::int{bits}_group_linear.out"]
    stored = 160 * 64 * bits // 8 + 160 * 2 * 2 * (2 if zeros is not None else 1)
    assert len(compiled.buffer) < stored + 4000
    with torch.no_grad():
        assert sqnr(model(tokens).numpy(), load(compiled).forward(tokens)[0].numpy()) > 100


def test_tables_alone_stay_tables() -> None:
    """Without a layer of the same numbers, a lookup is what it has been."""
    torch.manual_seed(3)
    tied = _Tied(8, None, False)

    class Table(nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return F.embedding(tokens, tied.whole())

    table = Table()
    table.tied = tied
    compiled = etir.compile(torch.export.export(table.eval(), (torch.zeros(1, 3, dtype=torch.int64),)), **OWN)
    assert _kernels(compiled) == ["quantized_decomposed::embedding_byte.out"]
