"""Structured control flow, the same at every level above ``et``: conditions and loops as regions.

Regions see the values around them; what a region computes leaves it through ``control.yield``. At the ``et`` level
regions become blocks and jumps, with results in destination-passing style.

* ``control.cond``: torch's ``cond``. * ``control.while``: ``while_loop``. * ``control.scan``: ``scan``, and ``map``
when nothing is carried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import i1
from etir.dialects.et.layout import dims_of, order_of, tensor_type
from etir.dialects.sym.expr import SymExpr


@irdl_op_definition
class YieldOp(IRDLOperation):
    """What a region gives to the operation around it: ``control.yield %a, %b : tensor<4xf32>, i64``."""

    name = "control.yield"
    arguments = var_operand_def(AnyAttr())
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments])


def yielded(region: Region) -> tuple[SSAValue, ...]:
    """The values that a region's terminator gives. Raises ``VerifyException`` when it has no yield."""
    last = region.block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("a region of a control operation ends with control.yield")
    return tuple(last.arguments)


def _print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    with printer.in_parens():
        printer.print_list(types, printer.print_attribute)


def _parse_types(parser: Parser) -> list[Attribute]:
    return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type))


def _check_types(what: str, got: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    if len(got) != len(expected):
        raise VerifyException(f"{what}: {len(got)} values for {len(expected)}")
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a != b:
            raise VerifyException(f"{what}: value {i} has type {a}, expected {b}")


@irdl_op_definition
class CondOp(IRDLOperation):
    """One of two regions: ``%r = control.cond %p : i1 -> (tensor<4xf32>) { ... } else { ... }``.

    The predicate is a bool scalar or a bool tensor with one element. A size that is symbolic in the result may be
    another one in each region.
    """

    name = "control.cond"
    predicate = operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    then_region = region_def("single_block")
    else_region = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, predicate: SSAValue, types: Sequence[Attribute], then_region: Region, else_region: Region):
        super().__init__(operands=[predicate], result_types=[types], regions=[then_region, else_region])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        predicate = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_punctuation("->")
        types = _parse_types(parser)
        then_region = parser.parse_region()
        parser.parse_keyword("else")
        else_region = parser.parse_region()
        op = cls(parser.resolve_operand(predicate, type), types, then_region, else_region)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.predicate)
        printer.print_string(" : ")
        printer.print_attribute(self.predicate.type)
        printer.print_string(" -> ")
        _print_types(printer, self.outputs.types)
        printer.print_string(" ")
        printer.print_region(self.then_region)
        printer.print_string(" else ")
        printer.print_region(self.else_region)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        type = self.predicate.type
        if type != i1 and not (isinstance(type, TensorType) and type.element_type == i1):
            raise VerifyException(f"the predicate is i1 or a bool tensor, not {type}")
        for name, region in (("then", self.then_region), ("else", self.else_region)):
            if region.block.args:
                raise VerifyException(f"the {name} region takes no arguments: it sees the values around it")
            _check_branch(f"{name} region", [v.type for v in yielded(region)], self.outputs.types)


def _check_branch(what: str, given: Sequence[Attribute], results: Sequence[Attribute]) -> None:
    """Branches may give different sizes, where the result's is symbolic; all else of the types is the same."""
    expected = [
        _with_sizes(type, own) if isinstance(type, TensorType) and isinstance(own, TensorType) else type
        for type, own in zip(results, given, strict=False)
    ]
    _check_types(what, given, [*expected, *results[len(expected) :]])


def _with_sizes(type: TensorType[Attribute], own: TensorType[Attribute]) -> TensorType[Attribute]:
    if type == own or type.get_num_dims() != own.get_num_dims():
        return type
    dims = [o if isinstance(d, SymExpr) else d for d, o in zip(dims_of(type), dims_of(own), strict=True)]
    return tensor_type(type.element_type, dims, order_of(type))


def _parse_bindings(parser: Parser, keyword: str) -> tuple[list[Parser.UnresolvedArgument], list[object]]:
    """``keyword (%a = %init, %b = %other)``: region arguments and what they are bound to."""
    names: list[Parser.UnresolvedArgument] = []
    values: list[object] = []
    if parser.parse_optional_keyword(keyword) is None:
        return names, values

    def binding() -> None:
        names.append(parser.parse_argument(expect_type=False))
        parser.parse_punctuation("=")
        values.append(parser.parse_unresolved_operand())

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
    return names, values


def _print_bindings(printer: Printer, keyword: str, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    if not values:
        return
    printer.print_string(f" {keyword} ")

    def binding(pair: tuple[SSAValue, SSAValue]) -> None:
        printer.print_ssa_value(pair[0])
        printer.print_string(" = ")
        printer.print_operand(pair[1])

    with printer.in_parens():
        printer.print_list(list(zip(arguments, values, strict=True)), binding)


@irdl_op_definition
class WhileOp(IRDLOperation):
    """A loop while a condition holds.

    ``%r = control.while carry (%a = %init) : (tensor<4xf32>) { ... control.yield %c : i1 } do { ^bb0(%b : ...): ...
    control.yield %next : tensor<4xf32> }``; both regions take the carried values, the first yields the condition.
    """

    name = "control.while"
    inits = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    condition = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, inits: Sequence[SSAValue], condition: Region, body: Region):
        super().__init__(operands=[inits], result_types=[[v.type for v in inits]], regions=[condition, body])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names, values = _parse_bindings(parser, "carry")
        parser.parse_punctuation(":")
        position = parser.pos
        types = _parse_types(parser)
        inits = parser.resolve_operands(values, types, position)  # type: ignore[arg-type]
        arguments = [name.resolve(type) for name, type in zip(names, types, strict=True)]
        condition = parser.parse_region(arguments)
        parser.parse_keyword("do")
        body = parser.parse_region()
        op = cls(inits, condition, body)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        _print_bindings(printer, "carry", self.condition.block.args, self.inits)
        printer.print_string(" : ")
        _print_types(printer, self.outputs.types)
        printer.print_string(" ")
        printer.print_region(self.condition, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(self.body)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        types = [v.type for v in self.inits]
        _check_types("results", self.outputs.types, types)
        for name, region in (("condition", self.condition), ("body", self.body)):
            _check_types(f"arguments of the {name} region", [a.type for a in region.block.args], types)
        conditions = yielded(self.condition)
        if len(conditions) != 1 or not (
            conditions[0].type == i1
            or (isinstance(conditions[0].type, TensorType) and conditions[0].type.element_type == i1)
        ):
            raise VerifyException("the condition region yields one bool")
        _check_types("body region", [v.type for v in yielded(self.body)], types)


@irdl_op_definition
class ScanOp(IRDLOperation):
    """A loop over the leading dim of tensors: carried values first, then one slice of each scanned tensor.

    ``%last, %ys = control.scan carry (%c = %init) over (%x = %xs) : (tensor<4xf32>), (tensor<8x4xf32>) ->
    (tensor<4xf32>, tensor<8x4xf32>) { ... control.yield %next, %y : ... }``. The results are the last carried values
    and the yielded slices stacked along a new leading dim. torch's ``map`` is a scan that carries nothing.
    """

    name = "control.scan"
    inits = var_operand_def(AnyAttr())
    inputs = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, inits: Sequence[SSAValue], inputs: Sequence[SSAValue], types: Sequence[Attribute], body: Region):
        super().__init__(operands=[inits, inputs], result_types=[types], regions=[body])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names, values = _parse_bindings(parser, "carry")
        scanned, inputs = _parse_bindings(parser, "over")
        parser.parse_punctuation(":")
        position = parser.pos
        init_types = _parse_types(parser)
        parser.parse_punctuation(",")
        input_types = _parse_types(parser)
        parser.parse_punctuation("->")
        types = _parse_types(parser)
        init_values = parser.resolve_operands(values, init_types, position)  # type: ignore[arg-type]
        input_values = parser.resolve_operands(inputs, input_types, position)  # type: ignore[arg-type]
        slices = [_slice_type(type) for type in input_types]
        arguments = [n.resolve(t) for n, t in zip([*names, *scanned], [*init_types, *slices], strict=True)]
        body = parser.parse_region(arguments)
        op = cls(init_values, input_values, types, body)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        arguments = self.body.block.args
        _print_bindings(printer, "carry", arguments[: len(self.inits)], self.inits)
        _print_bindings(printer, "over", arguments[len(self.inits) :], self.inputs)
        printer.print_string(" : ")
        _print_types(printer, [v.type for v in self.inits])
        printer.print_string(", ")
        _print_types(printer, [v.type for v in self.inputs])
        printer.print_string(" -> ")
        _print_types(printer, self.outputs.types)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if not self.inputs:
            raise VerifyException("a scan goes over at least one tensor")
        carried = [v.type for v in self.inits]
        expected = [*carried, *(_slice_type(v.type) for v in self.inputs)]
        _check_types("arguments of the body region", [a.type for a in self.body.block.args], expected)
        given = [v.type for v in yielded(self.body)]
        _check_types("carried values of the body region", given[: len(carried)], carried)
        first = self.inputs[0].type
        assert isinstance(first, TensorType)
        length = dims_of(first)[0]
        stacked = [
            tensor_type(type.element_type, (length, *dims_of(type)))
            for type in given[len(carried) :]
            if isinstance(type, TensorType)
        ]
        _check_types("results", self.outputs.types, [*carried, *stacked])


def _slice_type(type: Attribute) -> Attribute:
    if not isinstance(type, TensorType) or not type.get_num_dims():
        raise VerifyException(f"a scan goes over tensors with a leading dim, not {type}")
    return tensor_type(type.element_type, dims_of(type)[1:])
