"""``#tile.sizes``: numbers of ``tile`` of which some are known when code is called.

As the layout of a memref, it has the dims and the strides; a dim that is no number is ``?`` in the memref's own shape::

    memref<?x64xf32, #tile.sizes<[s0, 64], [64, 1], s0 = 0 to 31>>

As a property, it has rows of numbers: where a ``tile.view`` starts, how many parts a ``tile.loop`` has.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefLayoutAttr
from xdsl.ir import Data
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from etir.backends.native.sizes import Size, Sizes, read_sizes


@irdl_attr_definition
class SizesAttr(MemRefLayoutAttr, Data[Sizes]):
    """Rows of numbers."""

    name = "tile.sizes"

    @staticmethod
    def of(*rows: Sequence[int]) -> SizesAttr:
        """The attribute with these rows."""
        return SizesAttr(Sizes(tuple(tuple(row) for row in rows)))

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The rows."""
        return self.data.rows

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Sizes:
        position = parser.pos
        body = parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage]
        try:
            return read_sizes(body)
        except ValueError as error:
            parser.raise_error(f"bad sizes: {error}", position)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text()}>")

    def get_affine_map(self) -> AffineMap:
        raise NotImplementedError("sizes are expressions, which affine maps cannot say")


def shown(shape: Sequence[int]) -> list[int]:
    """The dims of a memref's own shape."""
    return [DYNAMIC_INDEX if isinstance(n, Size) else n for n in shape]
