"""A dialect from the modules that define it: a new operation is a new class, and in no list."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from xdsl.ir import Attribute, Dialect, Operation

from etir.dialects.quick_definitions import quicken


def dialect_of(name: str, *modules: ModuleType, operations: Iterable[type[Operation]] = ()) -> Dialect:
    """The dialect ``name`` with the operations and attributes that ``modules`` define, in the order of the definitions.

    Only those with a name of the dialect (``et.call``) count, and only in the module that defines them; base classes
    have no name. ``operations`` are classes that are made and stand in a table instead of the module.
    """
    defined = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and str(getattr(value, "name", "")).startswith(f"{name}.")
    ]
    return quick(
        Dialect(
            name,
            [*(cls for cls in defined if issubclass(cls, Operation)), *operations],
            [cls for cls in defined if issubclass(cls, Attribute)],
        )
    )


def quick(dialect: Dialect) -> Dialect:
    """The dialect, whose operations have quick verifiers and accessors from now on."""
    for operation in dialect.operations:
        quicken(operation)
    return dialect
