"""One call from an exported program to a ``.pte``: ``etir.compile`` and the :class:`Program` it returns.

The driver owns no lowering: it runs the phases of ``lowering/pipeline.py`` with verification after every pass, and
gathers what the user wants to know into a report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from etir.dialects.et.weights import write_atomically
from etir.report import Report, make_report

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram
    from xdsl.dialects.builtin import ModuleOp

    from etir.diagnostics import Diagnostic
    from etir.emit.runtime_memory import RuntimeMemory
    from etir.emit.to_pte import Emission
    from etir.passes.delegation.report import DelegationReport
    from etir.passes.report import PipelineReport


@dataclass
class Program:
    """A compiled program: the module at the executable level and its files."""

    module: ModuleOp
    target: str
    _emission: Emission
    passes: list[tuple[str, float]] = field(default_factory=list)
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
        from etir.backends.registry import backend_of_runtime_id

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

        memory = self.runtime_memory() if "runtime_memory" in load(self.target).features else {}
        return make_report(self.module, self.target, len(self.buffer), self.passes, memory, self.delegation)


def compile_program(
    program: ExportedProgram | Mapping[str, ExportedProgram] | EdgeProgramManager | ModuleOp,
    *,
    target: str = "executorch",
    delegates: Sequence[str | tuple[str, Mapping[str, object]]] = (),
    fallback: Literal["allow", "refuse"] = "allow",
    partition: Mapping[str, object] | None = None,
    link_backends: Sequence[str] = (),
    link_libraries: Sequence[str] = (),
    plan_inputs: bool = True,
    plan_outputs: bool = True,
    share_state: bool = False,
    debug_info: bool = False,
    external_weights: str | Mapping[str, str | Sequence[str]] | None = None,
    external_state: str | Mapping[str, str | Sequence[str]] | None = None,
    constant_methods: Mapping[str, object] | None = None,
    optimizer: str | None = None,
    state_methods: bool | Sequence[str] = False,
    dump_dir: str | Path | None = None,
) -> Program:
    """Compile an exported program (several by method name, or a module at any level) for a target.

    A program that ExecuTorch's ``to_edge_transform_and_lower`` has lowered keeps its delegates; what it returns can be
    given as it is.

    ``target`` names whose kernels the program must link against. ``delegates`` names backends in order of preference,
    with options as ``"xnnpack{fp16=true}"`` or ``("xnnpack", {"fp16": True})``; what none of them takes runs on the
    target's kernels, or is an error with ``fallback="refuse"``. ``partition`` has options of pass `partition` besides
    (``{"min_ops": 3, "own_state": True, "what_if": True}``), and ``"shared_constants": "pass"`` hands constants that
    several delegates read to them as inputs; ``link_backends`` names backends, as the file does, and ``link_libraries``
    kernel libraries, as the target's manifest does (``"custom_ops"``), that are linked into the
    runtime besides those that the target always has. ``plan_inputs`` and ``plan_outputs`` False leave those tensors'
    memory to the caller; ``share_state`` lets methods share mutable buffers of one name; ``debug_info`` writes source
    lines into the file; ``external_weights`` names a ``.ptd`` file that holds the weights, or several with the
    shell patterns of the names that go into each (``{"lora": "*.lora_*", "base": "*"}``, the first that fits),
    ``external_state`` the same for the initial bytes of state; ``dump_dir`` receives the module after every phase as
    text.

    ``constant_methods`` are further methods that return the value. ``optimizer`` (``"sgd{lr=0.1 momentum=0.9}"``,
    ``"adam"``, ``"adamw"``; the options are those of passes `sgd-step`, `adam-step`, `adamw-step`) lets a joint graph
    of forward and backward update its parameters itself. ``state_methods`` adds methods by which the state is read and
    written from outside, of the names that fit the patterns, or of all; methods then share their state.

    Raises one :class:`~etir.diagnostics.EtirError` with everything that keeps the program from compiling.
    """
    from xdsl.dialects.builtin import ModuleOp

    from etir.diagnostics import EtirError
    from etir.dialects.context import EtContext
    from etir.emit.to_pte import EmitOptions, emit_program
    from etir.lowering.errors import E0402
    from etir.lowering.pipeline import PHASES, phase_of, pipeline
    from etir.passes.delegation.attributes import is_marked
    from etir.passes.delegation.fallback import check_fallback
    from etir.passes.manager import run_pipeline
    from etir.survey import everything_wrong
    from etir.targets.manifest import load

    load(target)
    texts = _delegate_texts(delegates)
    if isinstance(program, ModuleOp):
        if constant_methods:
            raise E0402.error("constant methods are added to exported programs; a module has its methods already")
        module = program.clone()
    else:
        from etir.lowering.import_fx import import_program, unpacked

        programs, constants = unpacked(program)
        constants |= constant_methods or {}
        module = import_program(_prepared(programs, texts), constant_methods=constants)
    ctx = EtContext()
    shares = share_state or state_methods is not False
    options = {
        "to-out-variant": _options(plan_inputs=plan_inputs, plan_outputs=plan_outputs),
        "plan-memory": _options(share_state=shares),
    }
    extra: dict[str, Mapping[str, object]] = {
        **_partitioning(partition or {}, shares),
        "verify-link": _linked(link_backends, link_libraries),
        **(
            {name: {"libraries": tuple(link_libraries)} for name in ("decompose-aten", "release-kept")}
            if link_libraries
            else {}
        ),
    }
    marked = is_marked(module)
    ran: list[tuple[str, float]] = []
    dump = None if dump_dir is None else _Dump(Path(dump_dir))
    start = phase_of(module)
    additions = _additions(start, optimizer, state_methods)
    if dump is not None:
        dump.write(start, module)
    if start == "backend":
        ran += _times(run_pipeline(ctx, module, _with_options(f"verify-link{{target={target}}}", extra)))
    phases = list(PHASES)[list(PHASES).index(start) :]
    for before, phase in zip(phases, phases[1:], strict=False):
        sequence = pipeline(start=before, stop=phase, target=target, delegates=texts, marked=marked)
        specs = [_with_options(s + options.get(s, ""), extra) for s in sequence]
        if phase == "et":
            # Folding has made its constants by now; what is a weight here is a weight of the file. Delegates come
            # first: some leave weights where they are, others make data of their own of them.
            outside = [*_externalize(external_weights, "weights"), *_externalize(external_state, "state")]
            place = next(i for i, spec in enumerate(specs) if spec.startswith("to-out-variant"))
            specs[place:place] = outside
            if any(spec.startswith("lower-delegates") for spec in specs):
                specs[:0] = outside
        if phase == "core":
            place = 1 + next(i for i, spec in enumerate(specs) if spec.startswith("functionalize"))
            specs[place:place] = additions
        if phase == "backend" and texts:
            # Whether the fallback is allowed is known before the target is asked whether it could run what is left.
            cut = next(i for i, spec in enumerate(specs) if spec.startswith("verify-partitions"))
            ran += _times(run_pipeline(ctx, module, ",".join(specs[:cut])))
            ctx.diagnostics += check_fallback(ctx.delegation, fallback)
            specs = specs[cut:]
        try:
            ran += _times(run_pipeline(ctx, module, ",".join(specs)))
        except EtirError as error:
            rest = pipeline(start=phase, target=target, delegates=texts, marked=marked)
            raise everything_wrong(error, ctx, module, [*specs, *rest]) from error
        if dump is not None:
            dump.write(phase, module)
    emission = emit_program(module, EmitOptions(debug_info=debug_info))
    return Program(module, target, emission, ran, ctx.delegation, tuple(ctx.diagnostics))


def _delegate_texts(delegates: Sequence[str | tuple[str, Mapping[str, object]]]) -> list[str]:
    """The delegates as passes take them. Raises E1101, E1107 and E1110 for what cannot be used."""
    from etir.backends.registry import delegate_text, parse_delegate

    given = [delegates] if isinstance(delegates, str) else delegates
    texts = [item if isinstance(item, str) else delegate_text(*item) for item in given]
    return list(dict.fromkeys(parse_delegate(text).text for text in texts))


def _prepared(
    program: ExportedProgram | Mapping[str, ExportedProgram], delegates: Sequence[str]
) -> ExportedProgram | Mapping[str, ExportedProgram]:
    """The programs as the delegates' backends want them. Raises what backends do."""
    from etir.backends.registry import parse_delegate

    if isinstance(program, Mapping):
        return {name: cast("ExportedProgram", _prepared(one, delegates)) for name, one in program.items()}
    for delegate in map(parse_delegate, delegates):
        program = delegate.backend.prepare(program, delegate.options)
    return program


def _with_options(spec: str, extra: Mapping[str, Mapping[str, object]]) -> str:
    """A pass of the pipeline with the options that the user adds to it."""
    from etir.passes.pipeline import value_text

    options = extra.get(spec.partition("{")[0])
    if not options:
        return spec
    texts = [f"{name.replace('_', '-')}={_value_texts(value, value_text)}" for name, value in options.items()]
    start = f"{spec.removesuffix('}')} " if spec.endswith("}") else f"{spec}{{"
    return f"{start}{' '.join(texts)}}}"


def _value_texts(value: object, one: Callable[[object], str]) -> str:
    return ",".join(map(one, value)) if isinstance(value, (tuple, list)) else one(value)  # pyright: ignore


def _additions(start: str, optimizer: str | None, state_methods: bool | Sequence[str]) -> list[str]:
    """The passes that add to a program what its user did not write. Raises E0521 and E0522 behind the aten level."""
    from etir.passes.errors import E0521, E0522
    from etir.passes.pipeline import value_text

    late = f"the module is at level '{start}' already; the pass works at level 'aten'"
    specs: list[str] = []
    if optimizer is not None:
        if start != "aten":
            raise E0521.error(late)
        name, brace, options = optimizer.partition("{")
        specs.append(f"{name}-step{brace}{options}")
    if state_methods is not False:
        if start != "aten":
            raise E0522.error(late)
        patterns = () if state_methods is True else state_methods
        specs.append(f"state-methods{{match={','.join(map(value_text, patterns))}}}" if patterns else "state-methods")
    return specs


def _externalize(files: str | Mapping[str, str | Sequence[str]] | None, what: str) -> list[str]:
    """The passes that put weights or state into the ``.ptd`` files of their tags."""
    from etir.passes.pipeline import value_text

    specs: list[str] = []
    tags: Mapping[str, str | Sequence[str]] = {files: ()} if isinstance(files, str) else files or {}
    for tag, match in tags.items():
        patterns = [match] if isinstance(match, str) else match
        names = f" match={','.join(map(value_text, patterns))}" if patterns else ""
        specs.append(f"externalize-weights{{tag={value_text(tag)} what={what}{names}}}")
    return specs


def _times(report: PipelineReport) -> list[tuple[str, float]]:
    return [(p.name, p.time.wall + p.verify.wall) for p in report.passes]


def _partitioning(given: Mapping[str, object], shares: bool) -> dict[str, Mapping[str, object]]:
    """Options of `partition` by pass: what becomes of shared constants is decided when functions are outlined."""
    partition = {name.replace("-", "_"): value for name, value in given.items()}
    outlining = {name: partition.pop(name) for name in ("shared_constants",) if name in partition}
    if shares and partition.get("own_state"):
        partition.setdefault("share_state", True)
    return {"partition": partition, **({"outline-delegates": outlining} if outlining else {})}


def _linked(backends: Sequence[str], libraries: Sequence[str]) -> dict[str, object]:
    """Options of `verify-link`: those that have a value."""
    named = {"backends": tuple(backends), "libraries": tuple(libraries)}
    return {name: values for name, values in named.items() if values}


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
