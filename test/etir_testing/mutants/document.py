"""The page ``docs/internals/mutants.md``: how many mutants are killed, and why the others are not.

What is known is data: ``found.json`` holds the figures of the last runs and the mutants that no test killed, each with
its difference and a reason. ``kind`` says what it is:

* ``equivalent``: no input of the function tells it from the original, or what it tells is not behavior (speed, a text);
* ``killed since``: a hole, and the name of the test that was written for it;
* ``hole``: a test could see it, and none does.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from etir_testing import TESTS
from etir_testing.mutants.judging import KILLED, Verdict
from etir_testing.mutants.mutant import Mutant

DATA = Path(__file__).with_name("found.json")
PAGE = TESTS.parent / "docs" / "internals" / "mutants.md"
KINDS = {
    "killed since": "A test was written",
    "equivalent": "Equivalent to the original",
    "hole": "Not seen by any test",
}

NOT_SEEN = "Not looked at yet."
"""The reason of a survivor before there is one."""

_HEAD = """\
# Mutants

How strong the tests are, measured: small faults are put into the sources, one at a time (`<` becomes `<=`, a condition
is always true, a statement is gone, a number is one off), and the tests run. A mutant that makes one fail, hang or end
the process is killed; one that does not has survived. `python test/mutants.py` does it, `--native` for the C++ runtime;
the seed decides the sample, so that anyone can repeat it.

{sample}

{figures}

Survivors are looked at one by one. Where a test can see one it is written, and kills it; others do what the original
does, or are left for the reason that stands beside them{open}. Survivors that have got a test since count as survivors
in the third column, and as killed in the fourth; the last one leaves out those that no test can see.
"""


@dataclass
class Survivor:
    """A mutant that no test had killed: ``test`` is the one that does now."""

    id: str
    diff: str
    kind: str
    reason: str
    test: str = ""


@dataclass
class Run:
    """One sample: by folder how many were made and how many of them were killed at first."""

    command: str
    folders: dict[str, tuple[int, int]] = field(default_factory=dict)
    survivors: list[Survivor] = field(default_factory=list)
    note: str = ""
    """By which tests, where that were not all."""


def load() -> dict[str, Run]:
    """What ``found.json`` holds, by command."""
    runs: list[dict[str, Any]] = json.loads(DATA.read_text()) if DATA.exists() else []
    return {
        run["command"]: Run(
            run["command"],
            {name: (total, killed) for name, (total, killed) in run["folders"].items()},
            [Survivor(**entry) for entry in run["survivors"]],
            run["note"],
        )
        for run in runs
    }


def update(command: str, found: Sequence[tuple[Mutant, Verdict, str]]) -> None:
    """Write ``found.json`` and the page after a run of ``command``: its mutants, what was said of each, differences.

    Reasons that are there stay. A survivor of before that is killed now has its test beside it; a new one is a hole
    until somebody has looked at it.
    """
    runs = load()
    before = {entry.id: entry for entry in runs[command].survivors} if command in runs else {}
    run = Run(command, note=runs[command].note if command in runs else "")
    for mutant, verdict, diff in found:
        is_killed = verdict.status in KILLED
        entry = before.get(mutant.id)
        if entry is None and not is_killed:
            entry = Survivor(mutant.id, diff, "hole", NOT_SEEN)
        if entry is not None:
            if is_killed:
                entry = replace(entry, kind="killed since", test=verdict.by)
            run.survivors.append(entry)
        folder = folder_of(mutant)
        total, killed = run.folders.get(folder, (0, 0))
        run.folders[folder] = (total + 1, killed + (entry is None))
    runs[command] = run
    DATA.write_text(json.dumps([asdict(run) for run in runs.values()], indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(list(runs.values())))


def folder_of(mutant: Mutant) -> str:
    """``lowering``, or ``runtime/core``."""
    parts = mutant.path.split("/")
    return "/".join(parts[: 2 if parts[0] == "runtime" else 1])


def page(runs: Sequence[Run]) -> str:
    """The page's markdown."""
    commands = " and ".join(f"`{run.command}`" for run in runs)
    notes = "".join(f" {run.note}" for run in runs if run.note)
    lines = [
        "| folder | mutants | killed at first | killed now | equivalent | of the others |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in runs:
        for folder, (total, killed) in run.folders.items():
            of_folder = [s for s in run.survivors if s.id.startswith(f"{folder}/")]
            since = sum(s.kind == "killed since" for s in of_folder)
            equivalent = sum(s.kind == "equivalent" for s in of_folder)
            lines.append(
                f"| `{folder}/` | {total} | {killed} ({_percent(killed, total)}) | "
                f"{killed + since} ({_percent(killed + since, total)}) | {equivalent} | "
                f"{_percent(killed + since, total - equivalent)} |"
            )
    unseen = sum(s.reason.endswith(NOT_SEEN) for run in runs for s in run.survivors)
    is_open = f"; {unseen} wait for that" if unseen else ""
    sample = textwrap.fill(f"The samples are those of {commands}.{notes}", 120, break_on_hyphens=False)
    parts = [_HEAD.format(sample=sample, figures="\n".join(lines), open=is_open)]
    for kind, title in KINDS.items():
        found = [s for run in runs for s in run.survivors if s.kind == kind]
        if found:
            parts.append(f"## {title}\n\n" + "\n".join(_entry(s) for s in sorted(found, key=lambda s: _place(s.id))))
    return "\n".join(parts)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.0f} %"


def _place(name: str) -> tuple[str, int]:
    path, line, *_ = name.split(":")
    return path, int(line)


def _entry(survivor: Survivor) -> str:
    test = f" Now: `{survivor.test}`." if survivor.test else ""
    return f"`{survivor.id}`: {survivor.reason}{test}\n\n```diff\n{survivor.diff}\n```\n"
