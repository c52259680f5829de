"""The index of the decision records: number, title, status, as the records themselves say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from etir.tools.docs.text import table

FOLDER = Path("docs/decisions")
STATUSES = ("accepted", "superseded", "rejected")

_NAME = re.compile(r"(\d{4})-[a-z0-9-]+\.md")
_HEAD = re.compile(r"# (\d{4}) (.+)\n\n\*Status: (\w+)(?:, supersedes (\d{4}))?(?:, superseded by (\d{4}))?\*\n")


@dataclass(frozen=True)
class Record:
    """What the head of a record says; numbers are four digits, "" where there is none."""

    file: str
    number: str
    title: str
    status: str
    supersedes: str
    superseded_by: str


def records(folder: Path = FOLDER) -> list[Record]:
    """The records of a folder in order. Raises ``ValueError`` for a file whose name or head is not a record's."""
    found: list[Record] = []
    for path in sorted(folder.glob("*.md")):
        if path.name == "index.md":
            continue
        name, head = _NAME.fullmatch(path.name), _HEAD.match(path.read_text(encoding="utf-8"))
        if name is None or head is None or name[1] != head[1] or head[3] not in STATUSES:
            raise ValueError(f"{path} is not '# NNNN Title' with the number of its name and a line '*Status: ...*'")
        found.append(Record(path.name, head[1], head[2], head[3], head[4] or "", head[5] or ""))
    return found


def decisions_part() -> str:
    """The index."""
    rows = [
        (r.number, f"[{r.title}]({r.file})", r.status + (f" by {r.superseded_by}" if r.superseded_by else ""))
        for r in records()
    ]
    return "\n".join([*table(("number", "decision", "status"), rows), ""])
