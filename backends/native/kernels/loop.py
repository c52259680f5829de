"""``tile.loop`` and ``tile.rows``: the functions of their operations, called on one part after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.footprint import is_injective
from etir.backends.native.kernels.template import (
    CFunction,
    Template,
    float_text,
    part_text,
    template,
    template_of,
    uses_sizes,
)
from etir.backends.native.loop import LoopOp, PartsOp
from etir.backends.native.row_loop import RowsOp
from etir.backends.native.tile import TemplateOp, extent_of, lie_alike, shape_of, strides_of
from etir.dialects.walking import ops_of


class _Parts(Template):
    """What both have in common."""

    def illegal(self, op: PartsOp, cpu: Cpu) -> str | None:
        for block, _ in op.scopes():
            for inner in block.ops:
                assert isinstance(inner, TemplateOp)
                reason = template_of(inner).illegal(inner, cpu)
                if reason is not None:
                    return f"{inner.name}: {reason}"
        return None


def _calls(block: Block, prefix: str, names: Mapping[SSAValue, str], cpu: Cpu) -> tuple[list[str], list[str]]:
    """Calls of all operations of a block, one after another, and the functions that are called."""
    helpers: list[str] = []
    calls: list[str] = []
    for number, inner in enumerate(block.ops):
        assert isinstance(inner, TemplateOp)
        function = template_of(inner).c(inner, cpu)
        name = f"@_{prefix}{number}"
        helpers += [helper.replace("@", name) for helper in function.helpers]
        helpers.append(part_text(name, function, len(inner.operands), cpu))
        operands = ", ".join(f"(void*){names[v]}" for v in inner.operands)
        operands += ", (void*)sizes" if uses_sizes(function) else ""
        calls.append(f"{{ void* of[] = {{{operands}}}; {name}_part(of, 0, {function.units}); }}")
    return calls, helpers


def _terms(indices: Sequence[str], steps: Sequence[int]) -> str:
    return "".join(f" + {index} * {step}" for index, step in zip(indices, steps, strict=True) if step)


@template(LoopOp)
class Loop(_Parts):
    """Units are slots, or parts where the loop has no memory of its own."""

    name = "loop"

    def in_place(self, op: LoopOp) -> Sequence[SSAValue]:
        """Inputs whose parts lie as those of the result do, each of which is read for the last time before its part of
        the result is touched: the queries of an attention.
        """
        *inputs, made = op.parts()
        dims = (*op.extents, *shape_of(made.argument))
        distances = (*made.steps, *strides_of(made.argument.type))
        if len(op.outputs) != 1 or not is_injective(dims, distances):
            return ()
        inner = ops_of(op.body.block)
        first = min((n for n, one in enumerate(inner) if made.argument in one.operands), default=0)
        return [
            part.operand
            for part in inputs
            if lie_alike(part.argument.type, made.argument.type)
            and all(a == b or n == 1 for n, a, b in zip(op.extents, part.steps, made.steps, strict=True))
            and all(part.argument not in one.operands for one in inner[first:])
        ]

    def c(self, op: LoopOp, cpu: Cpu) -> CFunction:
        extents, total = op.extents, math.prod(op.extents)
        names: dict[SSAValue, str] = {arg: f"q{i}" for i, arg in enumerate(op.body.block.args)}
        calls, helpers = _calls(op.body.block, "", names, cpu)
        parts = op.parts()
        lines = [f"float* const q{i} = p{i} + begin * {strides_of(v.type)[0]};" for i, v in _locals(op)]
        lines += [
            f"const long from = {total} * begin / {op.slots}, to = {total} * end / {op.slots};",
            "for (long part = from; part < to; ++part) {",
            "  long left = part;",
        ]
        for d in reversed(range(len(extents))):
            lines.append(f"  const long d{d} = left % {extents[d]}; left /= {extents[d]};")
        lines.append("  (void)left;")
        indices = [f"d{d}" for d in range(len(extents))]
        lines += [f"  float* const q{i} = p{i}{_terms(indices, part.steps)};" for i, part in enumerate(parts)]
        lines += [f"  (void){index};" for index in indices]
        lines += [*(f"  {call}" for call in calls), "}"]
        return CFunction("\n".join(lines), op.slots, 1, tuple(helpers))

    def numpy(self, op: LoopOp, operands: Sequence[Any]) -> None:
        import numpy as np

        parts = op.parts()
        args = op.body.block.args
        for index in np.ndindex(*op.extents):
            values: dict[SSAValue, Any] = {}
            for part, array in zip(parts, operands, strict=False):
                values[part.argument] = _window(array, _offset(index, part.steps), part.argument)
            for arg, array in zip(args[len(parts) :], operands[len(parts) :], strict=True):
                values[arg] = array[0]
            _run(op.body.block, values)


def _locals(op: LoopOp | RowsOp) -> list[tuple[int, SSAValue]]:
    """The locals, and their numbers among the operands."""
    return [*enumerate(op.locals, len(op.operands) - len(op.locals))]


def _offset(index: Sequence[int], steps: Sequence[int]) -> int:
    return sum(i * step for i, step in zip(index, steps, strict=True))


def _run(block: Block, values: Mapping[SSAValue, Any]) -> None:
    for inner in block.ops:
        assert isinstance(inner, TemplateOp)
        template_of(inner).numpy(inner, [values[v] for v in inner.operands])


def _window(array: Any, offset: int, arg: SSAValue) -> Any:
    """The floats of a part: ``offset`` from the first one of a strided array."""
    import numpy as np

    size = array.itemsize
    whole = np.lib.stride_tricks.as_strided(array, (offset + extent_of(arg.type),), (size,))
    strides = [s * size for s in strides_of(arg.type)]
    return np.lib.stride_tricks.as_strided(whole[offset:], shape_of(arg), strides)


@template(RowsOp)
class Rows(_Parts):
    """Units are slots: runs of rows, each with a ring."""

    name = "rows"

    def c(self, op: RowsOp, cpu: Cpu) -> CFunction:
        images, rows = op.extents
        size, stride, above, height, left = op.window_of_rows
        total = images * rows
        parts = op.parts()
        count = len(parts)
        names: dict[SSAValue, str] = {part.argument: f"q{i}" for i, part in enumerate(parts)}
        ring = op.body.block.args[len(op.inputs) + len(op.turned)]
        names |= {op.row: "row", ring: "ring"}
        local = dict(_locals(op))
        first_local = len(op.body.block.args) - len(local)
        names |= {arg: f"q{i}" for i, arg in zip(local, op.body.block.args[first_local:], strict=True)}
        fills, helpers = _calls(op.fill.block, "a", names, cpu)
        calls, others = _calls(op.body.block, "b", names, cpu)
        slot, step, channels, _ = strides_of(op.ring.type)
        columns = shape_of(op.ring)[2]
        wide = math.prod(shape_of(op.row)[:-1])
        assert isinstance(op.border, FloatAttr)
        border = float_text(op.border.value.data)

        def fill(to: str, floats: int) -> str:
            return f"@_fill({to}, {floats});"

        numbers = {name: range(start, start + n) for name, start, n in _groups(op)}

        def addresses(group: str, indices: Sequence[str]) -> list[str]:
            return [f"float* const q{i} = p{i}{_terms(indices, parts[i].steps)};" for i in numbers[group]]

        beside = [(0, left), (left + wide, columns - left - wide)]
        lines = [
            f"float* const ring = p{count} + begin * {slot};",
            *(f"float* const q{i} = p{i} + begin * {strides_of(v.type)[0]};" for i, v in local.items()),
            f"const long from = {total} * begin / {op.slots}, to = {total} * end / {op.slots};",
            *(
                f"for (long i = 0; i < {size}; ++i) {fill(f'ring + i * {step} + {at * channels}', n * channels)}"
                for at, n in beside
                if n
            ),
            "long done = -1, next = 0;",
            "for (long line = from; line < to; ++line) {",
            f"  const long image = line / {rows}, r = line % {rows}, top = r * {stride} - {above};",
            "  if (image != done) next = top;",
            "  done = image;",
            f"  for (; next < top + {size}; ++next) {{",
            f"    float* const row = ring + (next + {size}) % {size} * {step} + {left * channels};",
            f"    if (next < 0 || next >= {height}) {{",
            f"      {fill('row', wide * channels)}",
            "      continue;",
            "    }",
            *(f"    {line}" for line in addresses("above", ("image", "next"))),
            *(f"    {call}" for call in fills),
            "  }",
            *(f"  {line}" for group in ("inputs", "outputs") for line in addresses(group, ("image", "r"))),
        ]
        if op.turned:
            # Row 0 of the ring is row -top of the window, modulo its rows.
            lines.append(f"  const long turn = (top + {size}) % {size} ? {size} - (top + {size}) % {size} : 0;")
            lines += [f"  {line}" for line in addresses("turned", ("turn",))]
        lines += [*(f"  {call}" for call in calls), "}"]
        filling = f"for (long f = 0; f < floats; ++f) to[f] = {border};"
        helpers.insert(0, f"ETIR_NOINLINE void @_fill(float* to, long floats) {{\n  {filling}\n}}")
        return CFunction("\n".join(lines), op.slots, 1, (*helpers, *others), calls=True)

    def numpy(self, op: RowsOp, operands: Sequence[Any]) -> None:
        import numpy as np

        images, rows = op.extents
        size, stride, above, height, left = op.window_of_rows
        parts = op.parts()
        grouped = {name: [*zip(parts, operands, strict=False)][start : start + n] for name, start, n in _groups(op)}
        assert isinstance(op.border, FloatAttr)
        ring = np.full(shape_of(op.ring)[1:], op.border.value.data, operands[0].dtype)
        first_local = len(op.body.block.args) - len(op.locals)
        whole = op.body.block.args[first_local - len(op.outputs) - 1]
        local = dict(zip(op.body.block.args[first_local:], operands[len(parts) + 1 :], strict=True))

        def given(names: Sequence[str], index: Sequence[int]) -> dict[SSAValue, Any]:
            chosen = [row for name in names for row in grouped[name]]
            return {p.argument: _window(array, _offset(index, p.steps), p.argument) for p, array in chosen}

        for image in range(images):
            for r in range(rows):
                top = r * stride - above
                for row in range(top if r == 0 else top + size - stride, top + size):
                    to = _window(ring[row % size, left:], 0, op.row)
                    if 0 <= row < height:
                        _run(op.fill.block, {**given(["above"], (image, row)), op.row: to})
                    else:
                        to[...] = op.border.value.data
                values = {**given(["inputs", "outputs"], (image, r)), **given(["turned"], (-top % size,))}
                values |= {whole: _window(ring, 0, whole)} | {arg: array[0] for arg, array in local.items()}
                _run(op.body.block, values)


def _groups(op: RowsOp) -> list[tuple[str, int, int]]:
    """The groups of operands that have parts: name, number of the first one, how many there are."""
    found: list[tuple[str, int, int]] = []
    start = 0
    for name in ("above", "inputs", "turned", "outputs"):
        count = len(getattr(op, name))
        found.append((name, start, count))
        start += count
    return found
