"""What became of one part of the program: every pass that rewrote it or left it alone, and where it ended up."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from etir.devtools.errors import E1406
from etir.devtools.trace.read import Origin, Trace, checked
from etir.diagnostics import SourceLocation

ASIDE = frozenset({"et.weight", "et.state", "et.get_weight", "func.func", "func.return", "input"})


def find(trace: Trace, what: str) -> list[Origin]:
    """The origins that a source line, a node, an operator or the path of a module names. Raises error E1406."""
    number = what.removeprefix("origin ")
    if number.isdecimal() and (one := trace.origin(int(number))) is not None:
        return [one]
    tests = (
        lambda o: what == o.where or (bool(o.file) and o.where.endswith(f"/{what}")),
        lambda o: any(what == name for result in o.nodes for name, _ in result) or what == o.name,
        lambda o: what == o.op or o.op.startswith(f"{what}."),
        lambda o: what == o.path or o.path.startswith(f"{what}."),
    )
    for test in tests:
        found = [origin for origin in trace.origins if test(origin)]
        if found:
            return [o for o in found if o.op not in ASIDE] or found
    names = dict.fromkeys(n for o in trace.origins for n in (o.where, o.node, o.op, o.path) if n)
    near = get_close_matches(what, list(names), 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise E1406.error(f"no operation of the program is at '{what}'{hint}", SourceLocation(trace.name))


def explain(trace: Trace, what: str) -> str:
    """The text for all origins that ``what`` names. Raises error E1406."""
    found = find(trace, what)
    told: dict[int, list[str]] = {origin.number: [] for origin in found}
    for entry in trace.passes:
        with checked(trace.name, str(entry.changes)):
            changes = trace.changes(entry.index)
            for number, lines in told.items():
                lines += dict.fromkeys(f"{entry.name:<18} {text}" for text in _in_pass(changes, number))
    with checked(trace.name, "instructions.json, delegates.json or memory.json"):
        _tell_of_the_program(trace, told)
    lines: list[str] = []
    for origin in found:
        where = " ".join(part for part in (origin.where, origin.path) if part)
        lines.append(f"{where or origin.name}: {origin.op} (origin {origin.number})")
        lines += [f"  {line}" for line in told[origin.number]] or ["  nothing of it is left: nobody reads it"]
    return "\n".join(lines) + "\n"


def _tell_of_the_program(trace: Trace, told: dict[int, list[str]]) -> None:
    """Instructions, operations inside of delegates, and buffers, by the origins that they come from."""
    for method, table in trace.instructions.items():
        for row in range(len(table)):
            for number in table.several("origins", row):
                if number in told:
                    delegate = table["delegate"][row]
                    name = table["operator"][row] if delegate is None else f"delegate {delegate}"
                    told[number].append(f"{'et':<18} instruction {row} of '{method}': {name}")
    for symbol, nodes in trace.delegates.items():
        for row in range(len(nodes)):
            for number in nodes.several("origins", row):
                if number in told:
                    told[number].append(f"{nodes.columns['backend']:<18} {nodes['name'][row]} in {symbol}")
    for method, plan in trace.memory.items():
        for buffer in plan["buffers"]:
            for number in buffer["origins"]:
                if number in told and buffer["pool"] is not None:
                    live = ", ".join(f"{first}..{last}" for first, last in buffer["live"]) or "never"
                    told[number].append(
                        f"{'memory':<18} %{buffer['name']} of '{method}': {buffer['bytes']:,} bytes in pool "
                        f"{buffer['pool']} at {buffer['offset']:,}, alive {live}"
                    )


def _in_pass(changes: dict[str, list[list[object]]], number: int) -> Iterator[str]:
    for pattern, op, origins, reason, count in changes["missed"]:
        if number in origins:  # type: ignore[operator]
            times = f" ({count} times)" if count != 1 else ""
            yield f"'{pattern}' left {op} alone: {reason}{times}"
    gone = [row for row in changes["gone"] if number in row[1]]  # type: ignore[operator]
    new = [row for row in changes["new"] if number in row[1]]  # type: ignore[operator]
    if gone or new:
        pattern = next((str(row[2]) for row in [*new, *gone] if row[2]), None)
        by = f"'{pattern}': " if pattern else ""
        yield f"{by}{_names(gone) or 'nothing'} became {_names(new) or 'nothing'}"


def _names(rows: list[list[object]]) -> str:
    found: dict[str, int] = {}
    for text, *_ in rows:
        name = str(text)
        if name.startswith("%"):  # its results come first
            name = name.partition(" = ")[2]
        name = name.partition("(")[0]
        found[name] = found.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in found.items())
