"""The table of operators and the families that fill it.

A family is a module of this package; importing it registers its operators with :func:`op`. :func:`lookup` imports
families one after another until the name is known, so a program of pointwise operators never imports the recurrent
ones. The order below is from common to rare.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from etir.dialects.operators import check_operator
from etir.interpret.numpy_ops.errors import E1052

FAMILIES = (
    "elementwise",
    "shape",
    "activation",
    "linear_algebra",
    "convolution",
    "normalization",
    "pooling",
    "reduction",
    "comparison",
    "creation",
    "rearrange",
    "conversion",
    "indexing",
    "scatter",
    "embedding",
    "padding",
    "attention",
    "sorting",
    "upsample",
    "grid_sample",
    "quantized",
    "quantized_fused",
    "integer",
    "cortex_m",
    "groups",
    "experts",
    "recurrent",
    "fourier",
    "distance",
    "backward",
    "losses",
    "pooling_backward",
    "symbolic",
)
"""Module names of the families, in the order in which a lookup imports them."""

IGNORED = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "generator")
"""Keyword arguments that say where and how a tensor is stored, or which generator to draw from: accepted, not used."""

_OPS: dict[str, Callable[..., Any]] = {}
_pending = list(FAMILIES)

Implementation = TypeVar("Implementation", bound=Callable[..., Any])


def op(*names: str) -> Callable[[Implementation], Implementation]:
    """Register the decorated function as the operators ``names``, each ``namespace.operator.overload``.

    The function's parameters are named and ordered as in the schema, except that those in :data:`IGNORED` may be left
    out. It raises ``ValueError``, ``IndexError`` or ``TypeError`` (as NumPy does) for arguments that it cannot take.
    Raises ``ValueError`` when a name is registered twice, ``AttributeError`` when the schema table should have it and
    has not.
    """

    def register(function: Implementation) -> Implementation:
        for name in map(check_operator, names):
            if name in _OPS:
                raise ValueError(f"operator {name} is registered twice")
            _OPS[name] = as_operator(name, function)
        return function

    return register


def lookup(name: str) -> Callable[..., Any] | None:
    """The operator called ``name`` (``aten.add.Tensor``), or ``None`` when there is none in NumPy."""
    while name not in _OPS and _pending:
        _import_next_family()
    return _OPS.get(name)


def load_all() -> dict[str, Callable[..., Any]]:
    """Import every family and return the whole table."""
    while _pending:
        _import_next_family()
    return _OPS


def supported() -> list[str]:
    """The names of all operators, sorted."""
    return sorted(load_all())


def _import_next_family() -> None:
    importlib.import_module(f"{__package__}.{_pending.pop(0)}")


def as_operator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the package's rules around it: no warnings, arrays out, one kind of error."""
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ignored = tuple(keyword for keyword in IGNORED if keyword not in parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for keyword in ignored:
            kwargs.pop(keyword, None)
        try:
            with np.errstate(all="ignore"):
                return _as_arrays(function(*args, **kwargs))
        except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError) as error:
            operands = ", ".join([_describe(a) for a in args] + [f"{k}={_describe(v)}" for k, v in kwargs.items()])
            raise E1052.error(f"{name}({operands}): {error}") from error

    return call


def _as_arrays(result: Any) -> Any:
    """NumPy gives scalars where a result has no dimensions; a tensor is always an array."""
    if isinstance(result, np.generic):
        return np.asarray(result)
    if isinstance(result, tuple):
        return tuple(_as_arrays(r) for r in result)
    if isinstance(result, list):
        return [_as_arrays(r) for r in result]
    return result


def _describe(argument: Any) -> str:
    """An operand as an error message shows it: ``float32[2, 3]`` for an array, the value for the rest."""
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype}{list(argument.shape)}"
    if isinstance(argument, Sequence) and not isinstance(argument, str):
        return f"[{', '.join(_describe(a) for a in argument)}]"
    return str(argument)
