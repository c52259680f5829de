"""The pass manager: runs a pipeline over a module, verifies, watches, measures, and explains failures.

The module is verified before the first pass and after every pass; nothing turns that off. What goes wrong comes out as
one ``EtirError``: a pass's own diagnostics with the pass named in a note, E0504 and the verifier's findings when a pass
left invalid IR, E0505 for an exception that a pass should not have raised. With ``collect_errors`` it also says what
the passes after the failing one would have said (``survey.py``). With ``reproducer`` set, any failure also writes a
file that one command reruns; the module is cloned before every pass for that, so it costs time and is off by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.verify import verify_module
from etir.passes.errors import E0504
from etir.passes.infra.crash import unexpected
from etir.passes.infra.instrumentation import Instrument, PassRun, Relay, watchers
from etir.passes.infra.pipeline import parse_pipeline, pass_text, pipeline_text
from etir.passes.infra.report import PassReport, PipelineReport, count_operations
from etir.passes.infra.reproducer import Reproducer, Settings, write_reproducer
from etir.passes.infra.rewriting import Observer, PatternError
from etir.passes.infra.room import room
from etir.passes.infra.survey import collect_all_errors


@dataclass(frozen=True)
class PipelineOptions:
    """How to run a pipeline.

    ``instruments`` watch (in order); ``reproducer`` is the file to write on failure, ``settings`` what it carries
    besides the pipeline; ``require_locations`` makes the verifier refuse operations without a source location;
    ``collect_errors`` lets later passes say what else is wrong after a pass has failed.
    """

    instruments: tuple[Instrument, ...] = ()
    reproducer: Path | None = None
    settings: Settings = Settings()
    require_locations: bool = False
    collect_errors: bool = False


def run_pipeline(
    ctx: EtContext,
    module: ModuleOp,
    passes: Sequence[ModulePass] | str,
    options: PipelineOptions = PipelineOptions(),
) -> PipelineReport:
    """Run ``passes`` (or the pipeline that a text describes) over ``module``, in place.

    Raises ``EtirError``: E0502, E0503, E0506 for a wrong pipeline text before anything runs, the verifier's errors for
    a module that is invalid to begin with, else what the failing pass raised, E0504 or E0505. The original exception is
    the ``__cause__`` of an E0505. E0523 for control flow that is nested too deeply.
    """
    with room():
        return _run_pipeline(ctx, module, passes, options)


def _run_pipeline(
    ctx: EtContext, module: ModuleOp, passes: Sequence[ModulePass] | str, options: PipelineOptions
) -> PipelineReport:
    sequence = parse_pipeline(passes, ctx.diagnostics) if isinstance(passes, str) else tuple(passes)
    options = replace(options, instruments=(*options.instruments, *watchers()))
    report = PipelineReport()
    with report.verify.measure():
        verify_module(module, require_locations=options.require_locations, verified=ctx.verified)
    for instrument in options.instruments:
        instrument.before_pipeline(module)
    outer = ctx.attachments.get(Observer)
    listeners = options.instruments if outer is None else (outer, *options.instruments)
    counts: Counter[str] = count_operations(module)
    try:
        for index, p in enumerate(sequence):
            run = PassRun(index, len(sequence), p.name, pass_text(p))
            done = PassReport(p.name, run.text, before=counts)
            report.passes.append(done)
            snapshot = module.clone() if options.reproducer is not None else None
            for instrument in options.instruments:
                instrument.before_pass(run, module)
            relay = Relay(listeners)
            ctx.attachments.set(Observer, relay)
            try:
                _run_one(ctx, module, p, done, options)
            except EtirError as error:
                failure = _failure(error, run, module, snapshot, sequence, options)
                if options.collect_errors:
                    failure = collect_all_errors(
                        failure,
                        module,
                        sequence[index:],
                        lambda p: _run_one(ctx, module, p, PassReport(p.name, pass_text(p)), options),
                    )
                raise failure from error.__cause__
            counts = count_operations(module)
            done.after, done.rewrites = counts, relay.applied
            for instrument in options.instruments:
                instrument.after_pass(run, module)
    finally:
        ctx.attachments.set(Observer, outer)
    for instrument in options.instruments:
        instrument.after_pipeline(module)
    return report


def _run_one(ctx: EtContext, module: ModuleOp, p: ModulePass, done: PassReport, options: PipelineOptions) -> None:
    """Run and verify one pass; whatever goes wrong is an ``EtirError``."""
    try:
        with done.time.measure():
            p.apply(ctx, module)
    except EtirError as error:
        note = f"in pass '{p.name}'"
        found = [replace(d, notes=(*d.notes, note), pass_name=p.name) for d in error.diagnostics]
        raise EtirError(found) from error
    except RecursionError:
        raise
    except Exception as error:  # The one boundary where a pass's bug becomes a diagnostic.
        raise EtirError([unexpected(p, error)]) from (error.__cause__ if isinstance(error, PatternError) else error)
    try:
        with done.verify.measure():
            verify_module(module, require_locations=options.require_locations, verified=ctx.verified)
    except EtirError as error:
        count = len(error.diagnostics)
        head = E0504.diagnostic(f"pass '{p.name}' produced invalid IR: {count} problem{'s' if count > 1 else ''}")
        raise EtirError([head, *error.diagnostics]) from None


def _failure(
    error: EtirError,
    run: PassRun,
    module: ModuleOp,
    snapshot: ModuleOp | None,
    sequence: Sequence[ModulePass],
    options: PipelineOptions,
) -> EtirError:
    """Tell the instruments, write the reproducer, and return the error with a note where the file is."""
    for instrument in options.instruments:
        instrument.pass_failed(run, module)
    if snapshot is None or options.reproducer is None:
        return error
    first, *rest = error.diagnostics
    reproducer = Reproducer(pipeline_text(sequence[run.index :]), options.settings)
    reason = f"'{run.name}' failed with {first.id}: {first.message}"
    try:
        write_reproducer(options.reproducer, snapshot, reproducer, [reason])
        note = f"reproducer written: et-opt --run-reproducer {options.reproducer}"
    except (OSError, EtirError) as problem:
        note = f"the reproducer could not be written: {problem}"
    *others, last = (first, *rest)
    return EtirError([*others, replace(last, notes=(*last.notes, note))])
