"""Dtype rules: which scalar types a kernel accepts for its tensors, as rows of short constraints.

A rule is a list of rows and a call is accepted when all constraints of one row hold. A row maps argument names to a
constraint; it must name every tensor argument of the schema and may name others:

    {"self": "RHBBf", "other": "RHBBf", "out": "cast(self, other)"}

A constraint is one or more terms joined by ``&``:

* a set: names from :data:`etir.targets.dtypes.SETS` and single types joined by ``+``: ``RHBf``, ``Int+Long``;
* ``=x``: the same type as argument ``x`` (for a list: as its first item);
* ``promote(x, y)``: exactly the type that the named arguments promote to;
* ``cast(x, y)``: a type that the promoted type of the named arguments can be cast to, never of a lower category;
* ``literal(...)``, for an argument that is no tensor: one of the values given, ``none`` for absence, ``bool``, ``int``
  and ``float`` for the kinds of a number.

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

    def promoted(self, names: Sequence[str]) -> ScalarType | None:
        """The common type of the named arguments."""
        types = [t for name in names for t in self.tensors.get(name, ())]
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
