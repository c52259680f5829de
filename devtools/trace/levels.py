"""One level of a program as a trace keeps it: text that ``et-opt`` runs, and columns with a row for each operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import StringIO
from itertools import accumulate
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, OpResult

from etir.devtools.trace.places import AttributeTexts, TracePrinter
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import dims_of
from etir.dialects.et.origin import origins_in


@dataclass(frozen=True)
class Level:
    """The text of a module, its columns, and the line (from 1) of each operation."""

    text: str
    columns: dict[str, Any]
    lines: dict[Operation, int]


def tensor_bytes(type: Attribute) -> int:
    """Bytes of a static tensor; 0 for everything else, and dynamic dims count as 1."""
    if not isinstance(type, TensorType):
        return 0
    try:
        size = dtype_of(type.element_type).itemsize
    except (KeyError, ValueError, TypeError):
        return 0
    return size * math.prod(d if isinstance(d, int) else 1 for d in dims_of(type))


def print_level(module: Operation, texts: AttributeTexts) -> tuple[str, dict[Operation, int]]:
    """The text, and the line of each operation."""
    stream = StringIO()
    printer = TracePrinter(stream, texts)
    printer.print_op(module)
    return stream.getvalue() + "\n", printer.lines


def level_of(module: ModuleOp, texts: AttributeTexts) -> Level:
    """The level of a module as it is now."""
    text, lines = print_level(module, texts)
    inside = [(op, line) for op, line in lines.items() if type(op) is not ModuleOp]
    ops = [op for op, _ in inside]
    index = dict(zip(map(id, ops), range(len(ops)), strict=True))
    places = [texts.place(op.location) for op in ops]
    origins = [found.numbers if (found := origins_in(op.location)) is not None else () for op in ops]
    # Fields, not the properties that read them: levels have ten thousands of operands.
    given = [op._operands for op in ops]  # pyright: ignore[reportPrivateUsage]
    operands = [[index.get(id(v.op), -1) if type(v) is OpResult else -1 for v in values] for values in given]
    known: dict[int, int] = {}

    def size_of(type: Attribute) -> int:
        found = known.get(id(type))
        if found is None:
            found = known[id(type)] = tensor_bytes(type)
        return found

    columns: dict[str, Any] = {
        "line": [line for _, line in inside],
        "name": [op.name for op in ops],
        "path": [path for _, _, path in places],
        "source": [[file, line] if file else None for file, line, _ in places],
        **rows_of("origins", origins),
        **rows_of("operands", operands),
        "bytes": [sum([size_of(result.type) for result in op.results]) for op in ops],
        "partition": [_partition(op) for op in ops],
    }
    return Level(text, columns, lines)


def rows_of(name: str, rows: list[Any]) -> dict[str, Any]:
    """Lists of numbers as one list and where each begins (compressed sparse rows)."""
    starts = [0, *accumulate(map(len, rows))]
    return {f"{name}_start": starts, name: [number for row in rows for number in row]}


def _partition(op: Operation) -> str | None:
    found = op.attributes.get("backend.partition")
    if found is None:
        return None
    return found.data if isinstance(found, StringAttr) else str(found)
