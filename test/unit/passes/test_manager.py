"""The pass manager: verification around passes, what failures look like, reproducers, observers, reports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.diagnostics import EtirError
from etir.dialects.aten.base import aten_op
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.weights import write_weight_file
from etir.dialects.text import parse_module, print_module
from etir.passes.errors import E0508
from etir.passes.generic.cse import CsePass
from etir.passes.generic.dce import DcePass
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.instrumentation import Instrument, PassRun, PrintIR, TraceOp, write_to_directory
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.passes.infra.report import merge_reports
from etir.passes.infra.reproducer import Reproducer, Settings, read_reproducer
from etir.passes.infra.rewriting import Observer, Pattern, PatternRewriter, apply_patterns_greedily, fuse_locations

TEXT = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.neg.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class CallPass(Pass):
    """Runs a function of the test."""

    name: ClassVar[str] = "call"
    function: Callable[[EtContext, ModuleOp], None] = field(default=lambda ctx, module: None)

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Call it."""
        self.function(ctx, module)


@dataclass(frozen=True)
class CrashPass(Pass):
    """Raises what no pass should."""

    name: ClassVar[str] = "crash"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Crash after changing the module."""
        _relus(module)[0].attributes["seen"] = tensor_type(f32, (1,))
        raise IndexError("list index out of range\nsecond line")


@dataclass(frozen=True)
class BreakPass(Pass):
    """Produces invalid IR."""

    name: ClassVar[str] = "break"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Make two operations invalid."""
        for op in _relus(module):
            del op.properties["operand_segments"]


@dataclass(frozen=True)
class RefusePass(Pass):
    """Finds two problems of the user's program."""

    name: ClassVar[str] = "refuse"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Refuse."""
        raise EtirError([E0508.diagnostic("first"), E0508.diagnostic("second", notes=["more"])])


class ReluToNeg(Pattern):
    """relu becomes neg."""

    name = "relu-to-neg"
    roots = ("aten.relu.default",)

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace every relu."""
        rewriter.replace_op(op, aten_op("aten.neg.default").make({"self": op.operands[0]}, op.result_types))


class NegIsFine(Pattern):
    """Never matches, and says why."""

    name = "neg-is-fine"
    roots = ("aten.neg.default",)

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Give a reason."""
        rewriter.notify_match_failure("it is fine")


def _relus(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.name == "aten.relu.default"]


@pytest.fixture
def ctx() -> EtContext:
    return EtContext()


@pytest.fixture
def module(ctx: EtContext) -> ModuleOp:
    return parse_module(TEXT, ctx, name="in.mlir")


def test_passes_run_in_order_and_are_reported(ctx: EtContext, module: ModuleOp) -> None:
    report = run_pipeline(ctx, module, "cse,dce")
    assert len(_relus(module)) == 1
    assert [p.name for p in report.passes] == ["cse", "dce"]
    assert report.passes[0].difference == {"aten.relu.default": -1}
    assert report.passes[1].difference == {}
    assert report.passes[0].time.wall > 0
    assert json.loads(json.dumps(report.to_json()))[0]["operations_before"] == 5
    assert "5 -> 4 operations" in report.statistics_text()


def test_passes_may_be_given_as_objects(ctx: EtContext, module: ModuleOp) -> None:
    run_pipeline(ctx, module, [CsePass(), DcePass()])
    assert len(_relus(module)) == 1


def test_an_invalid_module_is_refused_before_the_first_pass(ctx: EtContext, module: ModuleOp) -> None:
    del _relus(module)[0].properties["operand_segments"]
    ran: list[int] = []
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CallPass(lambda *_: ran.append(1))])
    assert caught.value.ids == ("E0301",)
    assert not ran


def test_an_empty_pipeline_still_verifies(ctx: EtContext, module: ModuleOp) -> None:
    del _relus(module)[0].properties["operand_segments"]
    with pytest.raises(EtirError):
        run_pipeline(ctx, module, "")


def test_a_pass_that_breaks_the_module_is_named(ctx: EtContext, module: ModuleOp) -> None:
    ran: list[int] = []
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CsePass(), BreakPass(), CallPass(lambda *_: ran.append(1))])
    head, *rest = caught.value.diagnostics
    assert head.id.id == "E0504"
    assert head.message == "pass 'break' produced invalid IR: 1 problem"
    assert [d.id.id for d in rest] == ["E0301"]
    assert rest[0].location is not None and rest[0].location.line == 3
    assert not ran


def test_a_crash_becomes_a_diagnostic_with_its_cause(ctx: EtContext, module: ModuleOp) -> None:
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CrashPass()])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.id.id == "E0505"
    assert diagnostic.message == "pass 'crash' failed: IndexError: list index out of range"
    assert re.fullmatch(rf"raised in run, {re.escape(__file__)}:\d+", diagnostic.notes[0])
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_crash_that_has_a_cause_of_its_own_is_the_pass_s(ctx: EtContext, module: ModuleOp) -> None:
    """``raise ... from ...`` in a pass is no pattern's crash, which has the same form."""

    def crash(ctx: EtContext, module: ModuleOp) -> None:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise ValueError("no entry") from error

    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CallPass(crash)])
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.id.id, diagnostic.message) == ("E0505", "pass 'call' failed: ValueError: no entry")


def test_a_crash_in_what_a_pass_calls_names_both_places(ctx: EtContext, module: ModuleOp) -> None:
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CallPass(lambda ctx, module: json.loads("{"))])
    (diagnostic,) = caught.value.diagnostics
    assert re.fullmatch(
        rf"raised in <lambda>, {re.escape(__file__)}:\d+, which called raw_decode, decoder.py:\d+", diagnostic.notes[0]
    )


def test_the_location_of_what_stands_for_one_place_is_that_place(module: ModuleOp) -> None:
    """Fused are different places only, each once."""
    first, second, *_ = _relus(module)
    assert first.location != second.location
    assert fuse_locations([first]) == fuse_locations([first, first]) == first.location
    assert fuse_locations([first, second]) not in (first.location, second.location)


def test_a_pass_s_own_errors_keep_their_ids_and_name_the_pass(ctx: EtContext, module: ModuleOp) -> None:
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [RefusePass()])
    assert caught.value.ids == ("E0508", "E0508")
    assert [d.notes for d in caught.value.diagnostics] == [("in pass 'refuse'",), ("more", "in pass 'refuse'")]


def test_interrupts_are_not_errors_of_a_pass(ctx: EtContext, module: ModuleOp) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(ctx, module, [CallPass(interrupt)])


def test_locations_can_be_required(ctx: EtContext) -> None:
    module = ModuleOp([op.clone() for op in parse_module(TEXT, ctx).body.block.ops])

    def forget(_: EtContext, module: ModuleOp) -> None:
        relu = _relus(module)[0]
        relu.location = ModuleOp([]).location

    options = PipelineOptions(require_locations=True)
    run_pipeline(ctx, module, "cse,dce", options)
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CallPass(forget)], options)
    assert caught.value.ids == ("E0504", "E0307")


# --- reproducers -----------------------------------------------------------------------------------------------------


def test_a_reproducer_holds_what_the_failing_pass_was_given(ctx: EtContext, module: ModuleOp, tmp_path: Path) -> None:
    path = tmp_path / "repro.mlir"
    weights = tmp_path / "a b.safetensors"
    write_weight_file(weights, [])
    settings = Settings(("--allow-unregistered-dialect",), (str(weights),))
    options = PipelineOptions(reproducer=path, settings=settings)
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CsePass(), CrashPass(), DcePass()], options)
    assert f"et-opt --run-reproducer {path}" in caught.value.diagnostics[-1].notes[-1]
    text = path.read_text()
    assert text.startswith("// 'crash' failed with E0505: pass 'crash' failed: IndexError: list index out of range\n")
    assert read_reproducer(text, "repro.mlir") == Reproducer("crash,dce", settings)
    again = parse_module(text, EtContext())
    expected = parse_module(TEXT, EtContext(), name="in.mlir")
    run_pipeline(EtContext(), expected, "cse")
    assert print_module(again) == print_module(expected)
    assert [str(op.location) for op in _relus(again)] == [str(op.location) for op in _relus(expected)]


def test_no_reproducer_without_failure(ctx: EtContext, module: ModuleOp, tmp_path: Path) -> None:
    path = tmp_path / "repro.mlir"
    run_pipeline(ctx, module, "cse", PipelineOptions(reproducer=path))
    assert not path.exists()


def test_a_reproducer_that_cannot_be_written_hides_nothing(ctx: EtContext, module: ModuleOp, tmp_path: Path) -> None:
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, [CrashPass()], PipelineOptions(reproducer=tmp_path / "no" / "where.mlir"))
    assert caught.value.ids == ("E0505",)
    assert "could not be written" in caught.value.diagnostics[0].notes[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("builtin.module {}", "has no line"),
        ("// a comment\n\n// et-opt -p cse\n", "has no line"),
        ("// et-opt --cse\n", "may not carry '--cse'"),
        ("// et-opt -p cse -o out.mlir\n", "may not carry '-o'"),
        ("// et-opt --weights=a\n", "has no pipeline"),
        ("// et-opt -p\n", "has no pipeline"),
        ("// et-opt -p 'cse\n", "malformed"),
    ],
)
def test_files_that_are_no_reproducers(text: str, words: str) -> None:
    with pytest.raises(EtirError) as caught:
        read_reproducer(text, "r.mlir")
    assert caught.value.ids == ("E0507",)
    assert words in caught.value.diagnostics[0].message


def test_a_reproducer_s_command_reads_back() -> None:
    reproducer = Reproducer('apply-pdl{file="it\'s here"},dce', Settings(("--require-locations",), ("w 1", "w'2")))
    assert read_reproducer(f"// why\n// {reproducer.command()}\n", "r.mlir") == reproducer


# --- observers -------------------------------------------------------------------------------------------------------


class Recorder(Instrument):
    """Writes down what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def before_pipeline(self, module: ModuleOp) -> None:
        """Note it."""
        self.heard.append("start")

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Note it."""
        self.heard.append(f"before {run.name} {run.index}/{run.total}")

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Note it."""
        self.heard.append(f"after {run.name}")

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """Note it."""
        self.heard.append(f"failed {run.name}")

    def after_pipeline(self, module: ModuleOp) -> None:
        """Note it."""
        self.heard.append("end")


def _rewrite(ctx: EtContext, module: ModuleOp) -> None:
    apply_patterns_greedily(ctx, methods(module)[0], [ReluToNeg(), NegIsFine()])


def test_instruments_hear_of_everything_in_order(ctx: EtContext, module: ModuleOp) -> None:
    recorder = Recorder()
    run_pipeline(ctx, module, [CsePass(), CallPass(_rewrite)], PipelineOptions((recorder,)))
    assert recorder.heard == ["start", "before cse 0/2", "after cse", "before call 1/2", "after call", "end"]
    assert recorder.applied == {"relu-to-neg": 1}


def test_instruments_hear_of_failure(ctx: EtContext, module: ModuleOp) -> None:
    recorder = Recorder()
    with pytest.raises(EtirError):
        run_pipeline(ctx, module, [CrashPass(), CsePass()], PipelineOptions((recorder,)))
    assert recorder.heard == ["start", "before crash 0/2", "failed crash"]


def test_rewrites_are_counted_for_each_pass_and_the_outer_observer_stays(ctx: EtContext, module: ModuleOp) -> None:
    outer = Observer()
    ctx.attachments.set(Observer, outer)
    report = run_pipeline(ctx, module, [CallPass(_rewrite), CallPass(_rewrite)])
    assert [dict(p.rewrites) for p in report.passes] == [{"relu-to-neg": 1}, {}]
    assert ctx.attachments.get(Observer) is outer
    assert outer.applied == {"relu-to-neg": 1}


def test_the_observer_is_restored_after_a_failure(ctx: EtContext, module: ModuleOp) -> None:
    with pytest.raises(EtirError):
        run_pipeline(ctx, module, [CrashPass()])
    assert ctx.attachments.get(Observer) is None


def test_trace_op_follows_an_operation_through_levels(ctx: EtContext, module: ModuleOp) -> None:
    lines: list[str] = []
    run_pipeline(ctx, module, [CallPass(_rewrite)], PipelineOptions((TraceOp("aten.neg", lines.append),)))
    text = "".join(lines)
    assert text.count("'relu-to-neg' rewrote 'aten.relu.default' into 'aten.neg.default'") == 1
    assert "in.mlir:5:3: trace-op: call: 'neg-is-fine' left 'aten.neg.default' alone: it is fine" in text
    assert "after call: 2 operations 'aten.neg'" in text


def test_ir_after_failure_is_printed_although_it_is_invalid(ctx: EtContext, module: ModuleOp, tmp_path: Path) -> None:
    printer = PrintIR(write_to_directory(tmp_path / "ir"), print_module, on_failure=True, with_input=True)
    with pytest.raises(EtirError):
        run_pipeline(ctx, module, [BreakPass()], PipelineOptions((printer,)))
    assert sorted(p.name for p in (tmp_path / "ir").iterdir()) == ["00-input.mlir", "01-after-failure-of-break.mlir"]
    assert '"aten.relu.default"(%x) : ' in (tmp_path / "ir" / "01-after-failure-of-break.mlir").read_text()


def test_reports_of_several_modules_add_up(ctx: EtContext) -> None:
    reports = [run_pipeline(ctx, parse_module(TEXT, ctx), "cse,dce") for _ in range(3)]
    merged = merge_reports(reports)
    assert [p.name for p in merged.passes] == ["cse", "dce"]
    assert sum(merged.passes[0].before.values()) == 15
    assert merged.passes[0].difference == {"aten.relu.default": -3}
    assert merged.passes[0].time.wall == pytest.approx(sum(r.passes[0].time.wall for r in reports))
