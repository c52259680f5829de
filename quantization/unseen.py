"""Operators that no sample of the calibration ran stay float32: those of a branch that was never taken, and those whose
values had no numbers.

Nothing is known of what they read and give. Integers for their weights alone, or with scales that come from other
operators, would be a layer that is half quantized and not measured.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from etir.backends.api.quantization import CHOOSES, MOVES
from etir.dialects.edge.base import EdgeOp
from etir.dialects.quant.ops import ObserveOp
from etir.passes.infra.base import methods
from etir.quantization.passes.annotate_quantization import (
    INTEGERS,
    WEIGHT,
    WHY,
    made_of_integers,
    read_as_integers,
    result_of,
)

REASON = "no sample of the calibration ran it"


def leave_unseen(module: ModuleOp) -> int:
    """Take the marks of integers off operators of which an observed input or the result has neither been seen nor has a
    scale; how many there were. They read values as they were before they were rounded for others, where there are such.
    """
    found = [op for func in methods(module) for op in func.walk() if isinstance(op, EdgeOp) and _is_unseen(op)]
    for op in found:
        for mark in (INTEGERS, WEIGHT):
            op.attributes.pop(mark, None)
        op.attributes[WHY] = StringAttr(REASON)
    for op in found:
        for index, value in enumerate(op.operands):
            if isinstance(value.owner, ObserveOp) and not made_of_integers(value.owner):
                op.operands[index] = value.owner.input
    for observe in [op for func in methods(module) for op in func.walk() if found and isinstance(op, ObserveOp)]:
        if not made_of_integers(observe) and not read_as_integers(observe.result):
            observe.properties.pop("as", None)
    return len(found)


def _is_unseen(op: EdgeOp) -> bool:
    if INTEGERS not in op.attributes:
        return False
    result = result_of(op)
    return not all(map(_is_known, op.operands)) or (result is not None and not _is_known(result.result))


def _is_known(value: SSAValue) -> bool:
    """Whether a value is not observed, or has been, or has a scale."""
    while isinstance(value.owner, EdgeOp) and value.owner.op_name in MOVES | CHOOSES:
        value = value.owner.operands[0]
    owner = value.owner
    return not isinstance(owner, ObserveOp) or owner.seen is not None or owner.encoding is not None
