"""How compile time and memory grow with the size of a program.

    python benchmarks/growth.py                              every shape at 1,000 to 50,000 operations: a table
    python benchmarks/growth.py chain --sizes 1000 4000      one shape
    python benchmarks/growth.py --svg docs/assets/growth.svg the picture of the documentation

Programs are text made here, of four shapes:

* *chain*: every operation reads the result of the one before it;
* *wide*: half of the operations make tensors that all live at once, the others add them up;
* *weights*: every operation adds a weight of its own;
* *views*: every operation changes a part of a state in place.

A program is compiled in a process of its own, from text to the bytes of the ``.pte`` (``target="etir"``), verified
after every pass as always. *Seconds* are of the processor, by stage: parsing, each phase's passes with their
verification, the planner apart, and emission. *Peak* is the high-water mark of resident memory above a process that has
compiled a small program before. The exponent is the slope between the smallest and the largest size on a doubly
logarithmic scale: 1 is linear. The seconds of a stage that takes less than a tenth of a second at the largest size say
nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from document import put

SIZES = (1_000, 4_000, 16_000, 50_000)
STAGES = ("parse", "core", "edge", "backend", "et", "plan", "emit")
PLANNER = ("plan-memory", "verify-plan")
BAR = 1.1


def chain(count: int) -> Iterator[str]:
    """x -> sin -> neg -> sin -> ..."""
    yield "func.func @forward(%v0: tensor<8x8xf32>) -> tensor<8x8xf32> {"
    for i in range(count):
        name = ("aten.sin.default", "aten.neg.default")[i % 2]
        yield f"  %v{i + 1} = {name}(%v{i}) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
    yield f"  func.return %v{count} : tensor<8x8xf32>\n}}"


def wide(count: int) -> Iterator[str]:
    """x + 1.5, x + 2.5, ..., and their sum."""
    half = count // 2
    yield "func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"
    for i in range(half):
        yield f"  %v{i} = aten.add.Scalar(%x, other = {i + 1}.5) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
    yield "  %s0 = aten.neg.default(%v0) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
    for i in range(1, half):
        types = "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"
        yield f"  %s{i} = aten.add.Tensor(%s{i - 1}, %v{i}) : {types}"
    yield f"  func.return %s{half - 1} : tensor<8x8xf32>\n}}"


def weights(count: int) -> Iterator[str]:
    """x + w0 + w1 + ..."""
    for i in range(count):
        yield f"et.weight @w{i} : tensor<8x8xf32> = #et.synthetic<seed = {i + 1}>"
    yield "func.func @forward(%v0: tensor<8x8xf32>) -> tensor<8x8xf32> {"
    for i in range(count):
        yield f"  %w{i} = et.get_weight @w{i} : tensor<8x8xf32>"
        types = "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"
        yield f"  %v{i + 1} = aten.add.Tensor(%v{i}, %w{i}) : {types}"
    yield f"  func.return %v{count} : tensor<8x8xf32>\n}}"


def views(count: int) -> Iterator[str]:
    """state[i] += x"""
    yield "et.state @cache : tensor<64x8xf32>"
    yield "func.func @forward(%x: tensor<8xf32>) {"
    yield "  %c = et.read_state @cache : tensor<64x8xf32>"
    for i in range(count // 2):
        yield f"  %v{i} = aten.select.int(%c, dim = 0, index = {i % 64}) : (tensor<64x8xf32>) -> tensor<8xf32>"
        yield f"  %u{i} = aten.add_.Tensor(%v{i}, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>"
    yield "  et.write_state @cache, %c : tensor<64x8xf32>"
    yield "  func.return\n}"


SHAPES: dict[str, Callable[[int], Iterator[str]]] = {"chain": chain, "wide": wide, "weights": weights, "views": views}


@dataclass(frozen=True)
class Figures:
    """One program: its number of operations, processor seconds by stage, and bytes."""

    shape: str
    size: int
    seconds: dict[str, float]
    peak: int
    planned: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def compile_text(text: str) -> tuple[dict[str, float], int]:
    """Seconds by stage from text to bytes, and the bytes that are planned."""
    from etir.dialects.context import EtContext
    from etir.dialects.et.executable import MethodOp
    from etir.dialects.text import parse_module
    from etir.emit.to_pte import emit_program
    from etir.options import CompileOptions
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import stages

    seconds = dict.fromkeys(STAGES, 0.0)
    start = time.process_time()

    def done(stage: str) -> None:
        nonlocal start
        now = time.process_time()
        seconds[stage] += now - start
        start = now

    module = parse_module(text)
    done("parse")
    found = stages(CompileOptions(target="etir"))
    report = run_pipeline(EtContext(), module, [step.run for stage in found for step in stage.steps])
    places = [(stage.phase, step.run.name) for stage in found for step in stage.steps]
    for (phase, name), done_pass in zip(places, report.passes, strict=True):
        seconds["plan" if name in PLANNER else phase] += done_pass.time.cpu + done_pass.verify.cpu
    start = time.process_time()
    _ = bytes(emit_program(module).pte())
    done("emit")
    methods = (op for op in module.body.block.ops if isinstance(op, MethodOp))
    return seconds, sum(sum(method.pool_sizes or ()) for method in methods)


def measure(shape: str, size: int) -> Figures:
    """Compile one program in this process, which should be a new one."""
    for warm in (16, 16):
        compile_text("\n".join(SHAPES[shape](warm)))
    text = "\n".join(SHAPES[shape](size))
    gc.collect()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    seconds, planned = compile_text(text)
    return Figures(shape, size, seconds, max(_resident("VmHWM") - before, 0), planned)


def _resident(key: str) -> int:
    """Bytes of one entry of ``/proc/self/status``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


def exponent(first: tuple[int, float], last: tuple[int, float]) -> float:
    """The slope between two points on a doubly logarithmic scale."""
    if first[0] == last[0] or min(first[1], last[1]) <= 0:
        return 0.0
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def table(rows: Sequence[Figures]) -> str:
    """Markdown: a row for each program, and the exponents of each shape."""
    lines = [
        f"| shape | operations | {' | '.join(f'{s}, s' for s in STAGES)} | total, s | peak, MB |",
        f"| --- |{' ---: |' * (len(STAGES) + 3)}",
    ]
    for shape in dict.fromkeys(row.shape for row in rows):
        found = [row for row in rows if row.shape == shape]
        for row in found:
            stages = " | ".join(f"{row.seconds[s]:.2f}" for s in STAGES)
            lines.append(f"| {shape} | {row.size:,} | {stages} | {row.total:.2f} | {row.peak / 1e6:.0f} |")
        first, last = found[0], found[-1]
        slopes = [exponent((first.size, first.seconds[s]), (last.size, last.seconds[s])) for s in STAGES]
        shown = " | ".join(
            f"{slope:.2f}" if last.seconds[s] >= 0.1 else "" for s, slope in zip(STAGES, slopes, strict=True)
        )
        total = exponent((first.size, first.total), (last.size, last.total))
        peak = exponent((first.size, first.peak), (last.size, last.peak))
        lines.append(f"| {shape} | exponent | {shown} | {total:.2f} | {peak:.2f} |")
    return "\n".join(lines)


_COLORS = ("#3f51b5", "#d9822b", "#2e8b57", "#b03060")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 420, 300, 56, 44, 28


def svg(rows: Sequence[Figures]) -> str:
    """Two panels, seconds and memory over the number of operations, both logarithmic; a dotted line is linear."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="Compile time and memory over the size of programs">',
        f'<rect width="{2 * _WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    panels: list[tuple[str, Callable[[Figures], float]]] = [
        ("seconds", lambda row: row.total),
        ("peak memory, MB", lambda row: row.peak / 1e6),
    ]
    for number, (title, value) in enumerate(panels):
        parts += _panel(rows, number * _WIDTH, title, value)
    return "\n".join([*parts, "</svg>\n"])


def _panel(rows: Sequence[Figures], left: int, title: str, value: Callable[[Figures], float]) -> Iterator[str]:
    sizes = sorted(dict.fromkeys(row.size for row in rows))
    values = [value(row) for row in rows]
    low, high = math.floor(math.log10(max(min(values), 1e-3))), math.ceil(math.log10(max(values)))
    from_x, to_x = math.log10(sizes[0]), math.log10(sizes[-1])
    inner_width, inner_height = _WIDTH - _LEFT - 84, _HEIGHT - _BOTTOM - _TOP

    def x(size: float) -> float:
        return left + _LEFT + inner_width * (math.log10(size) - from_x) / max(to_x - from_x, 1e-9)

    def y(amount: float) -> float:
        share = (math.log10(max(amount, 10**low)) - low) / max(high - low, 1)
        return _TOP + inner_height * (1 - share)

    yield f'<text x="{left + _LEFT}" y="16" font-weight="bold">{title}</text>'
    for power in range(low, high + 1):
        at = y(10**power)
        yield f'<line x1="{x(sizes[0]):.1f}" y1="{at:.1f}" x2="{x(sizes[-1]):.1f}" y2="{at:.1f}" stroke="#ddd"/>'
        yield f'<text x="{left + _LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10**power:g}</text>'
    for size in sizes:
        yield f'<text x="{x(size):.1f}" y="{_HEIGHT - 24}" text-anchor="middle">{size:,}</text>'
    yield f'<text x="{left + _LEFT}" y="{_HEIGHT - 6}">operations</text>'
    start = min(value(row) for row in rows if row.size == sizes[0])
    linear = [(sizes[0], start), (sizes[-1], start * sizes[-1] / sizes[0])]
    points = " ".join(f"{x(size):.1f},{y(amount):.1f}" for size, amount in linear)
    yield f'<polyline points="{points}" fill="none" stroke="#888" stroke-dasharray="3 3"/>'
    shapes = list(dict.fromkeys(row.shape for row in rows))
    ends = {shape: y(value([row for row in rows if row.shape == shape][-1])) for shape in shapes}
    label = _TOP - 14.0
    for shape in sorted(shapes, key=lambda name: ends[name]):
        color = _COLORS[shapes.index(shape) % len(_COLORS)]
        found = [row for row in rows if row.shape == shape]
        points = " ".join(f"{x(row.size):.1f},{y(value(row)):.1f}" for row in found)
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
        yield from (
            f'<rect x="{x(r.size) - 3:.1f}" y="{y(value(r)) - 3:.1f}" width="6" height="6" fill="{color}"/>'
            for r in found
        )
        label = max(ends[shape] + 4, label + 14)
        yield f'<text x="{x(found[-1].size) + 8:.1f}" y="{label:.1f}" fill="{color}">{shape}</text>'


def main() -> int:
    """The command; 1 when a shape grows faster than the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []], help="shapes to measure (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of operations")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--svg", type=Path, help="draw the figures into this file")
    parser.add_argument("--document", type=Path, help="put the table into this page, between its markers")
    parser.add_argument("--figures", type=Path, help="figures that --json wrote, instead of measuring")
    arguments = parser.parse_args()
    rows: list[Figures] = []
    spawn = multiprocessing.get_context("spawn")
    if arguments.figures is not None:
        rows += [Figures(**row) for row in json.loads(arguments.figures.read_text(encoding="utf-8"))]
    for shape in () if arguments.figures is not None else arguments.shapes or SHAPES:
        for size in arguments.sizes:
            with spawn.Pool(1) as pool:
                rows.append(pool.apply(measure, (shape, size)))
            print(f"{shape} {size:,}: {rows[-1].total:.2f} s, {rows[-1].peak / 1e6:.0f} MB", file=sys.stderr)
    print(table(rows))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([vars(row) for row in rows], indent=1), encoding="utf-8")
    if arguments.document is not None:
        put(arguments.document, "growth.py", table(rows))
    if arguments.svg is not None:
        arguments.svg.write_text(svg(rows), encoding="utf-8")
    slow = False
    for shape in dict.fromkeys(row.shape for row in rows):
        found = [row for row in rows if row.shape == shape]
        first, last = found[0], found[-1]
        time_slope = exponent((first.size, first.total), (last.size, last.total))
        slow |= max(time_slope, exponent((first.size, first.peak), (last.size, last.peak))) > BAR
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
