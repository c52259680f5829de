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
