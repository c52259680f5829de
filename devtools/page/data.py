"""What the page shows, as plain columns: levels, origins, source lines, times, memory, delegates, passes, findings.

Every reference is an index into another column of the same data, checked here: the scripts of the page trust them.
Origins are numbered from 0 in the page; numbers of a trace that no origin has are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from etir.devtools.errors import E1423
from etir.devtools.inspector import Inspector
from etir.devtools.overlaps import overlaps
from etir.devtools.page.compared import Compared
from etir.devtools.page.sources import source_lines
from etir.devtools.page.texts import shown_lines
from etir.devtools.profile.profile import Kind
from etir.devtools.profile.sums import percentile
from etir.devtools.trace.read import Table, Trace, checked
from etir.diagnostics import SourceLocation

MOST_OPERATIONS = 400_000
"""Operations of a level; a browser holds a few of them at most."""
MOST_CHANGES = 400
"""Changes of a pass whose texts are in the page."""
STRUCTURE = ("builtin.module", "func.func", "func.return", "et.method")
"""Operations that have others inside: what is asked for by origin is never all of them."""

_BLOB = re.compile(r'#et\.blob<"[^"]*", (\d+)>')
_SHOWN = 16
"""Characters of a key that are shown."""
_KEY = re.compile(rf'"([^"]{{1,{_SHOWN}}})')
_CONSTANT = re.compile(r"\s+(%[\w$.\-]+) = [\w.]+\.constant (.*)")
_DIGEST = re.compile(r'(?<!<)"([0-9a-f]{32,})"')
_DELEGATE_TYPE = re.compile(r"tensor<([^<>,]*)[^<>]*>$")
_OPERAND = re.compile(r"%[\w$.\-]+")
_SYMBOL = re.compile(r"@((?:\"(?:[^\"\\]|\\.)*\")|[\w$.\-]+)")


class Interned:
    """Texts by number, in the order of their first use."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        index = self._known.get(text)
        if index is None:
            index = self._known[text] = len(self.texts)
            self.texts.append(text)
        return index


class Collector:
    """Collects the data of one page from a trace and what was seen of its program."""

    def __init__(self, trace: Trace, roots: Sequence[Path]):
        self.trace = trace
        self.roots = roots
        self._origin = {origin.number: i for i, origin in enumerate(trace.origins)}

    def numbers(self, origins: Iterable[Any]) -> list[int]:
        """Origins as the page numbers them."""
        return [index for n in origins if (index := self._origin.get(n)) is not None]

    def page(
        self,
        inspectors: Sequence[Inspector] = (),
        values: Mapping[str, list[list[Any]]] | None = None,
        differences: Compared | None = None,
        title: str = "",
    ) -> dict[str, Any]:
        """Everything. ``values`` are rows by method, ``differences`` those of ``compared``."""
        trace = self.trace
        differences = Compared() if differences is None else differences
        levels = [self._level(name) for name in trace.levels]
        delegates = self._delegates()
        memory: dict[str, dict[str, Any]] = {}
        instructions: dict[str, dict[str, Any]] = {}
        with checked(trace.name, "memory.json"):
            for method, plan in trace.memory.items():
                memory[str(method)] = self._memory(plan)
        with checked(trace.name, "instructions.json"):
            for method, table in trace.instructions.items():
                instructions[str(method)] = self._instructions(table, levels[-1] if levels else None)
        profiles = {inspector.program.method_of(inspector.profile): inspector for inspector in inspectors}
        return {
            "title": (title or Path(trace.name).name).encode("utf-8", "replace").decode("utf-8"),
            "target": trace.target,
            "etir": str(trace.head.get("etir", "")),
            "origins": self._origins(),
            "files": self._files(),
            "levels": levels + delegates,
            "instructions": instructions,
            "method": self._shown_first(instructions, memory, differences, profiles),
            "memory": memory,
            "passes": self._passes(),
            "profiles": {method: self._profile(inspector) for method, inspector in profiles.items()},
            "values": dict(values or {}),
            "differences": self._differences(differences),
            "findings": self._findings(memory, values or {}, differences, profiles),
        }

    # --- levels ------------------------------------------------------------------------------------------------------

    def _level(self, name: str) -> dict[str, Any]:
        table = self.trace.columns(name)
        with checked(self.trace.name, f"levels/{name}.json"):
            if len(table) > MOST_OPERATIONS:
                message = f"level '{name}' has {len(table):,} operations, a page shows {MOST_OPERATIONS:,}"
                raise E1423.error(message, SourceLocation(self.trace.name))
            lines = shown_lines(self.trace.text(name))
            return self._text_level(name.partition("-")[2] or name, lines, table)
        raise AssertionError

    def _text_level(self, name: str, lines: list[str], table: Table, kind: str = "level") -> dict[str, Any]:
        count = len(table)
        names = Interned()
        partitions = Interned()
        partitions("")
        origins = [self.numbers(table.several("origins", row)) for row in range(count)]
        operands: list[list[int]] = [[] for _ in range(count)]
        if "operands" in table.columns:
            operands = [[n for n in table.several("operands", row) if 0 <= n < count] for row in range(count)]
        rows = [min(max(int(line), 1), len(lines)) - 1 for line in table["line"]]
        level: dict[str, Any] = {
            "name": name,
            "kind": kind,
            "text": "\n".join(lines),
            "line": _steps(rows),
            "op": [names(str(op)) for op in table["name"]],
            "ops": names.texts,
            "structure": [i for i, op in enumerate(names.texts) if op in STRUCTURE],
            "origins": _ragged(origins),
            "operands": _ragged([[row - n for n in found] for row, found in enumerate(operands)]),
            "bytes": [int(n) for n in table["bytes"]] if "bytes" in table.columns else [0] * count,
        }
        marks = table.columns.get("partition", ())
        if any(marks):
            level["partition"] = [partitions(str(mark) if mark else "") for mark in marks]
            level["partitions"] = partitions.texts
        return level

    def _delegates(self) -> list[dict[str, Any]]:
        """The insides of delegates as one more level for each backend; rows are what the backend reports."""
        by_backend: dict[str, list[tuple[str, Table]]] = {}
        with checked(self.trace.name, "delegates.json"):
            for symbol, table in self.trace.delegates.items():
                by_backend.setdefault(str(table.columns["backend"]), []).append((str(symbol), table))
            found: list[dict[str, Any]] = []
            for backend, tables in by_backend.items():
                lines: list[str] = []
                columns: dict[str, Any] = {"line": [], "name": [], "origins": [], "origins_start": [0]}
                where: dict[str, int] = {}
                for symbol, table in tables:
                    inside = shown_lines(str(table.columns["text"]))
                    where[symbol] = len(columns["line"])
                    columns["line"] += [min(int(n), len(inside)) + len(lines) for n in table["line"]]
                    columns["name"] += table["name"]
                    for row in range(len(table)):
                        columns["origins"] += table.several("origins", row)
                        columns["origins_start"].append(len(columns["origins"]))
                    lines += inside
                level = self._text_level(backend, lines or [""], Table(columns), "delegate")
                found.append({**level, "symbols": where})
            return found
        raise AssertionError

    def _instructions(self, table: Table, level: dict[str, Any] | None) -> dict[str, Any]:
        rows_of_line: dict[int, int] = {}
        if level is not None:
            at = 0
            for row, step in enumerate(level["line"]):
                at += step
                rows_of_line.setdefault(at + 1, row)
        operators = Interned()
        return {
            "operator": [operators(str(op)) for op in table["operator"]],
            "operators": operators.texts,
            "delegate": [None if symbol is None else str(symbol) for symbol in table["delegate"]],
            "row": [rows_of_line.get(line, -1) for line in table["line"]],
            "origins": _ragged([self.numbers(table.several("origins", row)) for row in range(len(table))]),
        }

    # --- the program -------------------------------------------------------------------------------------------------

    def _origins(self) -> dict[str, Any]:
        ops, paths, methods = Interned(), Interned(), Interned()
        files = {name: i for i, name in enumerate(self._file_names())}
        origins = self.trace.origins
        return {
            "number": _steps([o.number for o in origins]),
            "op": [ops(o.op) for o in origins],
            "ops": ops.texts,
            "name": [o.node or o.name for o in origins],
            "file": [files.get(o.file, -1) for o in origins],
            "line": [o.line for o in origins],
            "path": [paths(o.path) for o in origins],
            "paths": paths.texts,
            "method": [methods(str(o.method or "")) for o in origins],
            "methods": methods.texts,
        }

    def _file_names(self) -> list[str]:
        return list(dict.fromkeys(o.file for o in self.trace.origins if o.file))

    def _files(self) -> list[dict[str, Any]]:
        """The cited files; without its text, a file is its cited lines."""
        return [
            {"name": name, "text": None if lines is None else "\n".join(lines)}
            for name in self._file_names()
            for lines in (source_lines(name, self.roots),)
        ]

    def _memory(self, plan: dict[str, Any]) -> dict[str, Any]:
        buffers = plan["buffers"]
        bounds = {
            str(pool): {
                "bound": int(bound["bound"]),
                "peak": None if bound["peak"] is None else int(bound["peak"]),
                "alive": [int(i) for i in bound["alive"] if 0 <= int(i) < len(buffers)],
            }
            for pool, bound in plan["bounds"].items()
        }
        return {
            "pools": [int(size) for size in plan["pools"]],
            "instructions": int(plan["instructions"]),
            "bounds": bounds,
            "name": [str(b["name"]) for b in buffers],
            "type": [str(b["type"]) for b in buffers],
            "bytes": [int(b["bytes"]) for b in buffers],
            "pool": [-1 if b["pool"] is None else int(b["pool"]) for b in buffers],
            "offset": [-1 if b["offset"] is None else int(b["offset"]) for b in buffers],
            "live": [[[int(first), int(last)] for first, last in b["live"]] for b in buffers],
            "state": [None if b["state"] is None else str(b["state"]) for b in buffers],
            "origins": _ragged([self.numbers(b["origins"]) for b in buffers]),
            "overlaps": [list(found) for found in overlaps(plan)],
        }

    def _passes(self) -> list[dict[str, Any]]:
        seconds = [spent for _, spent in self.trace.times]
        return [
            {
                "name": entry.name,
                "text": entry.text,
                "rewrites": {str(k): int(v) for k, v in entry.rewrites.items()},
                "gone": entry.gone,
                "new": entry.new,
                "changed": entry.changed,
                "missed": entry.missed,
                "outcome": entry.outcome,
                "ms": round(1e3 * seconds[entry.index], 3) if entry.index < len(seconds) else None,
                **self._changes(entry.index),
            }
            for entry in self.trace.passes
        ]

    def _changes(self, index: int) -> dict[str, Any]:
        changes = self.trace.changes(index)
        with checked(self.trace.name, str(self.trace.passes[index].changes)):
            rows: list[list[Any]] = []
            for kind in ("gone", "new"):
                rows += [[kind, "", str(text), self.numbers(o), p] for text, o, p in changes[kind][:MOST_CHANGES]]
            for before, after, origins, pattern in changes["changed"][:MOST_CHANGES]:
                rows.append(["changed", str(before), str(after), self.numbers(origins), pattern])
            for pattern, op, origins, reason, count in changes["missed"][:MOST_CHANGES]:
                rows.append(["missed", "", f"{op}: {reason}", self.numbers(origins), f"{pattern} ×{count}"])
            return {"rows": rows}
        raise AssertionError

    # --- runs --------------------------------------------------------------------------------------------------------

    def _profile(self, inspector: Inspector) -> dict[str, Any]:
        """Times in milliseconds of the run that took as long as half of the others at most: they add up to it."""
        sums = inspector.sums
        unit = sums.tick_seconds * 1e3
        totals = [1e3 * total for total in inspector.totals]
        order = sorted(range(len(totals)), key=lambda i: (totals[i], i))
        at = order[(len(order) - 1) // 2] if order else 0
        run = sums.runs[at] if order else 0
        nodes: dict[tuple[int, int, str], float] = {}
        for part in sums.parts:
            if part.row.run == run and part.backend:
                key = (part.row.instruction, -1 if part.node is None else part.node, part.operator)
                nodes[key] = nodes.get(key, 0.0) + part.ticks * unit
        whole: dict[int, list[float]] = {}
        for row in inspector.profile.instructions(run):
            if row.kind is not Kind.OTHER:
                spent = whole.setdefault(row.instruction, [0.0, 0])
                spent[0] += row.ticks * unit
                spent[1] += 1
        every = totals[at] if totals else 0.0
        lines = [(1e3 * group.seconds[at], group) for group in inspector.by("line")] if totals else []
        lines.sort(key=lambda pair: (-pair[0], pair[1].key))
        return {
            "runs": len(totals),
            "total": _ms(every),
            "p10": _ms(percentile(totals, 10)),
            "p90": _ms(percentile(totals, 90)),
            "dropped": inspector.profile.dropped,
            "instructions": [[index, _ms(spent), calls] for index, (spent, calls) in whole.items()],
            "nodes": [[index, node, _ms(spent), label] for (index, node, label), spent in nodes.items()],
            "lines": [
                [
                    group.key,
                    _ms(spent),
                    round(100 * spent / every, 2) if every else 0,
                    list(group.paths[:2]),
                    list(group.operators[:2]),
                    self.numbers(group.origins),
                ]
                for spent, group in lines
            ],
        }

    def _differences(self, compared: Compared) -> list[list[Any]]:
        return [
            [index, row.level, _ms(row.error), row.wrong]
            for row in compared.rows
            for index in self.numbers([row.origin])
        ]

    def _shown_first(
        self,
        instructions: Mapping[str, Any],
        memory: Mapping[str, dict[str, Any]],
        differences: Compared,
        profiles: Mapping[str, Inspector],
    ) -> str:
        """The method that a page opens with: where something is wrong, else which ran longest, else ``forward``."""
        wrong = [*differences.methods, *(method for method, plan in memory.items() if plan["overlaps"])]
        ran = sorted(profiles, key=lambda method: -max(profiles[method].totals, default=0.0))
        return next((method for method in (*wrong, *ran, "forward", *instructions) if method in instructions), "")

    def _findings(
        self,
        memory: Mapping[str, dict[str, Any]],
        values: Mapping[str, list[list[Any]]],
        differences: Compared,
        profiles: Mapping[str, Inspector],
    ) -> list[list[Any]]:
        """Severity, text, origins: what is wrong, the worst first."""
        found: list[list[Any]] = []
        for text, origins in differences.wrong:
            found.append(["error", text, self.numbers(origins)])
        for method, plan in memory.items():
            for a, b, at in plan["overlaps"]:
                text = f"{method}: buffers %{plan['name'][a]} and %{plan['name'][b]} overlap from instruction {at} on"
                buffers = self.trace.memory[method]["buffers"]
                found.append(["error", text, self.numbers([*buffers[a]["origins"], *buffers[b]["origins"]])])
        for method, rows in values.items():
            bad = sorted((row for row in rows if row[7] and row[0] >= 0), key=lambda row: row[0])
            if bad:
                table = self.trace.instructions.get(method)
                known = table is not None and bad[0][0] < len(table)
                origins = self.numbers(table.several("origins", bad[0][0])) if table is not None and known else []
                text = f"{method}: {bad[0][7]:,} values are NaN after instruction {bad[0][0]}, the first of {len(bad)}"
                found.append(["error", text, origins])
        for entry in self.trace.passes:
            if entry.outcome:
                found.append(["error", f"pass {entry.name}: {entry.outcome}", []])
        for method, inspector in profiles.items():
            if inspector.profile.dropped:
                text = f"{method}: {inspector.profile.dropped} records of the profile were dropped, its end is missing"
                found.append(["warning", text, []])
        return found


def sizes_of(data: dict[str, Any]) -> list[list[Any]]:
    """Bytes of constants and of delegates in the file by symbol, the largest first, with the row of the last level."""
    levels = [level for level in data["levels"] if level["kind"] == "level"]
    if not levels:
        return []
    level = levels[-1]
    known = {key: name for one in data["levels"] if one["kind"] == "delegate" for key, name in _constants(one, data)}
    lines = level["text"].split("\n")
    at, found = 0, []
    for row, step in enumerate(level["line"]):
        at += step
        line = lines[at]
        sizes = [int(n) for n in _BLOB.findall(line)]
        if sizes:
            symbol = _SYMBOL.search(line) or _KEY.search(line)
            name = symbol[1].strip('"') if symbol else level["ops"][level["op"][row]]
            found.append([known.get(name, name), sum(sizes), row])
    return sorted(found, key=lambda entry: (-entry[1], entry[2]))


def _constants(level: dict[str, Any], data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys of constants in the text of a delegate, and what they are: the type, and the module or the node of the
    first operation that takes them. Keys are digests, which say nothing.
    """
    rows = dict(zip(accumulate(level["line"]), level["origins"], strict=True))
    origins, held = data["origins"], dict[str, list[tuple[str, str]]]()
    for number, line in enumerate(level["text"].split("\n")):
        if not line.startswith(" "):  # another function
            held = {}
        elif found := _CONSTANT.match(line):
            type = _DELEGATE_TYPE.search(line)
            held[found[1]] = [(key[:_SHOWN], "" if type is None else type[1]) for key in _DIGEST.findall(found[2])]
        elif number in rows and held:
            row = rows[number]
            among = [row] if isinstance(row, int) else row
            where = next(
                (text for o in among if (text := origins["paths"][origins["path"][o]] or origins["name"][o])), ""
            )
            for operand in _OPERAND.findall(line.partition(" = ")[2]):
                yield from ((key, f"{type} of {where}".strip()) for key, type in held.pop(operand, ()) if where)


def _steps(numbers: Sequence[int]) -> list[int]:
    """Each number as the difference to the one before: small numbers take less room."""
    return [n - before for before, n in zip([0, *numbers], numbers, strict=False)]


def _ragged(rows: Sequence[Sequence[int]]) -> list[Any]:
    """Rows of several numbers: a number for a row of one, else a list."""
    return [row[0] if len(row) == 1 else list(row) for row in rows]


def _ms(value: float) -> float:
    return float(f"{value:.5g}")
