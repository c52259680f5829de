"""Faults in quantized programs: what a wrong quantizer, or somebody who edits its text, would leave there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import float_attr, int_attr, scalar_of
from etir.dialects.text import source_location


def _steps_in_the_middle(module: ModuleOp) -> Operation:
    """The multiplication with a scale in the middle of a program, of a value that no weight is."""
    found = [
        op
        for op in module.walk()
        if "dequantize_per_tensor" in op.name and not isinstance(op.operands[0].owner, GetWeightOp)
    ]
    return found[len(found) // 2]


def _number(op: Operation, name: str) -> float:
    found = scalar_of(op.properties[name])
    assert isinstance(found, (int, float))
    return found


def wrong_scale(module: ModuleOp) -> Operation:
    """Integers are multiplied by 1.3 times their scale; returns what reads them."""
    op = _steps_in_the_middle(module)
    op.properties["scale"] = float_attr(1.3 * float(_number(op, "scale")))
    return next(iter(op.results[0].uses)).operation


def wrong_zero_point(module: ModuleOp) -> Operation:
    """Integers have another zero point, by a tenth of their range; returns what reads them."""
    op = _steps_in_the_middle(module)
    before = int(_number(op, "zero_point"))
    op.properties["zero_point"] = int_attr(before + 25 if before <= 100 else before - 25)
    return next(iter(op.results[0].uses)).operation


def swapped_channels(module: ModuleOp) -> Operation:
    """The first half of the channels of a layer in the middle has the integers of the second; returns the layer."""
    weights = {op.sym_name.data: op for op in module.walk() if isinstance(op, WeightOp)}  # type: ignore[attr-defined]
    reads = [op for op in module.walk() if isinstance(op, GetWeightOp) and "xi8" in str(op.result.type)]
    read = reads[len(reads) // 2]
    weight = weights[read.symbol.root_reference.data]
    shape = weight.type.get_shape()  # type: ignore[attr-defined]
    array = np.frombuffer(weight.value.data.data, np.int8).reshape(shape)  # type: ignore[attr-defined]
    weight.properties["value"] = BlobAttr(Blob.of(np.roll(array, shape[0] // 2, axis=0).tobytes()))
    op: Operation = read
    while "quantize" in op.name or isinstance(op, GetWeightOp) or len(op.operands) == 1:
        op = next(iter(op.results[0].uses)).operation
    return op


FAULTS: dict[str, Callable[[ModuleOp], Operation]] = {
    "scale": wrong_scale,
    "zero point": wrong_zero_point,
    "channels": swapped_channels,
}
"""By name: changes a program, and returns the operation that is the first to compute something else."""


def places_of(op: Operation) -> tuple[str, ...]:
    """``model.py:41`` of an operation, and of the activation after it: kernels that do both have the latter's place."""
    places = [_place(op)]
    readers = [use.operation for use in op.results[0].uses]
    if len(readers) == 1 and "relu" in readers[0].name:
        places.append(_place(readers[0]))
    return tuple(places)


def _place(op: Operation) -> str:
    place = source_location(op.location)
    assert place is not None
    return f"{place.file.rpartition('/')[2]}:{place.line}"
