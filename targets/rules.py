"""Dtype rules: which scalar types a kernel accepts for its tensors, as rows of short constraints.

A rule is a list of rows and a call is accepted when all constraints of one row hold. A row maps argument names to a
constraint; it must name every tensor argument of the schema and may name others:

    {"self": "RHBBf", "other": "RHBBf", "out": "cast(self, other)"}

A constraint is one or more terms joined by ``&``:

* a set: names from :data:`etir.targets.dtypes.SETS` and single types joined by ``+``: ``RHBf``, ``Int+Long``;
* ``=x``: the same type as argument ``x`` (for a list: as its first item);
* ``promote(x, y)``: exactly the type that the named arguments promote to;
* ``cast(x, y)``: a type that the promoted type of the named arguments can be cast to, never of a lower category;
* for an argument that is no tensor, ``is(a, b)``: one of the words given, which are ``none`` for absence, ``bool``,
  ``int`` and ``float`` for the kinds of a number, or the text of a string. An argument that asks for a scalar type
  takes the constraints of tensors as well: ``"dtype": "=out"``.

An absent optional tensor satisfies every constraint and takes no part in a promotion. A list argument satisfies a
constraint when each of its tensors does. A number takes part in a promotion with its kind, as in PyTorch: it changes
the type only when it is of a higher category than all tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from etir.targets.dtypes import (
    SETS,
    ScalarKind,
    ScalarType,
    can_cast,
    promote_all,
    promote_with_scalar,
)
from etir.targets.errors import E0602

Literal = bool | int | float | str | ScalarType | type | None
"""An argument that is no tensor; a number that is not known yet is given as its type, ``int`` or ``float``."""


@dataclass(frozen=True)
class Call:
    """What a rule is asked about: types of the tensors by argument, ``()`` if absent, and the other arguments."""

    tensors: Mapping[str, tuple[ScalarType, ...]]
    others: Mapping[str, Literal]

    def types(self, name: str) -> tuple[ScalarType, ...]:
        """The types that an argument stands for: of its tensors, or the one that it is."""
        value = self.others.get(name)
        return (value,) if isinstance(value, ScalarType) else self.tensors.get(name, ())

    def promoted(self, names: Sequence[str]) -> ScalarType | None:
        """The common type of the named arguments."""
        types = [t for name in names for t in self.types(name)]
        common = promote_all(types)
        if common is None:
            return None
        for name in names:
            kind = scalar_kind(self.others.get(name))
            if kind is not None:
                common = promote_with_scalar(common, kind)
        return common


def scalar_kind(value: Literal) -> ScalarKind | None:
    """``bool``, ``int`` or ``float`` for a number or one of these types; ``None`` for anything else."""
    kind = value if isinstance(value, type) else type(value)
    if kind is bool:
        return "bool"
    if kind is float:
        return "float"
    return "int" if kind is int else None


@dataclass(frozen=True)
class _Set:
    """One of a set of types."""

    types: tuple[ScalarType, ...]

    def names(self) -> tuple[str, ...]:
        return ()

    def holds(self, call: Call, name: str) -> bool:
        return all(t in self.types for t in call.types(name))


@dataclass(frozen=True)
class _Same:
    """The type of another argument."""

    other: str

    def names(self) -> tuple[str, ...]:
        return (self.other,)

    def holds(self, call: Call, name: str) -> bool:
        wanted = call.types(self.other)
        return not wanted or all(t == wanted[0] for t in call.types(name))


@dataclass(frozen=True)
class _Promotion:
    """The promoted type of other arguments, or one that it casts to."""

    others: tuple[str, ...]
    exact: bool

    def names(self) -> tuple[str, ...]:
        return self.others

    def holds(self, call: Call, name: str) -> bool:
        common = call.promoted(self.others)
        if common is None:
            return False
        return all(t == common if self.exact else can_cast(common, t) for t in call.types(name))


@dataclass(frozen=True)
class _Is:
    """A literal of one of some kinds."""

    words: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        return ()

    def holds(self, call: Call, name: str) -> bool:
        value = call.others.get(name)
        if value is None:
            return "none" in self.words
        return (scalar_kind(value) or str(value)) in self.words


_Term = _Set | _Same | _Promotion | _Is


@dataclass(frozen=True)
class Constraint:
    """The parsed form of a constraint; ``text`` is what the manifest says."""

    text: str
    terms: tuple[_Term, ...]

    def holds(self, call: Call, name: str) -> bool:
        """Whether argument ``name`` of ``call`` satisfies every term."""
        return all(term.holds(call, name) for term in self.terms)

    def names(self) -> tuple[str, ...]:
        """The arguments that the constraint refers to."""
        return tuple(name for term in self.terms for name in term.names())


def parse_constraint(text: str) -> Constraint:
    """Parse one constraint. Raises E0602 with the text that is not understood."""
    return Constraint(text, tuple(_parse_term(part.strip(), text) for part in text.split("&")))


_FUNCTION = re.compile(r"(promote|cast|is)\(([^()]*)\)")


def _parse_term(term: str, text: str) -> _Term:
    if term.startswith("="):
        return _Same(term[1:].strip())
    called = _FUNCTION.fullmatch(term)
    if called is not None:
        words = tuple(word.strip() for word in called[2].split(","))
        return _Is(words) if called[1] == "is" else _Promotion(words, exact=called[1] == "promote")
    types: dict[ScalarType, None] = {}
    for name in term.split("+"):
        if name in SETS:
            types.update(dict.fromkeys(SETS[name]))
        elif name in ScalarType.__members__:
            types[ScalarType[name]] = None
        else:
            raise E0602.error(f"dtype constraint '{text}': '{name}' is neither a set nor a scalar type")
    return _Set(tuple(types))


@dataclass(frozen=True)
class DtypeRule:
    """Alternatives of constraints by argument name; see the module docstring."""

    rows: tuple[Mapping[str, Constraint], ...]

    @staticmethod
    def parse(rows: Sequence[Mapping[str, str]]) -> DtypeRule:
        """From the form in the manifest. Raises E0602 for a constraint that is not understood."""
        return DtypeRule(tuple({name: parse_constraint(text) for name, text in row.items()} for row in rows))

    def failure(self, call: Call) -> str | None:
        """``None`` when a row accepts ``call``, otherwise what the closest row, the last among equals, asks for."""
        best: tuple[int, str] | None = None
        for row in self.rows:
            failed = [name for name, constraint in row.items() if not constraint.holds(call, name)]
            if not failed:
                return None
            if best is None or len(failed) < best[0]:
                best = (len(failed), "; ".join(f"'{name}' must be {row[name].text}" for name in failed))
        return best[1] if best is not None else "no types are accepted"
