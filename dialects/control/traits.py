"""Traits by which the interpreter runs operations of dialects that it does not know."""

from __future__ import annotations

from xdsl.traits import OpTrait


class ExecutesBodyOnce(OpTrait):
    """The results are what the only block of the only region yields, with the operands as its arguments.

    Its terminator has the results as operands, as ``scf.execute_region`` of MLIR has.
    """
