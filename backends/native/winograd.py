"""Windows of 3x3 by Winograd's algorithm: transforms as operations of ``tile``, their matrices, the order of weights.

F(2x2, 3x3) makes a tile of 2x2 elements of the result from 4x4 elements of the image with 16 multiplications instead of
36: ``Y = A' ((G g G') * (B' d B)) A``. Over channels the multiplications are 16 products of matrices, which
``tile.brgemm`` does as it does any batch::

    tile.winograd_input %x, %v border [1, 1, 1, 1] : memref<1x56x56x64xf32>, memref<16x784x64xf32>   // B' d B
    tile.brgemm %v, %u, %m() : memref<16x784x64xf32>, memref<16x2x64x32xf32>, memref<16x784x64xf32>
    tile.winograd_output %m, %y(%bias) : memref<16x784x64xf32>, memref<1x56x56x64xf32>   // A' m A, and what follows

``tile.winograd`` is all three for a few tiles, then for the next ones, in memory of each thread's own: where weights
are small enough to be read again every time (``lowering/winograd.py``).

``%u`` is ``tile.weight "w" panel 32 transposed 1 winograd 2``: G g G' of every filter, computed when the program is
compiled, 16 / 9 of the bytes. Larger tiles need fewer multiplications and are not made: F(4x4, 3x3) is up to 1.1e-5 off
in a single layer, F(2x2, 3x3) as little as the product itself (``docs/guide/native.md``).

Elements of A and B are 0, 1 and -1: transforms are sums, in an order that the interpreter has, too. A NaN or an
infinity in an image can make all elements of the tiles that read it NaN: those that are not finite in eager, which are
never finite here, and at most one more to each side. Nobody checks for it: a finite number is never wrong, and a walk
over every image would cost as much as a transform.

After Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", CVPR 2016.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, i64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, region_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.loop import SLOTS
from etir.backends.native.tile import TemplateOp, shape_of, verify_body

if TYPE_CHECKING:
    import numpy as np

OUT, WINDOW = 2, 3
"""Rows and columns of a tile of the result, and of the window."""
IN = OUT + WINDOW - 1
"""Rows and columns of the image that a tile reads."""
POINTS = IN * IN
"""Products, one for each element of a transformed tile."""

G = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
"""What makes 4 numbers of the 3 of a filter."""
G_BACK = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, -1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
"""What makes the 3 numbers of the 4 again: a left inverse of ``G`` of whole numbers."""
BT = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
AT = ((1, 1, 1, 0), (0, 1, -1, -1))


def tiles_of(extent: int) -> int:
    """Tiles along a dim of the result; of the last one a part may be outside."""
    return -(-extent // OUT)


def transformed(filters: np.ndarray) -> np.ndarray:
    """``G g G'`` of filters [n, c, 3, 3], as matrices [16, c, n], rounded once."""
    import numpy as np

    n, channels = filters.shape[:2]
    g = np.array(G)
    taps = filters.transpose(1, 2, 3, 0).astype(np.float64, order="C").reshape(channels, WINDOW * WINDOW, n)
    # One product for each channel instead of two for each filter, and too small to be shared out among threads.
    return (np.kron(g, g) @ taps).swapaxes(0, 1)


def restored(matrices: np.ndarray) -> np.ndarray:
    """The filters [n, c, 3, 3] that matrices [16, c, n] were made of, but for the rounding of the transform."""
    import numpy as np

    back = np.array(G_BACK)
    points = matrices.astype(np.float64).transpose(2, 1, 0).reshape(*matrices.shape[:0:-1], IN, IN)
    return (back @ points @ back.T).astype(np.float32)


def _verify_image(tiles: Sequence[int], image: Sequence[int]) -> None:
    """Raises VerifyException unless ``tiles`` [16, tiles, channels] are those of a result [..., h, w, channels]."""
    if len(tiles) != 3 or tiles[0] != POINTS or len(image) < 3 or tiles[2] != image[-1]:
        raise VerifyException(f"tiles are [{POINTS}, tiles, channels], an image [..., h, w, channels]")
    wanted = math.prod(image[:-3]) * tiles_of(image[-3]) * tiles_of(image[-2])
    if tiles[1] != wanted:
        raise VerifyException(f"an image of {list(image)} has {wanted} tiles, not {tiles[1]}")


def verify_borders(x: SSAValue, borders: Sequence[int]) -> None:
    """Raises VerifyException unless ``borders`` are those of an image of [..., h, w, c] that has a window."""
    if len(borders) != 4 or not all(0 <= n < WINDOW for n in borders):
        raise VerifyException(f"a border is four numbers from 0 to {WINDOW - 1}")
    extents = shape_of(x)[-3:-1]
    beside = (sum(borders[:2]), sum(borders[2:]))
    if len(shape_of(x)) < 3 or any(n + more < WINDOW for n, more in zip(extents, beside, strict=True)):
        raise VerifyException("an image [..., h, w, c] with its border has a window of 3x3 at least")


@irdl_op_definition
class WinogradInputOp(TemplateOp):
    """``v = B' d B`` of the tiles of an image: x [..., h, w, c], v [16, tiles, c].

    ``border`` are the rows above and below the image, and the columns before and after it, which count as 0; a result
    has two rows and columns less than both. Tiles are in the order of the image. What the last ones would read after
    the border counts as 0, too.
    """

    name = "tile.winograd_input"
    x = operand_def(MemRefType)
    v = operand_def(MemRefType)
    border = prop_def(ArrayAttr[IntegerAttr])
    assembly_format = "$x `,` $v `border` $border (`schedule` $schedule^)? attr-dict `:` type($x) `,` type($v)"

    def __init__(self, x: SSAValue, v: SSAValue, border: Sequence[int] = (0, 0, 0, 0)):
        numbers = ArrayAttr([IntegerAttr(n, i64) for n in border])
        super().__init__(operands=[x, v], properties={"border": numbers})

    @property
    def borders(self) -> tuple[int, ...]:
        """Rows above and below the image, columns before and after it."""
        return tuple(n.value.data for n in self.border.data)

    @property
    def result(self) -> tuple[int, ...]:
        """The dims [..., h, w, c] of the result whose tiles they are."""
        *lead, h, w, c = shape_of(self.x)
        top, bottom, left, right = self.borders
        return (*lead, h + top + bottom - WINDOW + 1, w + left + right - WINDOW + 1, c)

    def reads(self) -> list[SSAValue]:
        return [self.x]

    def writes(self) -> list[SSAValue]:
        return [self.v]

    def verify_(self) -> None:
        verify_borders(self.x, self.borders)
        _verify_image(shape_of(self.v), self.result)


@irdl_op_definition
class WinogradOutputOp(TemplateOp):
    """``c = body(A' m A, extra)``: m [16, tiles, n], c and extra [..., h, w, n]; what a tile has outside is dropped."""

    name = "tile.winograd_output"
    m = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    body = region_def("single_block")
    assembly_format = (
        "$m `,` $c `(` $extra `)` (`schedule` $schedule^)? attr-dict `:` type($m) `,` type($c) "
        "`(` type($extra) `)` $body"
    )

    def __init__(self, m: SSAValue, c: SSAValue, extra: Sequence[SSAValue], body: Region):
        super().__init__(operands=[m, c, extra], regions=[body])

    def reads(self) -> list[SSAValue]:
        return [self.m, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        _verify_image(shape_of(self.m), shape_of(self.c))
        if any(shape_of(e) != shape_of(self.c) for e in self.extra):
            raise VerifyException("extra operands have the shape of c")
        verify_body(self.body, 1 + len(self.extra))


@irdl_op_definition
class WinogradOp(TemplateOp):
    """A convolution: x [..., h, w, c], weights u [16, panels, c, panel], c and extra [..., h', w', n].

    It is done tile by tile, a few of them at a time: v [slots, 16, tiles, c] and m [slots, 16, tiles, n] are what
    those become, and their sums. Threads have runs of tiles, and a slot each. ``border`` is that of
    :class:`WinogradInputOp`.
    """

    name = "tile.winograd"
    x = operand_def(MemRefType)
    u = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    v = operand_def(MemRefType)
    m = operand_def(MemRefType)
    border = prop_def(ArrayAttr[IntegerAttr])
    body = region_def("single_block")
    assembly_format = (
        "$x `,` $u `,` $c `(` $extra `)` `memory` $v `,` $m `border` $border (`schedule` $schedule^)? attr-dict `:` "
        "type($x) `,` type($u) `,` type($c) `(` type($extra) `)` `,` type($v) `,` type($m) $body"
    )

    def __init__(
        self,
        x: SSAValue,
        u: SSAValue,
        c: SSAValue,
        extra: Sequence[SSAValue],
        memory: tuple[SSAValue, SSAValue],
        border: Sequence[int],
        body: Region,
    ):
        numbers = ArrayAttr([IntegerAttr(n, i64) for n in border])
        super().__init__(operands=[x, u, c, extra, *memory], properties={"border": numbers}, regions=[body])

    @property
    def borders(self) -> tuple[int, ...]:
        """Rows above and below the image, columns before and after it."""
        return tuple(n.value.data for n in self.border.data)

    @property
    def tiles(self) -> int:
        """Tiles of the result."""
        *lead, h, w, _ = shape_of(self.c)
        return math.prod(lead) * tiles_of(h) * tiles_of(w)

    @property
    def at_once(self) -> int:
        """Tiles that are transformed, multiplied and written before others are."""
        return shape_of(self.v)[2]

    def reads(self) -> list[SSAValue]:
        return [self.x, self.u, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c, self.v, self.m]

    def makes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        verify_borders(self.x, self.borders)
        *lead, h, w, depth = shape_of(self.x)
        top, bottom, left, right = self.borders
        columns = shape_of(self.c)[-1]
        wanted = (*lead, h + top + bottom - WINDOW + 1, w + left + right - WINDOW + 1, columns)
        if shape_of(self.c) != wanted or any(shape_of(e) != wanted for e in self.extra):
            raise VerifyException(f"the result and the extra operands are {list(wanted)}")
        if len(shape_of(self.u)) != 4 or shape_of(self.u)[0] != POINTS or shape_of(self.u)[2] != depth:
            raise VerifyException(f"weights are [{POINTS}, panels, {depth}, panel]")
        panels, panel = shape_of(self.u)[1], shape_of(self.u)[3]
        if not (panels - 1) * panel < columns <= panels * panel:
            raise VerifyException(f"{panels} panels of {panel} have no {columns} columns")
        slots, points, tiles, channels = shape_of(self.v) if len(shape_of(self.v)) == 4 else (0, 0, 0, 0)
        if not 1 <= slots <= SLOTS or points != POINTS or tiles < 1 or channels != depth:
            raise VerifyException(f"tiles are [1 to {SLOTS} slots, {POINTS}, tiles, {depth}]")
        if shape_of(self.m) != (slots, POINTS, tiles, columns):
            raise VerifyException(f"sums are {[slots, POINTS, tiles, columns]}")
        verify_body(self.body, 1 + len(self.extra))
