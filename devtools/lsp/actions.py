"""What a user can do at a place: run passes there, ask what became of it, write down what is expected to be wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.passes import ModulePass

from etir.devtools.errors import E1432
from etir.devtools.explain import explain
from etir.devtools.lsp.beside import Beside
from etir.devtools.lsp.document import Document, Problem, origins_of, source_of
from etir.devtools.lsp.reader import Reader, Spot
from etir.devtools.trace.record import TraceRecorder
from etir.diagnostics import EtirError, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.et.origin import origins_in
from etir.dialects.et.weights import WeightFile
from etir.dialects.text import attach_weights, print_module
from etir.options import CompileOptions
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.passes.infra.pipeline import parse_pipeline
from etir.passes.infra.registry import all_passes, find_pass
from etir.phases import PHASES, phase_of
from etir.pipeline import pipeline

COMPILE_TO = "compile-to="
"""What a pipeline begins with that is a phase: all passes up to it."""

NewContext = Callable[[], EtContext]


def passes() -> list[dict[str, str]]:
    """What can be run: names with a line about each, phases first."""
    found = [{"name": f"{COMPILE_TO}{phase}", "summary": f"all passes up to the phase {phase}"} for phase in PHASES[1:]]
    for name in all_passes():
        try:
            summary = (inspect.getdoc(find_pass(name)) or "").split("\n")[0]
        except EtirError as error:
            summary = error.diagnostics[0].message
        found.append({"name": name, "summary": summary})
    return found


def suggested(document: Document, line: int) -> list[str]:
    """What to run for a user who was not asked: the phases that are left, and what tidies up."""
    _, part, _ = document.at(line, 0)
    reached = phase_of(part.module)
    return [*(f"{COMPILE_TO}{phase}" for phase in PHASES[PHASES.index(reached) + 1 :]), "cse,dce"]


def run_passes(document: Document, line: int, text: str, new_context: NewContext, path: Path | None) -> str:
    """The module at a line after some passes. Raises what parsing, verifying and the passes do."""
    ctx = new_context()
    module, _ = _module_at(document, line, ctx, path)
    run_pipeline(ctx, module, _passes(text, module))
    return print_module(module, locations=any(not isinstance(op.location, UnknownLoc) for op in module.walk()))


def explain_line(
    document: Document, line: int, new_context: NewContext, path: Path | None, beside: Beside | None
) -> str:
    """What became of the operation at a line: from the trace beside the file, else compiled for it.

    Raises error E1432 where there is no operation, and what the compilation does.
    """
    first, part, position = document.at(line, 0)
    spot = part.spot_at(position)
    if spot is None:
        raise E1432.error(f"there is no operation in line {line + 1}")
    origins, source = origins_of(spot), source_of(spot)
    place = ("", 0) if source is None else (source.file, source.line)
    if beside is not None and origins and beside.knows(origins, *place):
        return "".join(explain(beside.trace, f"origin {number}") for number in origins)
    ctx = new_context()
    module, spots = _module_at(document, line, ctx, path)
    if phase_of(module) == PHASES[-1]:
        raise E1432.error(
            "the text is at the last level, and no trace of its compilation lies beside it",
            help="compile with --trace, and keep the .trace file beside the text",
        )
    recorder = TraceRecorder()
    recorder.start(module, target=CompileOptions().resolved().target)
    here = next(one for one in spots if one.start == spot.start)
    found = origins_in(here.op.location)
    if found is None:
        raise E1432.error(f"'{here.op.name}' in line {line + 1} is nothing that a program computes")
    run_pipeline(ctx, module, _passes(f"{COMPILE_TO}{PHASES[-1]}", module), PipelineOptions((recorder,)))
    trace = recorder.finish()
    return "".join(explain(trace, f"origin {number}") for number in found.numbers)


def _module_at(document: Document, line: int, ctx: EtContext, path: Path | None) -> tuple[ModuleOp, list[Spot]]:
    """The module at a line, read anew: passes change it. Locations are those that the text gives."""
    first, part, _ = document.at(line, 0)
    reader = Reader(ctx, part.text, "<text>" if path is None else path.name, first + 1)
    module = reader.read()
    raise_if_errors(reader.faults)
    for spot in reader.spots:
        if not isinstance(spot.written, UnknownLoc):
            spot.op.location = spot.written
    weights = None if path is None else path.with_suffix(".safetensors")
    if weights is not None:
        files = [WeightFile(weights)] if weights.is_file() else []
        for blob in attach_weights(module, files):
            blob.data.searched = (str(weights),)
    return module, reader.spots


def _passes(text: str, module: ModuleOp) -> Sequence[ModulePass]:
    if not text.startswith(COMPILE_TO):
        return parse_pipeline(text)
    phase = text.removeprefix(COMPILE_TO)
    if phase not in PHASES:
        raise E1432.error(f"there is no phase '{phase}'; there are {', '.join(PHASES)}")
    start = phase_of(module)
    if PHASES.index(phase) <= PHASES.index(start):
        raise E1432.error(f"the text is at '{start}' already")
    return pipeline(CompileOptions(), start, phase)


def expectation(document: Document, problem: Problem) -> tuple[int, str]:
    """The line before which a comment goes that expects a problem, and the comment, for ``--verify-diagnostics``."""
    line = problem.place.line
    first, part, _ = document.at(line, 0)
    text = part.line_text(line - first)
    indent = text[: len(text) - len(text.lstrip())]
    found = problem.diagnostic
    message = found.message.replace("\n", " ")
    place = "@below" if found.location is not None and found.location.line else "@unknown"
    return line, f"{indent}// expected-{found.severity} {place} [{found.id}] {{{{{message}}}}}\n"
