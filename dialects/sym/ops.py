"""The sym dialect: declared ranges of symbolic dims, and arithmetic on runtime scalars.

``sym.dim @s0 in [1, 64]`` declares a symbol of tensor types and its range; upper bounds for memory planning come from
there. The arithmetic operations are what ``torch.export`` writes as Python operators on sizes; types are ``i64``,
``f64`` and ``i1``. :data:`ARITHMETIC` is the one table of them: class, arity, result type, meaning.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, SymbolNameConstraint, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, MemoryWriteEffect, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import f64, i1, i64
from etir.dialects.literals import int_attr, scalar_attr

_NUMBERS: tuple[Attribute, ...] = (i64, f64, i1)


@irdl_op_definition
class DimOp(IRDLOperation):
    """A symbolic dim and its range, both ends included: ``sym.dim @s0 in [1, 64] {source = "x.size(0)"}``.

    A missing upper bound is written ``sym.dim @s0 in [1, inf]``; ``unbacked`` marks a size that comes from data.
    """

    name = "sym.dim"
    sym_name = prop_def(SymbolNameConstraint())
    minimum = prop_def(IntegerAttr)
    maximum = opt_prop_def(IntegerAttr)
    unbacked = opt_prop_def(UnitAttr)
    traits = traits_def(SymbolOpInterface())

    def __init__(self, name: str, minimum: int, maximum: int | None, *, unbacked: bool = False):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "minimum": int_attr(minimum),
                "maximum": None if maximum is None else int_attr(maximum),
                "unbacked": UnitAttr() if unbacked else None,
            }
        )

    @property
    def range(self) -> tuple[int, int | None]:
        """Lower and upper bound, None when there is none."""
        return self.minimum.value.data, None if self.maximum is None else self.maximum.value.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("in")
        with parser.in_square_brackets():
            low = parser.parse_integer()
            parser.parse_punctuation(",")
            high = None if parser.parse_optional_keyword("inf") else parser.parse_integer()
        unbacked = parser.parse_optional_keyword("unbacked") is not None
        op = cls(name, low, high, unbacked=unbacked)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        low, high = self.range
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" in [{low}, {'inf' if high is None else high}]")
        if self.unbacked is not None:
            printer.print_string(" unbacked")
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        low, high = self.range
        if low < 0 or (high is not None and high < low):
            raise VerifyException(f"[{low}, {high}] is not a range of sizes")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A scalar as a value: ``%c = sym.constant 4 : i64``; only where an operation cannot hold it itself."""

    name = "sym.constant"
    value = prop_def(Attribute)
    result = result_def(AnyAttr())
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: int | float | bool):
        super().__init__(properties={"value": scalar_attr(value)}, result_types=[scalar_type(value)])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        op = cls.create(properties={"value": value}, result_types=[getattr(value, "type", value)])
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if not isinstance(self.value, (IntegerAttr, FloatAttr)) or self.value.type not in _NUMBERS:
            raise VerifyException(f"{self.value} is not an i64, f64 or i1 constant")
        if self.value.type != self.result.type:
            raise VerifyException(f"constant {self.value} does not have type {self.result.type}")


@irdl_op_definition
class AssertOp(IRDLOperation):
    """What the exported program asserts about its sizes: ``sym.assert %ok, "s0 <= 64"``."""

    name = "sym.assert"
    condition = operand_def(i1)
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $message attr-dict"

    def __init__(self, condition: SSAValue, message: str):
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})


class ArithmeticOp(IRDLOperation):
    """Base of the arithmetic operations: scalars in, one scalar out, pure."""

    arguments = var_operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def __init__(self, arguments: list[SSAValue], type: Attribute | None = None):
        super().__init__(
            operands=[arguments], result_types=[type or self.rule().result_type([a.type for a in arguments])]
        )

    @classmethod
    def rule(cls) -> Arithmetic:
        """The row of the table."""
        return BY_NAME[cls.name]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_function_type()
        operands = parser.resolve_operands(unresolved, types.inputs.data, position)
        return cls.create(operands=operands, result_types=types.outputs.data, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.arguments, printer.print_operand)
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    def verify_(self) -> None:
        rule = self.rule()
        if len(self.arguments) != rule.arity:
            raise VerifyException(f"takes {rule.arity} scalars, not {len(self.arguments)}")
        for value in (*self.arguments, self.result):
            if value.type not in _NUMBERS:
                raise VerifyException(f"{value.type} is not i64, f64 or i1")
        expected = rule.result_type([a.type for a in self.arguments])
        if self.result.type != expected:
            raise VerifyException(f"gives {expected}, not {self.result.type}")


@dataclass(frozen=True)
class Arithmetic:
    """One operation: its name, the number of operands, how the result is typed, and its meaning in Python."""

    name: str
    arity: int
    result: str
    function: Callable[..., Any]

    def result_type(self, types: list[Attribute]) -> Attribute:
        """``same``: f64 if any operand is, else i64; otherwise the named type. ``ite`` takes its second operand's."""
        match self.result:
            case "i1":
                return i1
            case "i64":
                return i64
            case "f64":
                return f64
            case "last":
                return types[-1]
            case _:
                return f64 if f64 in types else i64


def _floordiv(a: int, b: int) -> int:
    return a // b


def _round(a: float) -> int:
    return round(a)


ARITHMETIC: tuple[Arithmetic, ...] = (
    Arithmetic("sym.add", 2, "same", operator.add),
    Arithmetic("sym.sub", 2, "same", operator.sub),
    Arithmetic("sym.mul", 2, "same", operator.mul),
    Arithmetic("sym.floordiv", 2, "same", _floordiv),
    Arithmetic("sym.truediv", 2, "f64", operator.truediv),
    Arithmetic("sym.mod", 2, "same", operator.mod),
    Arithmetic("sym.pow", 2, "same", operator.pow),
    Arithmetic("sym.min", 2, "same", min),
    Arithmetic("sym.max", 2, "same", max),
    Arithmetic("sym.eq", 2, "i1", operator.eq),
    Arithmetic("sym.ne", 2, "i1", operator.ne),
    Arithmetic("sym.lt", 2, "i1", operator.lt),
    Arithmetic("sym.le", 2, "i1", operator.le),
    Arithmetic("sym.gt", 2, "i1", operator.gt),
    Arithmetic("sym.ge", 2, "i1", operator.ge),
    Arithmetic("sym.and", 2, "i1", lambda a, b: bool(a and b)),
    Arithmetic("sym.or", 2, "i1", lambda a, b: bool(a or b)),
    Arithmetic("sym.not", 1, "i1", operator.not_),
    Arithmetic("sym.neg", 1, "same", operator.neg),
    Arithmetic("sym.abs", 1, "same", abs),
    Arithmetic("sym.to_float", 1, "f64", float),
    Arithmetic("sym.to_int", 1, "i64", int),
    Arithmetic("sym.ceil", 1, "i64", math.ceil),
    Arithmetic("sym.floor", 1, "i64", math.floor),
    Arithmetic("sym.round", 1, "i64", _round),
    Arithmetic("sym.trunc", 1, "i64", math.trunc),
    Arithmetic("sym.sqrt", 1, "f64", math.sqrt),
    Arithmetic("sym.ite", 3, "last", lambda c, a, b: a if c else b),
)
BY_NAME: dict[str, Arithmetic] = {a.name: a for a in ARITHMETIC}


def _make_class(rule: Arithmetic) -> type[ArithmeticOp]:
    suffix = rule.name.removeprefix("sym.")
    cls = type(
        "".join(word.capitalize() for word in suffix.split("_")) + "Op",
        (ArithmeticOp,),
        {"name": rule.name, "__doc__": f"``{rule.name}``", "__module__": __name__},
    )
    return irdl_op_definition(cls)


ARITHMETIC_OPS: dict[str, type[ArithmeticOp]] = {rule.name: _make_class(rule) for rule in ARITHMETIC}
"""The classes of the arithmetic operations by name."""


def scalar_type(value: int | float | bool) -> Attribute:
    """``i1`` for a bool, ``i64`` for an int, ``f64`` for a float."""
    return i1 if isinstance(value, bool) else i64 if isinstance(value, int) else f64


def arithmetic(name: str, *arguments: SSAValue) -> ArithmeticOp:
    """Build ``sym.<name>`` over scalars."""
    return ARITHMETIC_OPS[f"sym.{name}"](list(arguments))
