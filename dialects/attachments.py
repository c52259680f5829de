"""What passes, and those who run them, hand to each other beside the module: objects by their class.

A context has one object of each class at most: the observer of rewrites, the report of a partitioning. Whoever reads
one names the class that it wants and gets that or None, so that the context needs to know none of these classes, which
are above it, and no reader has to check what it was given.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

T = TypeVar("T")


class Attachments:
    """At most one object of each class."""

    def __init__(self, held: dict[type[Any], object] | None = None):
        self._held = dict(held or {})

    def get(self, kind: type[T]) -> T | None:
        """The object that was set as a ``kind``, or None."""
        return cast("T | None", self._held.get(kind))

    def set(self, kind: type[T], value: T | None) -> None:
        """Keep ``value`` as the one ``kind``; None removes it."""
        if value is None:
            self._held.pop(kind, None)
        else:
            self._held[kind] = value

    def copy(self) -> Attachments:
        """The same objects, in attachments that can change on their own."""
        return Attachments(self._held)

    def has_same(self, other: Attachments) -> bool:
        """Whether the other ones hold the same objects."""
        mine, others = self._held, other._held
        return mine.keys() == others.keys() and all(mine[kind] is others[kind] for kind in mine)
