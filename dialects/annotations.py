"""Which operations a function takes, from its annotation: what patterns and legalizers are tried on is said once.

::

    def rewrite(self, op: edge.aten.sum.dim_IntList | edge.aten.mean.dim, rewriter: PatternRewriter) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from xdsl.ir import Operation


def annotated_operations(function: Callable[..., Any], position: int) -> tuple[type[Operation], ...]:
    """The classes that the parameter at ``position`` is annotated with, one or the members of a union.

    Only this annotation is evaluated, so that others may name what is imported for the type checker alone. Raises
    ``TypeError`` for one that is missing or names something else, and what reading an unknown operator raises.
    """
    parameter = function.__code__.co_varnames[position]
    where = f"'{parameter}' of '{function.__qualname__}'"
    annotation: Any = function.__annotations__.get(parameter)
    if annotation is None:
        raise TypeError(f"{where} needs an annotation that names the operations to start from")
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, function.__globals__)
        except NameError as error:
            raise TypeError(f"{where} is annotated with '{annotation}', but {error} in its module") from error
    classes: Sequence[Any] = get_args(annotation) or (annotation,)
    for member in classes:
        if not isinstance(member, type) or not issubclass(member, Operation):
            raise TypeError(f"{where} is annotated with {member!r}, which is no operation")
    return tuple(classes)


def is_named(cls: type[Operation]) -> bool:
    """Whether ``cls`` is one operation, and not a base class of several."""
    return hasattr(cls, "name")
