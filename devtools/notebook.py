"""What a notebook shows of a compiled program: a card with what it consists of, and its memory plan. No scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, cast

from etir.devtools.memory_picture import memory_svg
from etir.devtools.trace.program import memory
from etir.devtools.trace.read import Origin, Trace
from etir.program import Program
from etir.report import summary_lines

MOST_BUFFERS = 3_000
"""Buffers of a method that are drawn: a picture of more is a file for et-inspect --memory."""

MOST_METHODS = 8
"""Methods whose plan is shown."""

_CARD = "border:1px solid #8886;border-radius:6px;padding:.6em 1em;max-width:62em;font-family:sans-serif"
_CELL = "text-align:left;padding:.1em 1em .1em 0;vertical-align:top"


@dataclass(frozen=True)
class _Plan:
    """The plan of a module that no trace was made of, as the picture asks for it."""

    memory: dict[str, Any]
    name: str = "<program>"

    def origin(self, number: int) -> Origin | None:
        """Nothing is known of origins."""
        return None


def program_html(program: Program) -> str:
    """The card of a program, in HTML that needs neither scripts nor style sheets; all names are escaped."""
    head, *rest = summary_lines(program.module, program.target)
    rows = [("", line.strip()) for line in rest]
    if "buffer" in program.__dict__:  # Made already: a card does not write gigabytes to be shown.
        rows.append(("file", f"{len(program.buffer):,} bytes"))
    rows += [("external", f"{name}.ptd, {len(data):,} bytes") for name, data in program.external.items()]
    rows.append(("compiled in", f"{sum(seconds for _, seconds in program.passes):.2f} s, {_slowest(program.passes)}"))
    rows += [("warning", f"{found.id}: {found.message}") for found in program.warnings]
    found = program.trace if isinstance(program.trace, Trace) else None
    source = found or cast("Trace", _Plan(memory(program.module, program.target)))
    pictures = [_picture(source, method) for method in list(source.memory)[:MOST_METHODS]]
    table = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f'<div style="{_CARD}"><b>{escape(head)}</b><table>{table}</table>{"".join(pictures)}</div>'


def _slowest(passes: Sequence[tuple[str, float]]) -> str:
    if not passes:
        return "no passes"
    name, seconds = max(passes, key=lambda entry: entry[1])
    return f"longest {name} with {seconds:.2f} s"


def _picture(source: Trace, method: str) -> str:
    plan = source.memory[method]
    pools = [pool for pool, size in enumerate(plan["pools"]) if pool and size]
    if len(plan["buffers"]) > MOST_BUFFERS:
        return f"<p>{escape(method)}: {len(plan['buffers']):,} buffers; et-inspect --memory draws them</p>"
    parts: list[str] = []
    for pool in pools:
        svg = memory_svg(source, method, pool)
        # The pages of a notebook have many pictures, and one of them may be hidden: each has its own pattern.
        own = "peak-" + hashlib.sha256(svg.encode()).hexdigest()[:12]
        svg = svg.replace('id="peak"', f'id="{own}"').replace("url(#peak)", f"url(#{own})")
        opened = " open" if len(parts) == 0 else ""
        title = f"memory {pool} of {method}, {plan['pools'][pool]:,} bytes"
        parts.append(f"<details{opened}><summary>{escape(title)}</summary>{svg}</details>")
    return "".join(parts)
