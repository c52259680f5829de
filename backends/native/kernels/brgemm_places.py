"""Where the rows of a register tile of ``tile.brgemm`` lie: offsets in C, of numbers or of what a tile is given.

Rows of a tile lie at one distance, or go on in the next lines of an image: then a row's place is that of its line, and
its own one in that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from xdsl.ir import SSAValue

from etir.backends.native.tile import BrgemmOp, strides_of


class Places(ABC):
    """The places of one product's rows: ``m`` of an item of the batch, of which ``lines`` are one tile together."""

    op: BrgemmOp
    m: int
    lines: int
    crosses: bool
    """Whether a tile goes on from one line in the next."""

    @cached_property
    @abstractmethod
    def given(self) -> dict[str, int]:
        """The numbers that a tile is given as arguments, by name."""

    def _step_of(self, name: str, number: int) -> int | str:
        """A number, by its name where a tile is given it."""
        return name if name in self.given else number

    def _place(self, operand: SSAValue, row: str) -> str:
        """The floats from the first row of the lines to row ``row`` of all of them, an expression of C."""
        strides = strides_of(operand.type)
        name = self._name(operand)
        line = self._step_of(f"line_{name}", strides[self._line_dim(operand)])
        step = self._step_of(f"ld{name}", strides[-2])
        return f"({row} / {self.m} * {line} + {row} % {self.m} * {step})" if line or step else "0"

    def _at(self, operand: SSAValue, row: int) -> int | str:
        """The floats to a row of a tile, of an operand: from the tile's first one, or from that of the lines."""
        if self.crosses:
            return self._place(operand, f"(r + {row})")
        return self._fixed(operand, row)

    def _row_of_a(self, row: int) -> int | str:
        """The floats from the first row of a tile to another one, of the left operand."""
        if self.crosses:
            return f"row{row}" if row else 0
        return self._fixed(self.op.a, row)

    def _fixed(self, operand: SSAValue, row: int) -> int | str:
        """The floats from the first row of a tile to another one, of an operand."""
        strides = strides_of(operand.type)
        name = self._name(operand)
        terms = [(row, f"ld{name}", strides[-2])]
        if self.lines > 1:
            line = strides[self._line_dim(operand)]
            terms = [(row // self.m, f"line_{name}", line), (row % self.m, f"ld{name}", strides[-2])]
        named = [f"{count} * {name}" for count, name, _ in terms if count and name in self.given]
        number = sum(count * step for count, name, step in terms if name not in self.given)
        return " + ".join([*named, *([str(number)] if number else [])]) if named else number

    def _name(self, operand: SSAValue) -> str:
        """What an operand is called."""
        operands = [self.op.a, self.op.c, *self.op.extra]
        return ("a", "c", *(f"e{x}" for x in range(len(self.op.extra))))[operands.index(operand)]

    def _line_dim(self, operand: SSAValue) -> int:
        """The dim of lines: that of the batch which lies innermost, before the taps."""
        return -3 - (len(self.op.tap_counts) if operand is self.op.a else 0)
