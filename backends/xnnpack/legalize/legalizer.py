"""What a legalizer is: a function that makes the nodes of one operation, entered by the operators that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from xdsl.ir import SSAValue

from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.dialects.annotations import annotated_operations, is_named
from etir.dialects.edge.base import PREFIX, EdgeOp

Legalizer: TypeAlias = Callable[[Emitter, Any], None]
_LegalizerT = TypeVar("_LegalizerT", bound=Callable[..., None])

LEGALIZERS: dict[str, Legalizer] = {}
"""Every legalizer by the name of its operator, without the level, once the families are imported (``registry.py``)."""


def legalizes(*others: str) -> Callable[[_LegalizerT], _LegalizerT]:
    """Enter the decorated function for the operators that its second parameter is annotated with.

    ``others`` names operators of libraries that the schema table does not have, under a base class as annotation.
    """

    def enter(function: _LegalizerT) -> _LegalizerT:
        operators = [cls.name.removeprefix(PREFIX) for cls in annotated_operations(function, 1) if is_named(cls)]
        LEGALIZERS.update(dict.fromkeys((*operators, *others), function))
        return function

    return enter


def legalizes_as(function: Callable[..., None], nodes: Mapping[type[EdgeOp], str]) -> None:
    """Enter one function for several operators, each given the name of its node."""
    LEGALIZERS.update({cls.name.removeprefix(PREFIX): partial(function, node=node) for cls, node in nodes.items()})


# The table of what is supported (``support.py``) lets no call with runtime scalars through.


def integer(value: int | SSAValue) -> int:
    """A size, an index or the like of a call that is supported."""
    assert isinstance(value, int)
    return value


def integers(values: Iterable[int | SSAValue]) -> tuple[int, ...]:
    """A list of sizes of a call that is supported."""
    return tuple(map(integer, values))


def number(value: complex | SSAValue | None) -> float:
    """A number of a call that is supported."""
    assert isinstance(value, (int, float))
    return float(value)
