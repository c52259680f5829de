"""What operators mean in other operators of torch, where torch itself has no decomposition of them.

A formula is a function with the operator's arguments, written in torch and recorded on fake tensors as torch's own
decompositions are (:mod:`~etir.lowering.decompose_aten.traced`). It is the place for operators that models rarely
leave in a program: gradients, steps of optimizers, second names of convolutions. What models are made of has a pattern
of its own in ``families/``, which needs no torch.

The modules import torch at their top, and are imported when the first formula is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

Formula = Callable[..., Any]

_FORMULAS: dict[str, Formula] = {}


def formula(*operators: str) -> Callable[[Formula], Formula]:
    """Register the decorated function for overloads of ATen (``mish_backward.default``), which share a signature."""

    def register(function: Formula) -> Formula:
        for operator in operators:
            _FORMULAS[f"aten.{operator}"] = function
        return function

    return register


@cache
def formulas() -> Mapping[str, Formula]:
    """Every formula by operator."""
    for module in sorted(info.name for info in iter_modules(__path__)):
        import_module(f"{__name__}.{module}")
    return _FORMULAS
