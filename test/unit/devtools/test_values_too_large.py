"""Values that do not fit into memory end with an error that names them and says what to do, in every tool."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import etir
from etir.devtools import Trace
from etir.devtools.comparison import compare
from etir.devtools.page.values import value_rows
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.values import recorded, room
from etir.devtools.values.arrays import logged_values
from etir.devtools.values.room import Room, available_bytes
from etir.diagnostics import EtirError
from etir.emit.etdump.model import Block, DebugEvent, ETDump, TensorValue, Value, ValueKind
from etir.emit.etdump.writer import write_etdump
from etir.emit.formats.scalar_type import ScalarType
from etir.tools import et_bisect, et_compare, et_compile, et_explore, et_inspect, et_opt, et_run

from etir_testing.devtools.programs import exported

TEXT = """\
func.func @forward(%x: tensor<1xf32>) -> tensor<1000000x1000000x4xf32> {
  %a = aten.expand.default(%x, size = [1000000, 1000000, 4]) : (tensor<1xf32>) -> tensor<1000000x1000000x4xf32>
  %b = aten.relu.default(%a) : (tensor<1000000x1000000x4xf32>) -> tensor<1000000x1000000x4xf32>
  func.return %b : tensor<1000000x1000000x4xf32>
}
"""
"""A program whose result has 16 TB."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program as text and as a file, and its input."""
    monkeypatch.chdir(tmp_path)
    Path("big.mlir").write_text(TEXT)
    np.savez("x.npz", np.ones(1, np.float32))
    assert et_compile.main(["big.mlir", "-o", "big.pte"]) == 0
    return tmp_path


def test_a_result_of_terabytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Interpreted with either library, on the runtime, compared and searched: never an internal error."""
    x = ["--inputs", "x.npz"]
    for main, words, id, place in (
        (et_run.main, ["big.mlir", *x, "--evaluator", "torch"], "E1006", "big.mlir:3"),
        (et_run.main, ["big.mlir", *x, "--evaluator", "numpy"], "E1006", "big.mlir:3"),
        (et_run.main, ["big.pte", *x, "--interpret"], "E1006", "forward"),
        (et_run.main, ["big.pte", *x], "E1205", "big.pte"),
        (et_compare.main, ["big.pte", *x], "E1006", "forward"),
        (et_compare.main, ["big.mlir", "big.pte", *x], "E1415", "'aten.expand.default'"),
        (et_opt.main, ["big.mlir", "--compile-to=et", "--check-numerics", *x, "-o", "o.mlir"], "E1006", "big.mlir:3"),
        (et_bisect.main, ["big.mlir", "--compile-to=et", *x], "E1006", "big.mlir:3"),
    ):
        assert main(words) == 1, words
        told = capsys.readouterr().err
        assert f"error[{id}]" in told and place in told and "help: " in told, told


def test_its_size_and_its_page_need_no_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert et_inspect.main(["big.pte", "--size"]) == 0
    assert "16,000,000,000,000" in capsys.readouterr().out
    assert et_explore.main(["big.pte", "-o", "big.html"]) == 0


def header(shape: tuple[int, ...]) -> bytes:
    """A file of one array that has a header and 16 bytes."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(16)


def test_arrays_that_claim_terabytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("claim.npz", "w") as archive:
        archive.writestr("arr_0.npy", header((4 * 10**12,)))
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arr_0.npy", header((4,)))
        archive.filelist[0].file_size = 1 << 44
    for name, says in (("claim.npz", "TiB"), ("bomb.npz", "'arr_0.npy'")):
        assert et_run.main(["big.mlir", "--inputs", name]) == 1
        told = capsys.readouterr().err
        assert f"{name}: error[E0921]" in told and says in told and "help: pass less" in told, told
    assert et_compile.main(["bomb.npz", "-o", "m.pte"]) == 1
    assert "error[E0921]" in capsys.readouterr().err


def test_a_logged_tensor_of_more_bytes_than_the_file_of_values() -> None:
    """By strides of 0, which name one element a million million times."""
    tensor = TensorValue(ScalarType.FLOAT, (1000000, 1000000, 4), (0, 0, 0), 0)
    value = Value(ValueKind.TENSOR, tensor, None)
    with pytest.raises(EtirError) as caught:
        logged_values(value, bytes(64), "run.bin")
    assert caught.value.ids == ("E0842",) and "run.bin" in str(caught.value)
    data = write_etdump(ETDump((Block("Execute", (DebugEvent(0, 0, value),)),)))
    with pytest.raises(EtirError) as caught:
        value_rows(read_profile(data), bytes(64), "run.bin")
    assert caught.value.ids == ("E1422",) and "run.bin" in str(caught.value)


def test_room() -> None:
    assert available_bytes() > 1 << 20
    small = Room(100)
    small.take(60, "'a'")
    with pytest.raises(EtirError) as caught:
        small.take(60, "'b'")
    assert caught.value.ids == ("E1415",) and "'b'" in str(caught.value) and "120 bytes" in str(caught.value)


def test_a_comparison_stops_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the values of a run are more than the machine has free, the process is not left to the system."""
    program, inputs = exported("image")
    compiled = etir.compile(program, trace=True)
    assert isinstance(compiled.trace, Trace)
    monkeypatch.setattr(room, "available_bytes", lambda: 4000)
    with pytest.raises(EtirError) as caught:
        compare(program, compiled, inputs=[inputs])
    assert caught.value.ids == ("E1415",) and "'aten." in str(caught.value), caught.value


@pytest.mark.nightly  # the recorder's gigabyte is filled
def test_values_that_the_recorder_has_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What did not fit is told of, and a comparison does not go on without it."""

    class Large(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu().neg().sum()

    monkeypatch.chdir(tmp_path)
    x = torch.ones(1 << 27)
    compiled = etir.compile(torch.export.export(Large(), (x,)), target="etir")
    compiled.save("m.pte")
    np.savez("x.npz", x.numpy())
    words = ["m.pte", "--inputs", "x.npz", "--etdump", "run.etdp", "--values", "run.bin", "--repeat", "2"]
    assert et_run.main(words) == 0
    told = capsys.readouterr().err
    assert "warning[E1416]" in told and "values of 'forward' did not fit" in told, told
    with pytest.raises(EtirError) as caught:
        recorded.etir_runtime(compiled.buffer, "forward", [torch.ones(1 << 27)])
    assert caught.value.ids == ("E1416",)
