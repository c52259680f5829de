"""One call from an exported program to a ``.pte``: what ``etir.compile`` does.

The driver owns no lowering: it makes a module of what it is given, runs what ``pipeline.py`` says with verification
after every pass, and gathers what the user wants to know into a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack, cast

from xdsl.dialects.builtin import ModuleOp

from etir.backends.api.fallback import FallbackPolicy, LeftToKernels
from etir.backends.api.memory import PlansOnly
from etir.backends.api.registry import backend_dialects, parse_delegate
from etir.common_stages import CommonStages
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.origin import remove_origins
from etir.dialects.et.weights import write_atomically
from etir.dialects.text import print_module
from etir.emit.to_pte import EmitOptions, emit_program
from etir.lowering.errors import E0402
from etir.lowering.import_fx import import_program, unpacked
from etir.memory_bound import keeping, within_bound
from etir.options import CompileKeywords, CompileOptions, compile_options
from etir.passes.delegation.attributes import is_marked
from etir.passes.delegation.report import DelegationReport
from etir.passes.infra.dumped_weights import DumpedWeights
from etir.passes.infra.instrumentation import Instrument, PassRun, watchers
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.passes.infra.pipeline import pipeline_text
from etir.passes.infra.report import PassReport
from etir.passes.infra.room import room
from etir.phases import phase_of
from etir.pipeline import Stage, checks, stages
from etir.program import Program
from etir.recording import Detail, Recorder, recorder

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram

    from etir.lowering.import_fx.node_names import NodeNames

    Source: TypeAlias = ExportedProgram | Mapping[str, ExportedProgram] | EdgeProgramManager | ModuleOp


def compile_program(
    program: Source,
    options: CompileOptions | None = None,
    *,
    constant_methods: Mapping[str, object] | None = None,
    dump_dir: str | Path | None = None,
    trace: bool | Detail = False,
    **keywords: Unpack[CompileKeywords],
) -> Program:
    """Compile an exported program (several by method name, or a module at any level) for a target.

    A program that ExecuTorch's ``to_edge_transform_and_lower`` has lowered keeps its delegates; what it returns can be
    given as it is. ``options`` and ``keywords`` are the fields of :class:`CompileOptions`; a keyword changes what
    ``options`` says. ``constant_methods`` are further methods that return the value. ``dump_dir`` receives the module
    after every phase as text, with its weights. ``trace`` records what the compiler does, for the developer tools:
    ``"levels"`` (or True) the program at the end of every phase and what each pass changed, ``"passes"`` its text after
    each of them as well; the file that comes out is the same.

    Raises one :class:`~etir.diagnostics.EtirError` with everything that keeps the program from compiling.
    """
    chosen = compile_options(options, keywords, ("constant_methods", "dump_dir", "trace")).resolved()
    with room():
        return _compile(program, chosen, constant_methods, dump_dir, recorder(trace))


def _compile(
    program: Source,
    chosen: CompileOptions,
    constant_methods: Mapping[str, object] | None,
    dump_dir: str | Path | None,
    recording: Recorder | None,
) -> Program:
    if not keeping(chosen):
        return _run(program, chosen, constant_methods, dump_dir, recording)

    common = CommonStages()

    def planner(options: CompileOptions, plans: PlansOnly | None) -> Program:
        watched = (dump_dir, recording) if plans is None or plans.most is not None else (None, None)
        # Whoever watches sees every pass.
        is_common = watched == (None, None) and not watchers() and not isinstance(program, ModuleOp)
        return _run(program, options, constant_methods, *watched, plans, common if is_common else None)

    return within_bound(chosen, planner, is_watched=dump_dir is not None or recording is not None)


def _run(
    program: Source,
    chosen: CompileOptions,
    constant_methods: Mapping[str, object] | None,
    dump_dir: str | Path | None,
    recording: Recorder | None,
    plans: PlansOnly | None = None,
    common: CommonStages | None = None,
) -> Program:
    ctx = EtContext(dialects=backend_dialects())
    ctx.attachments.set(FallbackPolicy, FallbackPolicy(chosen.fallback == "refuse"))
    if plans is not None:
        ctx.attachments.set(PlansOnly, plans)
    watching: list[Instrument] = []
    done: Sequence[PassReport] = ()
    if common is not None and not isinstance(program, ModuleOp):
        number = _common_module(common, program, chosen, constant_methods)
        found = remaining_stages(common.module(number), chosen)
        try:
            module, done, rest = common.run(ctx, number, found)
        except EtirError:  # The passes of all stages say what is wrong with the program.
            return _run(program, chosen, constant_methods, dump_dir, recording, plans)
    else:
        nodes = None if recording is None or isinstance(program, ModuleOp) else _node_names()
        module = module_of(program, chosen, constant_methods, nodes)
        if isinstance(program, ModuleOp):
            verify_text(ctx, module, chosen)
        found = rest = remaining_stages(module, chosen)
        if dump_dir is not None:
            watching.append(DumpPhases(Path(dump_dir), found))
        if recording is not None:
            recording.start(module, None if nodes is None else nodes.nodes, ends_of_phases(found), chosen.target)
            watching.append(recording)
    options = PipelineOptions(tuple(watching), collect_errors=True)
    report = run_pipeline(ctx, module, [step.run for stage in rest for step in stage.steps], options)
    times = [(p.name, p.time.wall + p.verify.wall) for p in (*done, *report.passes)]
    emission = emit_program(module, EmitOptions(debug_info=chosen.debug_info))
    delegation, warnings = ctx.attachments.get(DelegationReport), tuple(ctx.diagnostics)
    left = ctx.attachments.get(LeftToKernels)
    if delegation is not None and left is not None:
        delegation = delegation.with_left(left.reasons)
    passes = [step.run for stage in found for step in stage.steps]
    compiled = Program(module, chosen, emission, pipeline_text(passes), times, delegation, warnings)
    if recording is not None:
        compiled.trace = recording.finish(compiled.buffer, times)
        remove_origins(module)
    return compiled


def _common_module(
    common: CommonStages,
    program: ExportedProgram | Mapping[str, ExportedProgram] | EdgeProgramManager,
    options: CompileOptions,
    constant_methods: Mapping[str, object] | None,
) -> int:
    """The number of the module that is imported of a program, as :func:`module_of` does."""
    programs, constants = unpacked(program)
    prepared = _prepared(programs, options.delegates)
    parts = [part for row in prepared.items() for part in row] if isinstance(prepared, Mapping) else [prepared]
    given = {**constants, **(constant_methods or {})}
    return common.imported(parts, lambda: import_program(prepared, constant_methods=given))


def _node_names() -> NodeNames:
    from etir.lowering.import_fx.node_names import NodeNames

    return NodeNames()


def ends_of_phases(found: Sequence[Stage]) -> dict[int, str]:
    """The phase that is reached after so many passes."""
    ends: dict[int, str] = {}
    count = 0
    for stage in found:
        count += len(stage.steps)
        ends[count] = stage.phase
    return ends


def module_of(
    program: Source,
    options: CompileOptions,
    constant_methods: Mapping[str, object] | None = None,
    nodes: NodeNames | None = None,
) -> ModuleOp:
    """The module of what :func:`compile_program` takes; it is the caller's to change. ``nodes`` is told which values
    stand for which nodes of the program's graphs.

    Raises error E0402 for constant methods that are to be added to a module, else what the importer and the backends of
    the delegates do.
    """
    if isinstance(program, ModuleOp):
        if constant_methods:
            raise E0402.error("constant methods are added to exported programs; a module has its methods already")
        return program.clone()
    programs, constants = unpacked(program)
    return import_program(
        _prepared(programs, options.delegates), constant_methods={**constants, **(constant_methods or {})}, nodes=nodes
    )


def verify_text(ctx: EtContext, module: ModuleOp, options: CompileOptions) -> None:
    """Check a module that may have been edited: types above the executable level, calls and memory plans at it.

    Raises one error with everything that is wrong (E0308 to E0310, E0603 to E0605, E0711 to E0715).
    """
    passes = [step.run for step in checks(options, phase_of(module))]
    run_pipeline(ctx, module, passes, PipelineOptions(collect_errors=True))


def remaining_stages(module: ModuleOp, options: CompileOptions) -> tuple[Stage, ...]:
    """What leads from the level of a module to the executable one. Raises what :func:`etir.pipeline.stages` does."""
    return stages(options, phase_of(module), marked=is_marked(module))


def _prepared(
    program: ExportedProgram | Mapping[str, ExportedProgram], delegates: Sequence[str]
) -> ExportedProgram | Mapping[str, ExportedProgram]:
    """The programs as the delegates' backends want them. Raises what backends do."""
    if isinstance(program, Mapping):
        return {name: cast("ExportedProgram", _prepared(one, delegates)) for name, one in program.items()}
    for delegate in map(parse_delegate, delegates):
        program = delegate.backend.prepare(program, delegate.options)
    return program


class DumpPhases(Instrument):
    """Numbered text files, one for each phase: ``0-aten.mlir``, ``1-core.mlir``, each with its weights beside it."""

    def __init__(self, directory: Path, found: Sequence[Stage]):
        super().__init__()
        self._directory = directory
        self._phases = ends_of_phases(found)
        self._files: list[Path] = []
        self._weights = DumpedWeights()

    def before_pipeline(self, module: ModuleOp) -> None:
        """Write the module as it comes."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write(phase_of(module), module)

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Write the module if the pass was the last one before a phase."""
        phase = self._phases.get(run.index + 1)
        if phase is not None:
            self._write(phase, module)

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """The weights of what has been written so far."""
        self._weights.write(self._files)

    def after_pipeline(self, module: ModuleOp) -> None:
        """The weights of all files: passes make some, and drop others."""
        self._weights.write(self._files)

    def _write(self, phase: str, module: ModuleOp) -> None:
        path = self._directory / f"{len(self._files)}-{phase}.mlir"
        write_atomically(path, [print_module(module).encode()])
        self._files.append(path)
        self._weights.collect(module)
