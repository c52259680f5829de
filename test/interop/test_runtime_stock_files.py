"""Files that the stock pipeline writes, on etir's native runtime: outputs as the stock runtime gives them.

The whole models that etir is tested on, and small files for what the format can say: control flow, lists, several
outputs, dynamic shapes, quantized operators, int and bool inputs, cond in map, state with and without initial data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from etir.dialects.text import print_module
from etir.emit.from_pte import read_program
from etir.runtime import is_available, load
from etir.tools import et_translate

from etir_testing.exports import stock_file
from etir_testing.models.registry import MODELS

portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
pytest.importorskip("executorch.kernels.quantized")

from executorch.exir import to_edge  # noqa: E402
from functorch.experimental.control_flow import map as map_over  # noqa: E402

from etir_testing.interop.stock_samples import SAMPLES, Sample, stock_sample  # noqa: E402
from etir_testing.nightly import cases  # noqa: E402
from stock import stock_buffer  # noqa: E402

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

DELEGATED = ("xnnpack", "xnnpack_inline", "xnnpack_aligned")


class CondInMap(nn.Module):
    """A branch in the body of a loop."""

    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def body(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a * b, (x, z))

        return map_over(body, xs, y)


class Lists(nn.Module):
    """Lists of tensors as arguments and as results, and integers of two kinds and bools as inputs."""

    def forward(self, i: torch.Tensor, flags: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch.split(x, [1, 3], 1)
        return torch.cat([b, a], 1), torch.stack([i, i * 3]), torch.logical_not(flags), torch.where(flags, x, i)


class Quantized(nn.Module):
    """What the stock pipeline makes of quantized parameters: quantize and dequantize operators."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decomposed = torch.ops.quantized_decomposed
        q = decomposed.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        return q, decomposed.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8)


def _plain(module: nn.Module, *calls: tuple[torch.Tensor, ...]) -> Sample:
    program = torch.export.export(module.eval(), calls[0], strict=True)
    return Sample(to_edge(program).to_executorch().buffer, [("forward", args) for args in calls])


def _cond_in_map() -> Sample:
    xs = torch.tensor([[1.0, 2.0], [-1.0, -3.0], [0.0, 0.5]])
    return _plain(CondInMap(), (xs, torch.tensor([2.0, 5.0])), (-xs, torch.tensor([2.0, 5.0])))


def _lists() -> Sample:
    i, flags = torch.arange(4, dtype=torch.int32).expand(2, 4).contiguous(), torch.tensor([[True, False] * 2] * 2)
    return _plain(Lists(), (i, flags, torch.randn(2, 4)))


MORE: dict[str, Callable[[], Sample]] = {
    "cond_in_map": _cond_in_map,
    "lists": _lists,
    "quantized": lambda: _plain(Quantized(), (torch.randn(3, 5),)),
}
NAMES = [name for name in (*SAMPLES, *MORE) if name not in DELEGATED]


@functools.cache
def sample_of(name: str) -> Sample:
    """A file, written once."""
    if name in SAMPLES:
        return stock_sample(name)
    torch.manual_seed(0)
    return MORE[name]()


def check(got: list[Any], expected: list[Any], tolerance: float) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        if isinstance(b, torch.Tensor):
            # A method without tensor inputs gives NumPy arrays.
            torch.testing.assert_close(torch.as_tensor(a), b, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert a == b and type(a) is type(b)


@pytest.mark.parametrize("name", NAMES)
def test_small_files(name: str) -> None:
    sample = sample_of(name)
    arguments = (sample.pte,) if sample.ptd is None else (sample.pte, sample.ptd)
    stock = portable_lib._load_for_executorch_from_buffer(*arguments)
    ours = load(sample.pte, data=[] if sample.ptd is None else [sample.ptd])
    assert sorted(ours.methods) == sorted(stock.method_names())
    for method, args in sample.calls:
        if name == "unplanned":
            # The stock binding gives memory to outputs without a plan once only.
            stock = portable_lib._load_for_executorch_from_buffer(*arguments)
        expected = [v.clone() if isinstance(v, torch.Tensor) else v for v in stock.run_method(method, tuple(args))]
        check(list(ours[method](*args)), expected, 1e-5)


class Cache(nn.Module):
    """A buffer that is read before it is written, and views without instructions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.mul_(0).add_(x)
        return (self.kept * 2).view(2, 12).exp().view(3, 8) + self.kept.reshape(3, 8)


class SameViews(nn.Module):
    """A view of the same dims as its base, which comes where another tensor of these bytes was before."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        y = (-torch.neg(x) * z).unsqueeze(2)
        return y.view(3, 8, 1).expand(3, 8, 2) * 2


class DynamicViews(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x).view(-1, 3)
        return torch.tanh(y).view(x.size(0), -1) + x


def _dynamic_views() -> Sample:
    calls = [(torch.randn(n, 6),) for n in (4, 8, 2)]
    shapes = {"x": {0: torch.export.Dim("n", min=1, max=8)}}
    program = torch.export.export(DynamicViews(), calls[0], dynamic_shapes=shapes)
    return Sample(to_edge(program).to_executorch().buffer, [("forward", args) for args in calls])


VIEWS: dict[str, Callable[[], Sample]] = {
    "cache": lambda: _plain(Cache(), (torch.randn(4, 6),), (torch.randn(4, 6),)),
    "dynamic_views": _dynamic_views,
    "same_views": lambda: _plain(SameViews(), (torch.randn(3, 8), torch.randn(3, 8))),
}


NO_TEXT = ("external",)


@pytest.mark.parametrize("name", [name for name in (*SAMPLES, *MORE, *VIEWS) if name not in NO_TEXT])
def test_text_and_back(name: str, tmp_path: Path) -> None:
    """What a stock file says as text is accepted, and the file of it gives the same outputs on etir's runtime."""
    torch.manual_seed(0)
    sample = VIEWS[name]() if name in VIEWS else sample_of(name)
    (tmp_path / "stock.pte").write_bytes(sample.pte)
    assert et_translate.main(["--pte-to-mlir", str(tmp_path / "stock.pte"), "-o", str(tmp_path / "stock.mlir")]) == 0
    assert et_translate.main(["--mlir-to-pte", str(tmp_path / "stock.mlir"), "-o", str(tmp_path / "again.pte")]) == 0
    ours, again = load(sample.pte), load((tmp_path / "again.pte").read_bytes())
    for method, args in sample.calls:
        expected = [torch.as_tensor(v) if hasattr(v, "__array__") else v for v in ours[method](*args)]
        check(list(again[method](*args)), expected, 0)


def test_views_without_instructions_are_views() -> None:
    """A view is a view of its base, a buffer that is read first is a state; nothing else is either."""
    text = print_module(read_program(VIEWS["cache"]().pte))
    assert text.count("et.state @") == 1 and text.count(" et.view ") >= 2
    assert " late " in print_module(read_program(VIEWS["dynamic_views"]().pte))
    mlp = print_module(read_program(sample_of("mlp").pte))
    assert "et.state" not in mlp and "et.view" not in mlp


@pytest.mark.slow
@pytest.mark.parametrize("name", cases(MODELS, nightly=[name for name in MODELS if name != "mobilenet_v2"]))
def test_whole_models(name: str) -> None:
    case = MODELS[name]
    if case.missing():
        pytest.skip(f"needs {', '.join(case.missing())}")
    pte = stock_file(case, stock_buffer)
    stock = portable_lib._load_for_executorch_from_buffer(pte)
    ours = load(pte)
    for step in range(case.steps):
        inputs = case.inputs(step)
        expected = [v.clone() for v in stock.run_method("forward", inputs)]
        got = list(ours.forward(*inputs))
        assert [(v.shape, v.dtype) for v in got] == [(v.shape, v.dtype) for v in expected]
        for a, b in zip(got, expected, strict=True):
            scale = float(b.double().abs().max().clamp(min=1e-12))
            assert float((a.double() - b.double()).abs().max()) <= case.tolerance * scale
