"""Profiles of etir's runtime in ExecuTorch's Inspector, beside those of its own runtime for the same program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etir.devtools.profile import Kind, LoggedValue, Profile, read_profile
from etir.emit.etdump import read_etdump, value_bytes
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte
from etir.runtime import is_available, load

from etir_testing.interop.stock_profiles import stock_profile, stock_reading
from etir_testing.runtime.stock_programs import method_of, random_inputs, stock_program

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

PROGRAMS = {
    "cond": "forward",
    "conv_channels_last": "forward",
    "map": "forward",
    "methods": "again",
    "several": "forward",
    "xnnpack": "forward",
}
DTYPES = {ScalarType.FLOAT: np.float32, ScalarType.LONG: np.int64, ScalarType.BOOL: np.bool_}


def own_profile(name: str, folder: Path, runs: int = 2) -> tuple[Profile, Path, Path]:
    """Of a program, with values; and the two files."""
    data, method = stock_program(name), PROGRAMS[name]
    dump, values = folder / "own.etdp", folder / "own.bin"
    load(data)[method].profile(*random_inputs(method_of(data, method)), repeat=runs, values=True).save(dump, values)
    return read_profile(dump.read_bytes(), read_pte(data)), dump, values


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_stock_reader_says_the_same(name: str, tmp_path: Path) -> None:
    _, dump, _ = own_profile(name, tmp_path)
    assert stock_reading(dump.read_bytes()) == read_etdump(dump.read_bytes())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_inspector_reads_it(name: str, tmp_path: Path) -> None:
    """Blocks, events with the names of the operators, times of every run, values, tables."""
    from executorch.devtools import Inspector

    profile, dump, values = own_profile(name, tmp_path)
    inspector = Inspector(etdump_path=str(dump), debug_buffer_path=str(values))
    loading, run = inspector.event_blocks
    assert (loading.name, run.name) == ("Default", "Execute")
    assert [event.name for event in loading.events] == ["Method::init", "Program::load_method"]
    rows = list(profile.instructions(0))
    calls = [event for event in run.events if event.name.startswith("native_call_")]
    kernels = {(row.chain, row.instruction) for row in rows if row.kind is Kind.OPERATOR}
    assert len(calls) == len(kernels)
    names = {row.name.partition("::")[2] for row in rows if row.kind is Kind.OPERATOR}
    assert {event.name.removeprefix("native_call_") for event in calls} == names
    assert all(len(event.perf_data.raw) == 2 for event in calls)
    (whole,) = (event for event in run.events if event.name == "Method::execute")
    expected = [row.ticks / 1e6 for row in profile.rows if row.kind is Kind.RUN]
    assert whole.perf_data.raw == pytest.approx(expected)
    if name == "xnnpack":
        assert [event.name for event in run.events if event.is_delegated_op]
    assert any(event.debug_data for event in run.events)
    frame = inspector.to_dataframe()
    assert set(frame["event_block_name"]) == {"Default", "Execute"}
    with (tmp_path / "table.tsv").open("w") as file:
        inspector.save_data_to_tsv(file)
    assert "Method::execute" in (tmp_path / "table.tsv").read_text()


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "xnnpack"])
def test_both_runtimes_run_the_same_and_leave_the_same(name: str, tmp_path: Path) -> None:
    """Rows of the same instructions in the same order, and values that agree."""
    data, method = stock_program(name), PROGRAMS[name]
    inputs = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in random_inputs(method_of(data, method))]
    program = read_pte(data)
    dump, stock_values = stock_profile(data, inputs, tmp_path, method=method, runs=2)
    stock = read_profile(dump, program, method=method)
    own, _, values = own_profile(name, tmp_path)
    own_values = values.read_bytes()

    def places(profile: Profile) -> list[tuple[Any, ...]]:
        return [
            (row.run, row.chain, row.instruction, row.occurrence, row.kind, row.name) for row in profile.instructions()
        ]

    assert places(own) == places(stock)
    mine = {place(value): value for value in own.values}
    assert stock.values
    for value in stock.values:
        other = mine[place(value)]
        assert value.value is not None
        assert other.value is not None
        for a, b in zip(value.value.tensors, other.value.tensors, strict=True):
            assert (a.scalar_type, a.sizes, a.strides) == (b.scalar_type, b.sizes, b.strides)
            left = np.frombuffer(value_bytes(a, stock_values), DTYPES[a.scalar_type])
            right = np.frombuffer(value_bytes(b, own_values), DTYPES[b.scalar_type])
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def place(value: LoggedValue) -> tuple[Any, ...]:
    """Where a value belongs. The stock runtime logs the result alone, etir's all that the kernel writes."""
    return (value.run, value.chain, value.instruction, value.occurrence, value.position, value.output)


class Low(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x).half() + 1


def test_values_of_float16_are_read(tmp_path: Path) -> None:
    """The stock runtime leaves a file of those that nobody reads. The Inspector does not know bfloat16."""
    from executorch.devtools import Inspector

    import etir

    x = torch.rand(3, 5)
    program = etir.compile(torch.export.export(Low(), (x,)), target="etir")
    dump, values = tmp_path / "low.etdp", tmp_path / "low.bin"
    load(program).forward.profile(x, values=True).save(dump, values)
    inspector = Inspector(etdump_path=str(dump), debug_buffer_path=str(values))
    found = [event.debug_data[0] for event in inspector.event_blocks[1].events if event.debug_data]
    assert torch.float16 in {data.dtype for data in found}
    last = found[-1]
    torch.testing.assert_close(last, Low()(x))


def test_the_program_tells_profiles_apart(tmp_path: Path) -> None:
    import hashlib

    profile, _, _ = own_profile("map", tmp_path)
    assert profile.program == hashlib.sha256(stock_program("map")).hexdigest()
    assert isinstance(read_pte(stock_program("map")), pte.Program)
