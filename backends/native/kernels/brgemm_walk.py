"""The loops of ``tile.brgemm`` over the register tiles of a block of rows, as functions of C.

What is around a register tile is some twenty addresses and numbers and two loops, which compilers take nearly as long
for as for the tile. Products that have tiles in common differ in numbers there, too. So these loops are a function that
is given the numbers, and the part of a product only finds out where its block and its panel begin::

    static void brgemm0_walk_6x1_5x1(const float* a, const float* b, float* c, long columns, long t0, long t1, ...) {
      for (long column = 0; column < columns; column += 16) {
        for (long t = 0; t < t0; ++t) brgemm0_6x1(...);
        for (long t = 0; t < t1; ++t) brgemm0_5x1(...);
      }
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from etir.backends.native.kernels.brgemm_ends import BOUNDS, has_part
from etir.backends.native.kernels.brgemm_tile import TileText
from etir.backends.native.sizes import most

WORTH = 1024
"""Cycles of a tile for which its numbers may be those that the function around it is given, and not in the text."""


@dataclass(frozen=True)
class Operand:
    """An operand of a tile: what it is called, and the floats between its rows and columns, as C."""

    name: str
    row: int | str
    column: int | str

    @property
    def kind(self) -> str:
        """Its type."""
        return "float*" if self.name == "c" else "const float*"


class WalkText(TileText):
    """The loops over tiles of one product."""

    def cycles(self) -> int:
        """The cycles that a tile takes: two multiply-adds of vectors each, or one where they are two instructions."""
        low = min(self.rows, most(self.m) * self.lines)
        products = low * self.vectors * self.wide * most(self.depth) * self.taps
        return products // 2 if self.cpu.fma else products

    def _can_walk(self) -> bool:
        """Whether tiles are given all that they depend on, and take so long that it does not count how they are given
        it. Linked code is for one product as a rule, and short.
        """
        if not self.given or self.crosses or self.cut_taps or self.wide > 1 or self.cpu.linked:
            return False
        return self.cycles() >= WORTH

    def _walk(self, tiles: Sequence[tuple[int, str]], width: int) -> str:
        """The function that does tiles of so many rows and these names, one kind after another, for each ``width``
        columns of a panel; made when it is first asked for.
        """
        name = "@_walk" + "".join(tile.removeprefix("@") for _, tile in tiles)
        if name not in self.tiles:
            self.tiles[name] = "\n".join(self._walk_lines(name, tiles, width))
        return name

    def _operands(self) -> list[Operand]:
        """The operands of a tile, but for b."""
        found = [Operand("a", self._step_of("lda", self.lda), 0)]
        found.append(Operand("c", self._step_of("ldc", self.ldc), self._step_of("column_c", self.column)))
        for name in self.extra_names:
            if self.ends:
                found.append(Operand(name, "lde1" if name == "e1" else 0, 1))
                continue
            row, one = self.extra[int(name[1:])]
            found.append(Operand(name, self._step_of(f"ld{name}", row), self._step_of(f"column_{name}", one)))
        return found

    def _walk_lines(self, name: str, tiles: Sequence[tuple[int, str]], width: int) -> list[str]:
        operands = self._operands()
        (a, c, *extras) = operands
        parameters = [f"{a.kind} a", "const float* b", f"{c.kind} c", *(f"{e.kind} {e.name}" for e in extras)]
        parameters += ["const float* next", "long on"] if self.fetches else []
        parameters += ["long columns", *(f"long t{i}" for i in range(len(tiles)))]
        parameters += ["long depth", "int first", "int last", *(f"long {number}" for number in self.given)]
        bounds = [bound for part, bound in BOUNDS.items() if has_part(self.ends, part)]
        parameters += [f"float {bound}" for bound in bounds]
        lines = [f"ETIR_NOINLINE void {name}({', '.join(parameters)}) {{", "  ETIR_NOUNROLL"]
        lines.append(f"  for (long column = 0; column < columns; column += {width}) {{")
        lines += [f"    {one.kind} {one.name}_ = {one.name}{_times('column', one.column)};" for one in operands]
        lines += ["    const float* next_ = next;"] if self.fetches else []
        arguments = ["a_", "b + column", "c_", *(f"{e.name}_" for e in extras), *(["next_"] if self.fetches else [])]
        arguments += ["depth", "first", "last", *self.given, *bounds]
        moved = [(one, one.row) for one in operands if one.row != 0]
        for i, (rows, tile) in enumerate(tiles):
            steps = [f"{one.name}_ += {rows} * {row}" for one, row in moved]
            steps += ["next_ += on"] if self.fetches else []
            on = "".join(f", {step}" for step in steps)
            lines.append(f"    for (long t = 0; t < t{i}; ++t{on}) {tile}({', '.join(arguments)});")
        return [*lines, "  }", "}"]


def _times(number: str, step: int | str) -> str:
    """What is added to an address for a number of steps."""
    return "" if step == 0 else f" + {number}" if step == 1 else f" + {number} * {step}"
