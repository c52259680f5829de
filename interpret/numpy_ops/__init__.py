"""ATen operators in NumPy: what every level of the IR means where torch is not installed.

``lookup("aten.add.Tensor")`` gives a callable that takes the arguments of the ATen schema, by position or by name, and
returns arrays. Nothing here knows the IR: tensors are ``numpy.ndarray`` (or a Python scalar, which then counts as a
wrapped scalar, as in torch), ``ScalarType`` arguments are NumPy dtypes, ``Tensor[]`` is a list.

Rules that hold for every operator:

* Results have the dtype that torch gives them: :mod:`~etir.interpret.numpy_ops.dtype` has the promotion rules.
* No operator writes into its arguments, whatever its schema says; results of ``view`` operators may share memory with
  the argument, results of ``*_copy`` operators never do.
* ``layout``, ``device``, ``pin_memory``, ``memory_format``, ``non_blocking`` and ``generator`` are accepted and mean
  nothing.
* Half precision is computed in float32 and rounded once at the end. Sums of float32 are accumulated in float64.
* What eager torch leaves uninitialized (``empty``, ``resize``) is zero, so that a program gives the same answer twice.
* Arguments that an operator cannot take raise ``EtirError`` (E1052), never a bare NumPy error.

Operators live in one module per family and are imported when a name is first looked up. ``OPS`` imports all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from etir.interpret.numpy_ops.registry import load_all, lookup, op, supported

if TYPE_CHECKING:
    OPS: dict[str, Callable[..., Any]]
    """Every operator by overload name, ``aten.add.Tensor``. Reading it imports all families."""

__all__ = ["OPS", "lookup", "op", "supported"]


def __getattr__(name: str) -> Any:
    if name == "OPS":
        return load_all()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
