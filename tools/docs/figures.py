"""The figures of the architecture page: levels with their passes, layers, a file's way through the runtime."""

from __future__ import annotations

import ast
from pathlib import Path

from etir.tools.docs.levels import LEVELS, steps
from etir.tools.docs.svg import LINE, NARROW, Drawing, chip_width, figure, wrap

LAYERS_FILE = Path("test/unit/meta/test_layers.py")
"""Has the assignment ``LAYERS: ... = (...)``: the order that the test enforces."""


def levels_figure() -> str:
    """The levels from exported program to file, with the dialects of each and the passes on the way to it."""
    return figure(_draw_levels, "The levels, their dialects and the passes between them")


def _draw_levels(drawing: Drawing) -> None:
    narrow = drawing.width == NARROW
    box_width = drawing.width - 2 if narrow else 250
    middle = 24 if narrow else 1 + box_width / 2
    chips_left, chips_right = (48 if narrow else 290), drawing.width - 2
    y = _end(drawing, 1.0, box_width, "torch.export program", "")
    for level in LEVELS:
        top = y
        names = [(step.name, "chip optional" if step.option else "chip") for step in steps()[level.name]]
        bottom = _chips(drawing, chips_left, chips_right, top + 12, names or [("import", "chip plain")])
        bottom = bottom if narrow else max(bottom, top + 40)
        drawing.arrow(middle, top, bottom + 8)
        y = _level_box(drawing, bottom + 8, box_width, level.name, level.meaning, ", ".join(level.dialects))
    drawing.arrow(middle, y, y + 40)
    if narrow:
        drawing.text(48, y + 24, "emission, and reading it back", "note")
    else:
        drawing.text(chips_left, y + 24, "emission, and reading it back", "note")
    y = _end(drawing, y + 40, box_width, ".pte", "")
    drawing.chip(1, y + 16, "pass", "reference/passes.md", "chip optional")
    drawing.text(1 + chip_width("pass") + 8, y + 31, "only with an option: delegates, an optimizer, ...", "note")


def _end(drawing: Drawing, y: float, width: float, title: str, note: str) -> float:
    drawing.box(1, y, width, 30, "plain")
    drawing.code(13, y + 20, title)
    return y + 30


def _level_box(drawing: Drawing, y: float, width: float, name: str, meaning: str, dialects: str) -> float:
    lines = [*wrap(meaning, width - 24), *wrap(f"dialects: {dialects}", width - 24)]
    notes = len(wrap(meaning, width - 24))
    height = 32 + LINE * len(lines)
    drawing.box(1, y, width, height)
    drawing.text(13, y + 22, name, "title")
    for index, line in enumerate(lines):
        drawing.text(13, y + 22 + LINE * (index + 1), line, "" if index < notes else "note")
    return y + height


def _chips(drawing: Drawing, left: float, right: float, y: float, names: list[tuple[str, str]]) -> float:
    """Passes as chips, in lines from left to right; returns where they end."""
    x = left
    for name, kind in names:
        if x > left and x + chip_width(name) > right:
            x, y = left, y + 28
        link = "reference/dialects/aten.md" if name == "import" else f"reference/passes.md#{name}"
        drawing.chip(x, y, name, link, kind)
        x += chip_width(name) + 6
    return y + 22


def layers() -> list[tuple[str, str]]:
    """The layers, lowest first, each with what lives there, read from the test that enforces their order."""
    tree = ast.parse(LAYERS_FILE.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "LAYERS":
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{LAYERS_FILE} has no list LAYERS")


def layers_figure() -> str:
    """The layers, highest first: a file imports only from its own layer and from those below."""
    return figure(_draw_layers, "The layers of the source tree, from the tools down to the diagnostics")


def _draw_layers(drawing: Drawing) -> None:
    narrow = drawing.width == NARROW
    y = 1.0
    for path, purpose in reversed(layers()):
        lines = wrap(purpose, drawing.width - 24 if narrow else drawing.width - 264)
        height = 12 + LINE * (len(lines) + narrow)
        drawing.box(1, y, drawing.width - 2, height)
        drawing.code(13, y + 19, path)
        for index, line in enumerate(lines):
            drawing.text(13 if narrow else 250, y + 19 + LINE * (index + narrow), line, "note")
        y += height + 4


RUNTIME: tuple[tuple[str, str, str], ...] = (
    ("bytes", "", "a .pte file in flash, mapped, or read: it stays where it is"),
    (
        "Program::load",
        "runtime/executor/program.h",
        "every offset, index, enum and size of the FlatBuffer is checked, once",
    ),
    (
        "Method::load",
        "runtime/executor/method.h",
        "values, kernels and delegates of one method; takes method memory, and places in planned memory",
    ),
    ("set_input", "runtime/executor/method.h", "tensors of the caller: copied to their place, or used where they are"),
    ("execute", "runtime/executor/method.h", "instruction after instruction: kernel call, delegate call, move, jump"),
    ("kernel", "runtime/kernels", "checks dtypes, shapes and dim orders of its arguments; temp memory for scratch"),
    ("output", "runtime/executor/method.h", "tensors in planned memory, or in the caller's"),
)
"""Step, file, and what happens there."""


def runtime_figure() -> str:
    """What happens to a file on the device, step by step."""
    return figure(_draw_runtime, "A file's way through the runtime: load, check, run, output")


def _draw_runtime(drawing: Drawing) -> None:
    y = 1.0
    for index, (step, file, meaning) in enumerate(RUNTIME):
        if index:
            drawing.arrow(40, y, y + 22)
            y += 22
        lines = wrap(meaning, drawing.width - 26)
        height = 30 + LINE * len(lines) + (LINE if file else 0)
        drawing.box(1, y, drawing.width - 2, height, "box" if file else "plain")
        drawing.text(13, y + 21, step, "title")
        for number, line in enumerate(lines):
            drawing.text(13, y + 21 + LINE * (number + 1), line)
        if file:
            drawing.code(13, y + 21 + LINE * (len(lines) + 1), file, "note")
        y += height
