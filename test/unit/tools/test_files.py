"""Modules and weights as files: text has its weights beside it, and they come back with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.program import WeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module
from etir.tools.common import Console
from etir.tools.et_opt import main as et_opt
from etir.tools.files import read_module, weights_path, write_module

DATA = bytes(range(16))


def _module() -> object:
    module = parse_module("func.func @forward() {\n  func.return\n}\n", EtContext())
    block = module.body.block
    blob = BlobAttr(Blob.of(DATA))
    block.insert_op_before(WeightOp("w", tensor_type(f32, (4,)), blob), block.first_op)  # type: ignore[arg-type]
    delegate = parse_module(f'et.delegate @d "B" = #et.blob<"{blob.data.digest}", 16>', EtContext()).body.block.first_op
    assert delegate is not None
    delegate.detach()
    delegate.properties["value"] = BlobAttr(Blob.of(bytes(16)))
    block.insert_op_before(delegate, block.first_op)  # type: ignore[arg-type]
    return module


def _payloads(module: object) -> list[bytes]:
    return [bytes(op.properties["value"].data.data) for op in module.body.block.ops if "value" in op.properties]  # type: ignore


def test_weights_travel_beside_the_text(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    write_module(_module(), str(path), None, locations=False)  # type: ignore[arg-type]
    assert weights_path(str(path)).is_file()
    assert len(path.read_text()) < 400
    again = read_module(str(path), [], EtContext(), Console())
    assert _payloads(again) == [bytes(16), DATA]


def test_weights_can_be_named(tmp_path: Path) -> None:
    path, weights = tmp_path / "model.mlir", tmp_path / "elsewhere.safetensors"
    write_module(_module(), str(path), str(weights), locations=False)  # type: ignore[arg-type]
    assert not weights_path(str(path)).exists()
    with pytest.raises(EtirError) as caught:
        _payloads(read_module(str(path), [], EtContext(), Console()))
    assert caught.value.ids == ("E0201",)
    assert _payloads(read_module(str(path), [str(weights)], EtContext(), Console())) == [bytes(16), DATA]


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    write_module(_module(), str(path), None, locations=False)  # type: ignore[arg-type]
    weights = weights_path(str(path))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(EtirError) as caught:
        _payloads(read_module(str(path), [], EtContext(), Console()))
    assert caught.value.ids == ("E0202",)


def test_et_opt_keeps_the_link_to_the_weights(tmp_path: Path) -> None:
    path, out = tmp_path / "model.mlir", tmp_path / "out.mlir"
    write_module(_module(), str(path), None, locations=False)  # type: ignore[arg-type]
    weights = str(weights_path(str(path)))
    assert et_opt([str(path), "-o", str(out)]) == 0
    assert weights_path(str(out)).samefile(weights)
    assert et_opt([str(out), "-o", str(out)]) == 0
    weights_path(str(path)).unlink()
    assert _payloads(read_module(str(out), [], EtContext(), Console())) == [bytes(16), DATA]


def _with_new_weight(path: Path) -> None:
    """A module with a constant that folding makes, of which no file has the bytes."""
    path.write_text(
        "et.weight @a : tensor<64x64xf32> = #et.synthetic<seed = 1>\n"
        "func.func @forward() -> tensor<64x64xf32> {\n"
        "  %a = et.get_weight @a : tensor<64x64xf32>\n"
        "  %0 = edge.aten.neg.default(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>\n"
        "  func.return %0 : tensor<64x64xf32>\n"
        "}\n"
    )


def test_weights_that_passes_make_are_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    _with_new_weight(path)
    assert et_opt([str(path), "-p", "fold-constants,dce", "-o", str(out)]) == 0
    (data,) = _payloads(read_module(str(out), [], EtContext(), Console()))
    assert len(data) == 64 * 64 * 4
    assert et_opt([str(path), "-p", "fold-constants,dce"]) == 0
    assert "warning[E0911]" in capfd.readouterr().err
    named = tmp_path / "named.safetensors"
    assert et_opt([str(path), "-p", "fold-constants,dce", "--weights-out", str(named)]) == 0
    assert "E0911" not in capfd.readouterr().err
    assert _payloads(read_module(str(out), [str(named)], EtContext(), Console())) == [data]


def test_a_reproducer_brings_the_weights_that_passes_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, reproducer = tmp_path / "in.mlir", tmp_path / "repro.mlir"
    _with_new_weight(path)
    pipeline = f"fold-constants,dce,apply-pdl{{file={tmp_path}/missing}}"
    assert et_opt([str(path), "-p", pipeline, "--reproducer", str(reproducer)]) == 1
    assert weights_path(str(reproducer)).is_file()
    assert f"--weights={weights_path(str(reproducer))}" in reproducer.read_text()
    capfd.readouterr()
    assert et_opt(["--run-reproducer", str(reproducer)]) == 1
    assert "error[E0508]" in capfd.readouterr().err


def test_a_checkpoint_of_somebody_else_is_not_replaced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "model.mlir", tmp_path / "other.mlir"
    write_module(_module(), str(path), None, locations=False)  # type: ignore[arg-type]
    for content in (b"\x02\0\0\0\0\0\0\0{}", b"no safetensors at all"):
        weights_path(str(out)).write_bytes(content)
        assert et_opt([str(path), "-o", str(out)]) == 1
        assert "error[E0903]" in capfd.readouterr().err
        assert weights_path(str(out)).read_bytes() == content
        assert not out.exists()
        with pytest.raises(EtirError):
            write_module(_module(), str(out), None, locations=False)  # type: ignore[arg-type]
    assert et_opt([str(path), "-o", str(out), "--weights-out", str(tmp_path / "named.safetensors")]) == 0


def test_what_is_no_file_gets_no_weights_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    write_module(_module(), str(path), None, locations=False)  # type: ignore[arg-type]
    assert et_opt([str(path), "-o", "/dev/null"]) == 0
    assert not Path("/dev/null.safetensors").exists()


def test_payload_names_are_unique() -> None:
    from etir.dialects.payloads import payloads

    module = parse_module('et.named_data "w" = #et.blob<"sha256:00", 2>\n', EtContext())
    weight = WeightOp("w", tensor_type(f32, (4,)), BlobAttr(Blob.of(DATA)))
    named = module.body.block.first_op
    assert named is not None
    named.properties["value"] = BlobAttr(Blob.of(b"ab"))
    module.body.block.insert_op_after(weight, named)
    found = {name: bytes(blob.data) for name, _, blob in payloads(module)}
    assert found == {"w": b"ab", "w.1": DATA}
