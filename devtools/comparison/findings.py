"""What a comparison found: stages with a row for each value, and what is wrong first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

INFINITE = float("inf")


@dataclass
class Row:
    """One value of a stage, the worst of all samples and of all times that it was computed.

    Attributes:
        what: the operation or instruction that computes it.
        where: its source line and module path; empty where they are not known.
        origin: the number of the operation of the imported program whose value it is; 0 where there is none.
        accumulated: the difference from the reference; None where the reference does not have it.
        local: the difference when the inputs of the operation are right; None where that cannot be said.
        allowed: the tolerance for its dtype.
        instruction: the instruction of the file, in stages that are runtimes.
    """

    what: str
    where: str = ""
    origin: int = 0
    accumulated: float | None = None
    local: float | None = None
    allowed: float = 1e-4
    instruction: int | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the operation itself is."""
        return self.local is not None and not self.local <= self.allowed

    def add(self, accumulated: float | None, local: float | None) -> None:
        """The worse of what is known and what is given."""
        if accumulated is not None:
            self.accumulated = max(self.accumulated or 0.0, accumulated)
        if local is not None:
            self.local = max(self.local or 0.0, local)


@dataclass
class Stage:
    """A level in the interpreter, or a runtime.

    ``rows`` are in the order of execution, ``outputs`` are those of the method. ``compared`` counts the values of the
    imported program that were compared, without weights and views, and ``total`` those that it has; both count values
    of instructions where nothing links them. ``failure`` is why the stage could not run, and ``broken`` whether that
    is the program's fault.
    """

    name: str
    rows: list[Row] = field(default_factory=list[Row])
    outputs: list[Row] = field(default_factory=list[Row])
    compared: int = 0
    total: int = 0
    failure: str = ""
    broken: bool = False

    @property
    def first_wrong(self) -> Row | None:
        """The first operation that is wrong whatever came before, or else an output that is."""
        return next((row for row in [*self.rows, *self.outputs] if row.is_wrong), None)

    def worst(self, kind: str) -> Row | None:
        """The row with the largest ``accumulated`` or ``local`` difference; None where there is none at all."""
        rows = [row for row in [*self.rows, *self.outputs] if getattr(row, kind) is not None]
        return max(rows, key=lambda row: getattr(row, kind), default=None)


@dataclass(frozen=True)
class Finding:
    """What is wrong first: the stage, what in it, and what is known of why."""

    stage: str
    what: str
    where: str = ""
    why: str = ""
    row: Row | None = None

    def __str__(self) -> str:
        place = f", {self.where}" if self.where else ""
        return f"first wrong: {self.what}{place}{self.why and f': {self.why}'}"


@dataclass
class Comparison:
    """The result for one method. ``finding`` is None when nothing is wrong; ``program`` is the digest of the file."""

    method: str
    reference: str
    samples: int
    stages: list[Stage]
    finding: Finding | None
    notes: list[str] = field(default_factory=list[str])
    program: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return self.finding is None

    def table(self) -> str:
        """What ``et-compare`` prints: what is wrong first, then a line for each stage."""
        count = f"{self.samples} sample{'s' if self.samples > 1 else ''}"
        head = f"nothing is wrong in '{self.method}': {len(self.stages)} stages, {count}"
        rows = [("stage", "compared", "worst accumulated", "worst local (right inputs)")]
        for stage in self.stages:
            if stage.failure:
                rows.append((stage.name, "-", stage.failure, ""))
                continue
            off, local = (_cell(stage.worst(kind), kind) for kind in ("accumulated", "local"))
            rows.append((stage.name, f"{stage.compared}/{stage.total}", off, local))
        widths = [max(len(row[i]) for row in rows if row[3] or i < 2) for i in range(3)]
        lines = ["  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]).rstrip() for row in rows]
        first = str(self.finding) if self.finding is not None else head
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([first, f"reference: {self.reference}", *lines, *notes]) + "\n"

    def to_json(self) -> str:
        """Everything, as JSON."""
        stages = [asdict(stage) for stage in self.stages]
        found = None if self.finding is None else asdict(self.finding)
        head: dict[str, Any] = {"method": self.method, "reference": self.reference, "samples": self.samples}
        head |= {"program": self.program} if self.program else {}
        return json.dumps(_finite({**head, "finding": found, "stages": stages, "notes": self.notes}), indent=1) + "\n"

    def __str__(self) -> str:
        return self.table()


def _cell(row: Row | None, kind: str) -> str:
    if row is None:
        return "-"
    value: float = getattr(row, kind)
    if not value:
        return "0"
    mark = " ✗" if not value <= row.allowed else ""
    return f"{value:.1e} {row.what}{mark}"


def _finite(value: Any) -> Any:
    """Infinite and undefined numbers as text: JSON has none."""
    if isinstance(value, float) and not abs(value) < INFINITE:
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value
