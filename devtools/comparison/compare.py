"""Which instruction, pass and line of a model is wrong first.

The reference is eager torch, and the interpreter at the first level for what lies inside of loops and branches. Every
level of the trace is interpreted, and every runtime runs the file. A stage is compared in two ways: *accumulated*, what
it computes by itself, and *local*, what each operation makes of right inputs. The first stage in which an operation is
wrong locally is where the error is made; where that is a level, the passes are searched for the one that made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.devtools.bisect import bisect
from etir.devtools.checks import Answer
from etir.devtools.comparison.findings import Comparison, Finding, Row, Stage
from etir.devtools.comparison.layers import compare_layers, is_of_quantized
from etir.devtools.comparison.levels import context, levels_of, numbered, passes_of
from etir.devtools.comparison.links import Links, RecordLinks, TraceLinks
from etir.devtools.comparison.reference import Reference, comparable, reference_of
from etir.devtools.comparison.stages import Subject, level_stage, runtime_stage, writes_arguments
from etir.devtools.comparison.taps import tap_stage
from etir.devtools.errors import E1411, E1412, E1413
from etir.devtools.etrecord import METHOD, debug_handles, read_etrecord
from etir.devtools.trace.read import Trace
from etir.devtools.values.eager import eager_run
from etir.devtools.values.interpreted import Key
from etir.devtools.values.recorded import RUNTIMES, Runtime
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError, SourceLocation
from etir.driver import compile_program, module_of
from etir.emit.from_pte import read_program
from etir.emit.ptd.reader import read_ptd
from etir.options import CompileOptions
from etir.program import Program

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Source = Any
"""An exported program, several by method, a module, the path of an ETRecord, or None."""

DRIFT = 10.0
"""How often the tolerance an output may be off by though every operation is right."""


def compare(
    source: Source,
    program: Program | bytes | str | Path | None = None,
    *,
    inputs: Sequence[Sequence[Any]],
    trace: Trace | str | Path | None = None,
    method: str = "forward",
    runtime: str | Sequence[str] | Mapping[str, Runtime] = "etir",
    tolerance: float = 1e-4,
    external: Sequence[bytes] = (),
    search: bool = True,
    taps: bool = False,
) -> Comparison:
    """Compare a program with what it was compiled from.

    ``source`` is an exported program (several by method name), a module, the path of an ETRecord of the stock pipeline,
    or None: then runtimes are compared with the interpreter alone. ``program`` is the ``.pte`` file, by path or bytes,
    or what ``etir.compile`` returned; without it ``source`` is compiled. ``inputs`` is one list for each sample, flat,
    in the order of the method's inputs; every sample starts from the state that the file has. ``runtime`` names what
    runs the file: ``etir``, ``stock``, both, none, or a function by name. ``external`` are the bytes of ``.ptd`` files.
    ``tolerance`` is relative to the largest number of a value, and larger for short floats. ``search`` asks for the
    pass and the rewrite where a level is wrong. ``taps`` looks into delegates: the program is compiled once more
    with what they compute as outputs, and run by the same runtimes; that needs a source and a trace.

    Raises error E1411 when there is nothing to compare with, E1412 for files that do not belong together, E1413 for
    inputs that do not fit, and what reading a file and the interpreter raise.
    """
    comparing = _Compare(source, program, inputs, trace, method, runtime, tolerance, external)
    found = comparing.run(search, taps)
    found.program = comparing.digest
    return found


class _Compare:
    def __init__(
        self,
        source: Source,
        program: Program | bytes | str | Path | None,
        inputs: Sequence[Sequence[Any]],
        trace: Trace | str | Path | None,
        method: str,
        runtime: str | Sequence[str] | Mapping[str, Runtime],
        tolerance: float,
        external: Sequence[bytes],
    ):
        self.method, self.tolerance = method, tolerance
        self.notes: list[str] = []
        self.runtimes = _runtimes(runtime, external)
        self.samples = [_flat(sample) for sample in inputs]
        if not self.samples:
            raise E1413.error("there are no samples")
        if program is None:
            if source is None:
                raise E1411.error("there is neither a program nor a source")
            program = compile_program(source, trace=True)
        options = program.options if isinstance(program, Program) else None
        if isinstance(program, Program):
            trace = trace or (program.trace if isinstance(program.trace, Trace) else None)
            external = external or list(program.external.values())
            self.runtimes = _runtimes(runtime, external)
        self.data = _bytes(program)
        self.digest = hashlib.sha256(self.data).hexdigest()
        self.trace = trace if isinstance(trace, Trace) or trace is None else Trace.load(trace)
        self._check_digest()
        self.final = program.module if isinstance(program, Program) else _read(self.data, external)
        if method_of(self.final, method) is None:
            raise E1412.error(f"the program has no method '{method}'")
        self.record: RecordLinks | None = None
        self.edge: ExportedProgram | None = None
        if isinstance(source, (str, Path)):
            source = self._read_record(source)
        self.eager, self.module = self._source(source, options)

    def _check_digest(self) -> None:
        if self.trace is None or self.trace.sha256 is None:
            return
        if self.digest != self.trace.sha256:
            message = f"the file is {self.digest[:12]}, the trace is of {self.trace.sha256[:12]}"
            raise E1412.error(message, SourceLocation(self.trace.name))

    def _source(self, source: Source, options: CompileOptions | None) -> tuple[ExportedProgram | None, ModuleOp | None]:
        if source is None:
            return None, None
        if isinstance(source, ModuleOp):
            return None, source
        chosen = options or CompileOptions(target=self.trace.target if self.trace is not None else "executorch")
        eager = source.get(self.method) if isinstance(source, Mapping) else source
        if eager is None:
            raise E1412.error(f"there is no exported program of method '{self.method}'; there is {', '.join(source)}")
        return eager, module_of(source, chosen)

    def _read_record(self, path: str | Path) -> ExportedProgram:
        exported, edge = read_etrecord(path)
        self.edge = edge.get(METHOD)
        if self.edge is not None and self.method == METHOD:
            nodes: dict[int, Any] = {}
            for node in self.edge.graph.nodes:
                handle = node.meta.get("debug_handle")
                plain = node.op == "call_function" and node.target is not getitem
                if plain and isinstance(handle, int) and handle > 0:
                    nodes[handle] = node  # the last one is what all of them come to
            self.record = RecordLinks(debug_handles(path), nodes)
        return exported

    # --- the stages --------------------------------------------------------------------------------------------------

    def run(self, search: bool, taps: bool) -> Comparison:
        """Run everything, and say what is wrong first."""
        links: Links = self.record or Links()
        levels: dict[str, ModuleOp | str] = {}
        first: ModuleOp | None = self.module
        if self.trace is not None and self.eager is not None:
            assert self.module is not None
            if is_of_quantized(self.trace, self.module):
                return self._layers()
        if self.trace is not None:
            links = TraceLinks(self.trace)
            levels = levels_of(self.trace, self.module, self.final)
            if self.module is not None:
                first = numbered(self.module, self.trace)
            else:
                first = next((m for m in levels.values() if isinstance(m, ModuleOp)), None)
        reference_name = "eager torch" if self.eager is not None else "the interpreter, first level that runs"
        if first is None:
            first, reference_name = self.final, "the interpreter, on the instructions of the file"
        references = [self._reference(first, sample) for sample in self.samples]
        wanted = frozenset(() if self.trace is None else comparable(self.trace, references[0]))
        quantized = _is_quantized(self.trace, self.final)
        subject = Subject(self.method, self.samples, references, links, wanted, self.tolerance, quantized)
        stages = [level_stage(name.partition("-")[2], module, subject) for name, module in levels.items()]
        if not levels and first is not self.final:
            stages.append(level_stage("et", self.final, subject))
        final = next((m for n, m in levels.items() if n.endswith("-et") and isinstance(m, ModuleOp)), self.final)
        stages += [
            runtime_stage(f"et/{name}", runtime, self.data, final, subject) for name, runtime in self.runtimes.items()
        ]
        if taps:
            stages += self._tapped(subject)
        if not stages or (first is self.final and not self.runtimes):
            raise E1411.error("there is one stage alone: no levels, and no runtime to run the file on")
        finding = _first(stages)
        if finding is not None and "delegate" in finding.what and not taps:
            self.notes.append("taps (--tap) show what the delegate computes inside")
        if finding is not None and search:
            finding = self._searched(finding, subject)
        return Comparison(self.method, reference_name, len(self.samples), stages, finding, self.notes)

    def _layers(self) -> Comparison:
        """A float program, and the file of one that was quantized from it."""
        assert self.trace is not None and self.module is not None
        if not self.runtimes:
            raise E1411.error("a float program and a quantized one are compared by what a runtime computes")
        levels = levels_of(self.trace, None, self.final)
        final = next((m for n, m in levels.items() if n.endswith("-et") and isinstance(m, ModuleOp)), self.final)
        found = compare_layers(self.module, self.trace, self.data, final, self.samples, self.method, self.runtimes)
        if found is None:
            message = "the trace is of a quantized program that has no layer of this one"
            raise E1412.error(message, SourceLocation(self.trace.name))
        return found

    def _tapped(self, subject: Subject) -> list[Stage]:
        """A stage for each runtime, before which come those of the runtimes themselves."""
        if self.trace is None or self.module is None:
            raise E1411.error("to look into delegates needs the source of the program and its trace")
        found = [
            tap_stage(f"taps/{name}", runtime, self.module, self.trace, subject)
            for name, runtime in self.runtimes.items()
        ]
        if not any(found):
            self.notes.append("there are no delegates to look into")
        return [stage for stage in found if stage is not None]

    def _reference(self, module: ModuleOp, sample: Sequence[Any]) -> Reference:
        found = reference_of(module, sample, self.method, self.trace, self.eager)
        if self.record is None or self.edge is None:
            return found
        eager = eager_run(self.edge, sample)
        for handle, node in self.record.nodes.items():
            index = 0
            while (node.name, index) in eager.values:
                key: Key = (handle, index)
                found.values[key] = [eager.values[node.name, index]]
                found.dtypes[key] = eager.dtypes[node.name, index]
                index += 1
        return found

    # --- why ---------------------------------------------------------------------------------------------------------

    def _searched(self, finding: Finding, subject: Subject) -> Finding:
        """The finding with the pass and the rewrite, where it is of a level."""
        if finding.stage.startswith(("et/", "taps/")) or self.trace is None or self.module is None:
            return finding
        try:
            found = bisect(context(), numbered(self.module, self.trace), passes_of(self.trace), _Local(subject))
        except EtirError as error:
            self.notes.append(f"the passes could not be searched: {error.diagnostics[0].message}")
            return finding
        if found is None:
            self.notes.append("the passes give a right program today: the trace is of another version of etir")
            return finding
        return Finding(finding.stage, finding.what, finding.where, f"{finding.why}; {found}", finding.row)


class _Local:
    """The check that every operation of a module is right by itself."""

    def __init__(self, subject: Subject):
        self.subject = subject

    def __call__(self, module: ModuleOp) -> Answer:
        stage = level_stage("", module, self.subject)
        if stage.broken or stage.first_wrong is not None:
            return Answer.BAD
        if writes_arguments(module) and any(_is_off(row) for row in stage.outputs):
            return Answer.BAD
        return Answer.UNRESOLVED if stage.failure else Answer.GOOD


def _first(stages: Sequence[Stage]) -> Finding | None:
    """What is wrong in the first stage that is."""
    for stage in stages:
        kind = _kind(stage.name)
        row = stage.first_wrong
        if row is not None:
            assert row.local is not None
            return Finding(
                stage.name, f"{row.what} at {kind}", row.where, f"off by {row.local:.1e} on right inputs", row
            )
        if stage.broken:
            return Finding(stage.name, f"{kind} does not run", "", stage.failure)
    for stage in stages:
        for output in stage.outputs:
            if output.accumulated is not None and not output.accumulated <= DRIFT * output.allowed:
                row = next((r for r in stage.rows if _is_off(r)), output)
                why = f"off by {row.accumulated:.1e}; no operation is wrong by itself: small differences add up"
                return Finding(stage.name, f"{row.what} at stage {stage.name}", row.where, why, row)
    return None


def _kind(stage: str) -> str:
    where, _, name = stage.partition("/")
    return {"et": f"runtime {name}", "taps": f"the delegates of runtime {name}"}[where] if name else f"level {stage}"


def _is_off(row: Row) -> bool:
    return row.accumulated is not None and not row.accumulated <= row.allowed


def _is_quantized(trace: Trace | None, final: ModuleOp) -> bool:
    """Whether numbers of 8 bits or fewer are on the way; of a file without a trace, whether a kernel makes such."""
    if trace is not None:
        return any("quantize" in origin.op for origin in trace.origins)
    return any("quantize" in str(op.properties.get("kernel", "")) for op in final.walk())


def _runtimes(runtime: str | Sequence[str] | Mapping[str, Runtime], external: Sequence[bytes]) -> dict[str, Runtime]:
    if isinstance(runtime, Mapping):
        return dict(runtime)
    names = [name for name in runtime.split(",") if name] if isinstance(runtime, str) else list(runtime)
    unknown = [name for name in names if name not in RUNTIMES]
    if unknown:
        raise E1411.error(f"there is no runtime '{unknown[0]}'; there are {', '.join(RUNTIMES)}")

    def bound(name: str) -> Runtime:
        return lambda program, method, inputs: RUNTIMES[name](program, method, inputs, external=external)

    return {name: bound(name) for name in names}


def _bytes(program: Program | bytes | str | Path) -> bytes:
    if isinstance(program, Program):
        return program.buffer
    return bytes(program) if isinstance(program, (bytes, bytearray, memoryview)) else Path(program).read_bytes()


def _read(data: bytes, external: Sequence[bytes]) -> ModuleOp:
    return read_program(data, {f"external_{i}": read_ptd(one) for i, one in enumerate(external)})


def _flat(sample: Any) -> list[Any]:
    """A sample as a flat list: what ``torch.export`` flattens is flattened here."""
    if not isinstance(sample, (tuple, list, Mapping)):
        return [sample]
    found: list[Any] = []
    for value in sample.values() if isinstance(sample, Mapping) else sample:
        if isinstance(value, (tuple, list, Mapping)):
            found += _flat(value)
        else:
            found.append(np.asarray(value) if isinstance(value, np.generic) else value)
    return found
