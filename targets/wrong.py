"""Calls that a runtime takes and gets wrong, as data: the entries of ``wrong`` in the row of a kernel.

An entry names the calls that it is about, what becomes of them, and why; all that it names has to hold::

    {"dtypes": {"self": "Char+Short+Int+Long"}, "why": "the remainder of a negative number has the wrong sign"}
    {"ranks": {"self": [0, 0]}, "is": {"dim": "nonempty"}, "effect": "abort", "why": "..."}
    {"empty": ["self"], "why": "..."}
    {"narrowed": ["self", "other"], "why": "computed in the type of the tensor of rank 0"}
    {"values": "NaN", "why": "the largest value is another than PyTorch's, which is NaN"}
    {"values": "a shift that is negative or not below the width of the type", "counts": "other", "why": "..."}
    {"values": "...", "centered": "input", "below": {"normalized_shape": 256}, "why": "..."}
    {"values": "...", "added": "self", "above": 4096, "why": "..."}

``dtypes`` are constraints of :mod:`etir.targets.rules`, on numbers too (``"beta": "is(0, 0.0)"``), ``ranks`` the least
and greatest rank of arguments, ``empty`` arguments without elements. ``narrowed`` are arguments of which one of rank 0
has a wider type than those that have dims, in whose type PyTorch computes. ``effect`` is ``wrong`` (the default) or
``abort``: the process ends. What depends on ``values`` is known at run time only: the link check lets it pass, and the
reference of kernels says it. ``counts`` names an argument that is right from 0 to below the width of the result's type:
`decompose-aten` keeps the call where the compiler knows that it is. ``centered`` names one whose elements have to lie
around 0, among those that the kernel takes a mean of: `decompose-aten` subtracts their mean before. ``below`` are lists
of sizes and the number of elements from which the call is right. ``added`` names a tensor whose elements are added one
after the other over the dims in ``dim``, and ``above`` how many may be: `decompose-aten` adds more of them in parts.
``python -m etir.tools.probe.hostile`` finds what to
write here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from etir.targets.dtypes import can_cast, promote_all
from etir.targets.errors import E0602
from etir.targets.rules import Call, Constraint, Shape, parse_constraint

_FIELDS = (
    "dtypes",
    "ranks",
    "empty",
    "narrowed",
    "values",
    "counts",
    "centered",
    "below",
    "added",
    "above",
    "effect",
    "why",
)
_EFFECTS = {"wrong": "wrong result", "abort": "ends the process"}
EFFECTS = tuple(_EFFECTS.values())
"""What the reasons begin with for which a call is refused."""


@dataclass(frozen=True)
class Wrong:
    """One entry; see the module docstring. ``effect`` is as messages say it."""

    why: str
    effect: str
    dtypes: Mapping[str, Constraint] = field(default_factory=dict[str, Constraint])
    ranks: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    empty: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    values: str = ""
    counts: str = ""
    centered: str = ""
    below: Mapping[str, int] = field(default_factory=dict[str, int])
    added: str = ""
    above: int = 0

    @staticmethod
    def parse(entry: Mapping[str, Any]) -> Wrong:
        """From the form in the manifest. Raises E0602 for a field that there is not, and KeyError for one missing."""
        unknown = [name for name in entry if name not in _FIELDS]
        if unknown or entry.get("effect", "wrong") not in _EFFECTS:
            raise E0602.error(f"'wrong' has {entry}: fields are {', '.join(_FIELDS)}, effects {', '.join(_EFFECTS)}")
        dtypes = cast("Mapping[str, str]", entry.get("dtypes", {}))
        ranks = cast("Mapping[str, Sequence[int]]", entry.get("ranks", {}))
        return Wrong(
            entry["why"],
            _EFFECTS[entry.get("effect", "wrong")],
            {name: parse_constraint(text) for name, text in dtypes.items()},
            {name: (least, greatest) for name, (least, greatest) in ranks.items()},
            tuple(entry.get("empty", ())),
            tuple(entry.get("narrowed", ())),
            entry.get("values", ""),
            entry.get("counts", ""),
            entry.get("centered", ""),
            cast("Mapping[str, int]", entry.get("below", {})),
            entry.get("added", ""),
            entry.get("above", 0),
        )

    def holds(self, call: Call, ranks: Mapping[str, Sequence[int]], shapes: Mapping[str, Sequence[Shape]]) -> bool:
        """Whether a call is one of these. What is not known of it, and what depends on values, is no reason."""
        if self.values or any(call.is_unknown(name) or not c.holds(call, name) for name, c in self.dtypes.items()):
            return False
        for name, (least, greatest) in self.ranks.items():
            if not any(least <= rank <= greatest for rank in ranks.get(name, ())):
                return False
        if self.narrowed and not _is_narrowed(call, self.narrowed, ranks):
            return False
        return all(any(0 in shape for shape in shapes.get(name, ())) for name in self.empty)

    def wants_center(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call is right for elements around 0 only; sizes that are not known may be small."""
        return bool(self.centered) and all(
            not all(isinstance(n, int) for n in arguments[name]) or math.prod(arguments[name]) < count
            for name, count in self.below.items()
        )

    def wants_parts(self, shapes: Mapping[str, Any], dims: Any) -> bool:
        """Whether a call adds too many elements one after the other; sizes that are not known may be small."""
        if not self.added:
            return False
        shape = cast("Sequence[int | None]", shapes[self.added])
        added = [shape[d] for d in cast("Sequence[int]", dims)] if dims and shape else shape
        sizes = [n for n in added if n is not None]
        return len(sizes) == len(added) and math.prod(sizes) > self.above

    @property
    def text(self) -> str:
        """The entry in words, for the reference."""
        about = [f"{name}: {constraint.text}" for name, constraint in self.dtypes.items()]
        about += [
            f"rank of {name} {low}" + (f" to {high}" if high != low else "") for name, (low, high) in self.ranks.items()
        ]
        about += [f"{name} empty" for name in self.empty]
        about += [f"one of {', '.join(self.narrowed)} of rank 0 and a wider type"] if self.narrowed else []
        about += [self.values] if self.values else []
        about += [f"fewer than {count} elements in {name}" for name, count in self.below.items()]
        about += [f"more than {self.above} elements of {self.added}"] if self.added else []
        return f"{self.effect} for {', '.join(about)} ({self.why})"


def _is_narrowed(call: Call, names: Sequence[str], ranks: Mapping[str, Sequence[int]]) -> bool:
    """Whether PyTorch's common type of some tensors is narrower than one of them.

    Of tensors in one category (integers, floating point) those of rank 0 have no say if others have dims.
    """
    own = [(t, r) for n in names for t, r in zip(call.tensors.get(n, ()), ranks.get(n, ()), strict=False)]
    common = promote_all(t for t, rank in own if rank)
    if common is None:
        return False
    wide = promote_all([common, *(t for t, rank in own if not rank)])
    return wide is not None and wide != common and can_cast(wide, common)
