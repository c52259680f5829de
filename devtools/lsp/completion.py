"""What could be written at a place: operators and operations, values, symbols, blocks, kernels, arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from etir.devtools.lsp.document import Document
from etir.devtools.lsp.hover import operator_schema
from etir.dialects.aten.table import load_table
from etir.dialects.context import EtContext
from etir.dialects.edge.base import PREFIX
from etir.dialects.schema import SchemaKind
from etir.targets.manifest import available, load

MOST = 200
"""Proposals at a time; the client asks again when more is written."""

_OF_NAME = re.compile(r"([%@^])([\w$.-]*)$")
_KERNEL = re.compile(r'et\.call\s+"([\w:.]*)$')
_ARGUMENT = re.compile(r"([A-Za-z_][\w.]*\.[\w]+)\(.*[,(]\s*([A-Za-z_]*)$")
_OPERATION = re.compile(r"(?:^|=|\{)\s*([A-Za-z_][\w.]*|)$")
_KINDS = {"%": "value", "@": "symbol", "^": "block"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """One thing that could be written instead of the last ``replaces`` characters before the cursor."""

    label: str
    kind: str
    replaces: int
    detail: str = ""


def complete(document: Document, line: int, column: int) -> tuple[list[Proposal], bool]:
    """Proposals in a useful order, and whether these are all."""
    _, part, position = document.at(line, column)
    start = part.text.rfind("\n", 0, position) + 1
    found = list(_limited(_proposals(document, line, column, part.text[start:position])))
    return found[:MOST], len(found) <= MOST


def _limited(proposals: Iterator[Proposal]) -> Iterator[Proposal]:
    for index, proposal in enumerate(proposals):
        if index > MOST:
            return
        yield proposal


def _proposals(document: Document, line: int, column: int, before: str) -> Iterator[Proposal]:
    if (name := _OF_NAME.search(before)) is not None:
        _, part, position = document.at(line, column)
        # What this line defines is not visible in it.
        visible = part.names.visible(position - len(before), _KINDS[name[1]])
        for text in dict.fromkeys(n.text for n in reversed(list(visible))):
            if text.startswith(name[0]):
                yield Proposal(text, _KINDS[name[1]], len(name[0]))
    elif (kernel := _KERNEL.search(before)) is not None:
        for text, detail in _kernels().items():
            if text.startswith(kernel[1]):
                yield Proposal(text, "operator", len(kernel[1]), detail)
    elif (argument := _ARGUMENT.search(before)) is not None and operator_schema(argument[1]):
        schema = load_table().get(argument[1].removeprefix(PREFIX))
        assert schema is not None
        for one in schema.arguments:
            if not one.is_tensor and one.name.startswith(argument[2]):
                yield Proposal(one.name, "argument", len(argument[2]), f"{one.type_text} {one.name}")
    elif (operation := _OPERATION.search(before)) is not None:
        yield from _operations(operation[1])


def _operations(beginning: str) -> Iterator[Proposal]:
    for name, summary in _own_operations().items():
        if name.startswith(beginning):
            yield Proposal(name, "operation", len(beginning), summary)
    table = load_table()
    for prefix in ("", PREFIX):
        if not prefix.startswith(beginning) and not beginning.startswith(prefix):
            continue
        for name in table:
            if f"{prefix}{name}".startswith(beginning):
                schema = table.get(name)
                if schema is not None and schema.kind is SchemaKind.FUNCTIONAL:
                    yield Proposal(f"{prefix}{name}", "operator", len(beginning), schema.text)


@cache
def _own_operations() -> dict[str, str]:
    """The operations of the dialects that are no operators, with a line about each."""
    ctx = EtContext()
    found: dict[str, str] = {}
    for dialect in sorted(ctx.registered_dialect_names):
        for op in ctx.get_dialect(dialect).operations:
            found[op.name] = (inspect.getdoc(op) or "").split("\n")[0]
    return found


@cache
def _kernels() -> dict[str, str]:
    found: dict[str, str] = {}
    for target in available():
        for name, entry in load(target).kernels.items():
            found.setdefault(name, entry.schema_text)
    return dict(sorted(found.items()))
