"""Delegation from end to end in Python: programs whose phases all compute the same, reports, fallbacks, bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import etir
from etir.backends.api import registry
from etir.backends.api.interface import Artifact, Backend, Outlined, PreservedOp
from etir.backends.api.patterns import Row, rows
from etir.backends.api.registry import backend_of_runtime_id
from etir.diagnostics import EtirError, Severity
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.interpret.interpreter import Interpreter
from etir.options import CompileOptions
from etir.passes.infra.manager import run_pipeline
from etir.phases import phase_of
from etir.pipeline import pipeline


class _Net(nn.Module):
    """Linear layers around functions that tests keep away from backends."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.first(x)
        z = torch.asinh(torch.tanh(y) * 0.5)
        return self.second(nn.functional.hardswish(z) + y), z


X = torch.linspace(-1, 1, 16).reshape(2, 8)
REFERENCE = "reference{leave=aten.tanh.default}"


def exported(module: nn.Module | None = None) -> torch.export.ExportedProgram:
    return torch.export.export((_Net() if module is None else module).eval(), (X,))


def failure(call: object, *ids: str) -> str:
    assert callable(call)
    with pytest.raises(EtirError) as caught:
        call()
    assert caught.value.ids == ids, caught.value
    return str(caught.value)


def test_every_phase_computes_the_same() -> None:
    """And round-trips through text, with the outlined functions and the blobs in it."""
    module, ctx = etir.import_program(exported()), EtContext()
    with torch.no_grad():
        wanted = _Net()(X)
    for p in pipeline(CompileOptions(target="etir", delegates=(REFERENCE,))):
        run_pipeline(ctx, module, [p])
        for got, value in zip(Interpreter(module, runner_of=backend_of_runtime_id).run([X]), wanted, strict=True):
            torch.testing.assert_close(got, value, rtol=1e-5, atol=1e-5)
        text = print_module(module)
        assert print_module(parse_module(text)) == text, p.name


def test_same_bytes_every_time() -> None:
    programs = [etir.compile(exported(), target="etir", delegates=[REFERENCE]) for _ in range(2)]
    assert programs[0].buffer == programs[1].buffer


def test_report() -> None:
    program = etir.compile(exported(), target="etir", delegates=[REFERENCE], partition={"what_if": True})
    report = program.report()
    assert report.delegation is not None
    (backend,) = report.delegation.backends
    assert (backend.name, backend.runtime_id, len(backend.partitions)) == ("reference", "EtirReferenceBackend", 2)
    assert report.delegation.fallback == {"aten.tanh.default": 1}
    (left,) = backend.rejected
    assert (left.op, left.count, left.reason) == ("aten.tanh.default", 1, "rejected by option 'leave'")
    assert left.location.startswith(__file__)
    (saving,) = backend.what_if
    assert (saving.op, saving.partitions_before, saving.partitions_after) == ("aten.tanh.default", 2, 1)
    # The first layer's result and what tanh makes of it no longer cross: out, and twice in.
    assert saving.bytes_before - saving.bytes_after == 3 * 2 * 16 * 4
    assert backend.boundary_bytes == saving.bytes_before
    data = json.loads(report.to_json())["delegation"]
    assert data["backends"][0]["rejected"][0]["reason"] == left.reason
    assert "rejects     1 x aten.tanh.default: rejected by option 'leave'" in str(report)
    assert "with aten.tanh.default (1): 2 -> 1 partitions" in str(report)


def test_weights_of_two_readers_are_named() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(torch.tanh(self.layer(x)))

    program = etir.compile(exported(Tied()), target="etir", delegates=[REFERENCE])
    assert program.delegation is not None
    names = {c.name: c.readers for c in program.delegation.shared_constants}
    assert names["layer.weight"] == ["forward_reference_0", "forward_reference_1"]
    assert "constant @layer.weight (256 bytes) is read by forward_reference_0" in str(program.report())


# --- backends of other packages --------------------------------------------------------------------------------------


class _Picky(Backend):
    """Wants hardswish whole and takes it in a row of at least 3 columns; its blobs say nothing."""

    name = "picky"
    runtime_id = "PickyBackend"
    version = "1"
    columns = 3

    def rows(self, options: object) -> list[Row]:
        from etir.backends.api.patterns import condition

        @condition("wide")
        def wide(match) -> bool:
            return match.op.results[0].type.get_shape()[-1] >= self.columns

        return list(rows(["aten.hardswish.default"], wide))

    def preserved_ops(self, options: object) -> list[PreservedOp]:
        return [PreservedOp("aten.hardswish.default")]

    def preprocess(self, outlined: Outlined, options: object) -> Artifact:
        return Artifact(b"nothing")


PICKY = _Picky()


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Picky]:
    """The backend, installed."""
    monkeypatch.setitem(registry.BUILT_IN, "picky", f"{__name__}:PICKY")
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    for cached in (registry.installed, registry.find_backend, registry.parse_delegate):
        cached.cache_clear()
    registry._table.cache_clear()
    registry._preserved_ops.cache_clear()
    yield PICKY
    for cached in (registry.installed, registry.find_backend, registry.parse_delegate):
        cached.cache_clear()


def test_kept_operators(picky: _Picky) -> None:
    """hardswish is preserved for the backend, and is decomposed where the backend does not claim it."""
    ctx = EtContext()
    module = etir.import_program(exported())
    run_pipeline(ctx, module, pipeline(CompileOptions(delegates=("picky",)), stop="edge"))
    assert any(op.name == "edge.aten.hardswish.default" for op in module.walk())
    for columns, is_preserved in ((3, True), (100, False)):
        picky.columns = columns
        run_pipeline(ctx, copy := module.clone(), "decompose-preserved{backend=picky}")
        assert any(op.name == "edge.aten.hardswish.default" for op in copy.walk()) is is_preserved
    picky.columns = 3


def test_a_backend_that_the_target_lacks(picky: _Picky) -> None:
    text = failure(lambda: etir.compile(exported(), delegates=["picky"]), "E1102")
    assert "executorch 1.5.1 has no backend 'PickyBackend'" in text


# --- bad input -------------------------------------------------------------------------------------------------------


def test_unknown_delegates_and_options() -> None:
    compile_with = lambda *names: lambda: etir.compile(exported(), delegates=names)  # noqa: E731
    assert "did you mean 'xnnpack'" in failure(compile_with("xnpack"), "E1101")
    assert "has no option 'onlu'; did you mean 'only'" in failure(compile_with("reference{onlu=a}"), "E1107")
    failure(compile_with("reference{"), "E0506")
    assert "takes none" not in failure(compile_with(("reference", {"fast": True})), "E1107")


def test_nothing_is_taken() -> None:
    nothing = "reference{only=aten.cos.default}"
    program = etir.compile(exported(), target="etir", delegates=[nothing])
    (warning,) = program.warnings
    assert warning.severity is Severity.WARNING
    assert warning.id.id == "E1104"
    assert "claims none of" in warning.message
    assert "the target's kernels run" in warning.message
    text = failure(lambda: etir.compile(exported(), target="etir", delegates=[REFERENCE], fallback="refuse"), "E1104")
    assert "no delegate claims 'aten.tanh.default', and no fallback is allowed" in text
    assert "reference rejects 1: rejected by option 'leave'" in text
    assert Path(__file__).name in text


def test_blob_of_another_version() -> None:
    from etir.backends.reference.backend import BACKEND
    from etir.backends.reference.blob import HEADER, MAGIC

    assert "version 9" in failure(lambda: BACKEND.disassemble(HEADER.pack(MAGIC, 9, 0, 0), {}), "E1103")
    failure(lambda: BACKEND.disassemble(b"something else, long", {}), "E1108")


BLOBS = """
et.named_data "key" = #et.blob<"sha256:0123456789abcdef0123456789abcdef", 4> align 16
et.delegate @blob_0 "EtirReferenceBackend" = #et.blob<"sha256:0123456789abcdef0123456789abcdef", 4>
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = {before}(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = backend.call_delegate @blob_0(%0) on "EtirReferenceBackend" : (tensor<4xf32>) -> tensor<4xf32>
  {after}
  func.return %1 : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(
    ("before", "after", "phase"),
    [
        ("aten.relu.default", "", "aten"),
        ("edge.aten.relu.default", "", "edge"),
        ("edge.aten.relu.default", "%2 = backend.view %1 : tensor<4xf32> -> tensor<2x2xf32>", "backend"),
    ],
)
def test_blobs_are_called_at_every_level(before: str, after: str, phase: str) -> None:
    """What calls a blob says nothing of the level; the call goes through all of them as it is, named data too."""
    module = parse_module(BLOBS.format(before=before, after=after))
    assert phase_of(module) == phase
    run_pipeline(EtContext(), module, pipeline(CompileOptions(target="etir"), start=phase))
    text = print_module(module)
    assert text.count("et.delegate_call @blob_0(") == 1 and 'et.named_data "key"' in text
    assert "aten::relu.out" in text
