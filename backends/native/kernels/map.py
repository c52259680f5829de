"""``tile.map``: elementwise operators, and copies between strides.

Neighboring dims become one where every operand allows it; the innermost loop goes over vectors of the last dim. Where
that is a few channels of an image that come from planes, the loop goes over columns, and compilers weave the vectors of
the planes.

Some operands may have a number for each group of channels, as the means of a norm of groups. Vectors go along all
channels then: those numbers, and what a body makes of them and of numbers of channels alone, are written for a block of
channels to the stack once, and read for every pixel. They take no memory of the program's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.loops import addresses, collapsed, load, outer_indices
from etir.backends.native.kernels.template import CFunction, Template, body_function, makers_of, run_body, template
from etir.backends.native.sizes import is_known, most
from etir.backends.native.tile import MapOp, shape_of, strides_of
from etir.dialects.walking import ops_of

CHUNK = 4096
"""Elements of a unit of work where everything is one loop."""
FEW = 4
"""Planes that are woven."""
ROW, UNEVEN_ROW = 8, 64
"""Vectors of a row beside which it does not count that its length is not in the text: whole ones, and others."""
KEPT = 256
"""Floats of a block of channels on the stack."""
MOST_KEPT = 4
"""Blocks on the stack."""


@template(MapOp)
class Map(Template):
    """A body for every element."""

    name = "map"

    def illegal(self, op: MapOp, cpu: Cpu) -> str | None:
        if any(n != 1 and s == 0 for n, s in zip(shape_of(op.out), strides_of(op.out.type), strict=True)):
            return "the output has elements of its own"
        return None

    def in_place(self, op: MapOp) -> Sequence[SSAValue]:
        """A vector is read before the same one is written."""
        return op.inputs

    def c(self, op: MapOp, cpu: Cpu) -> CFunction:
        operands = [op.out, *op.inputs]
        # What is written lies in order: its smallest stride is the innermost loop.
        shape, rows = shape_of(op.out), [strides_of(v.type) for v in operands]
        order = sorted(range(len(shape)), key=lambda d: -most(rows[0][d]))
        dims, steps = collapsed([shape[d] for d in order], [[row[d] for d in order] for row in rows])
        names = ["o", *(f"x{i}" for i in range(len(op.inputs)))]
        lanes = cpu.vector
        if _are_planes(op, dims, steps):
            return _woven(dims, steps)
        if (walk := _of_groups(op.body.block, dims, steps)) is not None:
            return walk.c(names, lanes)
        *outer, inner = dims
        if _are_long_rows(op, dims, steps, lanes):
            return _of_rows(op.body.block, dims, steps, names, lanes)
        lines: list[str] = []
        if not outer and most(inner) > CHUNK:
            units, grain = -(-inner // CHUNK), 1
            lines += [
                f"const long from = begin * {CHUNK}, end_of = end * {CHUNK};",
                f"const long to = end_of < {inner} ? end_of : {inner};",
                *addresses(0, steps, names, 0),
                "long j = from;",
                *_columns(steps, names, lanes, "to", inner % lanes),
            ]
        else:
            units, grain = math.prod(outer), max(1, CHUNK // max(1, most(inner)))
            lines += [
                "for (long row = begin; row < end; ++row) {",
                *(f"  {line}" for line in outer_indices(outer)),
                *(f"  {line}" for line in addresses(len(outer), steps, names, 0)),
                "  long j = 0;",
                *(f"  {line}" for line in _columns(steps, names, lanes, str(inner), inner % lanes)),
                "}",
            ]
        return CFunction("\n".join(lines), units, grain, (body_function(op.body.block),))

    def numpy(self, op: MapOp, operands: Sequence[Any]) -> None:
        out, *inputs = operands
        out[...] = run_body(op.body.block, inputs)


def _are_long_rows(op: MapOp, dims: Sequence[int], steps: Sequence[Sequence[int]], lanes: int) -> bool:
    """Whether code that is given the sizes of its loops is as quick as code for these sizes."""
    *outer, inner = dims
    if len(outer) > 1 or steps[0][-1] != 1 or not is_known((*dims, *(n for row in steps for n in row))):
        return False
    return not outer or not op.inputs or inner >= lanes * (ROW if inner % lanes == 0 else UNEVEN_ROW)


def _of_rows(
    block: Block, dims: Sequence[int], steps: Sequence[Sequence[int]], names: Sequence[str], lanes: int
) -> CFunction:
    """Rows of known sizes, by a function that is given how many there are, how long they are and how far apart: the
    maps of a network that do the same, as those that write borders, are one function.
    """
    *outer, inner = dims
    pointers = [f"{'' if name == names[0] else 'const '}float* {name}" for name in names]
    given = ["long rows", "long count", *(f"long {name}_step" for name in names)]
    moved = "".join(f", {name} += {name}_step" for name in names)
    columns = _columns(steps, names, lanes, "count", inner % lanes, is_always=False)
    helper = [
        f"ETIR_NOINLINE void @_rows({', '.join([*pointers, *given])}) {{",
        f"  for (long row = 0; row < rows; ++row{moved}) {{",
        "    long j = 0;",
        *(f"    {line}" for line in columns),
        "  }",
        "}",
    ]
    at = [row[0] if outer else row[-1] * CHUNK for row in steps]
    if outer or inner <= CHUNK:
        units, grain = math.prod(outer), max(1, CHUNK // max(1, inner))
        lines, sizes = [], ["end - begin", str(inner)]
    else:
        units, grain = -(-inner // CHUNK), 1
        lines = [f"const long from = begin * {CHUNK}, to = end * {CHUNK} < {inner} ? end * {CHUNK} : {inner};"]
        sizes = ["1", "to - from"]
    places = [f"p{i} + begin * {step}" if step else f"p{i}" for i, step in enumerate(at)]
    numbers = [str(row[0]) if outer else "0" for row in steps]
    lines.append(f"@_rows({', '.join([*places, *sizes, *numbers])});")
    return CFunction("\n".join(lines), units, grain, (body_function(block), "\n".join(helper)), calls=True)


def _are_planes(op: MapOp, dims: Sequence[int], steps: Sequence[Sequence[int]]) -> bool:
    """Whether a map copies a few planes, whose columns lie side by side, to channels that do."""
    is_copy = len(op.inputs) == 1 and len(ops_of(op.body.block)) == 1
    if not is_known(dims[-2:]):
        return False
    few = len(dims) > 1 and 1 < dims[-1] <= FEW and dims[-2] >= 16
    return is_copy and few and steps[0][-1] == 1 and steps[1][-1] != 1 and steps[1][-2] == 1


def _woven(dims: Sequence[int], steps: Sequence[Sequence[int]]) -> CFunction:
    *outer, columns, channels = dims
    to, plane = steps[0][-2], steps[1][-1]
    copies = " ".join(f"o[j * {to} + {c}] = x0[j + {c * plane}];" for c in range(channels))
    places = [line.replace("* const", "* restrict const") for line in addresses(len(outer), steps, ["o", "x0"], 0)]
    lines = [
        "for (long row = begin; row < end; ++row) {",
        *(f"  {line}" for line in (*outer_indices(outer), *places)),
        f"  for (long j = 0; j < {columns}; ++j) {{ {copies} }}",
        "}",
    ]
    return CFunction("\n".join(lines), math.prod(outer), max(1, CHUNK // (columns * channels)))


@dataclass(frozen=True)
class _OfGroups:
    """A map over the channels of pixels, of which ``grouped`` operands have a number for each group of channels.

    ``dims`` are those of the pixels, of which the last ones, ``repeats`` indices, have the same numbers for channels;
    ``kept`` are values of the body that are made of operands which are the same for those.
    """

    block: Block
    dims: Sequence[int]
    groups: int
    each: int
    steps: Sequence[Sequence[int]]
    grouped: Sequence[int]
    repeats: int
    kept: Sequence[SSAValue]

    def c(self, names: Sequence[str], lanes: int) -> CFunction:
        """Blocks of channels, and the pixels for each of them."""
        channels, size = self.groups * self.each, self.size(lanes)
        spread = {number: f"g{number}" for number in self.grouped}
        kept = [f"k{number}" for number in range(len(self.kept))]
        from_block = [f"q{number}" for number in range(len(names))] if size < channels else names
        rows = [[1] if number in spread else [row[-1]] for number, row in enumerate(self.steps)]
        names = [spread.get(number, name) for number, name in enumerate(names)]
        last = self.block.last_op
        assert last is not None
        result = last.operands[0]
        rest = (channels if size == channels else size if channels % size == 0 and size % lanes == 0 else 1) % lanes
        functions: list[str] = []

        def columns(to: str, name: str, result: SSAValue, given: Sequence[SSAValue]) -> list[str]:
            """The loop that makes a value of the operands, and of values that have been kept, which it needs."""
            makers = makers_of(result, given)
            used = {value for op in makers for value in op.operands} | {result}
            operands = [(arg, names[i + 1], rows[i + 1]) for i, arg in enumerate(self.block.args)]
            operands += [(value, kept[i], [1]) for i, value in enumerate(self.kept) if value in given]
            operands = [operand for operand in operands if operand[0] in used]
            functions.append(body_function(self.block, name, [value for value, *_ in operands], result))
            steps, sources = [[1], *(row for *_, row in operands)], [to, *(source for _, source, _ in operands)]
            return ["j = 0;", *_columns(steps, sources, lanes, "size", rest, name, is_always=size == channels)]

        fill: list[str] = []
        for number, name in spread.items():
            fill.append(
                f"for (long g = 0; g < size / {self.each}; ++g) for (long e = 0; e < {self.each}; ++e) "
                f"{name}[g * {self.each} + e] = x{number - 1}[g * {self.steps[number][-2]}];"
            )
        for number, value in enumerate(self.kept):
            fill += columns(kept[number], f"_kept{number}", value, self.block.args)
        lines = [
            f"for (long from = 0; from < {channels}; from += {size}) {{",
            f"  const long size = {channels} - from < {size} ? {channels} - from : {size};"
            if size < channels
            else f"  const long size = {channels};",
            *(f"  float {name}[{size}];" for name in (*spread.values(), *kept)),
            "  long of = -1;",
            "  for (long row = begin; row < end; ++row) {",
            *(f"    {line}" for line in outer_indices(self.dims)),
            *(f"    {line}" for line in addresses(len(self.dims), self.steps, from_block, 0)),
        ]
        if size < channels:
            for number, name in enumerate(("o", *(f"x{i}" for i in range(len(names) - 1)))):
                step = self.steps[number][-1]
                at = f"from / {self.each} * {self.steps[number][-2]}" if number in spread else f"from * {step}"
                lines.append(f"    {'const ' if number else ''}float* const {name} = q{number} + {at};")
        lines += [
            "    long j;",
            f"    if (row / {self.repeats} != of) {{",
            f"      of = row / {self.repeats};",
            *(f"      {line}" for line in fill),
            "    }",
            *(f"    {line}" for line in columns("o", "_body", result, (*self.block.args, *self.kept))),
            "  }",
            "}",
        ]
        return CFunction("\n".join(lines), math.prod(self.dims), max(1, CHUNK // channels), (*functions,))

    def size(self, lanes: int) -> int:
        """Channels of a block: whole groups, and whole vectors if that can be."""
        if self.groups * self.each <= KEPT:
            return self.groups * self.each
        both = math.lcm(self.each, lanes)
        return KEPT // both * both or KEPT // self.each * self.each


def _of_groups(block: Block, dims: Sequence[int], steps: Sequence[Sequence[int]]) -> _OfGroups | None:
    """The map, if some operands have a number for each group and all others for each channel, or for all."""
    if len(dims) < 3 or not is_known(dims[-2:]):
        return None
    *outer, groups, each = dims
    grouped = [number for number, row in enumerate(steps) if row[-2] != each * row[-1]]
    if not grouped or each > KEPT or steps[0][-1] != 1 or any(number == 0 or steps[number][-1] for number in grouped):
        return None
    first = len(outer)
    while first and all(steps[number][first - 1] == 0 for number in grouped):
        first -= 1
    if first == len(outer):
        return None
    same: set[SSAValue] = {arg for arg, row in zip(block.args, steps[1:], strict=True) if not any(row[first:-2])}
    made: list[SSAValue] = []
    for op in block.ops:
        if op.results and all(value in same for value in op.operands):
            same.add(op.results[0])
            if not isinstance(op, (arith.ConstantOp, arith.CmpfOp)):
                made.append(op.results[0])
    kept = [v for v in made if any(not use.operation.results or use.operation.results[0] not in same for use in v.uses)]
    if len(grouped) + len(kept) > MOST_KEPT:
        return None
    return _OfGroups(block, outer, groups, each, steps, grouped, math.prod(outer[first:]), kept)


def _columns(
    steps: Sequence[Sequence[int]],
    names: Sequence[str],
    lanes: int,
    end: str,
    rest: int,
    function: str = "_body",
    is_always: bool = True,
) -> list[str]:
    """The loop over the innermost dim from ``j``, of which ``rest`` elements are no vector, or some that are counted
    when the code runs.
    """

    def values(some: str) -> str:
        return ", ".join(load(name, row[-1], lanes, some) for name, row in list(zip(names, steps, strict=True))[1:])

    step = steps[0][-1]
    if step == 1:
        lines = [f"for (; j + {lanes} <= {end}; j += {lanes}) vstore({names[0]} + j, @{function}({values('')}));"]
        if rest:
            some = str(rest) if is_always else f"{end} - j"
            lines.append(f"if (j < {end}) vstore_some({names[0]} + j, @{function}({values(some)}), {some});")
        return lines
    whole = f"vscatter(o + j * {step}, {step}, @{function}({values('')}), {lanes});"
    lines = [f"for (; j + {lanes} <= {end}; j += {lanes}) {whole}"]
    if rest:
        lines.append(f"if (j < {end}) vscatter(o + j * {step}, {step}, @{function}({values(str(rest))}), {rest});")
    return lines
