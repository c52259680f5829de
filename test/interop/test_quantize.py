"""From a float program to a file on integers: `etir.quantize`, on both runtimes, with the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.dialects.text import parse_module, print_module
from etir.quantization.encodings import METHODS
from etir.quantization.report import sqnr
from etir.quantized import Quantized
from etir.tools.et_compile import main

from etir_testing.interop.program_runs import Function
from etir_testing.interop.xnnpack_runs import facts_of, run_own, run_stock


class _Net(nn.Module):
    """Convolutions of all kinds with clamps and batch norms, a residual sum, what has no int8 form, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.depthwise, self.pointwise = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1)
        self.up, self.head = nn.ConvTranspose2d(16, 16, 2, 2), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self.norm(self.first(x)))
        x = F.relu(x + self.pointwise(F.relu6(self.depthwise(x))))
        x = F.relu(self.up(F.max_pool2d(x, 2)))
        return self.head(x.mean([2, 3])) * 2


def _made() -> tuple[nn.Module, Any, list[tuple[torch.Tensor]]]:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
    module = _Net().eval()
    with torch.no_grad():
        for batch in range(3):
            module.norm.train()(module.first(torch.randn(4, 3, 8, 8) + batch))
        module.eval()
        return module, torch.export.export(module, samples[0]), samples


MODULE, EXPORTED, SAMPLES = _made()
XNNPACK = {"executorch": {"delegates": ["xnnpack"]}}
XNNPACK["etir"] = {"target": "etir", "delegates": ["xnnpack"], "link_backends": ["XnnpackBackend"]}


def _loss(data: bytes, run: Any) -> float:
    with torch.no_grad():
        pairs = [(MODULE(*sample).numpy(), run(data, sample)[0].numpy()) for sample in SAMPLES]
    return sqnr(np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs]))


@pytest.mark.parametrize("target", XNNPACK)
def test_static(target: str) -> None:
    """One delegate, nothing but integers between two converts, and the loss that the report says."""
    found = etir.quantize(EXPORTED, calibration=SAMPLES, **XNNPACK[target])
    data = found.compile().buffer
    facts = facts_of(data)
    assert facts.delegate_calls == 1
    assert not facts.kernels
    assert facts.nodes["convert"] == 2
    loss = _loss(data, run_own if target == "etir" else run_stock)
    assert found.report.output_sqnr is not None
    assert loss > 30
    assert abs(loss - found.report.output_sqnr) < 3
    stored = {layer.name: layer.stored for layer in found.report.layers}
    assert all(stored[name] == "int8" for name in ("first", "depthwise", "pointwise", "up", "head"))
    floats = [(layer.operator, layer.reason) for layer in found.report.layers if layer.stored == "float32"]
    assert floats == [("aten.mul.Scalar", "no row computes it on int8")]


def test_the_same_data_gives_the_same_text() -> None:
    texts = [print_module(etir.quantize(EXPORTED, calibration=SAMPLES, **XNNPACK["executorch"]).observed) for _ in "ab"]
    assert texts[0] == texts[1]
    assert print_module(parse_module(texts[0])) == texts[0]
    assert texts[0].count("quant.observe") == texts[0].count("as = #quant.uniform") > 5


def test_report() -> None:
    found = etir.quantize(EXPORTED, calibration=SAMPLES, skip=["up", "aten.mean.*"], **XNNPACK["executorch"])
    layers = {layer.name: layer for layer in found.report.layers}
    assert layers["up"].reason == "skipped by 'up'"
    first = layers["first"]
    assert (first.low, first.clipped) == (0.0, 0.0)
    assert first.weight_sqnr is not None
    assert first.weight_sqnr > 40
    assert first.weight_bytes == 16 * 3 * 3 * 3 + 16 * 4
    assert json.loads(found.report.to_json())["layers"][0]["operator"] == "aten.convolution.default"
    assert [layer.name for layer in found.report.worst] != []
    for part in ("static-int8", "skipped by 'up'", "depthwise", f"{found.report.output_sqnr:.1f} dB"):
        assert part in str(found.report)
    data = found.compile().buffer
    assert _loss(data, run_stock) > 30


@pytest.mark.parametrize("encodings", METHODS)
def test_encodings(encodings: str) -> None:
    found = etir.quantize(EXPORTED, calibration=SAMPLES, encodings=encodings, **XNNPACK["executorch"])
    assert found.report.output_sqnr is not None
    assert found.report.output_sqnr > 25


@pytest.mark.parametrize("target", ["executorch", "etir"])
def test_weights_only(target: str) -> None:
    """Without a delegate and without data: the file has bytes where floats were."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).eval()
    x = torch.randn(3, 64)
    exported = torch.export.export(module, (x,))
    found = etir.quantize(exported, "weight-int8", target=target)
    data = found.compile().buffer
    assert len(data) < 0.35 * len(etir.compile(exported, target=target).buffer)
    output = (run_own if target == "etir" else run_stock)(data, [x])[0]
    assert sqnr(module(x).detach().numpy(), output.numpy()) > 35
    assert [layer.stored for layer in found.report.layers] == ["int8 weights"] * 2


def test_an_unquantized_program_has_the_same_bytes() -> None:
    """Quantizing one copy of a program changes nothing of another."""
    before = etir.compile(EXPORTED, delegates=["xnnpack"]).buffer
    etir.quantize(EXPORTED, calibration=SAMPLES, delegates=["xnnpack"])
    assert etir.compile(EXPORTED, delegates=["xnnpack"]).buffer == before


def _quantize(**changes: Any) -> Quantized:
    return etir.quantize(EXPORTED, **{"calibration": SAMPLES, "delegates": ["xnnpack"], **changes})


@pytest.mark.parametrize(
    ("changes", "id", "message"),
    [
        ({"recipe": "static-int9"}, "E1501", "static-int8"),
        ({"encodings": "best"}, "E1501", "minmax"),
        ({"delegates": []}, "E1502", "no kernel of target 'executorch'"),
        ({"delegates": ["reference"], "target": "etir"}, "E1502", "'reference'"),
        ({"calibration": []}, "E1503", "static-int8"),
        ({"calibration": [(torch.randn(1, 3, 9, 9),)]}, "E1504", "sample 0"),
        ({"calibration": [SAMPLES[0], (torch.randn(1, 3, 8, 8).double(),)]}, "E1504", "sample 1"),
        ({"calibration": [SAMPLES[0], (torch.full((1, 3, 8, 8), torch.nan),)]}, "E1505", "sample 1 makes nan"),
        ({"calibration": "/no/such/file.npz"}, "E1504", "cannot read"),
        ({"skip": ["aten.*"]}, "E1506", "skipped by"),
    ],
)
def test_errors(changes: dict[str, Any], id: str, message: str) -> None:
    with pytest.raises(EtirError, match=message) as caught:
        _quantize(**changes)
    assert caught.value.ids == (id,)


def test_nothing_to_quantize() -> None:
    exported = torch.export.export(Function(torch.exp), (torch.randn(3),))
    with pytest.raises(EtirError, match="E1506"):
        etir.quantize(exported, calibration=[(torch.randn(3),)], delegates=["xnnpack"])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as in Python, by names of inputs and in order; wrong files are errors."""
    program, output, report = (str(tmp_path / name) for name in ("net.pt2", "net.pte", "report.json"))
    torch.export.save(EXPORTED, program)
    data = np.stack([sample[0].numpy() for sample in SAMPLES])
    np.savez(tmp_path / "named.npz", x=data)
    np.savez(tmp_path / "ordered.npz", data)
    wanted = etir.quantize(EXPORTED, calibration=SAMPLES, encodings="mse", delegates=["xnnpack"]).compile().buffer
    common = [program, "-o", output, "--delegate", "xnnpack", "--quantize", "static-int8", "--encodings", "mse"]
    for name in ("named", "ordered"):
        files = ["--calibration", str(tmp_path / f"{name}.npz"), "--quantize-report", report]
        assert main([*common, *files, "--report"]) == 0
        assert Path(output).read_bytes() == wanted
        assert "quantization: static-int8; layers:" in capsys.readouterr().out
        assert json.loads(Path(report).read_text())["samples"] == 4
    np.savez(tmp_path / "different.npz", a=data, b=data[:2])
    np.savez(tmp_path / "scalar.npz", np.float32(1))
    np.savez(tmp_path / "empty.npz", x=data[:0])
    Path(tmp_path / "text.npz").write_text("no zip")
    for name, id in (("different", "E1504"), ("scalar", "E1504"), ("empty", "E1503"), ("text", "E1504")):
        assert main([*common, "--calibration", str(tmp_path / f"{name}.npz")]) != 0
        assert id in capsys.readouterr().err
    assert main([program, "-o", output, "--quantize-skip", "head", "--calibration", "x.npz"]) != 0
    assert "goes with --quantize" in capsys.readouterr().err
