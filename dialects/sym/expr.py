"""Symbolic dim expressions: ``s0``, ``2 * s0 * s1``, ``(s0 - 1) floordiv 2 + 1``, ``min(s0, 4)``.

This module is the public face of the algebra; the parts are in ``normal.py`` (construction and normal form),
``text.py`` (parsing), ``bounds.py`` (ranges and proofs) and ``sympy_import.py``. It needs nothing outside etir.

    >>> s0 = symbol("s0")
    >>> str((s0 + 1) // 2)
    '(s0 - 1) floordiv 2 + 1'
    >>> parse("(s0 - 1) floordiv 2 + 1") == (s0 + 1) // 2
    True
    >>> bounds((s0 + 1) // 2, {"s0": (1, 64)})
    (1, 32)

Why not affine maps: exported shapes contain products of symbols, ``min`` and ``max``. Why not sympy: its import alone
takes longer than a whole run of a tool, and equality of its expressions depends on assumptions that text lacks.
"""

from etir.dialects.sym.bounds import Ranges, bounds, prove_equal, prove_le
from etir.dialects.sym.normal import ExprLike, SymExpr, as_expr, ceildiv, const, sym_max, sym_min, symbol
from etir.dialects.sym.sympy_import import from_sympy
from etir.dialects.sym.text import ExprParseError, ExprParser, parse

__all__ = [
    "ExprLike",
    "ExprParseError",
    "ExprParser",
    "Ranges",
    "SymExpr",
    "as_expr",
    "bounds",
    "ceildiv",
    "const",
    "from_sympy",
    "parse",
    "prove_equal",
    "prove_le",
    "sym_max",
    "sym_min",
    "symbol",
]
