"""What templates share that go over elements: dims that are one loop, and loads along a row."""

from __future__ import annotations

from collections.abc import Sequence


def collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same elements in as few dims as possible: neighbors that are one loop for every operand are merged.

    ``strides`` are those of each operand. There is one dim at least.
    """
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, extent in enumerate(shape):
        if extent == 1:
            continue
        if dims and all(s[-1] == row[d] * extent for s, row in zip(steps, strides, strict=True)):
            dims[-1] *= extent
            for s, row in zip(steps, strides, strict=True):
                s[-1] = row[d]
            continue
        dims.append(extent)
        for s, row in zip(steps, strides, strict=True):
            s.append(row[d])
    if not dims:
        return [1], [[1] for _ in strides]
    return dims, steps


def load(name: str, stride: int, lanes: int, some: str = "") -> str:
    """A vector along the innermost dim at index ``j``; ``some`` is how many lanes of the last one are there."""
    if stride == 0:
        return f"vset({name}[0])"
    if stride == 1:
        return f"vload_some({name} + j, {some})" if some else f"vload({name} + j)"
    if some:
        return f"vgather_some({name} + j * {stride}, {stride}, {some})"
    return f"vgather({name} + j * {stride}, {stride})"


def addresses(count: int, steps: Sequence[Sequence[int]], names: Sequence[str], *written: int) -> list[str]:
    """Declarations of the addresses of a row of each operand, from the outer indices ``i0``, ``i1``, ..."""
    lines: list[str] = []
    for number, (name, row) in enumerate(zip(names, steps, strict=True)):
        terms = "".join(f" + i{d} * {row[d]}" for d in range(count) if row[d])
        kind = "float*" if number in written else "const float*"
        lines.append(f"{kind} const {name} = p{number}{terms};")
    return lines


def outer_indices(dims: Sequence[int]) -> list[str]:
    """Declarations of ``i0``, ``i1``, ... of the outer dims from ``row``."""
    if not dims:
        return ["(void)row;"]
    lines = ["long left = row;"]
    for d in reversed(range(len(dims))):
        lines.append(f"const long i{d} = left % {dims[d]}; left /= {dims[d]};" if d else f"const long i{d} = left;")
    return lines
