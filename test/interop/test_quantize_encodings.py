"""Encodings go out as AIMET's JSON, may be edited, and come in; activations are smoothed into weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.quantized import Quantized
from etir.tools.et_compile import main


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 1), nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image).relu()
        x = x + self.second(x)
        return self.head(x.mean([2, 3]))


torch.manual_seed(0)
SAMPLES = [(torch.randn(1, 2, 6, 6),) for _ in range(3)]
EXPORTED = torch.export.export(_Net().eval(), SAMPLES[0])


def _quantize(**keywords: Any) -> Quantized:
    return etir.quantize(EXPORTED, calibration=SAMPLES, delegates=["xnnpack"], **keywords)


PLAIN = _quantize()


def _saved(path: Path) -> dict[str, Any]:
    PLAIN.save_encodings(path)
    return json.loads(path.read_text())


def test_what_goes_out_comes_in(tmp_path: Path) -> None:
    """The same file gives the same program."""
    found = _saved(tmp_path / "net.json")
    names = [entry["name"] for entry in found["activation_encodings"]]
    assert names[:3] == ["image", "first", "second"]
    assert [entry["name"] for entry in found["param_encodings"]] == ["first:weight", "second:weight", "head:weight"]
    assert [len(entry["scale"]) for entry in found["param_encodings"]] == [8, 8, 4]
    first = found["activation_encodings"][1]
    assert first["offset"] == [0]  # Nothing below zero after a relu.
    again = _quantize(ranges=tmp_path / "net.json")
    assert again.compile().buffer == PLAIN.compile().buffer
    assert f"{len(names)} encodings of" in again.report.notes[-1]


def test_what_was_edited_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    found = _saved(path)
    found["activation_encodings"][1] |= {"scale": [0.5], "offset": [-3]}
    path.write_text(json.dumps(found))
    edited = _quantize(ranges=path)
    assert "#quant.uniform<i8, scale = 0.5, zero_point = -125>" in str(edited.observed)
    assert edited.report.output_sqnr is not None
    assert PLAIN.report.output_sqnr is not None
    assert edited.report.output_sqnr < PLAIN.report.output_sqnr - 3


def test_older_files(tmp_path: Path) -> None:
    """Objects by name, with ranges instead of scales; what they do not name is calibrated."""
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"activation_encodings": {"first": [{"bitwidth": 8, "min": 0.0, "max": 25.5}]}}))
    text = str(_quantize(ranges=path).observed)
    assert f"scale = {float(np.float32(0.1))!r}, zero_point = -128" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        ("{", "cannot read"),
        ("[]", "has no list 'activation_encodings'"),
        ({"activation_encodings": []}, "has no encodings"),
        ({"activation_encodings": [{"name": "fisrt", "scale": 1, "offset": 0}]}, "no value 'fisrt'.*'first'"),
        ({"activation_encodings": [{"scale": 1, "offset": 0}]}, "without a name"),
        ({"activation_encodings": [{"name": "first"}]}, "no scale and offset"),
        ({"activation_encodings": [{"name": "first", "scale": [], "offset": 0}]}, "no scale and offset"),
        ({"activation_encodings": [{"name": "first", "scale": -1, "offset": 0}]}, "int8 does not hold"),
        ({"activation_encodings": [{"name": "first", "scale": 1, "offset": 700}]}, "int8 does not hold"),
        ({"activation_encodings": [{"name": "first", "bw": 16, "scale": 1, "offset": 0}]}, "16 bits"),
        (
            {"activation_encodings": [{"name": "first", "scale": [1, 2], "offset": [0, 0]}]},
            "2 scales",
        ),
        ({"activation_encodings": {"first": [{"scale": 1, "offset": 0}] * 8}}, "8 encodings; activations have one"),
    ],
)
def test_files_of_something_else(content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(EtirError, match=message) as caught:
        _quantize(ranges=path)
    assert caught.value.ids == ("E1508",)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Out with one call, in with the next one, and every other option."""
    program, output = str(tmp_path / "net.pt2"), str(tmp_path / "net.pte")
    torch.export.save(EXPORTED, program)
    np.savez(tmp_path / "seen.npz", np.stack([sample[0].numpy() for sample in SAMPLES]))
    common = [program, "-o", output, "--delegate", "xnnpack", "--quantize", "static-int8"]
    common += ["--calibration", str(tmp_path / "seen.npz")]
    encodings = str(tmp_path / "net.json")
    assert main([*common, "--encodings-out", encodings]) == 0
    assert Path(output).read_bytes() == PLAIN.compile().buffer
    assert json.loads(Path(encodings).read_text()) == _saved(tmp_path / "other.json")
    assert main([*common, "--encodings-in", encodings]) == 0
    assert Path(output).read_bytes() == PLAIN.compile().buffer
    every = ["--equalize", "on", "--smooth", "0.5", "--round-weights", "gptq", "--correct-bias", "--budget", "20"]
    assert main([*common, *every, "--report"]) == 0
    told = capsys.readouterr().out
    for part in ("no channels to smooth", "rounded by gptq", "layers corrected", "layers in float32"):
        assert part in told
    assert main([*common, "--reduce-range"]) == 0
    assert Path(output).read_bytes() == _quantize(reduce_range=True).compile().buffer
    wide = str(tmp_path / "wide.pt2")
    torch.export.save(torch.export.export(nn.Linear(64, 32).eval(), (torch.randn(1, 64),)), wide)
    assert main([wide, "-o", output, "--quantize", "weight-int4", "--block", "0"]) == 0
    assert main([*common[:5], "--budget", "20"]) != 0
    assert "goes with --quantize" in capsys.readouterr().err
    assert main([program, "-o", output, "--quantize", "weight-int8", "--encodings-in", encodings]) != 0
    assert "E1502" in capsys.readouterr().err
    assert main([program, "-o", output, "--quantize", "weight-int8", "--reduce-range"]) != 0
    assert "E1501" in capsys.readouterr().err


class _Outliers(nn.Module):
    """A norm of which two channels are 100 times the others, as those of large transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(32, 64)
        with torch.no_grad():
            self.norm.weight[3:5] *= 100.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return self.a(y) * self.b(y)


def test_smoothing() -> None:
    """Ten decibels and more, and not one in float32."""
    torch.manual_seed(0)
    module = _Outliers().eval()
    with torch.no_grad():
        for layer in (module.a, module.b):
            layer.weight[:, 3:5] /= 100.0
    samples = [(torch.randn(4, 32),) for _ in range(4)]
    exported = torch.export.export(module, samples[0])
    losses: list[float] = []
    for smooth in (None, 0.5):
        found = etir.quantize(exported, calibration=samples, delegates=["xnnpack"], smooth=smooth)
        assert found.report.output_sqnr is not None
        losses.append(found.report.output_sqnr)
        assert any("smoothed" in note for note in found.report.notes) == (smooth is not None)
    assert losses[1] > losses[0] + 10
    with pytest.raises(EtirError, match="E1501.*alpha 2"):
        etir.quantize(exported, calibration=samples, delegates=["xnnpack"], smooth=2.0)
