"""Quantized programs with machine code: the target's kernels compute on integers, the code what stays in float32."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
import etir.runtime
from etir.diagnostics import EtirError
from etir.program import Program
from etir.quantization.report import sqnr


class _Block(nn.Module):
    """Patches of an image through a block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first, self.second = nn.Conv2d(3, 32, 3, 2, 1), nn.LayerNorm(32), nn.LayerNorm(32)
        self.all, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.patches(x)).flatten(2).transpose(1, 2)
        heads = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.all(self.first(y)).chunk(3, -1))
        y = y + self.out(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        y = y + self.down(F.gelu(self.up(self.second(y))))
        return self.head(y.mean(1))


def _made() -> tuple[Any, tuple[torch.Tensor], np.ndarray]:
    torch.manual_seed(0)
    module, x = _Block().eval(), torch.randn(1, 3, 24, 24)
    with torch.no_grad():
        for norm in (module.first, module.second):
            norm.weight.normal_(1, 0.2), norm.bias.normal_(0, 0.2)
        return torch.export.export(module, (x,)), (x,), module(x).numpy()


EXPORTED, SAMPLE, WANTED = _made()


def _run(program: Program) -> np.ndarray:
    return np.asarray(etir.runtime.load(program)["forward"](*SAMPLE)[0]).copy()


def _quantized(recipe: str, delegates: list[str]) -> Program:
    given = [SAMPLE] if recipe == "static-int8" else ()
    return etir.quantize(EXPORTED, recipe, calibration=given, target="etir", delegates=delegates).compile()


FEW, MORE = ("static-int8", "dynamic-int8", "weight-int4"), ("8da4w", "weight-int8")


@pytest.mark.parametrize("recipe", [*FEW, *(pytest.param(recipe, marks=pytest.mark.nightly) for recipe in MORE)])
def test_kernels_compute_on_integers_and_code_on_the_rest(recipe: str) -> None:
    plain, native = _quantized(recipe, []), _quantized(recipe, ["native"])
    made = str(native.report())
    with_integers = [line for line in str(plain.report()).splitlines() if " x etir::" in line]
    assert with_integers and all(line in made for line in with_integers)
    assert ("native runs 0 of" in made) == (recipe == "static-int8")
    assert sqnr(_run(plain), _run(native)) > 35
    assert sqnr(WANTED, _run(native)) > sqnr(WANTED, _run(plain)) - 1


def test_a_delegate_that_takes_integers_is_asked_first() -> None:
    """Beside XNNPACK the pairs stay until both have been asked."""
    options: dict[str, Any] = {"target": "etir", "link_backends": ["XnnpackBackend"]}
    quantized = etir.quantize(EXPORTED, "static-int8", calibration=[SAMPLE], delegates=["xnnpack", "native"], **options)
    assert " x etir::int8_linear" not in str(quantized.compile().report())


def test_a_target_without_kernels_for_integers() -> None:
    with warnings.catch_warnings(), pytest.raises(EtirError) as caught:
        warnings.simplefilter("ignore")
        etir.quantize(EXPORTED, "static-int8", calibration=[SAMPLE], delegates=["native"])
    assert caught.value.ids == ("E1502",)


class _Mixed(nn.Module):
    """Layers with enough between them, in float32, for machine code."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 1), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.hardswish(self.first(x))
        y = self.second(y * torch.sigmoid(y).exp().log1p().sqrt().tanh().abs().sqrt())
        return self.head(F.elu(y).mean((2, 3)))


MIXED, IMAGE = _Mixed().eval(), torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def _pt2e(is_dynamic: bool) -> torch.export.ExportedProgram:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic))
    prepared = prepare_pt2e(torch.export.export(MIXED, (IMAGE,)).module(), quantizer)
    prepared(IMAGE)
    return torch.export.export(convert_pt2e(prepared), (IMAGE,))


def _torchao(bits: int, is_dynamic: bool) -> torch.export.ExportedProgram:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    dtype, module = {4: torch.int4, 8: torch.int8}[bits], _Mixed().eval()
    if is_dynamic:
        quantize_(module, Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=PerGroup(32)))
    else:
        quantize_(module, IntxWeightOnlyConfig(weight_dtype=dtype, granularity=PerGroup(32)))
    return torch.export.export(module, (IMAGE,))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: _pt2e(is_dynamic=False), id="PT2E, static"),
        pytest.param(lambda: _pt2e(is_dynamic=True), id="PT2E, dynamic"),
        pytest.param(lambda: _torchao(4, is_dynamic=True), id="torchao, 8da4w"),
        pytest.param(lambda: _torchao(4, is_dynamic=False), id="torchao, weight-int4"),
        pytest.param(lambda: _torchao(8, is_dynamic=False), id="torchao, weight-int8"),
    ],
)
def test_programs_of_other_quantizers(make: Any) -> None:
    """The code takes what they leave in float32. What is rounded after it may fall on the other side of a step."""
    exported = make()
    plain, native = (etir.compile(exported, target="etir", delegates=delegates) for delegates in ([], ["native"]))
    assert "native runs 0 of" not in str(native.report())
    found = [np.asarray(etir.runtime.load(p)["forward"](IMAGE)[0]).copy() for p in (plain, native)]
    assert sqnr(found[0], found[1]) > 40
    assert sqnr(exported.module()(IMAGE).detach().numpy(), found[1]) > 30


@pytest.mark.parametrize("recipe", FEW)
def test_sizes_that_are_not_known(recipe: str) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sigmoid(self.norm(x)).exp().log1p().sqrt() * x.tanh() + x.sin().abs()
            return x + self.down(F.gelu(self.up(y)))

    module, rows = Rows().eval(), torch.randn(2, 40, 32, generator=torch.Generator().manual_seed(0))
    sizes = {"x": {1: torch.export.Dim("length", min=2, max=64)}}
    exported = torch.export.export(module, (rows[:, :16].contiguous(),), dynamic_shapes=sizes)
    given = [(rows,)] if recipe == "static-int8" else ()
    program = etir.quantize(exported, recipe, calibration=given, target="etir", delegates=["native"]).compile()
    method = etir.runtime.load(program)["forward"]
    for length in (2, 16, 40):
        sample = rows[:, :length].contiguous()
        bound = 20 if recipe == "weight-int4" else 30
        assert sqnr(module(sample).detach().numpy(), np.asarray(method(sample)[0])) > bound


def test_the_kernels_of_integers_beside_a_branch_in_machine_code() -> None:
    """A branch that no sample takes stays float32, for machine code as for kernels."""

    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(32, 64), nn.Linear(32, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x).sin() * 2, (x,))
            return y.tanh().exp().sqrt()

    module, x = Branch().eval(), torch.rand(4, 32, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(module, (x,))
    program = etir.quantize(exported, calibration=[(x,)], target="etir", delegates=["native"]).compile()
    method = etir.runtime.load(program)["forward"]
    for sample, bound in ((x, 30), (-x, 100)):
        assert sqnr(module(sample).detach().numpy(), np.asarray(method(sample)[0])) > bound
