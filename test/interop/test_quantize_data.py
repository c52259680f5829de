"""Calibration data: what is taken, what is refused and how, and what calibration keeps in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.backends.api.registry import backend_dialects
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.quant.ops import ObserveOp
from etir.driver import module_of
from etir.interpret.interpreter import Interpreter
from etir.options import CompileOptions
from etir.passes.infra.manager import run_pipeline
from etir.phases import phase_of
from etir.pipeline import pipeline
from etir.quantization.calibration import BINS, calibrate
from etir.quantization.passes.annotate_quantization import AnnotateQuantizationPass

torch.manual_seed(0)
X = torch.randn(1, 3, 8, 8)
IMAGE = torch.export.export(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).eval(), (X,))
TOKENS = torch.export.export(nn.Sequential(nn.Embedding(10, 32), nn.Linear(32, 32)).eval(), (torch.zeros(1, 4).long(),))
FLOATS = np.zeros((2, 1, 3, 8, 8), np.float32)


def _quantize(calibration: Any, program: Any = IMAGE, recipe: str = "static-int8") -> Any:
    return etir.quantize(program, recipe, calibration=calibration, delegates=["xnnpack"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: [(X,)],
        lambda: [X],
        lambda: (x for x in [(X,)]),
        lambda: [[X.numpy()]],
        lambda: [{"input": X}],
        lambda: [(X.clone().requires_grad_(),)],
    ],
)
def test_forms(make: Callable[[], Any]) -> None:
    """A tensor or an array, alone or in a sequence or by name; from a generator, too."""
    assert str(_quantize(make()).observed) == str(_quantize([(X,)]).observed)


@pytest.mark.parametrize(
    ("calibration", "id", "message"),
    [
        (None, "E1503", "needs to see inputs"),
        (3, "E1504", "calibration is a int"),
        ([(torch.full_like(X, torch.inf),)], "E1505", "sample 0 makes inf"),
        ([(X,), (-torch.full_like(X, torch.inf),)], "E1505", "sample 1 makes inf"),
        ([(X, X)], "E1504", "takes 1 inputs, 2 given"),
        ([()], "E1504", "takes 1 inputs, 0 given"),
        ([(X[0],)], "E1504", r"shape \[3, 8, 8\]"),
        ([(X.int(),)], "E1504", "dtype int32"),
        ([(X.bfloat16(),)], "E1504", "dtype bfloat16"),
        ([("a",)], "E1504", "input 0 is a str"),
        ([(None,)], "E1504", "input 0 is a NoneType"),
        ([(X.to_sparse(),)], "E1504", "not a dense one"),
        ([(X.to("meta"),)], "E1504", "no numbers"),
        ([{"image": X}], "E1504", "sample 0 has 'image', the inputs are 'input'"),
    ],
)
def test_data(calibration: Any, id: str, message: str) -> None:
    with pytest.raises(EtirError, match=message) as caught:
        _quantize(calibration)
    assert caught.value.ids == (id,)


def test_samples_without_numbers() -> None:
    """A batch of none tells no ranges; beside others it does no harm."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(net, (torch.randn(3, 8),), dynamic_shapes=({0: batch},))
    none, some = (torch.zeros(0, 8),), (torch.randn(2, 8),)
    with pytest.raises(EtirError, match="the samples have no numbers") as caught:
        _quantize([none], program)
    assert caught.value.ids == ("E1503",)
    assert [layer.stored for layer in _quantize([none, some], program).report.layers] == ["int8", "int8"]


def test_names_that_are_skipped() -> None:
    """One as a text; what fits nothing is said, a typing error or a layer of another model."""
    torch.manual_seed(0)
    net = nn.Sequential()
    net.add_module("body", nn.Linear(8, 16))
    net.add_module("head", nn.Linear(16, 4))
    x = torch.randn(2, 8)
    program = torch.export.export(net.eval(), (x,))
    found = [
        etir.quantize(program, calibration=[(x,)], skip=skip, delegates=["xnnpack"]).report
        for skip in ("head", ["head"], ["haed", "body"])
    ]
    assert found[0] == found[1]
    assert [[layer.stored for layer in report.layers] for report in found[1:]] == [
        ["int8", "float32"],
        ["float32", "int8"],
    ]
    said = [[note for note in report.notes if "skipped" in note] for report in found]
    assert said == [[], [], ["nothing fits 'haed', which was to be skipped"]]


@pytest.mark.parametrize("recipe", ["static-int8", "dynamic-int8", "weight-int8"])
def test_an_index_that_no_row_has(recipe: str) -> None:
    with pytest.raises(EtirError, match="sample 1: .*index out of range") as caught:
        _quantize([(torch.zeros(1, 4).long(),), (torch.full((1, 4), 99),)], TOKENS, recipe)
    assert caught.value.ids == ("E1504",)


FILES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "without arrays": (lambda path: np.savez(path), "E1503", "has no sample"),
    "of nothing": (lambda path: path.write_bytes(b"") and None, "E1504", "cannot read"),
    "cut": (lambda path: _cut(path), "E1504", "cannot read"),
    "damaged": (lambda path: _damage(path), "E1504", "cannot read"),
    "one array alone": (lambda path: _alone(path), "E1504", "one array alone"),
    "a folder": (lambda path: path.mkdir(), "E1504", "cannot read"),
    "objects": (lambda path: np.savez(path, a=np.array([object()])), "E1504", "Object arrays"),
    "texts": (lambda path: np.savez(path, a=np.array(["a", "b"])), "E1504", "elements of <U1, not numbers"),
    "two inputs": (lambda path: np.savez(path, a=FLOATS, b=FLOATS), "E1504", "takes 1 inputs, 2 given"),
    "float64": (lambda path: np.savez(path, FLOATS.astype(np.float64)), "E1504", "dtype float64"),
    "samples without a batch": (lambda path: np.savez(path, FLOATS[:, 0]), "E1504", "sample 0: input 0 has shape"),
    "not finite": (lambda path: np.savez(path, FLOATS + np.nan), "E1505", "sample 0 makes nan"),
}


def _cut(path: Path) -> None:
    np.savez(path, FLOATS)
    path.write_bytes(path.read_bytes()[:1000])


def _damage(path: Path) -> None:
    np.savez(path, FLOATS)
    data = bytearray(path.read_bytes())
    data[300] ^= 0xFF
    path.write_bytes(bytes(data))


def _alone(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, FLOATS)


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    make, id, message = FILES[name]
    make(tmp_path / "data.npz")
    with pytest.raises(EtirError, match=message) as caught:
        _quantize(str(tmp_path / "data.npz"))
    assert caught.value.ids == (id,)


def test_nothing_of_a_sample_is_kept() -> None:
    """Calibration needs what a run needs, and 16 KB for each observer."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.ReLU()) for _ in range(12))).eval()
    samples = [(torch.randn(512, 128).numpy(),) for _ in range(3)]
    options = CompileOptions(delegates=("xnnpack",)).resolved()
    module = module_of(torch.export.export(net, (torch.randn(512, 128),)), options)
    ctx = EtContext(dialects=backend_dialects())
    run_pipeline(ctx, module, list(pipeline(options, phase_of(module), "edge")))
    plain = module.clone()
    run_pipeline(ctx, module, [AnnotateQuantizationPass("static-int8", ("xnnpack",))])
    observers = sum(isinstance(op, ObserveOp) for op in module.walk())
    assert observers == 13

    def peak(run: Callable[[], Any]) -> int:
        run()
        tracemalloc.start()
        run()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    alone = peak(lambda: [Interpreter(plain, "numpy").run(list(sample), "forward") for sample in samples])
    observed = peak(lambda: calibrate(module, samples, evaluator="numpy"))
    scratch = 512 * 128 * 4 + 200_000  # one value more, and what counting takes
    assert observed - alone < observers * BINS * 8 + scratch


def test_methods_that_calibration_does_not_run() -> None:
    """Their activations would have no scales, and the report would not say so."""
    exported = torch.export.export(nn.Linear(32, 32).eval(), (torch.randn(2, 32),))
    both = {"forward": exported, "decode": exported}
    with pytest.raises(EtirError, match="'decode' would stay without scales") as refused:
        etir.quantize(both, "static-int8", calibration=[(torch.randn(2, 32),)], target="etir")
    assert refused.value.ids == ("E1503",)
    stored = etir.quantize(both, "weight-int8", target="etir").report.layers
    assert [layer.stored for layer in stored] == ["int8 weights"] * 2
