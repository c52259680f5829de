"""One call from an exported program to a ``.pte``: ``etir.compile`` and the :class:`Program` it returns.

The driver owns no lowering: it makes a module of what it is given, runs what ``pipeline.py`` says with verification
after every pass, and gathers what the user wants to know into a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack, cast

from xdsl.dialects.builtin import ModuleOp

from etir.backends.api.registry import parse_delegate
from etir.diagnostics import Diagnostic
from etir.dialects.context import EtContext
from etir.dialects.et.weights import write_atomically
from etir.dialects.text import print_module
from etir.emit.to_pte import Emission, EmitOptions, emit_program
from etir.lowering.errors import E0402
from etir.lowering.import_fx import import_program, unpacked
from etir.options import CompileKeywords, CompileOptions, compile_options
from etir.passes.delegation.attributes import is_marked
from etir.passes.delegation.report import DelegationReport
from etir.passes.infra.instrumentation import Instrument, PassRun
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.passes.infra.pipeline import pipeline_text
from etir.phases import phase_of
from etir.pipeline import Stage, stages
from etir.report import Report, make_report

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram

    from etir.emit.runtime_memory import RuntimeMemory

    Source: TypeAlias = ExportedProgram | Mapping[str, ExportedProgram] | EdgeProgramManager | ModuleOp


@dataclass
class Program:
    """A compiled program: the module at the executable level and its files."""

    module: ModuleOp
    target: str
    _emission: Emission
    pipeline: str = ""
    """The passes that ran, as text: ``et-opt -p`` does the same to the text of the imported module."""
    passes: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    """The passes that ran and the seconds each took, verification included."""
    delegation: DelegationReport | None = None
    """What went to which backend and why the rest did not, when backends were asked."""
    warnings: tuple[Diagnostic, ...] = ()
    """What the passes warn of."""

    @cached_property
    def buffer(self) -> bytes:
        """The bytes of the ``.pte`` file, read back and compared with the module."""
        from etir.emit.verify_bytes import verify_bytes

        data = self._emission.pte()
        verify_bytes(data, self.module)
        return data

    @property
    def external(self) -> dict[str, bytes]:
        """The bytes of the ``.ptd`` files by tag, for weights that are kept outside of the program."""
        return {tag: self._emission.ptd(tag) for tag in self._emission.external}

    def save(self, path: str | Path) -> None:
        """Write the ``.pte`` file, and one ``TAG.ptd`` beside it for each tag of external weights.

        A file appears complete or not at all. Raises ``OSError`` when the folder cannot be written.
        """
        write_atomically(path, [self.buffer])
        for tag, data in self.external.items():
            write_atomically(Path(path).with_name(f"{tag}.ptd"), [data])

    def debug_file(self) -> str:
        """Where each instruction comes from, as ``et-translate --decode-error`` reads it beside the ``.pte`` file."""
        from etir.emit.debug_file import write_debug_file

        return write_debug_file(self.module, self.buffer)

    def runtime_memory(self) -> dict[str, RuntimeMemory]:
        """Bytes that each method takes on etir's own runtime, to the byte, by the method's name."""
        from etir.emit.runtime_memory import delegate_memory, kernel_temp_rules, runtime_memory

        rules = kernel_temp_rules()
        delegates = delegate_memory(self.module)
        plans = self._emission.program.execution_plan
        return {plan.name: runtime_memory(plan, rules, delegates.get(plan.name, ())) for plan in plans}

    @property
    def operators(self) -> list[str]:
        """The kernels that the program calls, inside of delegates too: what a selective build needs."""
        from etir.backends.api.registry import backend_of_runtime_id

        found: dict[str, None] = {}
        for plan in self._emission.program.execution_plan:
            found.update(dict.fromkeys(operator.full_name for operator in plan.operators))
            for delegate in plan.delegates:
                backend = backend_of_runtime_id(delegate.id)
                if backend is not None:
                    found.update(dict.fromkeys(backend.kernels(memoryview(delegate.data))))
        return list(found)

    def report(self) -> Report:
        """What the program consists of: operators, instructions, memory, constants, delegates. ``str()`` is text."""
        from etir.targets.manifest import load

        memory = self.runtime_memory() if load(self.target).name == "etir" else {}
        return make_report(self.module, self.target, len(self.buffer), self.passes, memory, self.delegation)


def compile_program(
    program: Source,
    options: CompileOptions | None = None,
    *,
    constant_methods: Mapping[str, object] | None = None,
    dump_dir: str | Path | None = None,
    **keywords: Unpack[CompileKeywords],
) -> Program:
    """Compile an exported program (several by method name, or a module at any level) for a target.

    A program that ExecuTorch's ``to_edge_transform_and_lower`` has lowered keeps its delegates; what it returns can be
    given as it is. ``options`` and ``keywords`` are the fields of :class:`CompileOptions`; a keyword changes what
    ``options`` says. ``constant_methods`` are further methods that return the value. ``dump_dir`` receives the module
    after every phase as text.

    Raises one :class:`~etir.diagnostics.EtirError` with everything that keeps the program from compiling.
    """
    chosen = compile_options(options, keywords, ("constant_methods", "dump_dir")).resolved()
    module = module_of(program, chosen, constant_methods)
    found = remaining_stages(module, chosen)
    passes = [step.run for stage in found for step in stage.steps]
    watching = () if dump_dir is None else (_DumpPhases(Path(dump_dir), found),)
    ctx = EtContext()
    report = run_pipeline(ctx, module, passes, PipelineOptions(watching, collect_errors=True))
    times = [(p.name, p.time.wall + p.verify.wall) for p in report.passes]
    emission = emit_program(module, EmitOptions(debug_info=chosen.debug_info))
    delegation, warnings = ctx.attachments.get(DelegationReport), tuple(ctx.diagnostics)
    return Program(module, chosen.target, emission, pipeline_text(passes), times, delegation, warnings)


def module_of(
    program: Source, options: CompileOptions, constant_methods: Mapping[str, object] | None = None
) -> ModuleOp:
    """The module of what :func:`compile_program` takes; it is the caller's to change.

    Raises error E0402 for constant methods that are to be added to a module, else what the importer and the backends of
    the delegates do.
    """
    if isinstance(program, ModuleOp):
        if constant_methods:
            raise E0402.error("constant methods are added to exported programs; a module has its methods already")
        return program.clone()
    programs, constants = unpacked(program)
    return import_program(
        _prepared(programs, options.delegates), constant_methods={**constants, **(constant_methods or {})}
    )


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


class _DumpPhases(Instrument):
    """Numbered text files, one for each phase: ``0-aten.mlir``, ``1-core.mlir``."""

    def __init__(self, directory: Path, found: Sequence[Stage]):
        super().__init__()
        self._directory = directory
        self._phases: dict[int, str] = {}
        """The phase that is reached after so many passes."""
        self._files = 0
        count = 0
        for stage in found:
            count += len(stage.steps)
            self._phases[count] = stage.phase

    def before_pipeline(self, module: ModuleOp) -> None:
        """Write the module as it comes."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write(phase_of(module), module)

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Write the module if the pass was the last one before a phase."""
        phase = self._phases.get(run.index + 1)
        if phase is not None:
            self._write(phase, module)

    def _write(self, phase: str, module: ModuleOp) -> None:
        path = self._directory / f"{self._files}-{phase}.mlir"
        write_atomically(path, [print_module(module).encode()])
        self._files += 1
