"""The inspector: a profile and what is known of its program, together.

i = etir.devtools.Inspector("run.etdp", trace="m.trace")
print(i)                          # the slowest lines
i.by("line")                      # groups, as data
i.find_total_for_module("layers.0")
i.to_dataframe()                  # pandas is imported only here; columns are called as in ExecuTorch
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from etir.devtools.errors import E1401
from etir.devtools.profile.attribution import Program
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.profile.profile import Profile
from etir.devtools.profile.sums import NO_LINE, Group, Sums, percentile
from etir.devtools.trace.open import open_trace
from etir.devtools.trace.read import Trace
from etir.diagnostics import SourceLocation
from etir.emit.debug_file import calls_of, of_program
from etir.emit.ptd.model import FlatTensor
from etir.emit.ptd.reader import read_ptd
from etir.emit.pte.reader import read_pte

Source = str | Path
TOP = 20


def program_of(
    source: Source | Trace | None, record: Source | None = None, external: Mapping[str, FlatTensor] | None = None
) -> tuple[Program, Any]:
    """What a file says of a program (a trace, a ``.pte`` file, a debug file), and the ``.pte`` itself or None.

    ``record`` is the ETRecord of a ``.pte`` file, which has the nodes and lines of its operations, ``external`` are its
    ``.ptd`` files. Raises ``OSError`` when a file cannot be read, and error E1401 for one that is none of these.
    """
    if source is None:
        return Program(), None
    if isinstance(source, Trace):
        return Program(source), None
    data = Path(source).read_bytes()
    if data.startswith(b"PK"):
        return Program(Trace(data, str(source))), None
    if data[4:8] == b"ET12":
        program = read_pte(data, str(source))
        if record is not None:
            return Program(open_trace(data, str(source), record, external)), program
        calls = calls_of(program)
        made = Program(
            debug=of_program(program),
            read=lambda: open_trace(data, str(source), None, external),
            # Instructions are counted by chain: with several, which of them a profile means is not known.
            calls={plan.name: calls[plan.name] for plan in program.execution_plan if len(plan.chains) == 1},
        )
        return made, program
    raise E1401.error("it is neither a trace nor a .pte file", SourceLocation(str(source)))


class Inspector:
    """A profile with its program.

    ``profile`` is an ETDump file or a profile that was read, ``trace`` a trace, a ``.pte`` file, or None, ``record``
    the ETRecord of a ``.pte`` file of the stock pipeline, ``data`` the ``.ptd`` files of one with external weights;
    ``tick_seconds`` is the unit of the runtime's clock. Raises errors E08xx for a damaged profile or ``.ptd`` file,
    E1401 to E1403 for a damaged trace, E1404 for a profile of another program, E1407 for a damaged record, and E0863
    where a file's weights are in others that are not given.
    """

    def __init__(
        self,
        profile: Source | Profile,
        trace: Source | Trace | None = None,
        *,
        record: Source | None = None,
        data: Source | Sequence[Source] = (),
        tick_seconds: float = 1e-9,
    ):
        files = [data] if isinstance(data, (str, Path)) else data
        external = {str(file): read_ptd(Path(file).read_bytes(), str(file)) for file in files}
        self.program, pte = program_of(trace, record, external)
        if isinstance(profile, Profile):
            self.profile = profile
        else:
            self.profile = read_profile(Path(profile).read_bytes(), pte, name=str(profile))
        self.sums = Sums(self.profile, self.program, tick_seconds=tick_seconds)

    @classmethod
    def of(cls, profile: Profile, program: Program, *, tick_seconds: float = 1e-9) -> Self:
        """A profile that was read, and what is known of its program."""
        made = cls.__new__(cls)
        made.profile, made.program = profile, program
        made.sums = Sums(profile, program, tick_seconds=tick_seconds)
        return made

    def by(self, what: str) -> list[Group]:
        """Groups, the slowest first: ``line``, ``op``, ``module``, ``operator``, ``instruction``, ``origin``,
        ``delegate``, ``level:NAME``. A file without a trace has the level ``et``. Raises error E1405.
        """
        return (self._of_file if what.startswith("level:") and self._of_file is not None else self.sums).by(what)

    @cached_property
    def _of_file(self) -> Sums | None:
        """The sums by what reading the whole file says, where there is no trace: it takes long, so it is done once."""
        if self.program.trace is not None or self.program.read is None:
            return None
        return Sums(self.profile, Program(self.program.read()), tick_seconds=self.sums.tick_seconds)

    @property
    def totals(self) -> tuple[float, ...]:
        """Seconds of each run."""
        return self.sums.totals

    def find_total_for_module(self, path: str) -> float:
        """Milliseconds of a run, on average, in the module of that path and in those below it."""
        groups = self.by("module")
        inside = [g for g in groups if g.key == path or g.key.startswith(f"{path}.")]
        return 1e3 * sum(g.total for g in inside) / max(len(self.totals), 1)

    def with_line(self) -> float:
        """Which part of the time has a source line, counting that of boundaries as having none."""
        groups = self.by("line")
        total = sum(group.total for group in groups)
        return sum(g.total for g in groups if not g.boundary and g.key != NO_LINE) / total if total else 1.0

    def rows(self, what: str = "instruction") -> list[dict[str, Any]]:
        """Groups as plain data, times in milliseconds."""
        total = sum(self.totals) or 1.0
        return [
            {
                what.partition(":")[0]: group.key,
                **{f"p{p}": 1e3 * group.percentile(p) for p in (10, 50, 90)},
                "avg": 1e3 * group.total / max(len(group.seconds), 1),
                "min": 1e3 * min(group.seconds),
                "max": 1e3 * max(group.seconds),
                "share": group.total / total,
                "calls": group.calls,
                "operators": list(group.operators),
                "modules": list(group.paths),
                "origins": list(group.origins),
                "split": group.split,
            }
            for group in self.by(what)
        ]

    def to_json(self, what: str = "line") -> str:
        """Groups as JSON, with what is known of the whole."""
        head = {"runs": len(self.totals), "dropped": self.profile.dropped, "total": [1e3 * t for t in self.totals]}
        return json.dumps({**head, "by": what, "rows": self.rows(what)}, indent=1) + "\n"

    def to_tsv(self, what: str = "line") -> str:
        """Groups as lines with tabs between the columns."""
        lines = ["\t".join(("key", "p10_ms", "p50_ms", "p90_ms", "share", "calls", "modules", "operators"))]
        for row in self.rows(what):
            times = [f"{row[p]:.6f}" for p in ("p10", "p50", "p90")]
            lists = [" ".join(row["modules"]), "; ".join(row["operators"])]
            key = row[what.partition(":")[0]]
            lines.append(
                "\t".join([_flat(key), *times, f"{row['share']:.6f}", f"{row['calls']:g}", *map(_flat, lists)])
            )
        return "\n".join(lines) + "\n"

    def to_dataframe(self) -> Any:
        """A row for each instruction and operation of a delegate, as a data frame with ExecuTorch's columns."""
        import pandas

        found: dict[tuple[int, int | None, bool], list[Any]] = {}
        for part in self.sums.parts:
            if not part.boundary:
                found.setdefault((part.row.instruction, part.node, bool(part.backend)), []).append(part)
        columns: list[dict[str, Any]] = []
        for parts in found.values():
            first = parts[0]
            raw = [part.ticks * self.sums.tick_seconds * 1e3 for part in parts]
            origins = [o for n in first.origins if (o := self.program.origin(n)) is not None]
            columns.append(
                {
                    "event_block_name": "Execute",
                    "event_name": first.operator,
                    "raw": raw,
                    **{f"p{p}": percentile(raw, p) for p in (10, 50, 90)},
                    "avg": sum(raw) / len(raw),
                    "min": min(raw),
                    "max": max(raw),
                    "op_types": list(dict.fromkeys(o.op for o in origins)),
                    "stack_traces": {o.node or o.name: o.where for o in origins if o.where},
                    "module_hierarchy": {o.node or o.name: o.path for o in origins if o.path},
                    "is_delegated_op": bool(first.backend),
                    "delegate_backend_name": first.backend,
                }
            )
        return pandas.DataFrame(columns)

    def chrome_trace(self) -> str:
        """Events that Perfetto, speedscope and Chromium open: times in microseconds, runs one after the other."""
        unit = self.sums.tick_seconds * 1e6
        events: list[dict[str, Any]] = []
        first = min((part.row.start for part in self.sums.parts), default=0)
        inside: dict[tuple[int, int, int], float] = {}
        for part in self.sums.parts:
            place = (part.row.run, part.row.instruction, part.row.occurrence)
            start = (part.row.start - first) * unit + inside.get(place, 0.0)
            if part.backend:
                inside[place] = inside.get(place, 0.0) + part.ticks * unit
            origins = [o for n in part.origins if (o := self.program.origin(n)) is not None]
            lines = list(dict.fromkeys(o.where for o in origins if o.where))
            events.append(
                {
                    "name": part.operator,
                    "cat": part.backend or "instruction",
                    "ph": "X",
                    "ts": round(start, 3),
                    "dur": round(part.ticks * unit, 3),
                    "pid": 0,
                    "tid": part.row.run,
                    "args": {"instruction": part.row.instruction, "lines": lines, "origins": list(part.origins)},
                }
            )
        return json.dumps({"traceEvents": events}, separators=(",", ":")) + "\n"

    def table(self, what: str = "line", top: int | None = TOP) -> str:
        """What ``et-inspect`` prints."""
        groups = self.by(what)
        shown = groups if top is None else groups[:top]
        total = sum(self.totals) or 1.0
        rows = [("p50 ms", "share", "calls", what, "module", "operations")]
        for g in shown:
            calls = f"{g.calls:g}" if not g.boundary else "-"
            place = f"{g.key} *" if g.split else g.key
            rows.append((f"{1e3 * g.percentile(50):.3f}", f"{100 * g.total / total:.1f} %", calls, place, *_made_of(g)))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(
                [*(row[i].rjust(widths[i]) for i in range(3)), *(row[i].ljust(widths[i]) for i in (3, 4)), row[5]]
            ).rstrip()
            for row in rows
        ]
        if len(shown) < len(groups):
            rest = sum(group.total for group in groups[len(shown) :])
            lines.append(f"and {len(groups) - len(shown)} more: {100 * rest / total:.1f} %")
        if any(group.split for group in shown):
            lines.append("* a part of the time is that of one instruction with several origins, divided evenly")
        return "\n".join([*lines, self.summary()])

    def summary(self) -> str:
        """One line: the time of a run, what is missing, how much of it has a source line."""
        runs = [1e3 * t for t in self.totals]
        spread = f" (p10 {percentile(runs, 10):.3f}, p90 {percentile(runs, 90):.3f})" if len(runs) > 1 else ""
        count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        lines = f"{100 * self.with_line():.1f} % of the time has a source line"
        return f"{percentile(runs, 50):.3f} ms in {count}{spread}; {self.profile.dropped} records dropped; {lines}"

    def __str__(self) -> str:
        return self.table()


def _made_of(group: Group, most: int = 2) -> tuple[str, str]:
    def some(items: Sequence[str]) -> str:
        rest = f" and {len(items) - most} more" if len(items) > most else ""
        return ", ".join(items[:most]) + rest

    return some(group.paths), "" if group.boundary else some(group.operators)


def _flat(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")
