"""``tile.winograd``: a convolution by F(2x2, 3x3), a few tiles from beginning to end before others.

Units are slots, each a run of tiles of the result. What a few tiles become is multiplied, and their sums become the
result, while all of it is in a core's own caches; threads do not wait for each other between the three, as they do
where each is an operation for itself (``winograd.py``). Weights are read once for every few tiles, so that they have
to be in the second cache.

The products are those of ``tile.brgemm`` on the memory of a slot, whose schedule is that of the operation. The last
tiles may be fewer: they have products of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.brgemm import Brgemm
from etir.backends.native.kernels.template import CFunction, Template, part_text, set_schedule, template
from etir.backends.native.kernels.winograd import (
    WinogradInput,
    WinogradOutput,
    input_transform,
    output_transform,
    why_not,
)
from etir.backends.native.tile import BrgemmOp, identity, memref, shape_of, strides_of
from etir.backends.native.users import base_of
from etir.backends.native.winograd import POINTS, WinogradInputOp, WinogradOp, WinogradOutputOp
from etir.dialects.copying import copy_of_region

PRODUCT = Brgemm()


def product_of(op: WinogradOp, tiles: int) -> BrgemmOp:
    """The products of so many tiles, on the memory of a slot."""
    types = [memref((POINTS, tiles, shape_of(value)[-1]), strides_of(value.type)[1:]) for value in (op.v, op.m)]
    block = Block(arg_types=[types[0], op.u.type, types[1]])
    v, u, m = block.args
    made = BrgemmOp(v, u, m, [], identity())
    block.add_op(made)
    if op.schedule is not None and tiles == op.at_once:
        made.properties["schedule"] = op.schedule
    return made


@template(WinogradOp)
class WinogradTiles(Template):
    """Windows of 3x3, tile by tile."""

    name = "winograd"
    entries = Brgemm.entries

    def schedule(self, op: WinogradOp, cpu: Cpu) -> dict[str, Any]:
        """That of its products."""
        return PRODUCT.schedule(product_of(op, op.at_once), cpu)

    def candidates(self, op: WinogradOp, cpu: Cpu) -> list[dict[str, Any]]:
        return PRODUCT.candidates(product_of(op, op.at_once), cpu)

    def illegal(self, op: WinogradOp, cpu: Cpu) -> str | None:
        if any(strides_of(e.type)[-1] not in (0, 1) for e in op.extra if shape_of(e)[-1] != 1):
            return "channels of the extra operands lie side by side, or are one"
        return why_not(op.x, op.v) or why_not(op.c, op.m) or PRODUCT.illegal(product_of(op, op.at_once), cpu)

    def in_place(self, op: WinogradOp) -> Sequence[SSAValue]:
        """Extra operands are read when their float is written, unless other tiles read the image in them."""
        return [e for e in op.extra if base_of(e) is not base_of(op.x)]

    def c(self, op: WinogradOp, cpu: Cpu) -> CFunction:
        total, at_once, slots = op.tiles, op.at_once, shape_of(op.v)[0]
        result = (*shape_of(op.c)[:-1], shape_of(op.x)[-1])
        source = input_transform(op.x, op.v, op.borders, result, cpu)
        target = output_transform(op.m, op.c, op.extra, op.body.block, cpu)
        functions: list[str] = []
        for name, transform in (("in", source), ("out", target)):
            text = transform.of_tiles("@_tiles")
            functions += [helper.replace("@", f"@_{name}") for helper in (*transform.helpers.values(), text)]
        some = [at_once] if total >= at_once else []
        some += [total % at_once] if total % at_once else []
        choices: list[str] = []
        for number, tiles in enumerate(some):
            made = product_of(op, tiles)
            if made.schedule is None:
                set_schedule(made, PRODUCT.schedule(made, cpu))
            function, name = PRODUCT.c(made, cpu), f"@_products{number}"
            functions += [helper.replace("@", name) for helper in function.helpers]
            functions.append(part_text(name, function, len(made.operands), cpu))
            where = f"if (count == {tiles}) " if len(some) > 1 else ""
            choices.append(f"  {where}{name}_part(of, 0, {function.units});")
        blocks = -(-total // at_once)
        extra = "".join(f", p{number + 3}" for number in range(len(op.extra)))
        v, m = len(op.operands) - 2, len(op.operands) - 1
        lines = [
            f"float* const v = p{v} + begin * {strides_of(op.v.type)[0]};",
            f"float* const m = p{m} + begin * {strides_of(op.m.type)[0]};",
            f"const long from = {blocks} * begin / {slots}, to = {blocks} * end / {slots};",
            "for (long block = from; block < to; ++block) {",
            f"  const long first = block * {at_once}, left = {total} - first;",
            f"  const long count = left < {at_once} ? left : {at_once};",
            "  @_in_tiles(p0, v, first, first + count);",
            "  void* of[] = {(void*)v, (void*)p1, (void*)m};",
            *choices,
            f"  @_out_tiles(m, p2{extra}, first, first + count);",
            "}",
        ]
        return CFunction("\n".join(lines), slots, 1, tuple(functions), calls=True)

    def numpy(self, op: WinogradOp, operands: Sequence[Any]) -> None:
        """All tiles at once."""
        import numpy as np

        x, u, c, *extra, _, _ = operands
        channels = (x.shape[-1], c.shape[-1])
        types = [memref((POINTS, op.tiles, n)) for n in channels]
        block = Block(arg_types=[op.x.type, types[0], op.u.type, types[1], op.c.type, *(e.type for e in op.extra)])
        of_x, of_v, of_u, of_m, of_c, *of_extra = block.args
        v, m = (np.zeros((POINTS, op.tiles, n), c.dtype) for n in channels)
        WinogradInput().numpy(WinogradInputOp(of_x, of_v, op.borders), [x, v])
        PRODUCT.numpy(BrgemmOp(of_v, of_u, of_m, [], identity()), [v, u, m])
        WinogradOutput().numpy(WinogradOutputOp(of_m, of_c, of_extra, copy_of_region(op.body)), [m, c, *extra])
