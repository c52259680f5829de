"""Error ids of the NumPy operators: E1051 to E1059."""

from __future__ import annotations

from etir.diagnostics import define

E1051 = define(
    "E1051",
    "bfloat16 has no NumPy type here",
    "NumPy has no bfloat16 of its own: install torch (pip install 'etir[torch]') or ml_dtypes (pip install ml_dtypes)",
)
E1052 = define(
    "E1052",
    "operator cannot take these arguments",
    "check the operands against the operator's ATen documentation: shapes, dtypes and argument ranges are as in torch",
)
