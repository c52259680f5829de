"""The levels, the phases that lead to them and the passes of each, read from the pipeline itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def phases() -> Mapping[str, tuple[str, ...]]:
    """Phase to the names of the passes that lead into it from the phase before, when nothing is delegated.

    The only place of the documentation's generator that knows where the pipeline is.
    """
    from etir.lowering.pipeline import PHASES

    return {phase: tuple(spec.partition("{")[0] for spec in specs) for phase, specs in PHASES.items()}


def delegation() -> Mapping[str, tuple[str, ...]]:
    """Phase to the passes that come first in it when backends are named."""
    from etir.lowering.pipeline import BLOBS, PARTITIONING

    return {
        "backend": tuple(spec.partition("{")[0] for spec in PARTITIONING),
        "et": tuple(spec.partition("{")[0] for spec in BLOBS),
    }


def summary(name: str) -> str:
    """The first sentence of a pass's documentation."""
    import inspect

    from etir.passes.infra.registry import find_pass

    text = " ".join((inspect.getdoc(find_pass(name)) or "").split("\n\n")[0].split())
    return inline(text.partition(". ")[0].rstrip("."))


def levels_part() -> str:
    """The levels with every pass that leads into each, in order."""
    lines: list[str] = []
    chosen = phases()
    delegated = delegation()
    for level in LEVELS:
        lines += [f"### `{level.name}`: {level.meaning}", ""]
        lines += ["Dialects: " + ", ".join(f"[{name}](dialects/{name}.md)" for name in level.dialects) + ".", ""]
        rows = [(name, "with delegates") for name in delegated.get(level.name, ())]
        rows += [(name, "") for name in chosen[level.name]]
        if rows:
            titles = ("pass", "what it does", "when") if level.name in delegated else ("pass", "what it does")
            cells = [(f"[`{name}`](passes.md#{name})", summary(name), when)[: len(titles)] for name, when in rows]
            lines += [*table(titles, cells), ""]
    return "\n".join(lines)
