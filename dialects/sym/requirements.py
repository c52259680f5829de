"""What the types of a method's inputs require of their sizes: rules for a runtime to check, one for each dim.

The first dim that is a plain symbol, or else the first that is ``factor * symbol + offset``, tells the symbol's value;
every other dim with the symbol has to agree. With s0 in [4, 64], ``dims = [s0, 8]`` and ``dims = [2 * s0, s0]`` require

* dim 0 of the first input: from 4 to 64, * dim 1 of it: 8,
* dim 0 of the second input: ``2 * s0``, * dim 1 of it: ``s0``.

As in torch's own guards, a least size of 1 or 2 is no requirement: it says that the program was not specialized on
smaller ones, which it takes. Inputs of fixed shape are left out, since every runtime compares those. Runtimes compare
the number of elements with what there is room for, too: a rule that says no more is ``counted``.

An input that is a number which varies has a rule, too, in the place of dim 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from etir.dialects.sym.normal import SymExpr, as_expr, symbol

Size: TypeAlias = int | SymExpr
Ranges: TypeAlias = Mapping[str, tuple[int, int | None]]

LARGEST = 2**31 - 1
"""The largest size that a file can hold."""

SMALLEST, GREATEST = -(2**63), 2**63 - 1
"""What an input that is a number may be where nothing is said of it."""

UNSPECIALIZED = 2
"""Least sizes up to this one are no requirement."""


@dataclass(frozen=True)
class Source:
    """The dim that tells a symbol: its size is ``factor * symbol + offset``."""

    input: int
    dim: int
    factor: int = 1
    offset: int = 0

    def value(self, size: int) -> int:
        """The symbol's value where the dim has that size."""
        return (size - self.offset) // self.factor


@dataclass(frozen=True)
class SizeRule:
    """Dim ``dim`` of input ``input`` is one of ``low``, ``low + step``, ... up to ``high``, both ends included."""

    input: int
    dim: int
    low: Size
    high: Size
    step: int
    text: str
    """The rule in words, with the names of the input and of the dim."""
    number: bool = False
    """Whether the input is the number itself."""
    counted: bool = False
    """Whether it says no more than the number of elements that there is room for, the other dims being fixed."""

    def holds(self, size: int, values: Mapping[str, int]) -> bool:
        """Whether a size is one of them, given the values of symbols."""
        low, high = (int(as_expr(end).substitute(values)) for end in (self.low, self.high))
        return low <= size <= high and (size - low) % self.step == 0


@dataclass(frozen=True)
class Requirements:
    """The rules of a method's inputs, and where the symbols in them come from."""

    sources: Mapping[str, Source]
    rules: tuple[SizeRule, ...]

    def broken(self, shapes: Sequence[Sequence[int] | None]) -> Iterator[tuple[SizeRule, int]]:
        """The rules that shapes break, each with the size that does; ``shapes`` has None for what is no tensor."""
        values = {
            name: source.value(shape[source.dim])
            for name, source in self.sources.items()
            if (shape := shapes[source.input]) is not None
        }
        for rule in self.rules:
            shape = shapes[rule.input]
            if shape is not None and not rule.holds(shape[rule.dim], values):
                yield rule, shape[rule.dim]


def requirements(
    shapes: Sequence[Sequence[Size] | None], ranges: Ranges, names: Sequence[str], numbers: Collection[int] = ()
) -> Requirements:
    """The rules of inputs with these dims (None for what is no tensor), by the declared ranges of symbols. The inputs
    ``numbers`` are numbers, whose size is their only dim.

    A dim is left out when a symbol of it has no source.
    """
    sources = _sources(shapes)
    rules: list[SizeRule] = []
    for input, shape in enumerate(shapes):
        if shape is None or not any(isinstance(size, SymExpr) for size in shape):
            continue
        is_number = input in numbers
        whats = [
            f"input '{names[input]}'" if is_number else f"dim {i} of input '{names[input]}'" for i in range(len(shape))
        ]
        found = [_rule(input, dim, size, sources, ranges, names, whats[dim]) for dim, size in enumerate(shape)]
        given = [rule for rule in found if rule is not None]
        if is_number:
            rules += [_of_number(rule) for rule in given]
            continue
        alone = sum(isinstance(size, SymExpr) for size in shape) == 1
        rules += [replace(r, counted=True) if alone and r.low == 0 and r.step == 1 else r for r in given]
    return Requirements(sources, tuple(rules))


def _sources(shapes: Sequence[Sequence[Size] | None]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for find in (_plain, _linear):
        for input, shape in enumerate(shapes):
            for dim, size in enumerate(shape or ()):
                told = find(size) if isinstance(size, SymExpr) else None
                if told is not None:
                    name, factor, offset = told
                    sources.setdefault(name, Source(input, dim, factor, offset))
    return sources


def _plain(size: SymExpr) -> tuple[str, int, int] | None:
    told = _linear(size)
    return told if told is not None and told[1:] == (1, 0) else None


def _linear(size: SymExpr) -> tuple[str, int, int] | None:
    if len(size.symbols) != 1:
        return None
    (name,) = size.symbols
    rest = size.substitute({name: 0})
    slope = size.substitute({name: 1}) - rest
    if not rest.is_const or not slope.is_const or int(slope) <= 0 or slope * symbol(name) + rest != size:
        return None
    return name, int(slope), int(rest)


def _rule(
    input: int, dim: int, size: Size, sources: Mapping[str, Source], ranges: Ranges, names: Sequence[str], what: str
) -> SizeRule | None:
    if isinstance(size, int):
        return SizeRule(input, dim, size, size, 1, f"{what} is {size}")
    told = _linear(size)
    source = sources.get(told[0]) if told is not None else None
    if told is None or source is None or (source.input, source.dim) != (input, dim):
        if any(name not in sources for name in size.symbols):
            return None
        return SizeRule(input, dim, size, size, 1, f"{what} is {size}{_where(size, sources, names)}")
    name, factor, offset = told
    low, high = ranges.get(name, (0, None))
    least = factor * low + offset if low > UNSPECIALIZED else offset
    most = LARGEST if high is None else factor * high + offset
    text = f"{what} is '{size}'"
    if factor != 1:
        text += f", a multiple of {factor}" + (f" plus {offset}" if offset else "")
    if least != offset:
        text += f", at least {least}"
    if high is not None:
        text += f", at most {most}"
    return SizeRule(input, dim, least, most, factor, text)


def _of_number(rule: SizeRule) -> SizeRule:
    """The rule of a number, which may be negative, or larger than a size, where nothing else is said."""
    low = SMALLEST if rule.low == 0 and rule.step == 1 else rule.low
    return replace(rule, number=True, low=low, high=GREATEST if rule.high == LARGEST else rule.high)


def _where(size: SymExpr, sources: Mapping[str, Source], names: Sequence[str]) -> str:
    """Which dims the symbols of a size are."""
    parts = [f"'{name}' from dim {sources[name].dim} of input '{names[sources[name].input]}'" for name in size.symbols]
    return f", with {' and '.join(parts)}"
