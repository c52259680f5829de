"""Dims in torch's arithmetic: ints, and SymInts as soon as a symbol stands for one.

Importing this module imports torch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from etir.dialects.et.layout import Dim
from etir.dialects.sym.atoms import Kind
from etir.lowering.build.sizes import evaluate_dim

_OPERATORS: dict[Kind, Callable[[Any, Any], Any]] = {
    Kind.FLOORDIV: operator.floordiv,
    Kind.MOD: operator.mod,
    Kind.MIN: torch.sym_min,
    Kind.MAX: torch.sym_max,
}


def torch_size(dim: Dim, symbol: Callable[[str], Any]) -> Any:
    """``dim`` as an int or a SymInt; ``symbol`` gives what a symbol stands for."""
    return evaluate_dim(dim, symbol, _OPERATORS)
