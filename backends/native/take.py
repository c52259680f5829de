"""``tile.take``: elements from other places, whose numbers in each dim are constants.

::

    tile.take %x, %y from [array<i64>, array<i64: 1, 1, 1, 0, 8, 1, 6, 1, 1>]
        : memref<64x8xf32>, memref<64x10xf32>

``y[i, j, ...]`` is ``x[r(i), c(j), ...]``. The table of a dim are runs of numbers, three integers each: the first one,
how many there are, and the step from one to the next (1, 0 or -1). One without runs is all of the dim in order. Floats
are moved: their bits stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, MemRefType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known
from etir.backends.native.tile import TemplateOp, shape_of

Numbers = Sequence[int] | None
"""The numbers of a dim; None are all of them in order."""
Run = tuple[int, int, int]
"""The first number, how many there are, and the step."""


def runs_of(numbers: Iterable[int]) -> list[Run]:
    """The longest runs of numbers, from the first one on."""
    found: list[Run] = []
    for number in numbers:
        if found:
            first, count, step = found[-1]
            next_step = number - first if count == 1 else step
            if next_step in (-1, 0, 1) and number == first + count * next_step:
                found[-1] = (first, count + 1, next_step)
                continue
        found.append((number, 1, 1))
    return found


@irdl_op_definition
class TakeOp(TemplateOp):
    """``c[i, j, ...] = a[r(i), c(j), ...]``"""

    name = "tile.take"
    a = operand_def(MemRefType)
    c = operand_def(MemRefType)
    runs = prop_def(ArrayAttr[Attribute])
    assembly_format = "$a `,` $c `from` $runs (`schedule` $schedule^)? attr-dict `:` type($a) `,` type($c)"

    def __init__(self, a: SSAValue, c: SSAValue, tables: Sequence[Numbers]):
        flat = [[] if t is None else [n for run in runs_of(t) for n in run] for t in tables]
        runs = ArrayAttr[Attribute]([DenseArrayBase.from_list(i64, numbers) for numbers in flat])
        super().__init__(operands=[a, c], properties={"runs": runs})

    @property
    def tables(self) -> list[list[Run] | None]:
        """The runs of each dim; None where it is all of it in order."""
        found: list[list[Run] | None] = []
        for item in self.runs:
            values = [int(n) for n in item.get_values()] if isinstance(item, DenseArrayBase) else []
            triples = [(values[i], values[i + 1], values[i + 2]) for i in range(0, len(values) - 2, 3)]
            found.append(triples or None)
        return found

    def numbers(self) -> list[Numbers]:
        """The numbers of each dim."""
        each = ((t, (first + k * step for first, n, step in t or () for k in range(n))) for t in self.tables)
        return [None if t is None else [*numbers] for t, numbers in each]

    def reads(self) -> list[SSAValue]:
        return [self.a]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        a, c = shape_of(self.a), shape_of(self.c)
        if not is_known((*a, *c)) or 0 in (*a, *c):
            raise VerifyException("sizes are known, and not 0")
        if not len(self.runs) == len(a) == len(c):
            raise VerifyException("a and c have as many dims as there are tables")
        for item in self.runs:
            if not isinstance(item, DenseArrayBase) or item.elt_type != i64 or len(item) % 3:
                raise VerifyException("a table are runs: three integers each")
        for d, (runs, given, made) in enumerate(zip(self.tables, a, c, strict=True)):
            if runs is None:
                if given != made:
                    raise VerifyException(f"dim {d} is taken in order, and has {given} and {made} elements")
                continue
            if any(count < 1 or step not in (-1, 0, 1) for _, count, step in runs):
                raise VerifyException(f"a run of dim {d} has no elements, or another step than 1, 0 or -1")
            ends = [n for first, count, step in runs for n in (first, first + (count - 1) * step)]
            if min(ends) < 0 or max(ends) >= given:
                raise VerifyException(f"numbers {min(ends)} to {max(ends)} of dim {d}, which has {given} elements")
            if sum(count for _, count, _ in runs) != made:
                raise VerifyException(f"dim {d} has {made} elements, and its table others")
