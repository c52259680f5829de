"""Sizes in the C of a function: where symbols come from, what is checked before anything is computed, and names.

``call->sizes`` has the dims of inputs and then of outputs that are known at run time only, in order. The entry takes
the symbols from dims of inputs, computes every number that the function needs, and returns 1 where a dim is not what
its expression says. Asked without outputs, it only writes the dims of outputs to their places in ``call->sizes``, so
that the runtime has memory of this size.

Functions of templates are given the numbers as an array after their operands; each declares those that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.errors import E1174
from etir.backends.native.kernels.template import DECLARE
from etir.backends.native.sizes import PLACEHOLDER, Range, Size, expr_of, ranges_of
from etir.backends.native.sizes_attr import SizesAttr
from etir.backends.native.tile import dims_of_type
from etir.dialects.sym.atoms import Atom, Kind
from etir.dialects.sym.expr import SymExpr, bounds, parse, symbol
from etir.dialects.sym.normal import of_atom, operands_of
from etir.dialects.sym.requirements import Source, requirements
from etir.dialects.text import source_location

HELPERS = {
    "floordiv": "a / b - (a % b != 0 && (a < 0) != (b < 0))",
    "mod": "a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)",
    "min": "a < b ? a : b",
    "max": "a > b ? a : b",
}
"""Functions of expressions: quotients are rounded down, remainders have the sign of the divisor."""


@dataclass(frozen=True)
class GivenSizes:
    """The dims of the arguments of a function that are known at run time only, and where its symbols come from."""

    shapes: tuple[tuple[int, ...], ...]
    """Dims of the inputs and then of the outputs."""
    inputs: int
    sources: dict[Atom, Source]
    """What dims of inputs tell: symbols, and quotients and the like of which nothing else tells the symbol."""
    ranges: dict[str, Range]
    """The bounds of symbols."""

    @property
    def places(self) -> list[tuple[int, int]]:
        """Argument and dim of every number of ``call->sizes``."""
        return [(i, d) for i, shape in enumerate(self.shapes) for d, n in enumerate(shape) if isinstance(n, Size)]

    def values(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The values of symbols where inputs have these shapes."""
        return {atom.text: source.value(shapes[source.input][source.dim]) for atom, source in self.sources.items()}

    def bounds_of(self, atom: Atom) -> tuple[int | None, int | None]:
        """The least and the greatest value of what a dim tells."""
        return bounds(of_atom(atom), self.ranges)


def given_sizes(func: FuncOp, outputs: int) -> GivenSizes:
    """The sizes of a function. Raises E1174 where a symbol is in no dim of an input that tells it."""
    args = func.body.block.args
    shapes = tuple(dims_of_type(arg.type) for arg in args)
    inputs = len(shapes) - outputs
    told = [[n.expr if isinstance(n, Size) else n for n in shape] for shape in shapes[:inputs]]
    numbers = [n for value in memory_of(func) for row in numbers_of(value) for n in row if isinstance(n, Size)]
    ranges = ranges_of(numbers)
    plain = requirements(told, ranges, [f"input {i}" for i in range(inputs)]).sources
    sources = {atom: plain[name] for name in sorted(ranges) if name in plain for atom in symbol(name).atoms()}
    for input, shape in enumerate(told):
        for dim, n in enumerate(shape):
            if isinstance(n, SymExpr) and not _is_told(n, sources) and (found := _linear(n)) is not None:
                sources[found[0]] = Source(input, dim, *found[1:])
    for n in numbers:
        if not _is_told(n.expr, sources):
            raise E1174.error(f"no dim of an input tells '{n.expr}'", source_location(func.location))
    return GivenSizes(shapes, inputs, sources, ranges)


def _linear(expr: SymExpr) -> tuple[Atom, int, int] | None:
    """``factor * atom + offset``"""
    (monomial, factor), *rest = expr.terms
    constant = not rest or (len(rest) == 1 and not rest[0][0])
    if len(monomial) != 1 or factor < 1 or not constant:
        return None
    return monomial[0], factor, rest[0][1] if rest else 0


def _is_told(expr: SymExpr, sources: Mapping[Atom, Source]) -> bool:
    """Whether an expression can be computed from what dims of inputs tell."""
    return all(
        atom in sources or (atom.kind is not Kind.SYMBOL and all(_is_told(e, sources) for e in operands_of(atom)))
        for atom in expr.atoms()
    )


def memory_of(func: FuncOp) -> list[SSAValue]:
    """All memrefs of a function, those inside of loops, too."""
    found: list[SSAValue] = [*func.body.block.args]
    for op in func.walk():
        found += op.results
        found += [arg for region in op.regions for block in region.blocks for arg in block.args]
    return [value for value in dict.fromkeys(found) if isinstance(value.type, MemRefType)]


def numbers_of(value: SSAValue) -> tuple[tuple[int, ...], ...]:
    """The dims and strides of a memref of which some are sizes."""
    assert isinstance(value.type, MemRefType)
    return value.type.layout.rows if isinstance(value.type.layout, SizesAttr) else ()


def is_dynamic(func: FuncOp) -> bool:
    """Whether a function has sizes."""
    return any(numbers_of(value) for value in memory_of(func))


@dataclass
class SizeTable:
    """The numbers that the C of a function uses, in order; index 0 is the first one."""

    func: FuncOp
    given: GivenSizes
    numbers: dict[SymExpr, int] = field(default_factory=dict[SymExpr, int])
    used: dict[str, None] = field(default_factory=dict[str, None])

    def index(self, text: str) -> int:
        """The number of an expression."""
        return self.numbers.setdefault(parse(text), len(self.numbers))

    def in_function(self, text: str) -> str:
        """The text of one function of C with names for sizes, which are declared where it says so."""
        names = dict.fromkeys(found for found in PLACEHOLDER.findall(text) if found != DECLARE[2:-2])
        named = {name: f"n{self.index(name)}" for name in names}
        declared = ", ".join(f"{name} = (long)sizes[{name[1:]}]" for name in dict.fromkeys(named.values()))
        text = text.replace(DECLARE, f"const long {declared};" if declared else "(void)sizes;")
        return PLACEHOLDER.sub(lambda found: named[found[1]], text)

    def in_entry(self, text: str, array: str = "sizes") -> str:
        """The text of statements with elements of the array."""
        return PLACEHOLDER.sub(lambda found: f"{array}[{self.index(found[1])}]", text)

    def entry(self) -> list[str]:
        """The statements that the entry begins with."""
        places = self.given.places
        names = {atom: f"v{i}" for i, atom in enumerate(self.given.sources)}
        lines = ["const int64_t* const given = call->sizes;"]
        for atom, source in self.given.sources.items():
            value = f"given[{places.index((source.input, source.dim))}]"
            value = f"{value} - {source.offset}" if source.offset else value
            value = f"({value}) / {source.factor}" if source.factor != 1 else value
            low, high = self.given.bounds_of(atom)
            lines += [
                f"const int64_t {names[atom]} = {value};",
                f"if ({names[atom]} < {low} || {names[atom]} > {high}) return 1;",
            ]
        wrong: list[str] = []
        results: list[str] = []
        for number, (argument, dim) in enumerate(places):
            text = self.text(expr_of(self.given.shapes[argument][dim]), names)
            if argument < self.given.inputs:
                wrong.append(f"given[{number}] != {text}")
            else:
                results.append(f"((int64_t*)given)[{number}] = {text};")
        wrong += [f"{self.text(expr, names)} < 0" for expr in self._signed()]
        lines.append(f"if ({' || '.join(wrong)}) return 1;")
        lines.append(f"if (call->outputs == 0) {{ {' '.join([*results, 'return 0;'])} }}")
        numbers = ", ".join(self.text(expr, names) for expr in self.numbers)
        lines.append(f"const int64_t sizes[] = {{{numbers or '0'}}};")
        return lines

    def _signed(self) -> list[SymExpr]:
        """Dims that are not proven to be 0 at least."""
        found: dict[SymExpr, None] = {}
        for value in memory_of(self.func):
            for n in dims_of_type(value.type):
                low = bounds(n.expr, self.given.ranges)[0] if isinstance(n, Size) else 0
                if low is None or low < 0:
                    found[expr_of(n)] = None
        return list(found)

    def helpers(self) -> list[str]:
        """The functions that expressions use, once the entry is made."""
        return [
            f"static int64_t etir_{name}(int64_t a, int64_t b) {{ return {text}; }}"
            for name, text in HELPERS.items()
            if name in self.used
        ]

    def text(self, expr: SymExpr, names: Mapping[Atom, str]) -> str:
        """An expression in C, in parentheses where it is more than a name."""
        terms: list[str] = []
        for monomial, coefficient in expr.terms:
            factors = [self._atom(atom, names) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient) if coefficient >= 0 else f"({coefficient})")
            terms.append(" * ".join(factors))
        whole = " + ".join(terms) or "0"
        return whole if whole.isalnum() else f"({whole})"

    def _atom(self, atom: Atom, names: Mapping[Atom, str]) -> str:
        if atom in names:
            return names[atom]
        kind = {Kind.FLOORDIV: "floordiv", Kind.MOD: "mod", Kind.MIN: "min", Kind.MAX: "max"}[atom.kind]
        self.used[kind] = None
        first, *others = [self.text(operand, names) for operand in operands_of(atom)]
        for other in others:
            first = f"etir_{kind}({first}, {other})"
        return first
