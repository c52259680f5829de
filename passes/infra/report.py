"""What running a pipeline tells: time, operations and rewrites, pass by pass, as text and as data for JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.ir import Operation

from etir.dialects.walking import walk


@dataclass
class Time:
    """Seconds of wall clock and of this process's CPU."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def measure(self) -> Generator[None]:
        """Add what the body takes, also when it raises."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu


@dataclass
class PassReport:
    """One pass of one run: its text in the pipeline, its time and that of the verifier after it, and what it did.

    ``before`` and ``after`` count the operations of the module by name, ``rewrites`` the applications of patterns.
    """

    name: str
    text: str
    time: Time = field(default_factory=Time)
    verify: Time = field(default_factory=Time)
    before: Mapping[str, int] = field(default_factory=dict[str, int])
    after: Mapping[str, int] = field(default_factory=dict[str, int])
    rewrites: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def difference(self) -> dict[str, int]:
        """How many operations of each name came (positive) or went (negative)."""
        names = dict.fromkeys((*self.before, *self.after))
        delta = {name: self.after.get(name, 0) - self.before.get(name, 0) for name in names}
        return {name: count for name, count in delta.items() if count}


@dataclass
class PipelineReport:
    """The passes of one run, in order, and the verification before the first one."""

    verify: Time = field(default_factory=Time)
    passes: list[PassReport] = field(default_factory=list[PassReport])

    def timing_text(self, phases: Mapping[str, Time] | None = None) -> str:
        """A table of times; ``phases`` are the tool's own steps around the pipeline, such as parsing."""
        around = dict(phases or {})
        rows = [(name, spent) for name, spent in around.items()]
        rows.append(("(verify the input)", self.verify))
        for p in self.passes:
            rows.append((p.text, p.time))
            rows.append(("  (verify)", p.verify))
        total = Time(sum(t.wall for _, t in rows), sum(t.cpu for _, t in rows))
        lines = ["===- Timing -===", "    wall ms     cpu ms      %  what"]
        for name, spent in [*rows, ("total", total)]:
            share = 100 * spent.wall / total.wall if total.wall else 0.0
            lines.append(f"{spent.wall * 1e3:11.2f}{spent.cpu * 1e3:11.2f}{share:7.1f}  {name}")
        return "\n".join(lines) + "\n"

    def statistics_text(self) -> str:
        """What each pass did: operations before and after, which kinds came and went, rewrites by pattern."""
        lines = ["===- Statistics -==="]
        for p in self.passes:
            lines.append(f"{p.text}: {sum(p.before.values())} -> {sum(p.after.values())} operations")
            lines.extend(f"{count:+8d}  {name}" for name, count in sorted(p.difference.items()))
            lines.extend(f"{count:8d}x pattern '{name}'" for name, count in sorted(p.rewrites.items()))
        return "\n".join(lines) + "\n"

    def to_json(self) -> list[dict[str, object]]:
        """One dictionary for each pass, for ``json.dumps``; times in seconds."""
        return [
            {
                "pass": p.name,
                "text": p.text,
                "wall": p.time.wall,
                "cpu": p.time.cpu,
                "verify_wall": p.verify.wall,
                "verify_cpu": p.verify.cpu,
                "operations_before": sum(p.before.values()),
                "operations_after": sum(p.after.values()),
                "difference": dict(sorted(p.difference.items())),
                "rewrites": dict(sorted(p.rewrites.items())),
            }
            for p in self.passes
        ]


def count_operations(root: Operation) -> Counter[str]:
    """The operations inside ``root`` by name."""
    return Counter([op.name for op in walk(root) if op is not root])


def merge_reports(reports: Sequence[PipelineReport]) -> PipelineReport:
    """One report for a pipeline that ran over several modules: times and counts of each pass added up.

    All reports are of the same pipeline; one that stopped early has fewer passes.
    """
    merged = PipelineReport()
    for report in reports:
        merged.verify.wall += report.verify.wall
        merged.verify.cpu += report.verify.cpu
        for index, p in enumerate(report.passes):
            if index == len(merged.passes):
                merged.passes.append(PassReport(p.name, p.text))
            into = merged.passes[index]
            for target, source in ((into.time, p.time), (into.verify, p.verify)):
                target.wall += source.wall
                target.cpu += source.cpu
            into.before = Counter(into.before) + Counter(p.before)
            into.after = Counter(into.after) + Counter(p.after)
            into.rewrites = Counter(into.rewrites) + Counter(p.rewrites)
    return merged
