"""What users read when something is wrong: the line and the module of their own program, one message for one cause."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from etir.passes.infra import registry
from etir.tools import et_compile, et_opt, et_run, et_translate


def _printed(main: object, arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 1) -> str:
    """What a tool prints on standard error; its exit code is ``code``."""
    assert main(arguments) == code  # type: ignore[operator]
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


# --- where a program's operations come from ---------------------------------------------------------------------------


class _Eigen(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eig(torch.nn.functional.softmax(x, dim=-1))[0]


def _exported(path: Path, model: torch.nn.Module, frames: str | None = None) -> str:
    """A ``.pt2`` file of a model; ``frames`` takes the place of the stack trace of every node."""
    program = torch.export.export(model, (torch.randn(4, 4),))
    for node in program.graph.nodes:
        if frames is not None and "stack_trace" in node.meta:
            node.meta["stack_trace"] = frames
    torch.export.save(program, path)
    return str(path)


def test_an_error_has_the_user_s_line_and_the_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(_Eigen()))
    path = _exported(tmp_path / "m.pt2", model)
    error = _printed(et_compile.main, [path, "-o", str(tmp_path / "m.pte")], capsys)
    line = next(n for n, text in enumerate(Path(__file__).read_text().split("\n"), 1) if "linalg.eig(torch" in text)
    assert error.split("\n")[:3] == [
        f"{__file__}:{line}: error[E0410]: 'aten.linalg_eig.default' is not core ATen",
        "    return torch.linalg.eig(torch.nn.functional.softmax(x, dim=-1))[0]",
        "  note: in module '1.0'",
    ]


@pytest.mark.parametrize(
    ("innermost", "shown"),
    [
        ("/else/where/site-packages/torch/nn/modules/linear.py", "/src/model.py:7: "),
        ("/usr/lib/python3/dist-packages/torch/functional.py", "/src/model.py:7: "),
        (str(Path(torch.__file__).parent / "nn" / "functional.py"), "/src/model.py:7: "),
        (str(Path(torch.__file__).parent.parent / "torchvision" / "ops.py"), "torchvision/ops.py:134: "),
    ],
)
def test_frames_inside_of_torch_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], innermost: str, shown: str
) -> None:
    frames = (
        f'  File "/src/model.py", line 7, in forward\n    f()\n  File "{innermost}", line 134, in forward\n    g()\n'
    )
    path = _exported(tmp_path / "m.pt2", torch.nn.Sequential(_Eigen()), frames)
    error = _printed(et_compile.main, [path, "-o", str(tmp_path / "m.pte")], capsys)
    assert f"{shown}error[E0410]" in error and "note: in module '0'" in error


def test_a_module_of_torch_s_own_is_named_by_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that is combined from torch's modules has no line of its user's."""
    frames = '  File "/else/where/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    g()\n'
    path = _exported(tmp_path / "m.pt2", torch.nn.Sequential(torch.nn.ReLU(), _Eigen()), frames)
    error = _printed(et_compile.main, [path, "-o", str(tmp_path / "m.pte")], capsys)
    assert error.startswith("error[E0410]: 'aten.linalg_eig.default' is not core ATen\n  note: in module '1'\n")


def test_text_has_the_module_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  func.return loc("layers.0.attn.q_proj"("model.py":13:5))\n}\n'
    )
    error = _printed(et_opt.main, [str(path)], capsys)
    assert "model.py:13:5: error[E0301]" in error
    assert "  note: in module 'layers.0.attn.q_proj'\n" in error


# --- weights that are missing -----------------------------------------------------------------------------------------


def _weights_text(count: int) -> str:
    """A method that adds ``count`` weights, whose bytes are nowhere."""
    t = "tensor<4xf32>"
    weights = (f'et.weight @w{i} : {t} = #et.blob<"sha256:{i:032x}", 16>\n' for i in range(count))
    adds = (
        f"  %w{i} = et.get_weight @w{i} : {t}\n  %x{i + 1} = aten.add.Tensor(%x{i}, %w{i}) : ({t}, {t}) -> {t}\n"
        for i in range(count)
    )
    return (
        f"{''.join(weights)}func.func @forward(%x0: {t}) -> {t} {{\n{''.join(adds)}  func.return %x{count} : {t}\n}}\n"
    )


@pytest.mark.parametrize("tool", ["et-compile", "mlir-to-pte", "mlir-to-pt2", "et-run"])
def test_missing_weights_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str) -> None:
    path, out = str(tmp_path / "big.mlir"), str(tmp_path / "out")
    Path(path).write_text(_weights_text(300))
    main, arguments = {
        "et-compile": (et_compile.main, [path, "-o", out]),
        "mlir-to-pte": (et_translate.main, ["--mlir-to-pte", path, "-o", out]),
        "mlir-to-pt2": (et_translate.main, ["--mlir-to-pt2", path, "-o", out]),
        "et-run": (et_run.main, [path]),
    }[tool]
    error = _printed(main, arguments, capsys)
    assert error.count("error[") == 1
    names = "@w0, @w1, @w2, @w3 and 296 more"
    assert f"{path}:1:1: error[E0201]: the bytes of 300 weights are not loaded (4800 bytes): {names}\n" in error
    assert f"  note: '{tmp_path / 'big.safetensors'}' does not exist\n" in error
    assert "  help: pass the weights file that was written beside the text: --weights=FILE.safetensors\n" in error


def test_a_weights_file_without_the_weights_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "m.mlir", tmp_path / "other.safetensors"
    path.write_text(_weights_text(1))
    other.write_bytes((2).to_bytes(8, "little") + b"{}")
    arguments = [str(path), "--weights", str(other), "-o", str(tmp_path / "m.pte")]
    error = _printed(et_compile.main, arguments, capsys)
    assert f"E0201]: et.weight @w0: the 16 bytes with digest sha256:{0:032x} are not loaded\n" in error
    assert f"  note: '{other}' does not have them\n" in error


def test_text_is_worked_on_without_the_bytes_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(_weights_text(1))
    arguments = [str(path), "-o", str(tmp_path / "n.mlir"), "--weights-out", str(tmp_path / "n.safetensors")]
    assert et_opt.main(arguments) == 0  # text is worked on without the bytes
    error = _printed(et_run.main, [str(tmp_path / "n.mlir")], capsys)
    assert f"'{tmp_path / 'n.safetensors'}' does not exist" in error


# --- exceptions of a user's pass --------------------------------------------------------------------------------------

_PASS = '''
from dataclasses import dataclass
from typing import ClassVar

from etir.dialects.aten import ops as aten
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, apply_patterns_greedily


class NarrowRelu(Pattern):
    name = "narrow-relu"

    def rewrite(self, op: aten.relu.default, rewriter):
        rewriter.replace_op(op, [])  # one result, no value for it


@register_pass
@dataclass(frozen=True)
class NarrowPass(Pass):
    """Raise."""

    name: ClassVar[str] = "test-narrow"

    def run(self, ctx, module):
        apply_patterns_greedily(ctx, module, [NarrowRelu()])
'''


@pytest.fixture
def own_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a pass ``test-narrow`` with a pattern that raises ``ValueError``."""
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "narrow_passes.py"
    path.write_text(_PASS)
    runpy.run_path(str(path), run_name="narrow_passes")
    return path


def test_an_exception_names_pattern_operation_and_line(
    own_pass: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %0 : tensor<4xf32>\n}\n"
    )
    error = _printed(et_opt.main, ["--test-narrow", str(path)], capsys)
    line = next(n for n, text in enumerate(_PASS.split("\n"), 1) if "replace_op" in text)
    assert error.startswith(
        f"{path}:2:3: error[E0505]: pattern 'narrow-relu' of pass 'test-narrow' failed on 'aten.relu.default': "
        "ValueError: aten.relu.default has 1 results, the replacement 0\n"
    )
    assert f"  note: raised in rewrite, {own_pass}:{line}, which called replace_op, rewriting.py:" in error
    assert et_opt.main(["--test-narrow", "--debug", str(path)]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error and "ValueError: aten.relu.default has 1 results" in error
