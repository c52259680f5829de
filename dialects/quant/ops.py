"""The operation and the attributes of the quant dialect, which lives at the edge level only.

* ``quant.observe`` is an identity: a value that is going to be stored as integers, with what calibration has seen of it
  (``seen``) and what was chosen (``as``). A person may edit either.
* ``#quant.range<-1.84, 6.02, samples = 64>`` is the least and the greatest number of so many samples.
* ``#quant.uniform<i8, scale = 0.0308, zero_point = -68>`` stores a number x as ``round(x / scale) + zero_point``;
  ``#quant.uniform<i8, axis = 0>`` are weights with a scale for each index of a dim, which follows from them,
  ``#quant.uniform<i8<-63:63>, axis = 0>`` such of a reduced range, written as in MLIR's quantized types, and
  ``#quant.uniform<i4, axis = 0, block = 32>`` such of 4 bits with one for every 32 numbers of a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

LOW, HIGH = -128, 127
"""Integers of ``i8``."""
REDUCED = 63
"""The largest integer of weights of a reduced range: two of them times 255 fit into 16 bits, so that x86 processors
without VNNI multiply all of them as bytes.
"""

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*samples\s*=\s*(\d+)\s*")
_UNIFORM = re.compile(rf"\s*i8\s*,\s*scale\s*=\s*({_NUMBER})\s*,\s*zero_point\s*=\s*(-?\d+)\s*")
_BOUNDS = f"<-{REDUCED}:{REDUCED}>"
_WEIGHTS = re.compile(r"\s*i(4|8)\s*,\s*axis\s*=\s*(\d+)\s*(?:,\s*block\s*=\s*([1-9]\d*)\s*)?")
_REDUCED_WEIGHTS = re.compile(rf"\s*i8{_BOUNDS}\s*,\s*axis\s*=\s*(\d+)\s*")


@dataclass(frozen=True)
class Range:
    """The least and the greatest number of so many samples."""

    low: float
    high: float
    samples: int


@dataclass(frozen=True)
class Uniform:
    """int8 numbers with one scale and zero point; or (``axis``) symmetric ones of 8 or 4 ``bits`` with a scale for each
    index of a dim, or for each ``block`` numbers that follow each other in the last dim. ``reduced`` ones, of 8 bits
    and without blocks, are from -:data:`REDUCED` to :data:`REDUCED`.
    """

    scale: float | None = None
    zero_point: int = 0
    axis: int | None = None
    bits: int = 8
    block: int | None = None
    reduced: bool = False


@irdl_attr_definition
class RangeAttr(Data[Range]):
    """``#quant.range<-1.84, 6.02, samples = 64>``."""

    name = "quant.range"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Range:
        position = parser.pos
        found = _RANGE.fullmatch(parser._parse_dialect_symbol_body())  # pyright: ignore[reportPrivateUsage]
        if found is None:
            parser.raise_error("a range is <low, high, samples = count>", position)
        return Range(float(found[1]), float(found[2]), int(found[3]))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.low!r}, {self.data.high!r}, samples = {self.data.samples}>")


@irdl_attr_definition
class UniformAttr(Data[Uniform]):
    """``#quant.uniform<i8, scale = 0.0308, zero_point = -68>``, ``#quant.uniform<i4, axis = 0, block = 32>``."""

    name = "quant.uniform"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Uniform:
        position = parser.pos
        body = parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage]
        if (found := _WEIGHTS.fullmatch(body)) is not None:
            block = None if found[3] is None else int(found[3])
            return Uniform(axis=int(found[2]), bits=int(found[1]), block=block)
        if (found := _REDUCED_WEIGHTS.fullmatch(body)) is not None:
            return Uniform(axis=int(found[1]), reduced=True)
        if (found := _UNIFORM.fullmatch(body)) is not None:
            return Uniform(float(found[1]), int(found[2]))
        weights = f"<i8 or i4, axis = dim> or <i8{_BOUNDS}, axis = dim>"
        parser.raise_error(f"integers are <i8, scale = number, zero_point = number>, {weights}", position)

    def print_parameter(self, printer: Printer) -> None:
        u = self.data
        how = f"axis = {u.axis}" if u.axis is not None else f"scale = {u.scale!r}, zero_point = {u.zero_point}"
        block = "" if u.block is None else f", block = {u.block}"
        printer.print_string(f"<i{u.bits}{_BOUNDS if u.reduced else ''}, {how}{block}>")


@irdl_op_definition
class ObserveOp(IRDLOperation):
    """A value that is to be integers: ``%1 = quant.observe %0 {as = #quant.uniform<...>} : tensor<4xf32>``."""

    name = "quant.observe"
    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(T)
    seen = opt_prop_def(RangeAttr)
    encoding = opt_prop_def(UniformAttr, prop_name="as")
    result = result_def(T)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$input attr-dict `:` type($result)"

    def __init__(self, value: SSAValue, seen: Attribute | None = None, encoding: Attribute | None = None):
        super().__init__(operands=[value], result_types=[value.type], properties={"seen": seen, "as": encoding})

    def verify_(self) -> None:
        """Constraints Q1 to Q3 of docs/reference/dialects/quant.md."""
        type = self.input.type
        if not isinstance(type, TensorType) or type.element_type != Float32Type():
            raise VerifyException(f"observes tensor<...xf32>, not {type} (Q1)")
        if self.seen is not None and not self.seen.data.low <= self.seen.data.high:
            raise VerifyException(f"a range from {self.seen.data.low} to {self.seen.data.high} (Q2)")
        if self.encoding is None:
            return
        u = self.encoding.data
        if u.scale is None or not 0 < u.scale < float("inf") or not LOW <= u.zero_point <= HIGH:
            raise VerifyException(f"needs a positive scale and a zero point of {LOW} to {HIGH} (Q3)")
