"""``--replace-weights``: other bytes for weights, on purpose, in every tool that reads programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from etir.tools import et_compile, et_opt, et_run, et_translate

X = np.arange(8, dtype=np.float32).reshape(2, 4)
NEW = np.array([1.5, -2.0, 0.25], np.float32)


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)
        return self.linear(x) + self.steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported program, its text with weights, inputs, and other biases in both formats."""
    path = tmp_path_factory.mktemp("replace")
    torch.export.save(torch.export.export(_Model(), (torch.from_numpy(X),)), path / "m.pt2")
    assert et_translate.main(["--import-pt2", str(path / "m.pt2"), "-o", str(path / "m.mlir")]) == 0
    np.savez(path / "x.npz", x=X)
    np.savez(path / "bias.npz", **{"linear.bias": NEW, "steps": np.full(1, 6, np.float32)})
    header = json.dumps({"linear.bias": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    (path / "bias.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + NEW.tobytes())
    return path


def _expected(steps: float) -> np.ndarray:
    """What eager torch computes with the new bias, after ``steps`` of the counter."""
    model = _Model()
    with torch.no_grad():
        model.linear.bias.copy_(torch.from_numpy(NEW))
        model.steps.fill_(steps)
        return model(torch.from_numpy(X)).numpy()


def _run(folder: Path, program: Path, *options: str) -> np.ndarray:
    target = program.with_suffix(".y.npz")
    arguments = [str(program), "--inputs", str(folder / "x.npz"), "--outputs", str(target), "--evaluator", "auto"]
    assert et_run.main([*arguments, *options]) == 0
    with np.load(target) as outputs:
        return outputs[outputs.files[0]]


def _opt(folder: Path, out: Path, bias: str) -> Path:
    arguments = [str(folder / "m.mlir"), "-o", str(out / "o.mlir"), f"--replace-weights={bias}"]
    assert et_opt.main(arguments) == 0
    return out / "o.mlir"


def _compiled(folder: Path, out: Path, bias: str) -> Path:
    arguments = [str(folder / "m.mlir"), "-o", str(out / "c.pte"), f"--replace-weights={bias}"]
    assert et_compile.main(arguments) == 0
    return out / "c.pte"


def _exported(folder: Path, out: Path, bias: str) -> Path:
    arguments = [str(folder / "m.pt2"), "-o", str(out / "e.pte"), f"--replace-weights={bias}"]
    assert et_compile.main(arguments) == 0
    return out / "e.pte"


def _translated(folder: Path, out: Path, bias: str) -> Path:
    arguments = ["--mlir-to-pte", str(folder / "m.mlir"), "-o", str(out / "t.pte"), f"--replace-weights={bias}"]
    assert et_translate.main(arguments) == 0
    return out / "t.pte"


def _imported(folder: Path, out: Path, bias: str) -> Path:
    arguments = ["--import-pt2", str(folder / "m.pt2"), "-o", str(out / "i.mlir"), f"--replace-weights={bias}"]
    assert et_translate.main(arguments) == 0
    return out / "i.mlir"


@pytest.mark.parametrize("tool", [_opt, _compiled, _exported, _translated, _imported])
@pytest.mark.parametrize(("bias", "steps"), [("bias.npz", 6), ("bias.safetensors", 0)])
def test_programs_with_other_weights(
    folder: Path, tmp_path: Path, tool: Callable[[Path, Path, str], Path], bias: str, steps: float
) -> None:
    program = tool(folder, tmp_path, str(folder / bias))
    np.testing.assert_allclose(_run(folder, program), _expected(steps), rtol=1e-5)


def test_running_with_other_weights(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "m.mlir"
    text.write_bytes((folder / "m.mlir").read_bytes())
    options = ["--weights", str(folder / "m.safetensors"), "--replace-weights", str(folder / "bias.npz")]
    np.testing.assert_allclose(_run(folder, text, *options), _expected(6), rtol=1e-5)


def test_bytes_are_stored_in_the_order_of_the_type(tmp_path: Path) -> None:
    """A weight whose dims lie in memory in another order; the array of the file is an ordinary one."""
    text, value = tmp_path / "m.mlir", np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    type = "tensor<1x2x3x4xf32, #et.layout<order = [0, 2, 3, 1]>>"
    text.write_text(
        f"et.weight @w : {type} = #et.synthetic<seed = 1>\n"
        f"func.func @forward() -> {type} {{\n  %w = et.get_weight @w : {type}\n  func.return %w : {type}\n}}\n"
    )
    np.savez(tmp_path / "w.npz", w=value)
    out = tmp_path / "out.npz"
    arguments = [str(text), "--evaluator", "numpy", "--outputs", str(out), "--replace-weights", str(tmp_path / "w.npz")]
    assert et_run.main(arguments) == 0
    with np.load(out) as outputs:
        np.testing.assert_array_equal(outputs[outputs.files[0]], value)


@pytest.mark.parametrize(
    ("arrays", "messages"),
    [
        ({"linear.bais": NEW}, ["the module has no weight or state 'linear.bais'; did you mean 'linear.bias'?"]),
        ({"linear.bias": NEW[:2]}, ["'linear.bias' is float32[2], the text has float32[3]"]),
        ({"linear.bias": NEW.astype("f8")}, ["'linear.bias' is float64[3], the text has float32[3]"]),
        ({"linear.weight": NEW, "steps": np.int32(1)}, ["is float32[3], the text has float32[3, 4]", "is int32[]"]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, np.ndarray],
    messages: list[str],
) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    arguments = [str(folder / "m.mlir"), "-o", str(tmp_path / "out"), "--replace-weights", str(tmp_path / "bad.npz")]
    assert et_opt.main(arguments) == 1
    error = capsys.readouterr().err
    assert "E0204" in error and error.count("error[") == len(messages)
    assert all(message in error for message in messages)
    assert not (tmp_path / "out").exists()


def test_a_file_with_other_weights_has_to_be_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, id in (("x.mlir", "E0902"), ("m.mlir", "E0203"), ("m.pt2", "E0902")):
        arguments = [str(folder / "m.mlir"), "-o", str(tmp_path / "out"), "--replace-weights", str(folder / name)]
        assert et_opt.main(arguments) == 1
        assert f"error[{id}]" in capsys.readouterr().err


def test_other_bytes_without_the_option_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = bytearray((folder / "m.safetensors").read_bytes())
    changed[-1] ^= 1
    (tmp_path / "m.safetensors").write_bytes(changed)
    (tmp_path / "m.mlir").write_bytes((folder / "m.mlir").read_bytes())
    assert et_compile.main([str(tmp_path / "m.mlir"), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "error[E0202]" in error and "on purpose" in error and "--replace-weights=FILE" in error


def test_where_there_is_no_text(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    option = f"--replace-weights={folder / 'bias.npz'}"
    assert et_run.main(["m.pte", option]) == 1
    assert "error[E0901]" in capsys.readouterr().err
    assert et_translate.main(["--disassemble", "m.pte", option]) == 1
    assert "error[E0901]" in capsys.readouterr().err
