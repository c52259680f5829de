"""A trained net whose channels differ by factors of a thousand: what quantizers lose, and what brings it back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import etir
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


@pytest.mark.parametrize("name", ["digits", "hostile"])
def test_correct_bias(name: str) -> None:
    plain, corrected = _quantized(name), _quantized(name, correct_bias=True)
    assert any("biases of" in note for note in corrected.report.notes)
    assert corrected.report.output_sqnr is not None
    assert plain.report.output_sqnr is not None
    assert corrected.report.output_sqnr > plain.report.output_sqnr - 0.5
    assert _accuracy(corrected) >= _float() - 1.0
