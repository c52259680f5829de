"""A few SVG shapes, in the site's colors: text whose width is known beforehand, boxes, arrows.

A figure is drawn twice, for a desktop's width and for a phone's, and the style sheet shows one of them. Colors are
classes that ``docs/assets/site.css`` defines for the light and the dark scheme. The same data give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

WIDE, NARROW = 680, 330
"""Widths of a figure in pixels."""

LINE = 18
"""Height of a line of text in pixels."""

_MONO, _SANS = 7.0, 6.9
"""Width of a character in pixels: of a fixed-width font of size 12 (``textLength`` enforces it), of others of 13."""


def wrap(text: str, width: float) -> list[str]:
    """The words of a text in lines that fit a width in pixels."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) * _SANS <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def chip_width(text: str) -> float:
    """Width of :meth:`Drawing.chip`."""
    return len(text) * _MONO + 14


@dataclass
class Drawing:
    """Shapes in order; ``height`` grows with what is drawn."""

    width: int
    height: float = 0
    shapes: list[str] = field(default_factory=list[str])

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        """A rectangle; ``kind`` is a class of the style sheet: ``box`` or ``plain``."""
        self._add(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>', y + height
        )

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A line of text with its baseline at ``y``; ``kind`` is ``title``, ``note`` or nothing."""
        self._add(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>', y + 5)

    def code(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A line of text in a fixed-width font, as wide as it was reckoned in every font."""
        self._add(
            f'<text class="code {kind}" x="{x:g}" y="{y:g}" textLength="{len(text) * _MONO:g}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>',
            y + 5,
        )

    def chip(self, x: float, y: float, text: str, link: str, kind: str = "chip") -> None:
        """A small box with a name in it that leads to a page: ``reference/passes.md#cse``."""
        self.shapes.append(f'<a href="site:{escape(link)}">')
        self.box(x, y, chip_width(text), 22, kind)
        self.code(x + 7, y + 15, text)
        self.shapes.append("</a>")

    def arrow(self, x: float, top: float, bottom: float) -> None:
        """An arrow that points down."""
        self._add(f'<path class="line" d="M{x:g} {top:g}V{bottom - 6:g}"/>', bottom)
        self._add(f'<path class="head" d="M{x - 5:g} {bottom - 7:g}h10l-5 7z"/>', bottom)

    def _add(self, shape: str, bottom: float) -> None:
        self.shapes.append(shape)
        self.height = max(self.height, bottom)

    def svg(self, kind: str, label: str) -> str:
        """The figure; ``label`` says in words what it shows."""
        height = self.height + 2
        return (
            f'<svg class="{kind}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height:g}" '
            f'width="{self.width}" height="{height:g}" role="img" aria-label="{escape(label)}">'
            + "".join(self.shapes)
            + "</svg>"
        )


def figure(draw: Callable[[Drawing], None], label: str) -> str:
    """Both versions of a figure, as a line of HTML that markdown leaves alone."""
    versions: list[str] = []
    for width, kind in ((WIDE, "wide"), (NARROW, "narrow")):
        drawing = Drawing(width)
        draw(drawing)
        versions.append(drawing.svg(kind, label))
    return f'<div class="figure">{"".join(versions)}</div>\n'
