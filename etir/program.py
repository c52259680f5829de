"""What a compilation gives: :class:`Program`, the module at the executable level with everything that is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, UnknownLoc

from etir.backends.api.registry import backend_of_runtime_id
from etir.diagnostics import Diagnostic
from etir.dialects.et.payloads import BuildFileOp
from etir.dialects.et.weights import Blob, BlobAttr, write_atomically
from etir.dialects.text import parse_module, print_module
from etir.emit.debug_file import write_debug_file
from etir.emit.runtime_memory import RuntimeMemory, delegate_memory, kernel_temp_rules, runtime_memory
from etir.emit.to_pte import Emission, EmitOptions, emit_program
from etir.emit.verify_bytes import verify_bytes
from etir.options import CompileOptions
from etir.passes.delegation.report import DelegationReport
from etir.recording import Recorded
from etir.report import Report, make_report, summary_lines
from etir.targets.manifest import load


@dataclass(repr=False)
class Program:
    """A compiled program: the module at the executable level and its files.

    It can be copied and pickled; what comes back has the same text and the same bytes.
    """

    module: ModuleOp
    options: CompileOptions
    """What it was compiled with; the target is that of the kernels that it links against."""
    _emission: Emission
    pipeline: str = ""
    """The passes that ran, as text: ``et-opt -p`` does the same to the text of the imported module."""
    passes: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    """The passes that ran and the seconds each took, verification included."""
    delegation: DelegationReport | None = None
    """What went to which backend and why the rest did not, when backends were asked."""
    warnings: tuple[Diagnostic, ...] = ()
    """What the passes warn of."""
    trace: Recorded | None = None
    """What the compiler did, when it was asked to record it (``trace=True``)."""

    @property
    def target(self) -> str:
        """Whose kernels the program links against."""
        return self.options.target

    @cached_property
    def buffer(self) -> bytes:
        """The bytes of the ``.pte`` file, read back and compared with the module."""
        data = self._emission.pte()
        verify_bytes(data, self.module)
        return data

    @property
    def external(self) -> dict[str, bytes]:
        """The bytes of the ``.ptd`` files by tag, for weights that are kept outside of the program."""
        return {tag: self._emission.ptd(tag) for tag in self._emission.external}

    @property
    def build_files(self) -> dict[str, bytes]:
        """What a client's build compiles and links beside the program, by file name: ``native{linked=true}``."""
        return {
            op.key.data: bytes(op.value.data.data) for op in self.module.body.block.ops if isinstance(op, BuildFileOp)
        }

    def save(self, path: str | Path) -> None:
        """Write the ``.pte`` file, and one ``TAG.ptd`` beside it for each tag of external weights.

        A file appears complete or not at all. Raises ``OSError`` when the folder cannot be written.
        """
        write_atomically(path, [self.buffer])
        for tag, data in self.external.items():
            write_atomically(Path(path).with_name(f"{tag}.ptd"), [data])

    def debug_file(self) -> str:
        """Where each instruction comes from, as ``et-translate --decode-error`` reads it beside the ``.pte`` file."""
        return write_debug_file(self.module, self.buffer)

    def runtime_memory(self) -> dict[str, RuntimeMemory]:
        """Bytes that each method takes on etir's own runtime, to the byte, by the method's name."""
        rules = kernel_temp_rules()
        delegates = delegate_memory(self.module)
        plans = self._emission.program.execution_plan
        return {plan.name: runtime_memory(plan, rules, delegates.get(plan.name, ())) for plan in plans}

    @property
    def operators(self) -> list[str]:
        """The kernels that the program calls, inside of delegates too: what a selective build needs."""
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
        memory = self.runtime_memory() if "runtime_memory" in load(self.target).features else {}
        return make_report(self.module, self.target, len(self.buffer), self.passes, memory, self.delegation)

    def __repr__(self) -> str:
        return "\n".join(summary_lines(self.module, self.target))

    def _repr_html_(self) -> str:
        """What a notebook shows: a card and the memory plan."""
        # By name: nothing of the compiler imports the developer tools.
        return import_module("etir.devtools.notebook").program_html(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Program:
        """A program whose module can change on its own; its bytes are shared, since nothing changes them."""
        return replace(self, module=self.module.clone(), passes=list(self.passes))

    def __getstate__(self) -> dict[str, object]:
        """The module as text and the bytes that it names: operations themselves are a web too deep to pickle."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        blobs = [bytes(blob.data) for blob in _blobs(self.module).values()]
        state |= {"module": print_module(self.module, locations=True), "_emission": None, "blobs": blobs}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        data = {blob.digest: blob for blob in map(Blob.of, state.pop("blobs"))}
        module = parse_module(state.pop("module"), name=_PICKLED)
        for op in module.walk():
            # What had no location has none again; the parser gave it a place in this text.
            if isinstance(op.location, FileLineColLoc) and op.location.filename.data == _PICKLED:
                op.location = UnknownLoc()
            for attribute in op.properties.values():
                if isinstance(attribute, BlobAttr):
                    attribute.data.attach(data[attribute.data.digest].data)
        self.__dict__.update(state, module=module)
        self._emission = emit_program(module, EmitOptions(debug_info=self.options.debug_info))


_PICKLED = "<pickled program>"


def _blobs(module: ModuleOp) -> dict[str, Blob]:
    """The bytes that a module names, each once, by digest."""
    found = (a.data for op in module.walk() for a in op.properties.values() if isinstance(a, BlobAttr))
    return {blob.digest: blob for blob in found}
