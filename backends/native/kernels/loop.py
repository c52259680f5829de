"""``tile.loop``: the functions of its operations, called on one part after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.template import CFunction, Template, part_text, template, template_of, uses_sizes
from etir.backends.native.loop import LoopOp
from etir.backends.native.tile import TemplateOp, extent_of, shape_of, strides_of


@template(LoopOp)
class Loop(Template):
    """Units are slots, or parts where the loop has no memory of its own."""

    name = "loop"

    def illegal(self, op: LoopOp, cpu: Cpu) -> str | None:
        for inner in op.body.block.ops:
            assert isinstance(inner, TemplateOp)
            reason = template_of(inner).illegal(inner, cpu)
            if reason is not None:
                return f"{inner.name}: {reason}"
        return None

    def c(self, op: LoopOp, cpu: Cpu) -> CFunction:
        extents, total = op.extents, math.prod(op.extents)
        helpers: list[str] = []
        calls: list[str] = []
        names: dict[SSAValue, str] = {arg: f"q{i}" for i, arg in enumerate(op.body.block.args)}
        for number, inner in enumerate(op.body.block.ops):
            assert isinstance(inner, TemplateOp)
            kernel = template_of(inner)
            function = kernel.c(inner, cpu)
            name = f"@_{number}"
            helpers += [helper.replace("@", name) for helper in function.helpers]
            helpers.append(part_text(name, function, len(inner.operands)))
            operands = ", ".join(f"(void*){names[v]}" for v in inner.operands)
            operands += ", (void*)sizes" if uses_sizes(function) else ""
            calls.append(f"    {{ void* of[] = {{{operands}}}; {name}_part(of, 0, {function.units}); }}")
        parts = op.parts()
        lines = [
            "for (long slot = begin; slot < end; ++slot) {",
            f"  const long from = {total} * slot / {op.slots}, to = {total} * (slot + 1) / {op.slots};",
            "  for (long part = from; part < to; ++part) {",
            "    long left = part;",
        ]
        for d in reversed(range(len(extents))):
            lines.append(f"    const long d{d} = left % {extents[d]}; left /= {extents[d]};")
        lines.append("    (void)left;")
        for number, (_, steps, _) in enumerate(parts):
            terms = "".join(f" + d{d} * {step}" for d, step in enumerate(steps) if step)
            lines.append(f"    float* const q{number} = p{number}{terms};")
        for number, value in enumerate(op.locals, len(parts)):
            lines.append(f"    float* const q{number} = p{number} + slot * {strides_of(value.type)[0]};")
        lines += [f"    (void)d{d};" for d in range(len(extents))]
        lines += [*calls, "  }", "}"]
        return CFunction("\n".join(lines), op.slots, 1, tuple(helpers))

    def numpy(self, op: LoopOp, operands: Sequence[Any]) -> None:
        import numpy as np

        parts = op.parts()
        args = op.body.block.args
        for index in np.ndindex(*op.extents):
            values: dict[SSAValue, Any] = {}
            for (_, steps, arg), array in zip(parts, operands, strict=False):
                offset = sum(i * step for i, step in zip(index, steps, strict=True))
                values[arg] = _window(array, offset, arg)
            for arg, array in zip(args[len(parts) :], operands[len(parts) :], strict=True):
                values[arg] = array[0]
            for inner in op.body.block.ops:
                assert isinstance(inner, TemplateOp)
                template_of(inner).numpy(inner, [values[v] for v in inner.operands])


def _window(array: Any, offset: int, arg: SSAValue) -> Any:
    """The floats of a part: ``offset`` from the first one of a strided array."""
    import numpy as np

    size = array.itemsize
    whole = np.lib.stride_tricks.as_strided(array, (offset + extent_of(arg.type),), (size,))
    strides = [s * size for s in strides_of(arg.type)]
    return np.lib.stride_tricks.as_strided(whole[offset:], shape_of(arg), strides)
