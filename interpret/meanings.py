"""Meanings: what operators compute, added from outside.

::

    @meaning("mylib.softclip.default")
    def softclip(x, limit=1.0):
        return limit * np.tanh(x / limit)

A meaning is a function of NumPy arrays. The NumPy evaluator runs it as its own operators; the torch evaluator runs it
for what torch does not have, converting tensors, so that one function serves both. Where torch is to compute an
operator in a way of its own, ``evaluator="torch"`` registers a function of torch tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeVar

from etir.diagnostics import EtirError
from etir.dialects.aten.table import load_table
from etir.dialects.operators import operator_name
from etir.dialects.schema_op import SchemaOp
from etir.extensions import import_contributions, registry_cache, registry_changed, taken
from etir.interpret.errors import E1004
from etir.interpret.numpy_ops.registry import as_operator, lookup

Function = TypeVar("Function", bound=Callable[..., Any])
Library = Literal["numpy", "torch"]

_MEANINGS: dict[tuple[Library, str], Callable[..., Any]] = {}
_MODULES: dict[tuple[Library, str], str] = {}
"""Where each meaning comes from."""


def meaning(
    *operators: type[SchemaOp] | str, evaluator: Library = "numpy", replace: bool = False
) -> Callable[[Function], Function]:
    """Register the decorated function as what the overloads ``operators`` compute, by class or by name.

    The function's parameters are named like those of the schema; tensors are NumPy arrays, or torch's where
    ``evaluator`` is ``"torch"``, dtypes those of the library. It returns one array, or a tuple of them, and must not
    write into its arguments. A NumPy function raises ``ValueError``, ``IndexError`` or ``TypeError`` for what it cannot
    take, which becomes E1052.

    Raises E1303 when an operator has a meaning already, unless this one is to ``replace`` it, and ``AttributeError``
    for an overload that the schema table should have and has not.
    """

    def register(function: Function) -> Function:
        names = list(map(operator_name, operators))
        for name in names:
            holder = _holder(evaluator, name)
            if holder is not None and holder != function.__module__ and not replace:
                raise taken("meanings of", name, holder, function.__module__)
        for name in names:
            made = as_operator(name, function) if evaluator == "numpy" else function
            _MEANINGS[evaluator, name] = _guarded(name, made)
            _MODULES[evaluator, name] = function.__module__
        registry_changed()
        return function

    return register


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Whatever other people's code raises is the operator's failure (E1004)."""

    @wraps(function)
    def call(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except EtirError:
            raise
        except Exception as error:  # Nothing is known about the code: any exception means the same.
            words = str(error).strip().splitlines()
            said = f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
            raise E1004.error(f"'{name}': its meaning in {function.__module__} raises {said}") from error

    return call


def _holder(evaluator: Library, name: str) -> str | None:
    """The module that has the operator's meaning, None for an operator that has none."""
    if (evaluator, name) in _MODULES:
        return _MODULES[evaluator, name]
    if name not in load_table():
        return None
    if evaluator == "torch":
        return "torch"
    own = lookup(name)
    return None if own is None else own.__module__


def added(evaluator: Library, name: str) -> Callable[..., Any] | None:
    """The meaning that was registered for an operator of one evaluator, None where there is none."""
    return _MEANINGS.get((evaluator, name))


def added_or_installed(evaluator: Library, name: str) -> Callable[..., Any] | None:
    """The same, looking among installed plug-ins too: for operators that the evaluator does not have."""
    _import_installed()
    return added(evaluator, name)


@registry_cache
def _import_installed() -> None:
    import_contributions(lambda plugin: plugin.meanings)
