"""What is computed of an attribute once, and kept in it.

Attributes are immutable and shared by many operations, and what passes ask of them most often (the dims of a type, the
numbers of a list) takes a microsecond or two each time: a compilation asks some hundred thousand times. A dictionary of
attributes would hash them, in Python, and keep them alive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from xdsl.ir import Attribute

A = TypeVar("A", bound=Attribute)
T = TypeVar("T")


def kept(compute: Callable[[A], T]) -> Callable[[A], T]:
    """A function of an attribute that is computed once for each. What it gives must not be changed; what it raises is
    raised each time.
    """
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def found(attribute: A) -> T:
        # Not a field, which a frozen attribute compares and prints.
        values = vars(attribute)
        if name in values:
            return values[name]
        value = values[name] = compute(attribute)
        return value

    return found
