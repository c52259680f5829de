"""One call from an exported program to a ``.pte``: ``etir.compile`` and the :class:`Program` it returns.

The driver owns no lowering: it runs the phases of ``lowering/pipeline.py`` with verification after every pass, and
gathers what the user wants to know into a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from etir.dialects.et.weights import write_atomically
from etir.report import Report, make_report

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from xdsl.dialects.builtin import ModuleOp

    from etir.emit.runtime_memory import RuntimeMemory
    from etir.emit.to_pte import Emission
    from etir.passes.report import PipelineReport


@dataclass
class Program:
    """A compiled program: the module at the executable level and its files."""

    module: ModuleOp
    target: str
    _emission: Emission
    passes: list[tuple[str, float]] = field(default_factory=list)
    """The passes that ran and the seconds each took, verification included."""

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

    def runtime_memory(self) -> dict[str, RuntimeMemory]:
        """Bytes that each method takes on etir's own runtime, to the byte, by the method's name."""
        from etir.emit.runtime_memory import runtime_memory
        from etir.targets.manifest import load

        rules = {
            name: (tuple(a.name for a in kernel.schema.arguments), kernel.temp)
            for name, kernel in load("etir").kernels.items()
            if kernel.temp
        }
        return {plan.name: runtime_memory(plan, rules) for plan in self._emission.program.execution_plan}

    def report(self) -> Report:
        """What the program consists of: operators, instructions, memory, constants, delegates. ``str()`` is text."""
        memory = self.runtime_memory() if self.target == "etir" else {}
        return make_report(self.module, self.target, len(self.buffer), self.passes, memory)


def compile_program(
    program: ExportedProgram | Mapping[str, ExportedProgram] | ModuleOp,
    *,
    target: str = "executorch",
    delegates: Sequence[str] = (),
    plan_inputs: bool = True,
    plan_outputs: bool = True,
    share_state: bool = False,
    debug_info: bool = False,
    external_weights: str | None = None,
    dump_dir: str | Path | None = None,
) -> Program:
    """Compile an exported program (several by method name, or a module at any level) for a target.

    ``target`` names whose kernels the program must link against; ``plan_inputs`` and ``plan_outputs`` False leave those
    tensors' memory to the caller; ``share_state`` lets methods share mutable buffers of one name; ``debug_info`` writes
    source lines into the file; ``external_weights`` names a ``.ptd`` file that holds the weights; ``dump_dir`` receives
    the module after every phase as text.

    Raises one :class:`~etir.diagnostics.EtirError` with everything that keeps the program from compiling.
    """
    from xdsl.dialects.builtin import ModuleOp

    from etir.dialects.context import EtContext
    from etir.emit.to_pte import EmitOptions, emit_program
    from etir.lowering.pipeline import PHASES, phase_of, pipeline
    from etir.passes.manager import run_pipeline
    from etir.targets.manifest import load

    load(target)
    if delegates:
        from etir.lowering.errors import E0418

        raise E0418.error(f"no backend named '{delegates[0]}' is installed; available: none")
    if isinstance(program, ModuleOp):
        module = program.clone()
    else:
        from etir.lowering.import_fx import import_program

        module = import_program(program)
    ctx = EtContext()
    options = {
        "to-out-variant": _options(plan_inputs=plan_inputs, plan_outputs=plan_outputs),
        "plan-memory": _options(share_state=share_state),
    }
    ran: list[tuple[str, float]] = []
    dump = None if dump_dir is None else _Dump(Path(dump_dir))
    start = phase_of(module)
    if dump is not None:
        dump.write(start, module)
    if start == "backend":
        ran += _times(run_pipeline(ctx, module, f"verify-link{{target={target}}}"))
    phases = list(PHASES)[list(PHASES).index(start) :]
    for before, phase in zip(phases, phases[1:], strict=False):
        specs = [s + options.get(s, "") for s in pipeline(start=before, stop=phase, target=target)]
        if phase == "et" and external_weights is not None:
            # Folding has made its constants by now; what is a weight here is a weight of the file.
            specs.insert(0, f"externalize-weights{{tag={external_weights}}}")
        ran += _times(run_pipeline(ctx, module, ",".join(specs)))
        if dump is not None:
            dump.write(phase, module)
    emission = emit_program(module, EmitOptions(debug_info=debug_info))
    return Program(module, target, emission, ran)


def _times(report: PipelineReport) -> list[tuple[str, float]]:
    return [(p.name, p.time.wall + p.verify.wall) for p in report.passes]


def _options(**flags: bool) -> str:
    defaults = {"plan_inputs": True, "plan_outputs": True, "share_state": False}
    changed = [f"{k.replace('_', '-')}={str(v).lower()}" for k, v in flags.items() if defaults[k] != v]
    return "{" + " ".join(changed) + "}" if changed else ""


class _Dump:
    """Numbered text files, one for each phase."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.count = 0
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, phase: str, module: ModuleOp) -> None:
        """Write the module as it is now."""
        from etir.dialects.text import print_module

        path = self.directory / f"{self.count}-{phase}.mlir"
        write_atomically(path, [print_module(module).encode()])
        self.count += 1
