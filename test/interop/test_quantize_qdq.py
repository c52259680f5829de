"""ONNX models on quantize and dequantize operators, as ONNX Runtime's tools write them, give a program its scales and
the integers of its weights.

What the model computes is taken from ONNX Runtime with all its optimizations off: its own integer kernels saturate on
processors without a 4-way product.

Ten seconds, of which torch's exporter takes three.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp

import etir
from etir.diagnostics import EtirError
from etir.dialects.et.program import GetWeightOp
from etir.passes.analysis.constants import ConstantStore
from etir.quantization.report import sqnr
from etir.quantized import Quantized
from etir.tools.et_compile import main

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
tools = pytest.importorskip("onnxruntime.quantization")
from onnxruntime.quantization.matmul_nbits_quantizer import (  # noqa: E402 - after importorskip
    DefaultWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)
from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: E402


class _Net(nn.Module):
    """A batch norm, clamps that tools leave out, a sum of two, pools, moves, and a function."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.dw, self.pw = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 8, 1)
        self.mix, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        nn.init.uniform_(self.norm.weight, 0.5, 2.0)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu6(self.norm(self.first(image)))
        x = (x + self.pw(self.dw(x).relu())).relu()
        x = nn.functional.max_pool2d(x, 2).mean([2, 3])
        return self.head(nn.functional.gelu(self.mix(x)))


torch.manual_seed(0)
NET = _Net().eval()
SAMPLES = [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
EXPORTED = torch.export.export(NET, SAMPLES[0])


class _Reader(tools.CalibrationDataReader):
    def __init__(self, path: Path):
        name = onnx.load(path).graph.input[0].name
        self.left = iter([{name: sample[0].numpy()} for sample in SAMPLES])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def _written(folder: Path, *, dynamo: bool = False, folded: bool = True, module: nn.Module = NET, **how: Any) -> Path:
    """The file of a module that ONNX Runtime has quantized."""
    plain, ready, path = (folder / f"{name}.onnx" for name in ("float", "ready", "int8"))
    torch.onnx.export(module, SAMPLES[0], str(plain), dynamo=dynamo, verbose=False)
    if folded:
        quant_pre_process(str(plain), str(ready))
    else:
        _with_norms(module, ready)
    how = {"per_channel": True, "activation_type": tools.QuantType.QUInt8} | how
    tools.quantize_static(
        str(ready), str(path), _Reader(ready), weight_type=how.pop("weights", tools.QuantType.QInt8), **how
    )
    return path


def _with_norms(module: nn.Module, path: Path) -> None:
    options = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    torch.onnx.export(module, SAMPLES[0], str(path), dynamo=False, **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("qdq"))


def _runs(path: Path) -> np.ndarray:
    """What the model itself computes, operator by operator."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: sample[0].numpy()})[0] for sample in SAMPLES])


def _outputs(quantized: Quantized) -> np.ndarray:
    loaded = etir.runtime.load(quantized.compile())
    return np.concatenate([np.asarray(loaded.forward(*sample)[0]) for sample in SAMPLES])


def _quantize(path: Path, recipe: str = "static-int8", **keywords: Any) -> Quantized:
    keywords = {"target": "etir"} | keywords
    return etir.quantize(EXPORTED, recipe, ranges=path, **keywords)


def _blob(module: ModuleOp, name: str) -> bytes:
    """The bytes of a program's constant."""
    value = next(op.results[0] for op in module.walk() if isinstance(op, GetWeightOp) and _name(op) == name)
    return bytes(ConstantStore(module).data(value))


def _name(op: GetWeightOp) -> str:
    return op.symbol.root_reference.data


def _stored(path: Path) -> dict[str, np.ndarray]:
    return {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("dynamo", [True, False], ids=["torch.export", "TorchScript"])
def test_the_same_numbers(dynamo: bool, tmp_path: Path) -> None:
    """Without calibration data, whatever the exporter calls things: scales and integers are those of the file."""
    path = _written(tmp_path, dynamo=dynamo)
    found = _quantize(path)
    assert [layer.stored for layer in found.report.layers] == ["int8"] * 8
    assert found.report.notes == (f"9 encodings of '{path}'", f"weights of 5 layers of '{path}'")
    stored, text = _stored(path), str(found.observed)
    scales = {name: value for name, value in stored.items() if name.endswith("_scale") and value.ndim == 0}
    used = 0
    for name, scale in scales.items():
        point = int(stored[name.replace("_scale", "_zero_point")]) - 128
        used += f"#quant.uniform<i8, scale = {float(scale)!r}, zero_point = {point}>" in text
    assert used == text.count("quant.observe") == 9
    for name in ("dw.weight", "pw.weight", "mix.weight", "head.weight"):
        assert _blob(found.module, f"{name}_int8") == stored[f"{name}_quantized"].tobytes()
    assert sqnr(_runs(path), _outputs(found)) > 38


def test_a_delegate(written: Path) -> None:
    """Through XNNPACK."""
    found = _quantize(written, target="executorch", delegates=["xnnpack"])
    assert [layer.stored for layer in found.report.layers].count("int8") == 8
    assert sqnr(_runs(written), _outputs(found)) > 38


@pytest.mark.parametrize(
    "how",
    [
        {"activation_type": tools.QuantType.QInt8},
        {"extra_options": {"ActivationSymmetric": True}},
        {"activation_type": tools.QuantType.QInt8, "extra_options": {"ActivationSymmetric": True}},
        {"per_channel": False, "weights": tools.QuantType.QInt8},
        {"weights": tools.QuantType.QUInt8, "extra_options": {"WeightSymmetric": True}, "per_channel": False},
        {"reduce_range": True},
        {"extra_options": {"DedicatedQDQPair": True, "QDQKeepRemovableActivations": True}},
        {"extra_options": {"AddQDQPairToWeight": True}},
        {"weights": tools.QuantType.QInt4},
    ],
    ids=[
        "int8",
        "uint8 around 128",
        "int8 around 0",
        "one scale",
        "uint8 weights",
        "7 bits",
        "pairs apart",
        "float weights",
        "4 bits",
    ],
)
def test_forms(how: dict[str, Any], tmp_path: Path) -> None:
    """Every form of integers that the tools write."""
    path = _written(tmp_path, **how)
    found = _quantize(path)
    assert f"weights of 5 layers of '{path}'" in found.report.notes
    assert {layer.stored for layer in found.report.layers} == {"int8"}
    assert sqnr(_runs(path), _outputs(found)) > 34


def test_weights_with_zero_points(tmp_path: Path) -> None:
    """The recipe has none: such weights are rounded as without a file, and the report says so."""
    path = _written(
        tmp_path, weights=tools.QuantType.QUInt8, per_channel=False, extra_options={"WeightSymmetric": False}
    )
    found = _quantize(path)
    assert found.report.notes[1] == (
        f"weights of 0 layers of '{path}'; 5 with zero points, or scales that the recipe does not have, rounded anew"
    )
    wanted = torch.cat([NET(*sample) for sample in SAMPLES]).detach().numpy()
    assert sqnr(wanted, _outputs(found)) > 30


def test_what_the_model_leaves_in_float(tmp_path: Path) -> None:
    """Without data it stays so; with data it is calibrated, and both are said."""
    path = _written(tmp_path, nodes_to_exclude=["/mix/Gemm", "/Gelu", "/head/Gemm"])
    found = _quantize(path)
    assert [layer.stored for layer in found.report.layers] == ["int8"] * 4 + ["float32"] * 4
    mean, *_, head = found.report.layers[4:]
    assert "has no scale for its result" in mean.reason
    assert "has no scale for what it reads" in head.reason
    assert "stay float32" in found.report.notes[0]
    assert sqnr(_runs(path), _outputs(found)) > 38
    seen = _quantize(path, calibration=SAMPLES)
    assert {layer.stored for layer in seen.report.layers} == {"int8"}
    assert "follow from the calibration" in seen.report.notes[0]


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.up(x)))


@pytest.mark.parametrize("block", [32, 64])
def test_blocks_of_4_bits(block: int, tmp_path: Path) -> None:
    """``DequantizeLinear`` with ``axis`` and ``block_size``, whose matrices are columns first."""
    torch.manual_seed(1)
    net, x = _Tokens().eval(), torch.randn(1, 5, 64)
    plain, path = tmp_path / "float.onnx", tmp_path / "int4.onnx"
    torch.onnx.export(net, (x,), str(plain), dynamo=False, opset_version=18)
    config = DefaultWeightOnlyQuantConfig(
        block_size=block, is_symmetric=True, accuracy_level=0, quant_format=tools.QuantFormat.QDQ
    )
    quantizer = MatMulNBitsQuantizer(onnx.load(plain), algo_config=config)
    quantizer.process()
    made: Any = quantizer.model
    made.save_model_to_file(str(path))
    exported = torch.export.export(net, (x,))
    found = etir.quantize(exported, "weight-int4", ranges=path, block=block, target="etir")
    assert found.report.notes == (f"2 layers found in '{path}'", f"weights of 2 layers of '{path}'")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    assert sqnr(wanted, np.asarray(etir.runtime.load(found.compile()).forward(x)[0])) > 90
    with pytest.raises(EtirError, match=rf"4 bits and blocks of {block} numbers; the recipe has 8 bits") as caught:
        etir.quantize(exported, "weight-int8", ranges=path, target="etir")
    assert caught.value.ids == ("E1508",)


def _edited(path: Path, change: Callable[[Any], None]) -> Path:
    model = onnx.load(path)
    change(model.graph)
    onnx.save(model, path)
    return path


def _nan_scale(graph: Any) -> None:
    found = next(i for i in graph.initializer if i.name.endswith("_scale") and not i.dims)
    found.CopyFrom(onnx.numpy_helper.from_array(np.array(np.nan, np.float32), found.name))


def _computed_scale(graph: Any) -> None:
    found = next(i for i in graph.initializer if i.name.endswith("_scale") and not i.dims)
    found.name += "_before"
    graph.node.insert(0, onnx.helper.make_node("Abs", [found.name], [found.name.removesuffix("_before")]))


def _other() -> nn.Module:
    torch.manual_seed(7)
    return _Net().eval()


def _smaller() -> nn.Module:
    net = _Net().eval()
    net.mix, net.head = nn.Linear(8, 12), nn.Linear(12, 4)
    return net


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "in float": (lambda to: _written(to).with_name("float.onnx"), "is in floating point: it has no QuantizeLinear"),
    "other weights": (
        lambda to: _written(to, module=_other()),
        "(?s)no layer with the weight.*exported from this program",
    ),
    "other sizes": (lambda to: _written(to, module=_smaller()), r"no layer with the weight '\S+' \("),
    "batch norms": (lambda to: _written(to, folded=False), "(?s)channels have other sizes.*fold batch norms"),
    "16 bits": (
        lambda to: _written(to, activation_type=tools.QuantType.QUInt16, extra_options={"UseQDQContribOps": True}),
        "elements of type UINT16; activations have 8 bits",
    ),
    "operators on integers": (
        lambda to: _written(to, quant_format=tools.QuantFormat.QOperator),
        "computes on integers itself",
    ),
    "no number": (lambda to: _edited(_written(to), _nan_scale), "has scale nan"),
    "computed": (
        lambda to: _edited(_written(to), _computed_scale),
        "is computed; scales and zero points are constants",
    ),
    "no file": (lambda to: to / "none.onnx", "cannot read"),
    "something else": (lambda to: _text(to / "text.onnx"), "cannot read|no ONNX model"),
    "empty": (lambda to: _text(to / "empty.onnx", ""), "no ONNX model, or an empty one"),
}


def _text(path: Path, text: str = '{"activation_encodings": []}') -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", BAD)
def test_files_of_something_else(name: str, tmp_path: Path) -> None:
    make, message = BAD[name]
    path = make(tmp_path)
    with pytest.raises(EtirError, match=message) as caught:
        _quantize(path)
    assert caught.value.ids == ("E1508",)
    assert str(path) in str(caught.value)


def test_options_that_exclude_each_other(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exclusive: list[dict[str, Any]] = [{"equalize": True}, {"smooth": 0.5}]
    for keywords in exclusive:
        with pytest.raises(EtirError, match="E1508.*channels as they are"):
            _quantize(written, calibration=SAMPLES, **keywords)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EtirError, match=r"(?s)onnx is not installed.*etir\[onnx\]"):
        _quantize(written)


def test_command(written: Path, tmp_path: Path) -> None:
    program, output = str(tmp_path / "net.pt2"), tmp_path / "net.pte"
    torch.export.save(EXPORTED, program)
    common = [program, "-o", str(output), "--target", "etir", "--quantize", "static-int8"]
    assert main([*common, "--encodings-in", str(written)]) == 0
    assert output.read_bytes() == bytes(_quantize(written).compile().buffer)
