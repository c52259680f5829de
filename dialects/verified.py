"""Verification that remembers: an operation that did not change since it was verified is not verified again."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from weakref import KeyedRef

from xdsl.dialects.builtin import SymbolRefAttr, TensorType
from xdsl.ir import Attribute, Operation

from etir.dialects.et.layout import LayoutAttr
from etir.dialects.kept import kept
from etir.dialects.quick_definitions import quicken

_type_of = attrgetter("_type")


@dataclass(frozen=True, slots=True)
class Verified:
    """An operation without regions that passed its own verifier: what that has looked at, and what is left to look at
    around it, which may change without it.
    """

    op: KeyedRef[int, Operation]
    operands: tuple[Attribute, ...]
    properties: dict[str, Attribute]
    results: tuple[Attribute, ...]
    symbols: bool
    """Whether it names symbols."""
    dims: bool
    """Whether a result has symbolic dims."""


class VerifiedOperations:
    """What a run of passes has verified so far, so that the next verification looks only at what changed.

    The constraints of an operation without regions depend on its operand types, properties, attributes and result
    types. Attributes are immutable: an operation that still has what was verified is still valid. Everything else
    (dominance, symbols, dims, structure) is checked anew every time.
    """

    def __init__(self) -> None:
        # By identity: operations hash in Python, and most of a run's time is looking them up.
        self._seen: dict[int, Verified] = {}

    def unchanged(self, op: Operation) -> Verified | None:
        """What is known of an operation that is what it was when it passed, and not the last one of its block: all that
        there is to look at in it itself has been looked at. Most are, after most passes.
        """
        known = self._seen.get(id(op))
        if (
            known is not None
            and known.op() is op
            and op._next_op is not None  # pyright: ignore[reportPrivateUsage]
            and not op.regions
            and not op._successors  # pyright: ignore[reportPrivateUsage]
            and known.properties == op.properties
            and known.operands == tuple(map(_type_of, op._operands))  # pyright: ignore[reportPrivateUsage]
            and known.results == tuple(map(_type_of, op.results))
        ):
            return known
        return None

    def verify(self, op: Operation) -> Verified | None:
        """Run the operation's own verifier, unless it passed with the same before. Raises what that raises. None for
        one with regions or successors, of which nothing is remembered.
        """
        quicken(type(op))
        if op.regions or op._successors:  # pyright: ignore[reportPrivateUsage]
            op.verify_()
            return None
        operands = tuple(map(_type_of, op._operands))  # pyright: ignore[reportPrivateUsage]
        results = tuple(map(_type_of, op.results))
        known = self._seen.get(id(op))
        if (
            known is None
            or known.op() is not op
            or known.operands != operands
            or known.results != results
            or known.properties != op.properties
        ):
            op.verify_()
            symbols = any(isinstance(attribute, SymbolRefAttr) for attribute in op.properties.values())
            dims = any(map(symbolic_dims, results))
            reference = KeyedRef(op, self._forget, id(op))
            known = self._seen[id(op)] = Verified(reference, operands, dict(op.properties), results, symbols, dims)
        return known

    def _forget(self, reference: KeyedRef[int, Operation]) -> None:
        """An operation is gone; another one may be where it was."""
        known = self._seen.get(reference.key)
        if known is not None and known.op is reference:
            del self._seen[reference.key]


@kept
def symbolic_dims(type: Attribute) -> tuple[str, ...]:
    """The names of the symbolic dims of a tensor's type, each once."""
    if not isinstance(type, TensorType) or not isinstance(type.encoding, LayoutAttr):
        return ()
    dims = type.encoding.data.dims
    return () if dims is None else tuple(dict.fromkeys(name for dim in dims for name in dim.symbols))
