"""Calibration that does not run every operator: layers of a branch that no sample takes stay float32, and say so; a
value that several branches or operators read as integers is observed where it reaches all of them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.quantization.report import sqnr
from etir.quantization.unseen import REASON
from etir.quantized import Quantized

from etir_testing.interop.xnnpack_runs import run_own, run_stock

X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
X = X if X.sum() > 0 else -X
TARGETS: dict[str, dict[str, Any]] = {
    "etir": {"target": "etir"},
    "native": {"target": "etir", "delegates": ["native"]},
    "xnnpack": {"delegates": ["xnnpack"]},
    "cortex_m": {"link_libraries": ["cortex_m"]},
}
MORE = [pytest.param(name, marks=pytest.mark.nightly) for name in ("native", "cortex_m")]


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(32, 16)


class _Branches(_Net):
    """Both branches read a value that a layer after them reads, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: torch.relu(self.b(x)) * 2, (x,))
        return y, self.c(x)


class _Computed(_Net):
    """Both branches read a value that is computed in float32, and nothing else does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda h: self.a(h), lambda h: self.b(h) * 2, (x.sin(),))


class _SumFirst(_Net):
    """A sum of what a layer reads stands before the layer, which is annotated first."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x.sin()
        g = h + h
        return self.a(h) + 1, self.b(g)


def _quantized(module: nn.Module, samples: list[torch.Tensor], target: str, **options: Any) -> Quantized:
    exported = torch.export.export(module, (X,))
    return etir.quantize(exported, calibration=[(x,) for x in samples], **TARGETS[target], **options)


def _losses(module: nn.Module, found: Quantized, target: str, x: torch.Tensor) -> list[float]:
    run = run_stock if target == "xnnpack" else run_own
    wanted = module(x)
    pairs = zip(run(found.compile().buffer, [x]), (wanted,) if torch.is_tensor(wanted) else wanted, strict=True)
    return [sqnr(good.detach().numpy(), output.numpy()) for output, good in pairs]


def _layers(found: Quantized) -> list[tuple[str, str]]:
    """What became of a, b and, where there is one, c."""
    return [(row.stored, row.reason) for row in found.report.layers if row.operator == "aten.linear.default"]


@pytest.mark.parametrize("target", ["etir", "xnnpack", *MORE])
@pytest.mark.parametrize("net", [_Branches, _Computed])
def test_a_branch_that_no_sample_takes_is_float32(net: type[_Net], target: str) -> None:
    module = net().eval()
    found = _quantized(module, [X], target)
    assert _layers(found) == [("int8", ""), ("float32", REASON), ("int8", "")][: 3 if net is _Branches else 2]
    assert any("that no sample ran stay" in note for note in found.report.notes)
    assert _losses(module, found, target, X)[0] > 38
    assert _losses(module, found, target, -X)[0] > 100


@pytest.mark.parametrize("target", ["etir", "xnnpack", *MORE])
@pytest.mark.parametrize("net", [_Branches, _Computed, _SumFirst])
def test_with_samples_of_both_branches_all_layers_are_integers(net: type[_Net], target: str) -> None:
    module = net().eval()
    found = _quantized(module, [X, -X], target)
    assert set(_layers(found)) == {("int8", "")}
    assert not any("no sample" in note for note in found.report.notes)
    for x in (X, -X):
        assert min(_losses(module, found, target, x)) > 35


@pytest.mark.parametrize(
    "options", [{"rounding": "gptq", "correct_bias": True}, {"smooth": 0.5}, {"budget": 40.0}, {"equalize": True}]
)
def test_what_uses_samples_leaves_the_other_branch_alone(options: dict[str, Any]) -> None:
    module = _Branches().eval()
    found = _quantized(module, [X], "etir", **options)
    assert _layers(found)[1] == ("float32", REASON)
    assert _losses(module, found, "etir", -X)[0] > 100


def test_layers_of_which_none_ran_are_an_error() -> None:
    class OneBranch(_Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: x[:, :16] * 2, (x,))

    with pytest.raises(EtirError) as caught:
        _quantized(OneBranch().eval(), [-X], "xnnpack")
    assert caught.value.ids == ("E1506",) and REASON in str(caught.value)


def test_a_file_of_encodings_has_scales_for_what_samples_did_not_run(tmp_path: Any) -> None:
    module = _Branches().eval()
    _quantized(module, [X, -X], "etir").save_encodings(tmp_path / "net.json")
    found = _quantized(module, [X], "etir", ranges=tmp_path / "net.json")
    assert set(_layers(found)) == {("int8", "")}
    assert min(_losses(module, found, "etir", -X)) > 35


def test_a_skipped_layer_behind_padded_integers() -> None:
    """Moves of integers that are made for a layer, which is float32 after all, are taken back (E0501 before)."""

    class Padded(_Net):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(32, 32)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.first(x)
            return self.a(y), self.b(nn.functional.pad(y[:, :24], (4, 4)))

    module = Padded().eval()
    found = _quantized(module, [X], "etir", skip=["b"])
    assert [stored for stored, _ in _layers(found)] == ["int8", "int8", "float32"]
    assert min(_losses(module, found, "etir", X)) > 35
