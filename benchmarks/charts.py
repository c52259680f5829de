"""Two pictures of the same figures as SVG: bars of ratios, and a roofline. The same figures give the same bytes.

Both draw on a panel of their own with a border, so that they look alike on light and on dark pages. What a color says,
a text says too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

INK, MUTED, GRID, PANEL = "#1c2733", "#5b6875", "#dde3e9", "#fbfcfd"
FASTER, SLOWER = "#2a78b8", "#c8641e"
LIMIT = "#7a3e9d"


@dataclass(frozen=True)
class Bar:
    """One row of :func:`bars`: ``ratio`` is the bar (None: there is none), ``marks`` are others on the same scale."""

    label: str
    ratio: float | None
    note: str = ""
    marks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """One program of :func:`roofline`: operations for a byte, and operations in a second.

    One that is not ``named`` has its label where the pointer is.
    """

    label: str
    intensity: float
    rate: float
    named: bool = True


@dataclass(frozen=True)
class Roof:
    """A machine: operations in a second, and bytes in a second by where they come from."""

    peak: float
    bandwidths: Mapping[str, float]


def _text(x: float, y: float, text: str, anchor: str = "start", color: str = INK, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{more}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{more}/>'


def _picture(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="12" role="img" aria-label="{escape(label)}">',
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="{PANEL}" stroke="{MUTED}"/>',
            *parts,
            "</svg>\n",
        ]
    )


# --- bars -------------------------------------------------------------------------------------------------------------

_ROW, _TOP, _BOTTOM = 20, 54, 34
_BAR_WIDTH, _BAR_LEFT, _BAR_RIGHT = 860, 210, 190


def _mark(shape: int, x: float, y: float) -> str:
    """A sign of the kind ``shape``: a circle, a square, a triangle, a cross, a diamond."""
    style = f'fill="{PANEL}" stroke="{INK}" stroke-width="1.3"'
    match shape % 5:
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" {style}/>'
        case 1:
            return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" {style}/>'
        case 2:
            path = f"M{x:.1f} {y - 4:.1f}L{x + 4:.1f} {y + 3:.1f}L{x - 4:.1f} {y + 3:.1f}Z"
        case 3:
            path = f"M{x - 3:.1f} {y - 3:.1f}L{x + 3:.1f} {y + 3:.1f}M{x - 3:.1f} {y + 3:.1f}L{x + 3:.1f} {y - 3:.1f}"
        case _:
            path = f"M{x:.1f} {y - 4:.1f}L{x + 4:.1f} {y:.1f}L{x:.1f} {y + 4:.1f}L{x - 4:.1f} {y:.1f}Z"
    return f'<path d="{path}" {style}/>'


def bars(rows: Sequence[Bar], title: str, marks: Sequence[str] = (), longest: float = 2.0) -> str:
    """A bar for each row from 0, with a line at 1; what is longer than ``longest`` is cut and says so.

    ``marks`` are the names in rows' ``marks``, in the order of the legend. A mark beyond the scale is left out.
    """
    height = _TOP + _ROW * len(rows) + _BOTTOM
    inner = _BAR_WIDTH - _BAR_LEFT - _BAR_RIGHT

    def x(ratio: float) -> float:
        return _BAR_LEFT + inner * min(ratio, longest) / longest

    def parts() -> Iterator[str]:
        yield _text(12, 20, title, more=' font-weight="bold"')
        at = 12.0
        for number, name in enumerate(marks):
            yield _mark(number, at + 4, 36)
            yield _text(at + 13, 40, name, color=MUTED)
            at += 30 + 7.2 * len(name)
        end = height - _BOTTOM
        ticks = round(longest / 0.25)
        for tick in range(ticks + 1):
            ratio = longest * tick / ticks
            yield _line(x(ratio), _TOP - 4, x(ratio), end, GRID)
            yield _text(x(ratio), end + 16, f"{ratio:g}", "middle", MUTED)
        for number, row in enumerate(rows):
            y = _TOP + _ROW * number
            yield _text(_BAR_LEFT - 8, y + 13, row.label, "end")
            if row.ratio is None:
                yield _text(_BAR_LEFT + 6, y + 13, row.note or "no figure", color=MUTED, more=' font-style="italic"')
                continue
            color = FASTER if row.ratio <= 1 else SLOWER
            width = x(row.ratio) - _BAR_LEFT
            yield f'<rect x="{_BAR_LEFT}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{color}"/>'
            for shape, name in enumerate(marks):
                if name in row.marks and row.marks[name] <= longest:
                    yield _mark(shape, x(row.marks[name]), y + _ROW / 2)
            shown = f"{row.ratio:.2f}" + (" (cut)" if row.ratio > longest else "")
            yield _text(_BAR_WIDTH - _BAR_RIGHT + 8, y + 13, f"{shown} {row.note}".rstrip(), color=color)
        yield _line(x(1), _TOP - 4, x(1), end, INK, ' stroke-width="1.5"')

    return _picture(_BAR_WIDTH, height, title, list(parts()))


# --- roofline ---------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 860, 460, 64, 30
_ROUNDING = 1e-6
"""What a distance may be less than it was made, as a sum of floats."""
_DASHES = (' stroke-width="1.5"', ' stroke-width="1.5" stroke-dasharray="6 4"')


def apart(wanted: Sequence[tuple[float, float, str]], least: float) -> list[tuple[float, float, str]]:
    """Places of labels (x, y, text), moved down until none that they would touch is nearer than ``least``."""
    placed: list[tuple[float, float, str]] = []
    for x, y, text in sorted(wanted, key=lambda label: (label[1], label[0], label[2])):
        while True:
            taken = [
                other_y
                for other_x, other_y, other in placed
                if abs(y - other_y) < least - _ROUNDING
                and x < other_x + 6.4 * len(other)
                and other_x < x + 6.4 * len(text)
            ]
            if not taken:
                break
            y = max(taken) + least
        placed.append((x, y, text))
    return placed


def roofline(points: Sequence[Point], roof: Roof, title: str) -> str:
    """Points below the lines of a machine; both axes are logarithmic."""
    ridge = [roof.peak / bandwidth for bandwidth in roof.bandwidths.values()]
    intensities = [point.intensity for point in points] + ridge
    rates = [point.rate for point in points] + [roof.peak]
    from_x, to_x = math.floor(math.log10(min(intensities))), math.ceil(math.log10(max(intensities) * 1.5))
    from_y, to_y = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates) * 1.05))
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - 46

    def x(intensity: float) -> float:
        return _LEFT + width * (math.log10(intensity) - from_x) / (to_x - from_x)

    def y(rate: float) -> float:
        return _TOP + height * (1 - (math.log10(rate) - from_y) / (to_y - from_y))

    def parts() -> Iterator[str]:
        bottom = _TOP + height
        yield _text(12, 20, title, more=' font-weight="bold"')
        for power in range(from_x, to_x + 1):
            at = x(10.0**power)
            yield _line(at, _TOP, at, bottom, GRID)
            yield _text(at, bottom + 16, f"{10.0**power:g}", "middle", MUTED)
        for power in range(from_y, to_y + 1):
            at = y(10.0**power)
            yield _line(_LEFT, at, _LEFT + width, at, GRID)
            yield _text(_LEFT - 6, at + 4, f"{10.0**power / 1e9:g}", "end", MUTED)
        yield _text(_LEFT, 42, "GFLOP/s", color=MUTED)
        yield _text(_LEFT + width, bottom + 34, "floating-point operations for a byte that has to move", "end", MUTED)
        yield from _roof(roof, x, y, (from_x, to_x), 10.0**from_y)
        for point in points:
            share = f"{point.label}: {point.rate / 1e9:.1f} GFLOP/s, {point.rate / roof.peak:.0%} of the limit"
            yield (
                f'<circle cx="{x(point.intensity):.1f}" cy="{y(point.rate):.1f}" r="4" fill="{FASTER}" '
                f'stroke="{PANEL}"><title>{escape(share)}</title></circle>'
            )
        wanted: list[tuple[float, float, str]] = []
        for point in (point for point in points if point.named):
            at = x(point.intensity) + 7
            wanted.append((min(at, _WIDTH - 8 - 6.0 * len(point.label)), y(point.rate) + 4, point.label))
        for left, top, text in apart(wanted, 11):
            yield _text(left, top, text, more=' font-size="10.5"')

    return _picture(_WIDTH, _HEIGHT, title, list(parts()))


def _roof(
    roof: Roof, x: Callable[[float], float], y: Callable[[float], float], decades: tuple[int, int], lowest: float
) -> Iterator[str]:
    """The lines of a machine: its peak, and one that rises to it for each bandwidth."""
    low, high = 10.0 ** decades[0], 10.0 ** decades[1]
    start = min((roof.peak / bandwidth for bandwidth in roof.bandwidths.values()), default=low)
    yield _line(x(max(start, low)), y(roof.peak), x(high), y(roof.peak), LIMIT, _DASHES[0])
    yield _text(x(high) - 4, y(roof.peak) - 6, f"multiply-adds, {roof.peak / 1e9:.0f} GFLOP/s", "end", LIMIT)
    for number, (name, bandwidth) in enumerate(roof.bandwidths.items()):
        first, ridge = max(low, lowest / bandwidth), roof.peak / bandwidth
        if ridge <= first:
            continue
        yield _line(x(first), y(first * bandwidth), x(ridge), y(roof.peak), LIMIT, _DASHES[number % 2])
        slope = math.degrees(math.atan2(y(roof.peak) - y(first * bandwidth), x(ridge) - x(first)))
        middle = math.sqrt(first * ridge)
        at, top = x(middle), y(middle * bandwidth) - 6
        turn = f' transform="rotate({slope:.1f} {at:.1f} {top:.1f})"'
        yield _text(at, top, f"{name}, {bandwidth / 1e9:.0f} GB/s", "middle", LIMIT, turn)
