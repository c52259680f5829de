"""Files of encodings, by their kind: AIMET's JSON, and ONNX models on quantize and dequantize operators.

A file may leave values out. Where there is calibration data they have the scales that follow from it; without data they
stay float32, and so do the layers that read them.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from etir.backends.api.quantization import CHOOSES, MOVES
from etir.dialects.edge.base import EdgeOp
from etir.dialects.quant.ops import ObserveOp
from etir.passes.infra.base import methods
from etir.quantization.aimet import read_encodings
from etir.quantization.passes.annotate_quantization import FLOAT, INTEGERS, WEIGHT, WHY, result_of
from etir.quantization.qdq import QdqWeights, read_qdq


def is_onnx(path: str | PathLike[str]) -> bool:
    """Whether a file is an ONNX model, which has weights as well."""
    return fspath(path).endswith(".onnx")


def read_ranges(
    path: str | PathLike[str], module: ModuleOp, *, activations: bool, seen: bool
) -> tuple[str, QdqWeights | None]:
    """Give the observed values of ``module`` the encodings of a file; what to tell the user, and the weights that the
    file has for layers.

    ``activations`` says whether the recipe stores any, ``seen`` whether values have scales from calibration. Raises
    E1508 for a file that cannot be read or is of another program.
    """
    weights: QdqWeights | None = None
    if is_onnx(path):
        taken, weights = read_qdq(path, module, activations=activations)
    else:
        taken = read_encodings(path, module)
    if not activations:
        return f"{len(weights.layers) if weights is not None else 0} layers found in '{fspath(path)}'", weights
    told = f"{taken} encodings of '{fspath(path)}'"
    stored = [op for op in module.walk() if isinstance(op, ObserveOp) and (op.encoding is not None or _wants_scale(op))]
    left = len(stored) - taken
    if left > 0:
        others = "follow from the calibration" if seen else "stay float32"
        told += f"; {left} value{'s' if left > 1 else ''} that it has none for {others if left > 1 else _one(others)}"
    if not seen:
        _leave_in_float(module, path)
    return told, weights


def _one(others: str) -> str:
    return others.replace("follow", "follows").replace("stay", "stays")


def _leave_in_float(module: ModuleOp, path: str | PathLike[str]) -> None:
    """Operators do not compute on integers of which an input or the result has no scale. Weights are none either, but
    for a layer that reads integers and gives numbers.
    """
    for func in methods(module):
        for op in func.walk():
            if not isinstance(op, EdgeOp) or INTEGERS not in op.attributes:
                continue
            reads, result = all(map(_has_scale, op.operands)), result_of(op)
            if reads and (result is None or not _wants_scale(result)):
                continue
            for mark in (INTEGERS,) if reads else (INTEGERS, WEIGHT):
                op.attributes.pop(mark, None)
            op.attributes[WHY] = StringAttr(
                f"'{fspath(path)}' has no scale for {'its result' if reads else 'what it reads'}"
            )


def _wants_scale(op: ObserveOp) -> bool:
    """Whether an observed value is to be integers, and has no scale."""
    return op.encoding is None and FLOAT not in op.attributes


def _has_scale(value: SSAValue) -> bool:
    """Whether an operand is no observed value, or has a scale."""
    while isinstance(value.owner, EdgeOp) and value.owner.op_name in MOVES | CHOOSES:
        value = value.owner.operands[0]
    return not isinstance(value.owner, ObserveOp) or cast(ObserveOp, value.owner).encoding is not None
