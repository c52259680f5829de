"""Dims in torch's arithmetic: ints, and SymInts as soon as a symbol stands for one.

Importing this module imports torch.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from etir.dialects.et.layout import Dim
from etir.dialects.sym.atoms import Atom, Kind
from etir.dialects.sym.normal import operands_of

_OPERATORS: dict[Kind, Callable[[Any, Any], Any]] = {
    Kind.FLOORDIV: operator.floordiv,
    Kind.MOD: operator.mod,
    Kind.MIN: torch.sym_min,
    Kind.MAX: torch.sym_max,
}


def torch_size(dim: Dim, symbol: Callable[[str], Any]) -> Any:
    """``dim`` as an int or a SymInt; ``symbol`` gives what a symbol stands for."""
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, coefficient in dim.terms:
        product: Any = coefficient
        for atom in monomial:
            product = product * _of_atom(atom, symbol)
        total = total + product
    return total


def _of_atom(atom: Atom, symbol: Callable[[str], Any]) -> Any:
    if atom.kind is Kind.SYMBOL:
        return symbol(atom.text)
    return functools.reduce(_OPERATORS[atom.kind], (torch_size(e, symbol) for e in operands_of(atom)))
