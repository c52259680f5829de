"""The memory plan of a method as SVG: instructions to the right, bytes upward, what is alive at the peak hatched.

Buffers that overlap while both are needed, which no plan may have, are red.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

from etir.devtools.overlaps import overlaps
from etir.devtools.trace.read import Trace, checked

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 960, 420, 80, 40, 36


def memory_svg(trace: Trace, method: str, pool: int = 1) -> str:
    """A picture of one pool of a method. A buffer is a rectangle for each stretch of instructions that needs it.

    Raises error E1403 for a damaged trace.
    """
    with checked(trace.name, "memory.json"):
        return _picture(trace, method, pool)
    raise AssertionError


def _picture(trace: Trace, method: str, pool: int) -> str:
    plan = trace.memory[method]
    size = plan["pools"][pool] if pool < len(plan["pools"]) else 0
    count = max(plan["instructions"], 1)
    bounds = plan["bounds"].get(str(pool), {})
    alive = dict.fromkeys(bounds.get("alive", ()))
    clash = dict.fromkeys(index for first, second, _ in overlaps(plan) for index in (first, second))
    x = (WIDTH - LEFT - 20) / count
    y = (HEIGHT - BOTTOM - TOP) / max(size, 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        '<defs><pattern id="peak" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#e69f00"/><rect width="2" height="6" fill="#b87a00"/></pattern></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20">{escape(method)}, memory {pool}: {size:,} bytes; '
        f"no plan needs less than {bounds.get('bound', 0):,}</text>",
    ]
    for index, buffer in enumerate(plan["buffers"]):
        if buffer["pool"] != pool or buffer["offset"] is None:
            continue
        for first, last in buffer["live"]:
            parts += _rectangle(
                trace, buffer, first, last, x, y, "clash" if index in clash else "peak" if index in alive else ""
            )
    base = HEIGHT - BOTTOM
    parts.append(f'<path d="M{LEFT} {TOP}V{base}H{WIDTH - 20}" fill="none" stroke="#333"/>')
    parts += [
        f'<text x="{LEFT - 6}" y="{base - size * share * y + 4:.1f}" text-anchor="end">{int(size * share):,}</text>'
        for share in (0, 0.5, 1)
    ]
    parts += [
        f'<text x="{LEFT + at * x:.1f}" y="{base + 16}">{at}</text>' for at in dict.fromkeys((0, count // 2, count - 1))
    ]
    peak = bounds.get("peak")
    if peak is not None:
        parts.append(
            f'<path d="M{LEFT + (peak + 0.5) * x:.1f} {TOP}V{base}" stroke="#d55e00" stroke-dasharray="4 3"/>'
            f'<text x="{LEFT + (peak + 0.5) * x:.1f}" y="{TOP - 4}" fill="#d55e00">peak: instruction {peak}</text>'
        )
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">instruction</text></svg>')
    return "\n".join(parts) + "\n"


def _rectangle(trace: Trace, buffer: dict[str, Any], first: int, last: int, x: float, y: float, mark: str) -> list[str]:
    left, width = LEFT + first * x, max((last - first + 1) * x, 1)
    height = max(buffer["bytes"] * y, 1)
    top = HEIGHT - BOTTOM - buffer["offset"] * y - height
    lines = list(dict.fromkeys(o.where for n in buffer["origins"] if (o := trace.origin(n)) is not None and o.where))
    title = f"{buffer['name']}: {buffer['bytes']:,} bytes at {buffer['offset']:,}, alive {first} to {last}"
    title += f", {', '.join(lines)}" if lines else ""
    marks = {"peak": "url(#peak)", "clash": "#cc3311"}
    fill = marks.get(mark, "#56b4e9" if buffer["state"] is None else "#009e73")
    shape = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="#fff" '
        f'stroke-width="0.5"><title>{escape(title)}</title></rect>'
    )
    if height < 12 or width < 8 * len(buffer["name"]):
        return [shape]
    return [shape, f'<text x="{left + 3:.1f}" y="{top + height / 2 + 4:.1f}">{escape(buffer["name"])}</text>']
