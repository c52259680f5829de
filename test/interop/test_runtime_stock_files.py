"""Files that the stock pipeline writes, on etir's native runtime: outputs as the stock runtime gives them.

The whole models that etir is tested on, and small files for what the format can say: control flow, lists, several
outputs, dynamic shapes, quantized operators, int and bool inputs, cond in map, state with and without initial data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from etir.runtime import is_available, load

from etir_testing.exports import stock_file
from etir_testing.models.registry import MODELS

portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
pytest.importorskip("executorch.kernels.quantized")

from executorch.exir import to_edge  # noqa: E402
from functorch.experimental.control_flow import map as map_over  # noqa: E402

from etir_testing.interop.stock_samples import SAMPLES, Sample, stock_sample  # noqa: E402
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


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
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
