"""The delegates of a ``.pte`` file as text, by the backends that wrote them."""

from __future__ import annotations

from dataclasses import replace

from etir.backends.api.registry import backend_of_runtime_id
from etir.diagnostics import EtirError
from etir.emit.formats.buffers import Buffer
from etir.emit.pte.reader import read_pte


def disassemble_delegates(data: Buffer, name: str = "<pte>") -> str:
    """Every delegate of a program, in order; equal blobs are written once. ``name`` is the file's, for messages.

    Raises the errors of the reader (E08xx), and what backends raise for blobs of another version (E1103) and damaged
    ones (E1108). A delegate whose backend is not installed is a line that says so.
    """
    program = read_pte(data, name)
    named = {key: memoryview(item.data) for key, item in program.named_data.items()}
    written: dict[tuple[str, bytes], str] = {}
    parts: list[str] = []
    for plan in program.execution_plan:
        for index, delegate in enumerate(plan.delegates):
            blob = bytes(delegate.data)
            place = f"method {plan.name}, delegate {index}"
            parts.append(f"// {place}: {delegate.id}, {len(blob)} bytes\n")
            parts += [f"// option {spec.key} = {bytes(spec.value)!r}\n" for spec in delegate.compile_specs]
            same = written.setdefault((delegate.id, blob), place)
            if same != place:
                parts.append(f"// as {same}\n\n")
                continue
            backend = backend_of_runtime_id(delegate.id)
            if backend is None:
                parts.append(f"// no backend that is installed writes blobs for '{delegate.id}'\n\n")
            else:
                try:
                    parts.append(backend.disassemble(blob, named).rstrip("\n") + "\n\n")
                except EtirError as error:
                    note = f"in {place} ({delegate.id})"
                    raise EtirError([replace(d, notes=(*d.notes, note)) for d in error.diagnostics]) from error
    return "".join(parts) or "// the program has no delegates\n"
