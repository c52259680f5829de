"""What a kernel accepts, as data: rules on scalar types, on dim orders and on ranks.

A dtype rule is a list of rows, and a call is accepted when all constraints of one row hold. A row maps argument names
to constraints; it names every tensor argument of the schema, and others that matter::

    {"self": "REALHBBF16", "other": "REALHBBF16", "out": "REALHBBF16 & cast(self, other)"}

A constraint is one or more terms joined by ``&``:

* a set: names from :data:`etir.targets.dtypes.SETS` and single types, joined by ``+``: ``REALHBF16``, ``Int+Long``;
* ``=x``: the same type as argument ``x`` (if ``x`` is a list, as its first item);
* ``promote(x, y)``: exactly the type that the named arguments promote to;
* ``cast(x, y)``: a type that this promoted type may be cast to, which is never one of a lower category;
* ``fits(x, y)``, on a number: it is of no higher category than this promoted type;
* ``is(...)``, on what is no tensor: one of the words ``none``, ``true``, ``false``, ``bool``, ``int``, ``float``,
  ``empty``, ``nonempty`` (of lists), or the text of a string; on an optional tensor ``is(none)``: it must be absent.

An absent optional tensor satisfies every constraint and takes no part in a promotion. A list of tensors satisfies a
constraint when each item does. A number takes part in a promotion with its kind, as in PyTorch: it changes the type
only if it is of a higher category than all tensors. An argument that asks for a scalar type takes the constraints of
tensors too (``"dtype": "=out"``), none of which holds for None. What a caller does not know satisfies everything.

A dim order rule gives each tensor argument a word, or one word to all:

* ``contiguous``: dims in memory in their order;
* ``either``: contiguous or channels-last;
* ``any``: whatever order;
* ``same``: the tensors with this word are all contiguous or all channels-last, as most kernels require;
* ``same_shape``: as ``same``, and channels-last tensors must have one shape: kernels that broadcast plain tensors
  correctly, but channels-last ones wrongly;
* ``requested``: the order that the argument ``dim_order`` asks for, and if that is None the order of the first tensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from etir.emit.formats.scalar_type import ScalarType
from etir.targets.dtypes import SETS, ScalarKind, can_cast, can_hold, promote_all, promote_with_scalar
from etir.targets.errors import E0602

Literal = bool | int | float | str | ScalarType | type | Sequence[object] | None
"""An argument that is no tensor. A runtime scalar is given as ``int``, ``float`` or ``bool``."""

DimOrder = tuple[int, ...]
Shape = tuple[int | None, ...]
"""Sizes; ``None`` stands for one that is not known, and is taken to be whatever suits."""


@dataclass(frozen=True)
class Call:
    """What a rule is asked about: the types of each tensor argument, none if absent, and the other arguments known."""

    tensors: Mapping[str, tuple[ScalarType, ...]]
    others: Mapping[str, Literal]

    def is_unknown(self, name: str) -> bool:
        """Whether nothing is known of the argument."""
        return name not in self.tensors and name not in self.others

    def types(self, name: str) -> tuple[ScalarType, ...]:
        """The types that an argument stands for: those of its tensors, or the one that it asks for."""
        value = self.others.get(name)
        return (value,) if isinstance(value, ScalarType) else self.tensors.get(name, ())

    def promoted(self, names: Sequence[str]) -> ScalarType | None:
        """The common type of the named arguments; ``None`` if they have none."""
        common = promote_all(t for name in names for t in self.types(name))
        if common is None:
            return None
        for name in names:
            kind = number_kind(self.others.get(name))
            if kind is not None:
                common = promote_with_scalar(common, kind)
        return common


def number_kind(value: Literal) -> ScalarKind | None:
    """``bool``, ``int`` or ``float`` for a number or one of these Python types; ``None`` for anything else."""
    kind = value if isinstance(value, type) else type(value)
    if kind is bool:
        return "bool"
    if kind is float:
        return "float"
    return "int" if kind is int else None


@dataclass(frozen=True)
class _Set:
    types: tuple[ScalarType, ...]

    def holds(self, call: Call, name: str) -> bool:
        return all(t in self.types for t in call.types(name))


@dataclass(frozen=True)
class _Same:
    other: str

    def holds(self, call: Call, name: str) -> bool:
        wanted = call.types(self.other)
        return not wanted or all(t == wanted[0] for t in call.types(name))


@dataclass(frozen=True)
class _Promoted:
    relation: str
    others: tuple[str, ...]

    def holds(self, call: Call, name: str) -> bool:
        common = call.promoted(self.others)
        if common is None:
            return False
        if self.relation == "fits":
            kind = number_kind(call.others.get(name))
            return kind is None or can_hold(common, kind)
        return all(t == common if self.relation == "promote" else can_cast(common, t) for t in call.types(name))


@dataclass(frozen=True)
class _Is:
    words: tuple[str, ...]

    def holds(self, call: Call, name: str) -> bool:
        if name in call.tensors:
            return not call.tensors[name] and "none" in self.words
        value = call.others.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return ("nonempty" if value else "empty") in self.words
        return number_kind(value) in self.words or str(value).lower() in self.words


_Term = _Set | _Same | _Promoted | _Is


@dataclass(frozen=True)
class Constraint:
    """A parsed constraint; ``text`` is what the manifest says."""

    text: str
    terms: tuple[_Term, ...]

    def holds(self, call: Call, name: str) -> bool:
        """Whether argument ``name`` of ``call`` satisfies every term."""
        if call.is_unknown(name):
            return True
        if call.others.get(name, name) is None and not any(isinstance(t, _Is) for t in self.terms):
            return False
        return all(term.holds(call, name) for term in self.terms)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the constraint refers to."""
        named = [t.others for t in self.terms if isinstance(t, _Promoted)]
        return tuple(n for names in named for n in names) + tuple(t.other for t in self.terms if isinstance(t, _Same))


_FUNCTION = re.compile(r"(promote|cast|fits|is)\(([^()]*)\)")


@cache
def parse_constraint(text: str) -> Constraint:
    """Parse one constraint. Raises E0602 naming the part that is not understood."""
    return Constraint(text, tuple(_parse_term(part.strip(), text) for part in text.split("&")))


def _parse_term(term: str, text: str) -> _Term:
    if term.startswith("="):
        return _Same(term[1:].strip())
    called = _FUNCTION.fullmatch(term)
    if called is not None:
        words = tuple(word.strip() for word in called[2].split(","))
        return _Is(words) if called[1] == "is" else _Promoted(called[1], words)
    types: dict[ScalarType, None] = {}
    for name in (part.strip() for part in term.split("+")):
        if name in SETS:
            types.update(dict.fromkeys(SETS[name]))
        elif name.upper() in ScalarType.__members__:
            types[ScalarType[name.upper()]] = None
        else:
            raise E0602.error(f"in dtype constraint '{text}': '{name}' is neither a set nor a scalar type")
    return _Set(tuple(types))


@dataclass(frozen=True)
class DtypeRule:
    """Alternative rows of constraints by argument name; see the module docstring. No rows: nothing is accepted."""

    rows: tuple[Mapping[str, Constraint], ...]

    @staticmethod
    def parse(rows: Sequence[Mapping[str, str]]) -> DtypeRule:
        """From the form in the manifest. Raises E0602 for a constraint that is not understood."""
        return DtypeRule(tuple([{name: parse_constraint(text) for name, text in row.items()} for row in rows]))

    def failure(self, call: Call) -> str | None:
        """``None`` if a row accepts ``call``, otherwise what the rows with the fewest failures ask, as alternatives."""
        failures: list[tuple[tuple[str, str], ...]] = []
        for row in self.rows:
            failed = tuple((name, c.text) for name, c in row.items() if not c.holds(call, name))
            if not failed:
                return None
            failures.append(failed)
        fewest = min(map(len, failures), default=0)
        closest = list(dict.fromkeys(failed for failed in failures if len(failed) == fewest))
        return " or ".join(_alternatives(call, closest)) or "the kernel accepts no types at all"


def _alternatives(call: Call, failures: Sequence[tuple[tuple[str, str], ...]]) -> list[str]:
    """What each row asks of its arguments; rows that only ask for other types of the same one are one alternative."""
    merged: dict[str, list[str]] = {}
    texts: list[str] = []
    for failed in failures:
        name, text = failed[0]
        if len(failed) == 1 and _is_set(text):
            merged.setdefault(name, []).extend(n.strip() for n in text.split("+"))
        else:
            texts.append("; ".join(f"'{n}' is {_shown(call, n)}, must be {_readable(t)}" for n, t in failed))
    sets = [f"'{n}' is {_shown(call, n)}, must be {_readable('+'.join(names))}" for n, names in merged.items()]
    return [*sets, *dict.fromkeys(texts)]


def _readable(text: str) -> str:
    """A constraint in words: the names of sets as the types that they have."""
    terms = [term.strip() for term in text.split("&")]
    return " and ".join(_readable_term(t) for t in terms)


def _readable_term(term: str) -> str:
    if term.startswith("="):
        return f"the type of '{term[1:]}'"
    return _readable_set(term) if _is_set(term) else term


def _is_set(term: str) -> bool:
    return all(n.strip() in SETS or n.strip().upper() in ScalarType.__members__ for n in term.split("+"))


def _readable_set(term: str) -> str:
    types = dict.fromkeys(
        t for n in map(str.strip, term.split("+")) for t in (SETS[n] if n in SETS else (ScalarType[n.upper()],))
    )
    return "of any type" if len(types) == len(ScalarType) else "one of " + ", ".join(t.name for t in types)


def _shown(call: Call, name: str) -> str:
    types = call.types(name)
    if types:
        return ", ".join(t.name for t in dict.fromkeys(types))
    value = call.others.get(name)
    return value.__name__ if isinstance(value, type) else repr(value)


DIM_ORDER_WORDS = ("contiguous", "either", "any", "same", "same_shape", "requested")


@dataclass(frozen=True)
class DimOrderRule:
    """One word for all tensor arguments, or one for each; arguments not named are ``contiguous``."""

    words: str | Mapping[str, str]

    def __post_init__(self) -> None:
        words = (self.words,) if isinstance(self.words, str) else self.words.values()
        for word in words:
            if word not in DIM_ORDER_WORDS:
                raise E0602.error(f"dim order word '{word}' is none of {', '.join(DIM_ORDER_WORDS)}")

    @staticmethod
    def parse(words: str | Mapping[str, str]) -> DimOrderRule:
        """From the form in the manifest. Raises E0602 for a word that there is not."""
        return _same_for_all(words) if isinstance(words, str) else DimOrderRule(words)

    def word(self, argument: str) -> str:
        """The word for one argument."""
        return self.words if isinstance(self.words, str) else self.words.get(argument, "contiguous")

    def failure(
        self,
        dim_orders: Mapping[str, Sequence[DimOrder]],
        shapes: Mapping[str, Sequence[Shape]],
        others: Mapping[str, Literal],
    ) -> str | None:
        """``None`` if the orders are accepted, otherwise why not. ``shapes`` may be empty: not known."""
        orders = [(name, order) for name, items in dim_orders.items() for order in items]
        for name, order in orders:
            problem = self._failure_of_one(name, order, orders[0][1], others)
            if problem is not None:
                return f"'{name}' has dim order {list(order)}, {problem}"
        together = [(name, order) for name, order in orders if self.word(name) in ("same", "same_shape")]
        if all(is_contiguous(order) for _, order in together):
            return None
        if not all(is_channels_last(order) for _, order in together):
            shown = ", ".join(f"'{name}' {list(order)}" for name, order in together)
            return f"all of these must be contiguous, or all be channels-last: {shown}"
        broadcast = [(name, shape) for name, items in shapes.items() for shape in items]
        broadcast = [(name, shape) for name, shape in broadcast if self.word(name) == "same_shape"]
        if all(_may_be_equal(shape, broadcast[0][1]) for _, shape in broadcast):
            return None
        shown = ", ".join(f"'{name}' {list(shape)}" for name, shape in broadcast)
        return f"channels-last tensors are not broadcast correctly: {shown}"

    def _failure_of_one(self, name: str, order: DimOrder, first: DimOrder, others: Mapping[str, Literal]) -> str | None:
        word = self.word(name)
        if word == "contiguous" and not is_contiguous(order):
            return "the kernel takes contiguous tensors only"
        if word == "either" and not is_contiguous(order) and not is_channels_last(order):
            return "the kernel takes contiguous and channels-last tensors only"
        if word == "requested" and "dim_order" in others:
            asked = others["dim_order"]
            wanted = tuple(asked) if isinstance(asked, Sequence) else first
            if order != wanted:
                return f"but {list(wanted)} is asked for"
        return None


@cache
def _same_for_all(word: str) -> DimOrderRule:
    return DimOrderRule(word)


def _may_be_equal(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(x == y or x is None or y is None for x, y in zip(a, b, strict=True))


def is_contiguous(dim_order: DimOrder) -> bool:
    """Whether the dims lie in their order; true for scalars and vectors."""
    return dim_order == tuple(range(len(dim_order)))


def is_channels_last(dim_order: DimOrder) -> bool:
    """Whether the dims are batch, space, channels; only tensors of rank 4 and 5 have such an order."""
    rank = len(dim_order)
    return rank in (4, 5) and dim_order == (0, *range(2, rank), 1)
