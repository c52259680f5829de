"""What the parser's messages leave out: what stands at the place, and which name was probably meant.

xDSL says what it expected; a reader also wants to see what it found, above all where that is nothing (an empty name,
the end of the text). For an unknown operation the similar names of its dialect are looked for, for an operator that has
no such overload the overloads that it has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.context import Context

from etir.diagnostics import did_you_mean, similar
from etir.dialects.aten.table import load_table
from etir.dialects.context import EtContext
from etir.dialects.schema import OpSchema, SchemaKind

_EDGE = "edge."
_LONGEST_FOUND = 24
"""Characters of the text that a message quotes."""
_MOST_OVERLOADS = 10

_UNREGISTERED = re.compile(r"Operation (\S*) is not registered")
_UNKNOWN_ATTRIBUTE = re.compile(r"'([^'.]+)\.([^']+)' is not registered")
_EXPECTATION = re.compile(r"^expect|\bexpected$", re.IGNORECASE)


def complete_message(message: str, found: str, text: str, position: int) -> str:
    """A message of the parser's with what was found: the token, the character or the end of the text.

    ``found`` is the text of the token at ``position``.
    """
    message = message.split("\n")[0].rstrip(".!")
    found = found.split("\n")[0][:_LONGEST_FOUND]
    character = text[position : position + 1]
    what = f"'{found}'" if found.strip() else "the end of the text"
    if message.startswith("Unexpected character:"):
        shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
        return f"unexpected character {shown}"
    if message == "Could not parse entire input":
        return f"expected an operation, found {what}"
    if "{first_char}" in message:
        return f"expected a name after '{character}'"
    if not message or message.startswith(" "):
        return f"unexpected {what.removeprefix('the ')}{message}"
    if _EXPECTATION.search(message) and (found.strip() or not text[position:].strip()):
        return f"{message}, found {what}"
    return message


def unregistered_name(message: str) -> str | None:
    """The operation that a message says is not registered, possibly empty; None for another message."""
    match = _UNREGISTERED.fullmatch(message)
    return None if match is None else match[1]


def similar_operations(name: str, ctx: Context) -> str:
    """``; did you mean 'aten.relu.default'?`` for an unknown operation, or which overloads and dialects there are."""
    schemas = ctx.schemas if isinstance(ctx, EtContext) else {}
    operator = name.removeprefix(_EDGE)
    prefix = _EDGE if name != operator else ""
    packet, _, overload = operator.rpartition(".")
    for whole in (operator, packet):
        if overloads := _overloads(whole, schemas):
            return _missing_overload(whole, "" if whole == operator else overload, overloads, prefix)
    dialect = name.partition(".")[0]
    if prefix or dialect in load_table().namespaces:
        return _similar_operator(operator, packet, overload, prefix)
    registered = list(ctx.registered_dialect_names)
    if dialect in registered:
        own = [op.name.partition(".")[2] for op in ctx.get_dialect(dialect).operations]
        return did_you_mean(name.partition(".")[2], own, f"'{dialect}.{{}}'")
    if "." not in name:
        return _undotted(name, ctx)
    near = did_you_mean(dialect, registered, "dialect '{}'")
    return near or f": there is no dialect '{dialect}'"


def complete_attribute(message: str, ctx: Context) -> str:
    """A message about an unknown attribute or type with the similar names of its dialect."""
    match = _UNKNOWN_ATTRIBUTE.fullmatch(message)
    if match is None or match[1] not in ctx.registered_dialect_names:
        return message
    dialect = ctx.get_dialect(match[1])
    return message + did_you_mean(f"{match[1]}.{match[2]}", [attribute.name for attribute in dialect.attributes])


def _overloads(packet: str, schemas: dict[str, OpSchema]) -> list[str]:
    """The overloads of an operator that stand in programs, out variants left out."""
    table = load_table()
    declared = [s for name, s in schemas.items() if name.rpartition(".")[0] == packet]
    known = [s for s in (table.get(name) for name in table.overloads(packet)) if s is not None]
    return [s.op_name for s in (*known, *declared) if s.kind is not SchemaKind.OUT]


def _missing_overload(packet: str, overload: str, overloads: Sequence[str], prefix: str) -> str:
    """The overloads of an operator, and which of them ``overload`` could be (empty where none was written)."""
    names = [name.rpartition(".")[2] for name in overloads]
    rest = ", ..." if len(names) > _MOST_OVERLOADS else ""
    listed = f"'{packet}' has the overloads {', '.join(names[:_MOST_OVERLOADS])}{rest}"
    if len(names) == 1:
        return f"; did you mean '{prefix}{overloads[0]}'?"
    near = did_you_mean(overload, names, f"'{prefix}{packet}.{{}}'")
    return f"{near} {listed}" if near else f": {listed}"


def _similar_operator(operator: str, packet: str, overload: str, prefix: str) -> str:
    """Operators whose name is similar, with the same overload where they have it."""
    table = load_table()
    namespace, _, rest = (packet if "." in packet else operator).partition(".")
    if namespace not in table.namespaces:
        namespace, rest = "aten", packet
    start = f"{namespace}."
    near = [start + name for name in similar(rest, [p[len(start) :] for p in table.packets if p.startswith(start)])]
    wanted = [(f"{other}.{overload}", table.packets[other]) for other in near]
    return _listed([name if name in overloads else overloads[0] for name, overloads in wanted], prefix)


def _undotted(name: str, ctx: Context) -> str:
    """Operations of any dialect that have this name after the dialect's: ``func.return`` for ``return``."""
    own = [op.name for dialect in ctx.registered_dialect_names for op in ctx.get_dialect(dialect).operations]
    found = [op for op in own if op.partition(".")[2] == name]
    return _listed([*found, *load_table().overloads(f"aten.{name}")][:3]) or ": it names no dialect"


def _listed(names: Sequence[str], prefix: str = "") -> str:
    quoted = [f"'{prefix}{name}'" for name in names]
    return f"; did you mean {' or '.join(quoted)}?" if quoted else ""
