"""How an entry calls its functions: a table of calls that one loop works off, or calls in a row.

A network makes hundreds of calls, each with up to a dozen addresses, and a compiler takes longer for those than for a
register tile; as words of a table they take it nothing::

    static const uint32_t etir_calls[] = {
        0x20000u, 0x3u, 2079u, 0x0u, 0u,  // of function 0: the arena from the first place on, and the first input
        ...
    };

A word has the number of the function, and that of its arguments above 16 bits; two words an argument: what it is in,
with the number of the input, output, weight or place above two bits, and the float that it starts at.

Calls stay in a row where addresses depend on sizes, and where code is linked with a program: a linker knows the
addresses of weights, and a microcontroller has no room for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from etir.backends.native.placing import unknown

LIMIT = 1 << 16
"""Functions, and arguments of one, that are too many for half a word of the table."""

APART = '__asm__ volatile("" ::"i"({}));'
"""Keeps the cases of a switch apart: of calls that differ in constants compilers make one, with a table of addresses
that somebody would have to relocate.
"""


class Base(IntEnum):
    """What an argument is in."""

    INPUT = 0
    OUTPUT = 1
    WEIGHT = 2
    ARENA = 3


BASES = {
    Base.INPUT: "(const float*)call->inputs[number]",
    Base.OUTPUT: "(const float*)call->outputs[number]",
    Base.WEIGHT: "(const float*)call->weights[number]",
    Base.ARENA: "(const float*)(call->arena + places[number])",
}
"""Where bases begin, as C."""


@dataclass(frozen=True)
class Address:
    """Where an argument is: ``start`` floats after the beginning of an input, output, weight or place in the arena."""

    base: Base
    number: int
    text: str
    """The beginning as C."""
    start: int = 0

    def after(self, floats: int) -> Address:
        """The address of a view that starts ``floats`` later."""
        return Address(self.base, self.number, self.text, self.start + floats)

    def c(self) -> str:
        """The address as C."""
        return f"({self.text} + {self.start})" if self.start else self.text

    def words(self) -> str:
        """The address as words of the table."""
        return f"0x{self.number << 2 | self.base:x}u, {self.start}u"


@dataclass(frozen=True)
class Call:
    """A call of a function; ``more`` are arguments after the addresses, as C."""

    function: str
    addresses: tuple[Address, ...]
    more: tuple[str, ...] = ()

    def c(self) -> str:
        """The call as C."""
        given = (*(address.c() for address in self.addresses), *self.more)
        return "".join(f"args[{i}] = (void*){text}; " for i, text in enumerate(given)) + f"{self.function}(call, args);"


def calls_in_a_row(calls: Sequence[Call]) -> list[str]:
    """The calls as statements of an entry."""
    most = max((len(call.addresses) + len(call.more) for call in calls), default=1)
    return [f"void* args[{most}];", *(call.c() for call in calls)]


def fits_table(calls: Sequence[Call]) -> bool:
    """Whether there is a call, and numbers of functions and arguments are less than half a word."""
    functions = {call.function for call in calls}
    return bool(calls) and max(len(functions), *(len(call.addresses) for call in calls)) < LIMIT


def table_of_calls(calls: Sequence[Call], does: Mapping[str, str]) -> tuple[str, list[str]]:
    """The table of calls as C, and the statements of an entry that works it off, where ``places`` are known. ``does``
    has what each function does with ``call`` and ``args``.
    """
    names = [*dict.fromkeys(call.function for call in calls)]
    numbers = {name: number for number, name in enumerate(names)}
    rows = [
        ", ".join(
            [f"0x{len(call.addresses) << 16 | numbers[call.function]:x}u", *(one.words() for one in call.addresses)]
        )
        for call in calls
    ]
    table = "static const uint32_t etir_calls[] = {\n" + "".join(f"  {row},\n" for row in rows) + "};"
    words = sum(1 + 2 * len(call.addresses) for call in calls)
    used = sorted({address.base for call in calls for address in call.addresses})
    chosen = "".join(f"base == {base.value} ? {BASES[base]} : " for base in used[:-1]) + BASES[used[-1]]
    return table, [
        f"void* args[{max(len(call.addresses) for call in calls)}];",
        "const uint32_t* at = etir_calls;",
        unknown("at"),
        f"for (const uint32_t* end = at + {words}; at != end;) {{",
        "  const uint32_t function = *at & 0xffff, count = *at >> 16;",
        "  ++at;",
        "  for (uint32_t i = 0; i < count; ++i, at += 2) {",
        "    const uint32_t base = at[0] & 3, number = at[0] >> 2;",
        *(["    (void)base;"] if len(used) == 1 else []),
        f"    args[i] = (void*)(({chosen}) + at[1]);",
        "  }",
        "  switch (function) {",
        *(f"    case {number}: {APART.format(number)} {does[name]} break;" for name, number in numbers.items()),
        "  }",
        "}",
    ]
