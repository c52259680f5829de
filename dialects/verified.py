"""Verification that remembers: an operation that did not change since it was verified is not verified again."""

from __future__ import annotations

from operator import is_
from weakref import WeakKeyDictionary

from xdsl.ir import Operation


class VerifiedOperations:
    """What a run of passes has verified so far, so that the next verification looks only at what changed.

    The constraints of an operation without regions depend on its operand types, properties, attributes and result
    types. Attributes are immutable: an operation that still has the very objects that were verified is still valid.
    Everything else (dominance, symbols, dims, structure) is checked anew every time.
    """

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Operation, tuple[object, ...]] = WeakKeyDictionary()

    def verify(self, op: Operation) -> None:
        """Run the operation's own verifier, unless it passed with these very objects. Raises what that raises."""
        if op.regions or op.successors:
            op.verify_()
            return
        now = (
            *(v.type for v in op._operands),  # pyright: ignore[reportPrivateUsage]
            *op.properties.values(),
            *(r.type for r in op.results),
        )
        known = self._seen.get(op)
        if (
            known is None
            or len(known) != len(now) + 2
            or known[-2] != tuple(op.properties)
            or known[-1] != len(op.results)
            or not all(map(is_, known, now))
        ):
            op.verify_()
            self._seen[op] = (*now, tuple(op.properties), len(op.results))
