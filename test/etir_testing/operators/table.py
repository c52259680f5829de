"""The table of operators: a call of each, and what becomes of it as a program.

``operators.json`` has a line for each operator: its arguments, and where it does not compile the reason. The reason is
a word of :data:`REASONS`; operators without arguments have one too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from etir_testing.operators.calls import OperatorCall, sample_of_call
from etir_testing.opinfo.op_stages import Outcome, outcome_of

TABLE = Path(__file__).with_name("operators.json")
REASONS = Path(__file__).with_name("reasons.json")

REFUSED_BY_TORCH = ("eager", "export")
"""The stages of torch itself: what stops there is no program."""


@dataclass(frozen=True)
class Row:
    """An operator of the table."""

    call: OperatorCall | None
    reason: str = ""
    stock: str = ""
    """The id of the error with which it does not link for the stock runtime."""


def rows() -> dict[str, Row]:
    """The table by operator."""
    found: dict[str, Row] = {}
    for name, row in json.loads(TABLE.read_text(encoding="utf-8")).items():
        call = OperatorCall(tuple(row["args"]), row.get("kwargs", {})) if "args" in row else None
        found[name] = Row(call, row.get("reason", ""), row.get("stock", ""))
    return found


def reasons() -> dict[str, str]:
    """What each reason means."""
    return json.loads(REASONS.read_text(encoding="utf-8"))


def write(table: Mapping[str, Row]) -> None:
    """Write the table, one operator a line."""
    lines: list[str] = []
    for name, row in table.items():
        entry: dict[str, object] = {}
        if row.call is not None:
            entry["args"] = list(row.call.args)
            if row.call.kwargs:
                entry["kwargs"] = dict(row.call.kwargs)
        if row.reason:
            entry["reason"] = row.reason
        if row.stock:
            entry["stock"] = row.stock
        lines.append(f"  {json.dumps(name)}: {json.dumps(entry)}")
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def outcome(name: str, call: OperatorCall, stock: bool = False) -> Outcome:
    """What becomes of a call."""
    return outcome_of(sample_of_call(name, call), stock)


def is_internal(outcome: Outcome) -> bool:
    """Whether the compiler failed, rather than refused: a traceback, or a message that says so."""
    refused = outcome.message.startswith("E") and outcome.message[1:5].isdigit()
    broken = outcome.message.startswith(("E0505", "E0420", "E0501"))
    ended = outcome.stage == "run" and outcome.message.startswith("the process ended")
    return ended or (outcome.stage == "compile" and not refused) or broken


def problems(outcomes: Sequence[Outcome], table: Mapping[str, Row]) -> list[str]:
    """What the outcomes say otherwise than the table."""
    found: list[str] = []
    for o in outcomes:
        reason = table[o.entry].reason
        where = f"{o.entry}{o.sample} stops at {o.stage}: {o.message}"
        if is_internal(o):
            found.append(f"internal error: {where}")
        elif o.stage == "ok" and reason:
            found.append(f"{o.entry} runs, but the table says: {reason}")
        elif o.stage != "ok" and not reason:
            found.append(where)
        elif (reason == "no program") != (o.stage in REFUSED_BY_TORCH) and o.stage != "ok":
            found.append(f"the table says '{reason}': {where}")
    return found


def report(outcomes: Sequence[Outcome], table: Mapping[str, Row]) -> None:
    """Print the failures by cause, and the counts."""
    causes: dict[tuple[str, str], list[str]] = {}
    for o in outcomes:
        if o.stage != "ok":
            causes.setdefault((o.stage, o.message), []).append(o.entry)
    for (stage, message), names in sorted(causes.items(), key=lambda c: (c[0][0], -len(c[1]), c[0][1])):
        print(f"{stage}: {len(names)} x {message}\n    {' '.join(names)}")
    stages = Counter(o.stage for o in outcomes)
    print(", ".join(f"{count} {stage}" for stage, count in stages.most_common()))
    programs = [o for o in outcomes if o.stage not in REFUSED_BY_TORCH]
    good = sum(o.stage == "ok" for o in programs)
    without = sum(row.call is None for row in table.values())
    internal = sum(map(is_internal, outcomes))
    print(
        f"{len(table)} operators, {without} without a call that eager takes, {len(programs)} programs of torch.export"
    )
    print(f"{good} run and match: {100 * good / max(len(programs), 1):.1f} %; {internal} internal errors")
