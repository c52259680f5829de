"""Results of ``et-compare -o``: how far values are from the reference, and what is wrong first."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from etir.devtools.errors import E1421
from etir.devtools.trace.read import Trace
from etir.diagnostics import SourceLocation

LARGEST = 1e300
"""What stands for a difference that is no number: JSON has no infinities."""


class Comparison(Protocol):
    """What ``etir.devtools.compare`` gives."""

    def to_json(self) -> str:
        """All of it."""
        ...


@dataclass(frozen=True)
class Difference:
    """A value of the program at a level or on a runtime. ``wrong`` says that its operation is, with right inputs."""

    origin: int
    level: str
    error: float
    wrong: bool


@dataclass
class Compared:
    """All that were compared, and the sentences about what is wrong, each with its origins."""

    rows: list[Difference] = field(default_factory=list[Difference])
    wrong: list[tuple[str, list[int]]] = field(default_factory=list[tuple[str, list[int]]])
    methods: list[str] = field(default_factory=list[str])
    """The methods of those sentences."""


def compared(source: str | Path | Comparison, trace: Trace) -> Compared:
    """The results in a file, one JSON text for each method, or of a comparison. Raises error E1421."""
    name = str(source) if isinstance(source, (str, Path)) else "<comparison>"
    found = Compared()
    try:
        text = Path(source).read_text("utf-8") if isinstance(source, (str, Path)) else source.to_json()
        results = _documents(text)
        if not results:
            raise ValueError("there is nothing in it")
        for result in results:
            _of_this_program(result, trace, name)
            _add(found, result, trace)
    except (OverflowError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise E1421.error(f"it is not what et-compare writes: {error!r}", SourceLocation(name)) from None
    return found


def _of_this_program(result: dict[str, Any], trace: Trace, name: str) -> None:
    program = str(result.get("program") or "")
    if program and trace.sha256 is not None and program != trace.sha256:
        message = f"they are of the program {program[:12]}, the trace is of {trace.sha256[:12]}"
        raise E1421.error(message, SourceLocation(name))


def _documents(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        document, at = decoder.raw_decode(text, at)
        found.append(document)
    return found


def _add(found: Compared, result: dict[str, Any], trace: Trace) -> None:
    table = trace.instructions.get(result["method"])

    def origins_of(row: dict[str, Any]) -> list[int]:
        if row["origin"]:
            return [int(row["origin"])]
        at = row["instruction"]
        return table.several("origins", at) if table is not None and at is not None and 0 <= at < len(table) else []

    for stage in result["stages"]:
        for row in [*stage["rows"], *stage["outputs"]]:
            local, off = (None if row[kind] is None else float(row[kind]) for kind in ("local", "accumulated"))
            error = local if local is not None else off
            if error is None:
                continue
            wrong = local is not None and not local <= float(row["allowed"])
            shown = error if math.isfinite(error) else LARGEST
            found.rows += [Difference(n, str(stage["name"]), shown, wrong) for n in origins_of(row)]
    finding = result["finding"]
    if finding is not None:
        parts = [finding["what"], finding["where"], finding["why"]]
        text = (
            f"{result['method']}: first wrong at {finding['stage']}: {', '.join(str(part) for part in parts if part)}"
        )
        row = finding["row"]
        found.methods.append(str(result["method"]))
        found.wrong.append((text, [] if row is None else origins_of(row)))
