"""Memory: what ``et-compile --report`` says is what the runtime uses, to the byte, and one byte less is a clean error.

Programs are the whole models, and small ones with each kernel that asks for temporary memory. They run on the C++
interface, in memory of exactly the reported sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import etir
from etir.emit.pte.model import Tensor
from etir.emit.pte.reader import read_pte
from etir.emit.runtime_memory import RuntimeMemory

from etir_testing.exports import exported
from etir_testing.models.registry import MODELS
from etir_testing.runtime.executor import ExecutorError, Memory, Method, Program, build_executor

_ROWS = torch.tensor([0, 2, 1, 2])


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def _image() -> torch.Tensor:
    return torch.linspace(-1, 1, 2 * 3 * 9 * 7).reshape(2, 3, 9, 7)


def _matrix(rows: int = 5, columns: int = 4) -> torch.Tensor:
    return torch.linspace(-1, 1, rows * columns).reshape(rows, columns).sin()


SMALL: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "aten::index_reduce.out": (lambda x, y: x.index_reduce(0, _ROWS, y, "mean"), (_matrix(), _matrix(4))),
    "aten::scatter_add.out": (
        lambda x, y: x.scatter_add(0, _ROWS.reshape(4, 1).expand(4, 4), y), (_matrix().half(), _matrix(4).half())
    ),
    "aten::scatter_reduce.two_out": (
        lambda x, y: x.scatter_reduce(0, _ROWS.reshape(4, 1).expand(4, 4), y, "mean"),
        (_matrix().half(), _matrix(4).half()),
    ),
    "aten::mode.values": (lambda x: torch.mode(x, 0), (_matrix().round(),)),
    "aten::_fft_r2c.out": (lambda x: torch.fft.rfft2(x), (_matrix(6, 10),)),
    "aten::_fft_c2c.out": (lambda x: torch.fft.fft(x), (torch.complex(_matrix(), _matrix()),)),
    "aten::_fft_c2r.out": (lambda x: torch.fft.irfft2(x), (torch.complex(_matrix(), _matrix()),)),
    "aten::_upsample_bilinear2d_aa.out": (
        lambda x: torch.nn.functional.interpolate(x, (4, 5), mode="bilinear", antialias=True), (_image(),)
    ),
}  # fmt: skip


UPPER_BOUNDS = (
    *("aten::_fft_r2c.out", "aten::_fft_c2c.out", "aten::_fft_c2r.out"),
    "aten::_upsample_bilinear2d_aa.out",
)
"""Kernels whose need depends on the prime factors of sizes, or on where a filter's window falls: the report has the
most that it can be."""


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor()


class Case:
    """A compiled program, its calls and what they should give."""

    def __init__(
        self, name: str, program: etir.Program, calls: list[tuple[Any, ...]], expected: list[list[torch.Tensor]]
    ):
        self.name = name
        self.program, self.calls, self.expected = program, calls, expected
        (self.memory,) = program.runtime_memory().values()


@pytest.fixture(scope="module", params=[*MODELS, *SMALL])
def case(request: pytest.FixtureRequest) -> Case:
    """A model or an operator, compiled once for all tests: pytest runs those of one case one after the other."""
    name: str = request.param
    if name in MODELS:
        model = MODELS[name]
        calls = [tuple(model.inputs(step)) for step in range(model.steps)]
        return Case(name, etir.compile(exported(model), target="etir"), calls, model.reference())
    function, inputs = SMALL[name]
    module = Of(function)
    expected = pytree.tree_leaves(module(*inputs))
    program = etir.compile(torch.export.export(module, inputs), target="etir")
    assert name in program.report().methods[0].operators
    return Case(name, program, [inputs], [expected])


def loaded(library: Any, case: Case, **short: int) -> Method:
    """The method in memory of the reported sizes, less ``method`` or ``planned`` (an index) by one byte."""
    memory = case.memory
    planned = [(Memory(size - (short.get("planned") == i)), False) for i, size in enumerate(memory.planned)]
    method = Memory(memory.method - short.get("method", 0))
    return Method(Program(library, case.program.buffer), memory=method, planned=planned, temp=memory.temp)


def check_runs(method: Method, case: Case) -> None:
    for inputs, expected in zip(case.calls, case.expected, strict=True):
        for got, wanted in zip(method(*inputs), expected, strict=True):
            scale = 1.0 if wanted.dtype == torch.bool else float(wanted.abs().max()) if wanted.numel() else 1.0
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3 * scale + 1e-4, check_dtype=True)


def test_what_is_reported_is_what_is_used(library: Any, case: Case) -> None:
    name = case.name
    memory: RuntimeMemory = case.memory
    report = json.loads(case.program.report().to_json())["methods"][0]["runtime"]
    assert (report["method"], tuple(report["planned"]), report["temp"]) == (memory.method, memory.planned, memory.temp)
    method = loaded(library, case)
    check_runs(method, case)
    assert method.number(0) == memory.method == method.program.method_memory()
    assert tuple(method.program.planned()) == memory.planned
    if name in UPPER_BOUNDS:
        assert 0 < method.number(1) <= memory.temp
    else:
        assert method.number(1) == memory.temp
    assert (memory.temp > 0) == (name in SMALL)
    # No byte of a planned buffer is beyond its last tensor, but for that tensor's alignment.
    ends = dict.fromkeys(range(len(memory.planned)), 0)
    for value in read_pte(case.program.buffer).execution_plan[0].values:
        if isinstance(value, Tensor) and value.allocation_info is not None:
            place = value.allocation_info
            ends[place.memory_id - 1] = max(ends[place.memory_id - 1], place.memory_offset + value.nbytes)
    assert all(end <= size < end + 16 for end, size in zip(ends.values(), memory.planned, strict=True))


def test_one_byte_less_is_an_error(library: Any, case: Case) -> None:
    needed = case.memory
    with pytest.raises(ExecutorError) as caught:
        loaded(library, case, method=1)
    failure = caught.value
    assert (failure.check, failure.a, failure.b) == ("MethodMemory", needed.method, needed.method - 1)
    for index, size in enumerate(needed.planned):
        if size == 0:
            continue
        with pytest.raises(ExecutorError) as caught:
            loaded(library, case, planned=index)
        assert (caught.value.check, caught.value.a, caught.value.b) == ("PlannedSize", index, size)
    if needed.temp == 0:
        return
    method = loaded(library, case)
    check_runs(method, case)
    used = method.number(1)
    method.load(used - 1)
    for _ in range(2):
        with pytest.raises(ExecutorError) as caught:
            method(*case.calls[0])
        assert caught.value.check == "KernelTemp" and caught.value.a > caught.value.b
    # The same method, loaded again with the memory that it needs.
    method.load(used)
    check_runs(method, case)
    assert method.number(1) == used
