"""A trained net whose channels differ by factors of a thousand: what quantizers lose, and what brings it back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import etir
from etir.diagnostics import EtirError
from etir.interpret.interpreter import Interpreter
from etir.quantized import Quantized

from etir_testing.interop.xnnpack_runs import run_stock
from etir_testing.quantization.digits import TRAINED, hostile, scans, top1, trained

BATCH = 48
BATCHES = 16


@cache
def _tests() -> tuple[torch.Tensor, np.ndarray]:
    images, labels = scans()
    end = TRAINED + BATCH * BATCHES
    return images[TRAINED:end], labels[TRAINED:end].numpy()


@cache
def _float() -> float:
    images, labels = _tests()
    with torch.no_grad():
        return top1(trained()(images).numpy(), labels)


@cache
def _quantized(name: str, recipe: str = "static-int8", **keywords: object) -> Quantized:
    images = scans()[0]
    net = hostile(trained()) if name == "hostile" else trained()
    samples = [(part,) for part in images[: 3 * BATCH].split(BATCH)]
    exported = torch.export.export(net, samples[0])
    return etir.quantize(exported, recipe, calibration=samples, delegates=["xnnpack"], **keywords)  # type: ignore[arg-type]


def _accuracy(found: Quantized) -> float:
    images, labels = _tests()
    interpreter = Interpreter(found.module)
    outputs = [np.asarray(interpreter.run([part])[0]) for part in images.split(BATCH)]
    return top1(np.concatenate(outputs), labels)


def test_float_is_good() -> None:
    assert _float() > 93


@pytest.mark.parametrize("name", ["digits", "hostile"])
def test_int8(name: str) -> None:
    found = _quantized(name)
    assert _accuracy(found) >= _float() - (0.5 if name == "digits" else 1.0)
    assert found.report.output_sqnr is not None
    assert found.report.output_sqnr > 28
    assert any("equalized" in note for note in found.report.notes)
    assert found.report.notes[0] in str(found.report)


def test_without_equalization() -> None:
    """What happens to who says no: so the net is hostile indeed."""
    found = _quantized("hostile", equalize=False)
    assert found.report.notes == ()
    assert _accuracy(found) < _float() - 20


def test_equalization_that_loses_is_left_out() -> None:
    """Which of both forms is better is measured, so that no program gets worse."""
    chosen, never, always = (_quantized("digits", equalize=how).report.output_sqnr for how in (None, False, True))
    assert chosen is not None
    assert never is not None
    assert always is not None
    assert chosen == max(never, always)


def test_on_the_stock_runtime() -> None:
    images, labels = _tests()
    data = _quantized("hostile").compile().buffer
    outputs = [run_stock(data, [part])[0].numpy() for part in images.split(BATCH)]
    assert top1(np.concatenate(outputs), labels) >= _float() - 1.0


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["digits", "hostile"])
def test_correct_bias(name: str) -> None:
    plain, corrected = _quantized(name), _quantized(name, correct_bias=True)
    assert any("biases of" in note for note in corrected.report.notes)
    assert corrected.report.output_sqnr is not None
    assert plain.report.output_sqnr is not None
    assert corrected.report.output_sqnr > plain.report.output_sqnr - 0.5
    assert _accuracy(corrected) >= _float() - 1.0


def test_search() -> None:
    """Without equalization, at most half of the layers have to compute in float32, and the report names them."""
    found = _quantized("hostile", equalize=False, budget=25.0)
    report = found.report
    floats = [layer for layer in report.layers if layer.stored == "float32"]
    assert 0 < len(floats) <= len(report.layers) / 2
    assert all("quantized alone it leaves" in layer.reason for layer in floats)
    assert any(layer.stored == "int8 weights" for layer in report.layers)
    assert report.output_sqnr is not None
    assert report.output_sqnr >= 25
    assert f"{len(floats)} of {len(report.layers)} layers in float32" in report.notes[-1]
    assert _accuracy(found) >= _float() - 1.0


@pytest.mark.nightly
def test_search_by_a_metric() -> None:
    """What the user measures may fall by the budget."""
    labels = scans()[1][: 3 * BATCH].numpy()

    def metric(outputs: list[list[np.ndarray]]) -> float:
        return top1(np.concatenate([each[0] for each in outputs]), labels)

    found = _quantized("hostile", equalize=False, budget=0.0, metric=metric)
    assert 0 < sum(layer.stored == "float32" for layer in found.report.layers) <= len(found.report.layers) / 2
    assert _accuracy(found) >= _float() - 4.0  # 144 scans do not tell a percent.


@pytest.mark.nightly
def test_search_that_is_not_needed_or_hopeless() -> None:
    plain, easy = _quantized("digits"), _quantized("digits", budget=10.0)
    assert "0 of" in easy.report.notes[-1]
    assert [layer.stored for layer in easy.report.layers] == [layer.stored for layer in plain.report.layers]

    counted = iter(range(100, 0, -1))
    hopeless = _quantized("digits", budget=0.5, metric=lambda outputs: float(next(counted)))
    assert "the budget cannot be met; the best that was found" in hopeless.report.notes[-1]


@pytest.mark.parametrize(
    ("keywords", "id"),
    [
        ({"budget": float("nan")}, "E1507"),
        ({"metric": lambda outputs: 0.0}, "E1507"),
        ({"budget": -1.0, "metric": lambda outputs: 0.0}, "E1507"),
        ({"budget": 1.0, "metric": lambda outputs: outputs["x"]}, "E1507"),
        ({"budget": 1.0, "metric": lambda outputs: float("nan")}, "E1507"),
        ({"budget": "30"}, "E0914"),
        ({"recipe": None}, "E0914"),
        ({"encodings": ["mse"]}, "E0914"),
        ({"recipe": "weight-int4", "block": "32"}, "E0914"),
        ({"skip": 3}, "E0914"),
        ({"smooth": "half"}, "E0914"),
        ({"equalize": "on"}, "E0914"),
        ({"rounding": "gtpq"}, "E1501"),
        ({"block": 64}, "E1501"),
        ({"recipe": "weight-int4", "block": -1}, "E1501"),
        ({"recipe": "weight-int8", "calibration": (), "rounding": "gptq"}, "E1503"),
        ({"recipe": "weight-int8", "calibration": (), "correct_bias": True}, "E1503"),
        ({"recipe": "weight-int8", "calibration": (), "budget": 20.0}, "E1503"),
    ],
)
def test_errors(keywords: dict[str, object], id: str) -> None:
    exported = torch.export.export(trained(), (scans()[0][:4],))
    given = {"calibration": [(scans()[0][:4],)], "delegates": ["xnnpack"], **keywords}
    with pytest.raises(EtirError) as caught:
        etir.quantize(exported, **given)  # type: ignore[arg-type]
    assert caught.value.ids == (id,)


@pytest.mark.nightly
@pytest.mark.parametrize("rounding", ["hqq", "gptq"])
def test_rounding(rounding: str) -> None:
    """On int8 there is little to win; nothing may be lost."""
    found = _quantized("digits", rounding=rounding)
    assert found.report.output_sqnr is not None
    assert found.report.output_sqnr > 28
    assert all(layer.weight_sqnr is None or layer.weight_sqnr > 35 for layer in found.report.layers)
    assert all(layer.alone_sqnr is not None and layer.alone_sqnr > 30 for layer in found.report.layers)


def test_weights_of_4_bits_by_channel() -> None:
    """All filters have sixteen steps each; XNNPACK would not keep those of windows."""
    found = {how: _quantized("digits", "weight-int4", block=0, rounding=how) for how in (None, "gptq")}
    losses = {how: each.report.output_sqnr or 0.0 for how, each in found.items()}
    assert sum(layer.stored == "int4 weights" for layer in found["gptq"].report.layers) >= 5
    assert losses["gptq"] >= 19
    assert losses["gptq"] > losses[None] + 0.5
    assert _accuracy(found["gptq"]) >= _float() - 1.0
