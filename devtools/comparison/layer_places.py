"""Layers by their places in the source: the last value that a program computes at each, in float and quantized.

``etir.quantize`` makes another program, so origins say nothing across it; what does is the place in the source. The
value of a place is the last one that is computed there, in the float program as in the quantized one: of a convolution
with its batch norm and clamp the result of the clamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    FusedLoc,
    IntegerType,
    LocationAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from etir.devtools.comparison.levels import context
from etir.devtools.trace.places import relative_path
from etir.devtools.trace.read import Trace
from etir.devtools.values.interpreted import Key, marks_of, observe
from etir.dialects.et.origin import plain
from etir.dialects.et.program import GetWeightOp
from etir.dialects.literals import scalar_of
from etir.dialects.text import parse_module, source_location

Place = tuple[str, str, int]
"""Path of the module, file, line."""
_CHAIN = 8
"""Operations between a weight and the layer that it belongs to, at most."""


def where(place: Place) -> str:
    """``model.py:41``."""
    _, file, line = place
    return f"{file}:{line}"


def places_of(location: LocationAttr) -> list[Place]:
    """All places that a location says."""
    location = plain(location)
    parts = (
        location.locations.data if isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr) else ()
    )
    found = [source_location(part) for part in (parts or (location,)) if isinstance(part, LocationAttr)]
    return [(one.module, relative_path(one.file), one.line) for one in found if one is not None]


class FloatRun:
    """The float program in the interpreter, for the inputs of a sample.

    Attributes:
        values: by place the last floating-point value that is computed there, in order.
        outputs: of the method.
    """

    def __init__(self, module: ModuleOp, method: str, inputs: Sequence[Any]):
        self.module, self.method, self.inputs = module, method, inputs
        self.values: dict[Place, Any] = {}
        self.keys: dict[Place, Key] = {}
        run = observe(module, inputs, method)
        for key, arrays in run.values.items():
            value = run.values_of[key]
            if not isinstance(value, OpResult) or np.asarray(arrays[-1]).dtype.kind != "f":
                continue
            for place in places_of(value.owner.location)[:1]:
                self.values.pop(place, None)
                self.values[place], self.keys[place] = arrays[-1], key
        self.outputs = run.outputs

    def led(self, numbers: Mapping[Place, Any]) -> dict[Place, Any]:
        """What each place is where what comes before it is ``numbers``."""
        given = {self.keys[place]: array for place, array in numbers.items()}
        run = observe(self.module, self.inputs, self.method, instead=lambda key, _: given.get(key))
        return {place: run.values[key][-1] for place, key in self.keys.items()}


@dataclass(frozen=True)
class Seen:
    """A value of the quantized program that stands for a float one.

    Attributes:
        place: where both are computed.
        what: the path of the module, or the name of the value.
        scale, zero_point: how integers are read, where the file has integers for it.
        coarse: whether a weight of the place has 4 bits, or nobody knows how many.
    """

    place: Place
    what: str
    scale: float = 1.0
    zero_point: float = 0.0
    coarse: bool = False

    def numbers(self, array: Any) -> Any:
        """What the integers that an instruction left stand for; floats as they are."""
        found = np.asarray(array)
        if found.dtype.kind not in "iu":
            return found.astype(np.float64)
        return (found.astype(np.float64) - self.zero_point) * self.scale


def quantized_values(trace: Trace, method: str, wanted: Mapping[Place, Any]) -> dict[Key, Seen]:
    """By key the values of the quantized program that are the last ones of their shape at a place of ``wanted``, and
    integers that stand for those, in order.
    """
    level = next(iter(trace.levels))
    module = parse_module(trace.text(level), context(), name=level)
    rank = {place: i for i, place in enumerate(wanted)}
    places: dict[SSAValue, Place] = {}
    last: dict[Place, SSAValue] = {}
    coarse: set[Place] = set()
    ops: list[Operation] = []
    for func in module.body.block.ops:
        if isinstance(func, FuncOp) and func.sym_name.data == method:
            ops = [op for op in func.walk() if op is not func]
    for op in ops:
        known = [place for place in places_of(op.location) if place in rank]
        if not known or "quantize" in op.name or not op.operands:
            continue
        place = max(known, key=rank.__getitem__)
        coarse |= {place} if any(_is_coarse(operand) for operand in op.operands) else set()
        for result in op.results:
            places[result] = place
            if place not in last or _may_have(result, np.shape(wanted[place])):
                last[place] = result
    steps = {op: made for op in ops if (made := _steps_of(op)) is not None}
    found: dict[Key, Seen] = {}
    for op in ops:
        for result in op.results:
            source = op.operands[0] if op in steps else result
            place = places.get(source)
            if place is None or last[place] is not source:
                continue
            made = steps.get(op) or next((steps[use.operation] for use in result.uses if use.operation in steps), None)
            name = place[0] or str(source.name_hint or getattr(source.owner, "name", ""))
            for mark in marks_of(result):
                found[mark.origin, mark.result] = Seen(place, name, *(made or (1.0, 0.0)), coarse=place in coarse)
    return found


def _steps_of(op: Operation) -> tuple[float, float] | None:
    """Scale and zero point of what makes integers of floats."""
    numbers = [op.properties.get(name) for name in ("scale", "zero_point")]
    if ".quantize_per_tensor." not in op.name or None in numbers:
        return None
    scale, zero_point = (float(scalar_of(number)) for number in numbers)  # type: ignore[arg-type]
    return scale, zero_point


def _is_coarse(value: SSAValue) -> bool:
    """Whether a value is a weight of integers that nothing says to be of more than 4 bits."""
    for _ in range(_CHAIN):
        op = value.owner
        if isinstance(op, GetWeightOp):
            return isinstance(value.type, TensorType) and isinstance(value.type.element_type, IntegerType)
        if not isinstance(op, Operation) or not op.operands:
            return False
        most = op.properties.get("quant_max")
        if "quantize" in op.name and most is not None and int(scalar_of(most)) > 7:  # type: ignore[arg-type]
            return False
        value = op.operands[0]
    return False


def _may_have(value: SSAValue, shape: Sequence[int]) -> bool:
    """Whether a tensor may have a shape: the mean that a norm gives beside its result has another one."""
    sizes = value.type.get_shape() if isinstance(value.type, TensorType) else ()
    pairs = zip(sizes, shape, strict=False)
    return len(sizes) == len(shape) and all(size in (known, DYNAMIC_INDEX) for size, known in pairs)
