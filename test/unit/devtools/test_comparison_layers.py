"""A float program beside the file of one that was quantized from it: layers by their places, in dB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.devtools import compare
from etir.devtools.comparison.layers import Layers
from etir.devtools.values.recorded import RUNTIMES, RecordedRun
from etir.diagnostics import EtirError
from etir.dialects.et.program import WeightOp
from etir.dialects.et.weights import Blob, BlobAttr

from etir_testing.devtools.faults import planted


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.up(x))
        return x + self.down(hidden)


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x))
        return self.second(x.relu())


def quantized(module: nn.Module, shape: tuple[int, ...], recipe: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    samples = [(torch.randn(shape),) for _ in range(3)]
    program = torch.export.export(module.eval(), samples[0])
    found = etir.quantize(program, recipe, calibration=samples, **settings)
    return program, found, found.compile(trace=True), samples[:1]


@pytest.mark.parametrize("recipe", ["static-int8", "dynamic-int8", "weight-int4", "8da4w"])
def test_layers_of_every_recipe(recipe: str) -> None:
    """What is compared says how good each layer is; the layers of the model are among them by their names."""
    torch.manual_seed(0)
    program, _, compiled, samples = quantized(Mlp(), (4, 64), recipe, target="etir")
    found = compare(program, compiled, inputs=samples)
    assert isinstance(found, Layers) and found.is_good
    (stage,) = found.stages
    rows = {row.what: row for row in stage.rows}
    assert {"up", "down"} <= set(rows)
    low, high = (10, 32) if "4" in recipe else (30, 60)  # four bits have 16 steps
    for name in ("up", "down"):
        assert 10 ** (-high / 20) < (rows[name].accumulated or 0) < 10 ** (-low / 20), name
    assert "outputs" in str(found) and " dB  up, " in str(found)


def test_delegates_and_the_module_itself() -> None:
    """Layers inside of XNNPACK are seen by its nodes; with the quantized program as the source operations are."""
    program, module, compiled, samples = quantized(Mlp(), (4, 64), "dynamic-int8", delegates=["xnnpack"])
    found = compare(program, compiled, inputs=samples)
    assert isinstance(found, Layers) and found.is_good and found.stages[0].outputs[0].accumulated
    rows = {row.what: row for row in found.stages[0].rows}
    assert {"up", "down", "tanh", "delegate forward_xnnpack_0"} <= set(rows)
    assert 1e-4 < (rows["down"].local or 0) < 0.03 and (rows["delegate forward_xnnpack_0"].local or 0) < 1e-5
    assert "beside their nodes in the interpreter: delegate forward_xnnpack_0" in str(found)
    plain = compare(module.module, compiled, inputs=samples)
    assert not isinstance(plain, Layers) and plain.is_good


def test_what_a_delegate_makes_of_its_inputs_is_compared_with_its_nodes() -> None:
    """By layer as by operation: what rounding inside of a delegate comes to explains little."""
    program, module, compiled, samples = quantized(Mlp(), (4, 64), "static-int8", delegates=["xnnpack"])

    def broken(factor: float) -> Any:
        def runtime(data: bytes, method: str, inputs: Any) -> RecordedRun:
            run = RUNTIMES["etir"](data, method, inputs)
            place = max(run.values)
            run.values[place] = [*run.values[place][:-1], run.values[place][-1] * factor]
            return run

        return runtime

    found = compare(program, compiled, inputs=samples, runtime={"broken": broken(2.0)})
    assert str(found).startswith("first wrong: delegate forward_xnnpack_0 at runtime broken"), str(found)
    found = compare(module.module, compiled, inputs=samples, runtime={"broken": broken(1.1)})
    assert str(found).startswith("first wrong: instruction 0 delegate forward_xnnpack_0"), str(found)
    assert found.finding is not None and found.finding.stage == "et/broken"


def test_operations_inside_of_a_delegate_are_judged_one_by_one() -> None:
    """For the values that each was given; so what is wrong in the file is named without taps."""
    program, module, compiled, samples = quantized(Mlp(), (4, 64), "static-int8", delegates=["xnnpack"])
    good = compare(module.module, compiled, inputs=samples)
    assert good.is_good, good
    (level,) = (stage for stage in good.stages if stage.name == "et")
    inside = [row for row in level.rows if " in delegate forward_xnnpack_0 " in row.what]
    assert len(inside) >= 3 and all(row.local is not None and row.local < 0.01 for row in inside), level.rows
    with planted("legalize-delegates", r"xnn\.tanh", "xnn.sigmoid"):
        compiled = module.compile(trace=True)
    found = compare(module.module, compiled, inputs=samples, search=False)
    assert str(found).startswith("first wrong: edge.aten.tanh.default in delegate forward_xnnpack_0"), str(found)


class Shifted(nn.Module):
    """A normalization whose shift is large beside what it is added to, with a clamp after it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(16, 64, 1, bias=False), nn.BatchNorm2d(64), nn.Conv2d(64, 32, 1)
        with torch.no_grad():
            self.norm.bias += torch.linspace(0.5, 4, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x))
        return self.last(nn.functional.relu6(x))


def test_what_a_clamp_is_folded_into_does_not_stand_for_the_layer() -> None:
    """The product without its shift is nothing that the float program has; the clamped sum is the clamp's value."""
    program, _, compiled, samples = quantized(Shifted(), (1, 16, 6, 6), "weight-int8", delegates=["xnnpack"])
    found = compare(program, compiled, inputs=samples)
    assert isinstance(found, Layers) and found.is_good, found
    rows = {row.what: row for row in found.stages[0].rows}
    assert {"relu6", "last"} <= set(rows) and "norm" not in rows, rows
    assert all((row.local or 0) < 10 ** (-35 / 20) for row in rows.values()), found
    assert any(note.startswith("not seen: norm: inside of delegate") for note in found.notes), found.notes


class Uneven(nn.Module):
    """Two channels are ``ratio`` times as large as the others, which equalization brings to one size."""

    def __init__(self, ratio: float) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 4, 3)
        with torch.no_grad():
            self.first.weight[:2] *= ratio
            self.second.weight[:, :2] /= ratio

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def test_equalized_channels_are_no_faults() -> None:
    """They are other numbers than in the float program by design, and the next layer undoes that; where it does not,
    the first layer is wrong.
    """
    torch.manual_seed(0)
    program, module, compiled, samples = quantized(Uneven(40), (1, 3, 12, 12), "static-int8", target="etir")
    assert "equalized" in str(module.module)
    found = compare(program, compiled, inputs=samples)
    assert found.is_good, str(found)
    program, module, _, samples = quantized(Uneven(1), (1, 3, 12, 12), "static-int8", target="etir")
    (weight,) = (op for op in module.module.walk() if isinstance(op, WeightOp) and "8x3x3x3xi8" in str(op.type))
    numbers = np.frombuffer(weight.value.data.data, np.int8).copy().reshape(8, -1)
    numbers[3:5] = numbers[3:5] // 2
    weight.properties["value"] = BlobAttr(Blob.of(numbers.tobytes()))
    wrong = compare(program, module.compile(trace=True), inputs=samples)
    assert str(wrong).startswith("first wrong: relu at runtime etir"), str(wrong)


def test_a_wrong_layer_is_named() -> None:
    """Channels-last kernels on integers are seen, and one that is wrong is the first finding: the last one that gives
    integers, which is the layer before the output.
    """
    torch.manual_seed(0)
    program, _, compiled, samples = quantized(Image(), (1, 3, 16, 16), "static-int8", target="etir")
    good = compare(program, compiled, inputs=samples)
    assert good.is_good and {row.what for row in good.stages[0].rows} >= {"second"}

    def broken(program: bytes, method: str, inputs: Any) -> RecordedRun:
        run = RUNTIMES["etir"](program, method, inputs)
        place = max(place for place in run.values if run.values[place][-1].dtype == "int8")
        run.values[place] = [-array for array in run.values[place]]
        return run

    found = compare(program, compiled, inputs=samples, runtime={"broken": broken})
    assert not found.is_good and str(found).startswith("first wrong: relu at runtime broken")
    assert "dB from the float program" in str(found)


def test_another_program_is_refused() -> None:
    torch.manual_seed(0)
    _, _, compiled, samples = quantized(Mlp(), (4, 64), "weight-int4", target="etir")
    other = torch.export.export(nn.Sequential(nn.Sigmoid()).eval(), (torch.randn(4, 64),))
    with pytest.raises(EtirError, match="E1412.*no layer of this one"):
        compare(other, compiled, inputs=samples)
