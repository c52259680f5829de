"""What is shown of the operation or the name under the cursor, as Markdown."""

from __future__ import annotations

import inspect
from pathlib import Path

from xdsl.ir import Attribute, Operation, OpResult

from etir.devtools.lsp.beside import Beside
from etir.devtools.lsp.document import Document, Part, Place, origins_of, source_of, symbol_of
from etir.devtools.lsp.names import Name
from etir.devtools.lsp.reader import RESULTS, BrokenOp, Spot
from etir.devtools.trace.levels import tensor_bytes
from etir.dialects.aten.table import load_table
from etir.dialects.edge.base import PREFIX
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.values import BufferOp
from etir.dialects.schema_op import SchemaOp
from etir.targets.manifest import KernelEntry, available, load

LONGEST = 400
"""Characters of a type or a summary that are shown."""


def hover(document: Document, line: int, column: int, beside: Beside | None) -> tuple[str, Place] | None:
    """The text, and what it is about; None where there is nothing to say."""
    first, part, position = document.at(line, column)
    name = part.names.at(position)
    if name is not None:
        text = _of_name(part, name, beside)
        return (text, document.place(first, part, name.start, name.end)) if text else None
    spot = part.spot_at(position)
    if spot is None or isinstance(spot.op, BrokenOp) or part.line_of(position) != part.line_of(spot.start):
        return None
    return of_operation(part, spot, beside), document.place(first, part, *part.name_of(spot))


def of_operation(part: Part, spot: Spot, beside: Beside | None) -> str:
    """An operation: its schema or what it is for, types, kernels, place in memory, source and time."""
    op = spot.op
    parts = [f"**{_code(op.name)}**"]
    schema = _schema_text(op)
    parts.append(f"```text\n{schema}\n```" if schema else _summary(op))
    names = _result_names(part, op)
    facts = [f"{_code(name)}: {_type(r.type)}" for name, r in zip(names, op.results, strict=False)]
    facts += _places(part, op)
    facts += kernels_of(op)
    facts += _knowledge(spot, beside)
    parts.append("\n".join(f"* {fact}" for fact in facts))
    return "\n\n".join(part for part in parts if part)


def _of_name(part: Part, name: Name, beside: Beside | None) -> str:
    definition = part.names.definition(name)
    if definition is None:
        return f"{_code(name.text)} is defined nowhere" if name.kind != "symbol" else ""
    uses = len(part.names.references(name)) - 1
    head = f"{_code(name.text)}, {uses} use{'' if uses == 1 else 's'}"
    if name.kind == "block":
        return head
    spot = part.spot_at(definition.start)
    if spot is None or isinstance(spot.op, BrokenOp):
        return head
    if name.kind == "symbol":
        return f"{head}\n\n{of_operation(part, spot, beside)}" if symbol_of(spot.op) is not None else head
    if not part.text.startswith("%", spot.start):
        # An argument of a block: its type stands after it.
        text = part.text[definition.end :].lstrip()
        kind = _first_type(text[1:]) if text.startswith(":") else ""
        return f"{head}\n\n{_code(kind)}" if kind else head
    return f"{head}\n\n{of_operation(part, spot, beside)}"


def _first_type(text: str) -> str:
    """The type at the beginning of a text, up to a comma or a bracket that is not its own."""
    depth = 0
    for index, character in enumerate(text[: 4 * LONGEST]):
        if character in "<([":
            depth += 1
        elif character in ">)]" and text[index - 1 : index + 1] != "->":
            depth -= 1
        if depth < 0 or (depth == 0 and character in ",{\n"):
            return text[:index].strip()
    return text.strip()[:LONGEST]


def _schema_text(op: Operation) -> str:
    if isinstance(op, SchemaOp):
        return str(op.SCHEMA)
    if isinstance(op, CallOp):
        name = op.kernel.data
        for target in available():
            if (entry := load(target).lookup(name)) is not None:
                return entry.schema_text
    return ""


def _summary(op: Operation) -> str:
    text = inspect.getdoc(type(op)) or ""
    return " ".join(text.split("\n\n")[0].split())[:LONGEST]


def _result_names(part: Part, op: Operation) -> list[str]:
    """What the text calls the results of an operation."""
    spot = part.spot_of(op)
    given = None if spot is None else RESULTS.match(part.text, spot.start)
    names: list[str] = []
    for name in [] if given is None else given[0].split(","):
        plain, _, count = name.strip().partition(":")
        names += [plain] if not count else [f"{plain}#{index}" for index in range(int(count))]
    return names or [f"result {index}" for index in range(len(op.results))]


def _type(type: Attribute) -> str:
    text = str(type)
    shown = _code(text if len(text) <= LONGEST else text[:LONGEST] + "...")
    size = _bytes(type)
    return f"{shown}, {size:,} bytes" if size else shown


def _bytes(type: Attribute) -> int:
    """Bytes of a tensor; 0 for everything else, and for a type that is wrong."""
    try:
        return tensor_bytes(type)
    except ValueError:
        return 0


def _places(part: Part, op: Operation) -> list[str]:
    """The places in memory that the text itself gives to the operands of an instruction and to a buffer."""
    # Of a value that the text uses and does not define, no operation is the owner.
    makers = [op, *(value.op for value in op.operands if isinstance(value, OpResult))]
    found: dict[str, None] = {}
    for buffer in makers:
        if isinstance(buffer, BufferOp) and buffer.place is not None:
            pool, offset = buffer.place
            found[
                f"{_code(_result_names(part, buffer)[0])}: {_bytes(buffer.result.type):,} bytes "
                f"in pool {pool} at {offset:,}"
            ] = None
    return list(found)


def kernels_of(op: Operation) -> list[str]:
    """For each target the kernel that computes the operation, with the dtypes that it takes."""
    return [_kernel_text(target, entry) for target in available() if (entry := _kernel(op, target)) is not None]


def _kernel(op: Operation, target: str) -> KernelEntry | None:
    manifest = load(target)
    if isinstance(op, CallOp):
        return manifest.lookup(op.kernel.data)
    if not isinstance(op, SchemaOp):
        return None
    variant = manifest.out_variant(op.SCHEMA)
    return manifest.lookup((variant or op.SCHEMA).qualified_name)


def _kernel_text(target: str, entry: KernelEntry) -> str:
    rows = " or ".join(
        "(" + ", ".join(f"{argument}: {constraint.text}" for argument, constraint in row.items()) + ")"
        for row in entry.dtypes.rows
    )
    optimized = ", optimized" if entry.optimized else ""
    return f"kernel of {target}{optimized}: {_code(entry.name)} for {_code(rows[:LONGEST])}"


def _knowledge(spot: Spot, beside: Beside | None) -> list[str]:
    facts: list[str] = []
    source = source_of(spot)
    origins = origins_of(spot)
    if source is not None:
        inside = f" in {_code(source.module)}" if source.module else ""
        facts.append(f"from {_code(f'{source.file}:{source.line}')}{inside}")
    place = ("", 0) if source is None else (source.file, source.line)
    if beside is None or not origins or not beside.knows(origins, *place):
        return facts
    facts += [f"memory: {text}" for text in beside.buffers(origins)[:8]]
    facts += [f"remark: {text}" for text in beside.remarks(origins)[:8]]
    seconds = beside.seconds(origins)
    if seconds is not None:
        facts.append(time_text(seconds, beside.total))
    return facts


def time_text(seconds: float, total: float) -> str:
    """``0.120 ms, 3.1 % of a run``."""
    share = f", {100 * seconds / total:.1f} % of a run" if total else ""
    return f"time: {1e3 * seconds:.3f} ms{share}"


def of_python_line(path: Path, line: int, beside: Beside | None, count: int) -> str:
    """What a line of the Python program became; nothing where it became nothing that is known."""
    facts = [f"* {count} operation{'' if count == 1 else 's'} in open files"] if count else []
    if beside is not None:
        found = [o for o in beside.trace.origins if o.line == line and Path(o.file).name == path.name]
        shown = dict.fromkeys(f"{_code(o.op)}{f' in {_code(o.path)}' if o.path else ''}" for o in found)
        facts += [f"* {text}" for text in list(shown)[:12]]
        seconds = beside.seconds(tuple(o.number for o in found))
        if seconds is not None:
            facts.append(f"* {time_text(seconds, beside.total)}")
    return "\n".join(facts)


def operator_schema(name: str) -> str:
    """The schema of an operator by its name at any level; empty for another operation."""
    plain = name.removeprefix(PREFIX)
    return load_table().text(plain) if plain in load_table() else ""


def _code(text: str) -> str:
    """Text in backticks: nothing in it is Markdown."""
    text = text.replace("\n", " ")
    return f"`{text}`" if "`" not in text else f"`` {text} ``"
