"""The levels, the phases that lead to them and the passes of each, read from the pipeline itself."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from etir.tools.docs.text import inline, table


@dataclass(frozen=True)
class Level:
    """One level: its phase's name, the dialects that its text has, and what it is for."""

    name: str
    dialects: tuple[str, ...]
    meaning: str


LEVELS: tuple[Level, ...] = (
    Level("aten", ("aten", "sym", "control", "et"), "the operators as the user wrote them"),
    Level("core", ("aten", "sym", "control", "et"), "the same dialect, a smaller set of operators"),
    Level("edge", ("edge", "sym", "control", "et"), "functional, no views; target-independent passes"),
    Level("backend", ("edge", "backend", "xnn", "sym", "control", "et"), "what the target changes"),
    Level("et", ("et",), "one operation for each instruction"),
)
"""The levels from the highest to the lowest; a test compares the names with the pipeline's phases."""


@dataclass(frozen=True)
class Step:
    """A pass of the pipeline: its name, why it runs at that place, and the option without which it does not."""

    name: str
    why: str
    option: str


@cache
def steps() -> dict[str, Sequence[Step]]:
    """Phase to the passes that lead into it from the phase before, with every option that adds passes.

    The only place of the documentation's generator that knows where the pipeline is.
    """
    from etir.options import CompileOptions, ExternalFile
    from etir.phases import PHASES
    from etir.pipeline import stages

    every_option = CompileOptions(
        delegates=("reference",),
        external_weights=(ExternalFile("weights"),),
        external_state=(ExternalFile("state"),),
        optimizer="sgd",
        state_methods=True,
    )
    found: dict[str, Sequence[Step]] = {phase: () for phase in PHASES}
    for stage in stages(every_option):
        found[stage.phase] = [Step(step.run.name, step.why, step.option) for step in stage.steps]
    return found


def summary(name: str) -> str:
    """The first sentence of a pass's documentation."""
    from etir.passes.infra.registry import find_pass

    text = " ".join((inspect.getdoc(find_pass(name)) or "").split("\n\n")[0].split())
    return inline(text.partition(". ")[0].rstrip("."))


def levels_part() -> str:
    """The levels with every pass that leads into each, in order, with what it does and why it runs there."""
    lines: list[str] = []
    for level in LEVELS:
        lines += [f"### `{level.name}`: {level.meaning}", ""]
        lines += ["Dialects: " + ", ".join(f"[{name}](dialects/{name}.md)" for name in level.dialects) + ".", ""]
        chosen = steps()[level.name]
        titles = ("pass", "what it does", "why it runs here", "with option")
        titles = titles if any(step.option for step in chosen) else titles[:-1]
        rows = [
            (f"[`{s.name}`](passes.md#{s.name})", summary(s.name), inline(s.why), f"`{s.option}`" if s.option else "")
            for s in chosen
        ]
        if rows:
            lines += [*table(titles, [row[: len(titles)] for row in rows]), ""]
    return "\n".join(lines)
