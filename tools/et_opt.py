# PYTHON_ARGCOMPLETE_OK
"""``et-opt``: text in, passes, text out. What mlir-opt is for MLIR.

One run reads one file, or several modules in it (``--split-input-file``); each module is parsed, verified, run through
the pipeline and printed. Problems of all modules are reported together, and output is written only when there are none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etir.diagnostics import Diagnostic, EtirError, Severity
from etir.tools.common import (
    FAILED,
    OK,
    Console,
    check_output,
    make_folder,
    read_text,
    run_tool,
    usage_error,
    write_output,
)
from etir.tools.errors import E0911
from etir.tools.opt_arguments import OptParser
from etir.tools.remark_arguments import RemarkOutput

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from etir.dialects.context import EtContext
    from etir.dialects.et.weights import WeightFile
    from etir.dialects.payloads import Payload
    from etir.dialects.split import Chunk
    from etir.passes.infra.instrumentation import Instrument
    from etir.passes.infra.report import PipelineReport, Time
    from etir.passes.infra.reproducer import Settings
    from etir.recording import Recorder


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(OptParser(), _run, argv)


def _run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.list_passes or arguments.list_dialects:
        from etir.tools.listing import dialects_text, passes_text

        sys.stdout.write(passes_text() if arguments.list_passes else dialects_text())
        return OK
    return _Run(arguments, console).run()


class _Run:
    """One run of the tool: what is the same for all modules of the input."""

    def __init__(self, arguments: argparse.Namespace, console: Console):
        from etir.passes.infra.report import Time
        from etir.tools.printing import PrintOptions

        self.arguments = arguments
        self.console = console
        self.printing = PrintOptions(
            arguments.generic, arguments.locations, arguments.elide_weights, arguments.largest_elements
        )
        self.parsing, self.writing = Time(), Time()
        self.reports: list[PipelineReport] = []
        self.payloads: list[Payload] = []
        self.has_loose_payloads = False
        self.remarks = RemarkOutput(arguments)

    def run(self) -> int:
        """Read, work on every module, and report. Returns the exit code."""
        from etir.dialects.split import SEPARATOR, Chunk, split_input

        arguments = self.arguments
        output = None if arguments.no_output else arguments.output
        for path in (output, arguments.weights_out, arguments.trace, arguments.remarks_output_file):
            check_output(path)
        make_folder(arguments.print_dir)
        self.name, text = read_text(arguments.run_reproducer or arguments.input, self.console)
        self.passes, self.settings = self._what_to_run(text)
        self.weights = self._open_weights()
        if arguments.print_pipeline:
            from etir.passes.infra.pipeline import pipeline_text

            print(pipeline_text(self.passes, with_defaults=True), file=sys.stderr)
        chunks = split_input(text) if arguments.split_input_file else [Chunk(text, 1)]
        outputs: list[str] = []
        diagnostics: list[Diagnostic] = []
        for index, chunk in enumerate(chunks):
            output, found = self._work_on(chunk, index if len(chunks) > 1 else None)
            outputs.extend([] if output is None else [output])
            diagnostics.extend(self._unexpected(chunk, found) if arguments.verify_diagnostics else _in_order(found))
        self.remarks.finish()
        self.console.report(diagnostics)
        self._print_reports()
        if any(d.severity is Severity.ERROR for d in diagnostics):
            return FAILED
        if not arguments.no_output and (outputs or not arguments.verify_diagnostics):
            self._write_weights()
            write_output(arguments.output, SEPARATOR.join(outputs))
        return OK

    def _write_weights(self) -> None:
        """Keep the bytes that the output refers to in a file of their own beside it, or in the one that is named."""
        from etir.tools.files import keep_weights, weights_path

        if self.arguments.weights_out is not None:
            keep_weights(Path(self.arguments.weights_out), self.payloads, self.weights)
        elif self.arguments.output != "-":
            if not Path(self.arguments.output).exists() or Path(self.arguments.output).is_file():
                keep_weights(weights_path(self.arguments.output), self.payloads, self.weights)
        elif self.has_loose_payloads:
            message = "passes made weights; the text on standard output names them by digest only"
            self.console.report([E0911.diagnostic(message, severity=Severity.WARNING)])

    # --- before the modules -------------------------------------------------------------------------------------------

    def _what_to_run(self, text: str) -> tuple[tuple[ModulePass, ...], Settings]:
        """The passes, and what a reproducer has to say besides. Raises what is wrong with options or pipeline."""
        from etir.passes.infra.reproducer import Settings, read_reproducer
        from etir.tools.files import weights_beside

        arguments = self.arguments
        if arguments.run_reproducer is not None:
            reproducer = read_reproducer(text, self.name)
            return self._parse_pipeline(reproducer.pipeline), reproducer.settings
        flags = [f"--{n.replace('_', '-')}" for n in ("allow_unregistered_dialect", "require_locations")]
        given = [f for f in flags if getattr(arguments, f[2:].replace("-", "_"))]
        settings = Settings(tuple(given), tuple(arguments.weights or weights_beside(arguments.input)))
        if arguments.compile_to is not None or arguments.compile_from is not None:
            return self._phases(text), settings
        if arguments.delegates:
            raise usage_error("--delegate is for --compile-to; in a pipeline it is partition{backend=NAME}")
        return self._parse_pipeline(arguments.pipeline or ""), settings

    def _phases(self, text: str) -> tuple[ModulePass, ...]:
        from etir.options import CompileOptions
        from etir.phases import PHASES
        from etir.pipeline import pipeline

        arguments = self.arguments
        if arguments.pipeline:
            raise usage_error(
                "--compile-to and --compile-from are pipelines and do not go with -p",
                "run et-opt twice, or write the passes of the phase out: --print-pipeline shows them",
            )
        # Partitions and outlined functions in the text are carried to the end, as et-compile does.
        marked = any(name in text for name in ("backend.partition", "backend.delegate"))
        options = CompileOptions(target=arguments.target, delegates=tuple(arguments.delegates))
        start, stop = arguments.compile_from or PHASES[0], arguments.compile_to or PHASES[-1]
        return pipeline(options, start, stop, marked=marked)

    def _parse_pipeline(self, pipeline: str) -> tuple[ModulePass, ...]:
        from etir.passes.infra.pipeline import PIPELINE_FILE, parse_pipeline

        self.console.sources[PIPELINE_FILE] = pipeline
        warnings: list[Diagnostic] = []
        passes = parse_pipeline(pipeline, warnings)
        self.console.report(warnings)
        return passes

    def _open_weights(self) -> list[WeightFile]:
        from etir.dialects.et.weights import WeightFile

        return [WeightFile(path) for path in dict.fromkeys((*self.settings.weights, *self.arguments.weights))]

    # --- one module ---------------------------------------------------------------------------------------------------

    def _work_on(self, chunk: Chunk, index: int | None) -> tuple[str | None, list[Diagnostic]]:
        """The text of one module after the pipeline, or None, and its diagnostics."""
        from etir.dialects.et.origin import remove_origins
        from etir.dialects.text import parse_module
        from etir.passes.infra.manager import PipelineOptions, run_pipeline
        from etir.passes.infra.rewriting import RewriteLimit
        from etir.tools.context import ToolContext
        from etir.tools.files import expected_weights

        arguments = self.arguments
        ctx = ToolContext(allow_unregistered="--allow-unregistered-dialect" in self._flags())
        recording = self._recorder()
        options = PipelineOptions(
            instruments=(*self._instruments(index), *([] if recording is None else [recording])),
            reproducer=self._reproducer(index),
            settings=self.settings,
            require_locations="--require-locations" in self._flags(),
        )
        try:
            with self.parsing.measure():
                module = parse_module(
                    chunk.text,
                    ctx,
                    name=self.name,
                    weights=self.weights,
                    expected=expected_weights(self.arguments.input, self.settings.weights),
                    first_line=chunk.first_line,
                )
            if self.arguments.replacements:
                from etir.tools.replacements import replace_weights

                replace_weights(module, self.arguments.replacements)
            if arguments.check_numerics:
                self._check_numerics(ctx, module)
            if arguments.max_rewrites is not None:
                ctx.attachments.set(RewriteLimit, RewriteLimit(arguments.max_rewrites))
            if recording is not None:
                recording.start(module, target=arguments.target)
            self.reports.append(run_pipeline(ctx, module, self.passes, options))
            if recording is not None:
                times = [(p.name, p.time.wall + p.verify.wall) for p in self.reports[-1].passes]
                self._write_trace(recording.finish(times=times).data, index)
                if not arguments.locations:
                    remove_origins(module)
            if self.arguments.verify_roundtrip:
                from etir.tools.roundtrip import verify_roundtrip

                verify_roundtrip(module, ctx)
            self._collect_payloads(module, index)
            return self._render(module), ctx.diagnostics
        except EtirError as error:
            if self.arguments.debug and error.__cause__ is not None:
                import traceback

                traceback.print_exception(error.__cause__)
            return None, [*ctx.diagnostics, *error.diagnostics]

    def _recorder(self) -> Recorder | None:
        from etir.recording import recorder

        return None if self.arguments.trace is None else recorder(self.arguments.trace_detail)

    def _write_trace(self, data: bytes, index: int | None) -> None:
        path = Path(self.arguments.trace)
        write_output(str(path if index is None else path.with_stem(f"{path.stem}-{index}")), data)

    def _check_numerics(self, ctx: EtContext, module: ModuleOp) -> None:
        """Interpret a copy after every pass. Raises error E1410 where the result changes."""
        from etir.devtools.numerics import check_numerics
        from etir.tools.named_arrays import order_inputs, read_arrays
        from etir.tools.signatures import signatures_of

        arguments = self.arguments
        signatures = [s for s in signatures_of(module) if s.name == arguments.method]
        names = [name for name, _ in signatures[0].inputs] if signatures else []
        samples = [order_inputs(read_arrays(path), names) for path in arguments.inputs or ()]
        if not samples:
            raise usage_error("--check-numerics needs inputs: --inputs FILE.npz")
        found = check_numerics(ctx, module, self.passes, samples, arguments.method, arguments.tolerance)
        sys.stderr.write(f"{found}\n")

    def _collect_payloads(self, module: ModuleOp, index: int | None) -> None:
        from etir.dialects.payloads import loose_payloads, payloads

        prefix = "" if index is None else f"{index}."
        self.payloads.extend((prefix + name, type, blob) for name, type, blob in payloads(module))
        self.has_loose_payloads |= bool(loose_payloads(module, self.weights))

    def _flags(self) -> tuple[str, ...]:
        extra = ("--allow-unregistered-dialect",) if self.arguments.allow_unregistered_dialect else ()
        return (*self.settings.flags, *extra)

    def _render(self, module: ModuleOp) -> str:
        if self.arguments.no_output:
            return ""
        with self.writing.measure():
            return self.printing.render(module)

    def _reproducer(self, index: int | None) -> Path | None:
        if self.arguments.reproducer is None:
            return None
        path = Path(self.arguments.reproducer)
        return path if index is None else path.with_stem(f"{path.stem}-{index}")

    def _instruments(self, index: int | None) -> tuple[Instrument, ...]:
        from etir.passes.infra.instrumentation import ExplainMatch, TraceOp

        arguments = self.arguments
        write = sys.stderr.write
        found: list[Instrument] = []
        if arguments.explain_match is not None:
            found.append(ExplainMatch(arguments.explain_match, write))
        if self.remarks.instrument is not None:
            found.append(self.remarks.instrument)
        if arguments.trace_op is not None:
            found.append(TraceOp(arguments.trace_op, write))
        return (*found, *self._ir_printers(index))

    def _ir_printers(self, index: int | None) -> list[Instrument]:
        from etir.passes.infra.dumped_weights import DumpedWeights, WriteDumpedWeights
        from etir.passes.infra.instrumentation import PrintIR, write_to_directory, write_to_stream

        arguments = self.arguments
        before = _names(arguments.print_before, arguments.print_before_all)
        every = arguments.print_after_all or (arguments.print_after_change and arguments.print_after is None)
        after = _names(arguments.print_after, every)
        directory = arguments.print_dir
        asked = bool(before or after or arguments.print_after_failure)
        if not asked and directory is None:
            return []
        written: list[Path] = []
        if directory is None:
            write = write_to_stream(sys.stderr.write)
        else:
            write = write_to_directory(Path(directory), "" if index is None else f"{index}-", written)
        printer = PrintIR(
            write,
            self.printing.render,
            before=before,
            after=after if asked else ("*",),
            only_changes=arguments.print_after_change,
            on_failure=arguments.print_after_failure,
            with_input=directory is not None,
        )
        if directory is None or arguments.elide_weights:
            return [printer]
        return [printer, WriteDumpedWeights(DumpedWeights(self.weights), written)]

    def _unexpected(self, chunk: Chunk, found: list[Diagnostic]) -> list[Diagnostic]:
        from etir.devtools.expectations import check, parse_expectations

        try:
            expectations = parse_expectations(chunk.text, self.name, chunk.first_line)
        except EtirError as error:
            return list(error.diagnostics)
        return check(expectations, found, self.name)

    # --- after the modules --------------------------------------------------------------------------------------------

    def _print_reports(self) -> None:
        from etir.passes.infra.report import merge_reports

        if not self.arguments.timing and not self.arguments.statistics:
            return
        report = merge_reports(self.reports)
        if self.arguments.statistics:
            sys.stderr.write(report.statistics_text())
        if self.arguments.timing:
            phases: dict[str, Time] = {"(parse)": self.parsing, "(print)": self.writing}
            sys.stderr.write(report.timing_text(phases))


def _in_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics in the order of the text; what has no place comes first, since it says what the others are about."""
    files = list(dict.fromkeys(d.location.file for d in diagnostics if d.location is not None))

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        at = diagnostic.location
        return (-1, 0, 0) if at is None else (files.index(at.file), at.line, at.column)

    return sorted(diagnostics, key=place)


def _names(names: str | None, all_of_them: bool) -> tuple[str, ...]:
    """Names of passes as they are now. Raises error E0502 for a name that no pass has or had."""
    if all_of_them:
        return ("*",)
    from etir.passes.infra.registry import find_pass

    given = [name.strip() for name in (names or "").split(",") if name.strip()]
    return tuple(name if name == "*" else find_pass(name).name for name in given)


if __name__ == "__main__":
    sys.exit(main())
