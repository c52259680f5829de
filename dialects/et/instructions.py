"""The instructions of a method at the executable level: calls, moves and jumps, in the order of the file.

What an instruction works on are values that were defined before (:mod:`etir.dialects.et.values` and the weights, absent
values and strings of :mod:`etir.dialects.et.program`); it has no results, since kernels write into what they are given.
``et.inputs`` says which values the caller sets, and ``et.next`` joins two blocks: both have no instruction in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import FlatSymbolRefAttr, StringAttr, SymbolRefAttr, TensorType
from xdsl.ir import Block, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    successor_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import i1
from etir.dialects.et.arguments import (
    NULL_VALUE,
    OPERAND,
    ArgsAttr,
    Item,
    ListArg,
    Template,
    count_operands,
    item_errors,
    parse_call_arguments,
    parse_defined,
    print_call_arguments,
)


@irdl_op_definition
class InputsOp(IRDLOperation):
    """The values that the caller sets, in order: ``et.inputs %x, %y``."""

    name = "et.inputs"
    arguments = var_operand_def(AnyAttr())
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(_parse_values(parser))

    def print(self, printer: Printer) -> None:
        _print_values(printer, self.arguments)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The end of the method and its outputs, in order: ``et.return %y``."""

    name = "et.return"
    arguments = var_operand_def(AnyAttr())
    traits = traits_def(IsTerminator(), MemoryReadEffect())

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(_parse_values(parser))

    def print(self, printer: Printer) -> None:
        _print_values(printer, self.arguments)


def _parse_values(parser: Parser) -> list[SSAValue]:
    values: list[SSAValue] = []
    value = parse_defined(parser)
    while value is not None:
        values.append(value)
        if parser.parse_optional_punctuation(",") is None:
            break
        value = parse_defined(parser)
        if value is None:
            parser.raise_error("expected a value after ','")
    return values


def _print_values(printer: Printer, values: Sequence[SSAValue]) -> None:
    if values:
        printer.print_string(" ")
        printer.print_list(values, printer.print_operand)


@irdl_op_definition
class CallOp(IRDLOperation):
    """Run a kernel: ``et.call "aten::max.dim_max"(%x, 1, false, %v, %i) -> %v, %i``.

    The arguments are those of the kernel's schema, outs included. What follows the arrow is the extra slot that
    every generated kernel has for its result: one value, or several for a list; primitive operators have none.
    """

    name = "et.call"
    kernel = prop_def(StringAttr)
    template = prop_def(ArgsAttr)
    returns = opt_prop_def(ArgsAttr)
    arguments = var_operand_def(AnyAttr())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        kernel: str,
        template: Template,
        arguments: Sequence[SSAValue],
        returns: Template | None = None,
    ):
        super().__init__(
            operands=[arguments],
            properties={
                "kernel": StringAttr(kernel),
                "template": ArgsAttr(template),
                "returns": None if returns is None else ArgsAttr(returns),
            },
        )

    @property
    def return_slot(self) -> Item | ListArg | None:
        """The template item of the result slot, or None when the kernel has none."""
        return None if self.returns is None else self.returns.data[0]

    @property
    def full_template(self) -> Template:
        """The arguments followed by the result slot, as the file has them."""
        return self.template.data if self.returns is None else (*self.template.data, *self.returns.data)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kernel = parser.parse_str_literal(" with the kernel's name")
        template, operands = parse_call_arguments(parser)
        returns: Template | None = None
        if parser.parse_optional_punctuation("->") is not None:
            if parser.parse_optional_keyword("none") is not None:
                returns = (None,)
            elif parser.parse_optional_keyword("tensors") is not None:
                values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _defined(parser))
                operands += values
                returns = (ListArg("tensors", (OPERAND,) * len(values)),)
            else:
                operands.append(_defined(parser))
                returns = (OPERAND,)
        op = cls(kernel, template, operands, returns)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.kernel.data)
        count = count_operands(self.template.data)
        print_call_arguments(printer, self.template.data, tuple(self.arguments[:count]))
        slot = self.return_slot
        if self.returns is not None:
            printer.print_string(" -> ")
            if isinstance(slot, ListArg):
                printer.print_string("tensors")
                with printer.in_square_brackets():
                    printer.print_list(self.arguments[count:], printer.print_operand)
            elif slot is None:
                printer.print_string("none")
            elif len(self.arguments) > count:
                printer.print_operand(self.arguments[count])
            else:
                printer.print_string(NULL_VALUE)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """C1 operands and template agree; C2 list items fit their list; C3 the result slot is one value or list."""
        if count_operands(self.full_template) != len(self.arguments):
            raise VerifyException(f"{len(self.arguments)} operands for the template {self.template} (C1)")
        if (problem := item_errors(self.full_template)) is not None:
            raise VerifyException(f"{problem} (C2)")
        if self.returns is not None and len(self.returns.data) != 1:
            raise VerifyException("a kernel has one result slot (C3)")
        if len(self.kernel.data) > 99 or "::" not in self.kernel.data:
            raise VerifyException(
                f"'{self.kernel.data}' is not a kernel name: namespace::name.overload, up to 99 chars"
            )


def _defined(parser: Parser) -> SSAValue:
    value = parse_defined(parser)
    if value is None:
        parser.raise_error("expected a value")
    return value


@irdl_op_definition
class DelegateCallOp(IRDLOperation):
    """Run a delegate over inputs and outputs: ``et.delegate_call @lowered_0(%x, %y)``."""

    name = "et.delegate_call"
    delegate = prop_def(FlatSymbolRefAttr)
    template = prop_def(ArgsAttr)
    arguments = var_operand_def(AnyAttr())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, delegate: str, template: Template, arguments: Sequence[SSAValue]):
        super().__init__(
            operands=[arguments], properties={"delegate": SymbolRefAttr(delegate), "template": ArgsAttr(template)}
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        delegate = parser.parse_symbol_name().data
        template, operands = parse_call_arguments(parser)
        op = cls(delegate, template, operands)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.delegate.root_reference.data)
        print_call_arguments(printer, self.template.data, tuple(self.arguments))
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if count_operands(self.template.data) != len(self.arguments):
            raise VerifyException(f"{len(self.arguments)} operands for the template {self.template} (C1)")
        if (problem := item_errors(self.template.data)) is not None:
            raise VerifyException(f"{problem} (C2)")


@irdl_op_definition
class MoveOp(IRDLOperation):
    """Make one value a handle of another (no bytes move): ``et.move %from to %to``."""

    name = "et.move"
    source = operand_def(AnyAttr())
    target = operand_def(AnyAttr())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, source: SSAValue, target: SSAValue):
        super().__init__(operands=[source, target])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = _defined(parser)
        parser.parse_keyword("to")
        return cls(source, _defined(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(" to ")
        printer.print_operand(self.target)


@irdl_op_definition
class FreeOp(IRDLOperation):
    """Drop a tensor's memory: ``et.free %x``."""

    name = "et.free"
    value = operand_def(TensorType)
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(_defined(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)


@irdl_op_definition
class JumpFalseOp(IRDLOperation):
    """Go to the target when the condition is false, else to the next block: ``et.jump_false %c, ^else, ^then``.

    The condition is a bool, or a bool tensor of which every element counts. The second block must be the next one.
    """

    name = "et.jump_false"
    condition = operand_def(AnyAttr())
    target = successor_def()
    fallthrough = successor_def()
    traits = traits_def(IsTerminator(), MemoryReadEffect())

    def __init__(self, condition: SSAValue, target: Block, fallthrough: Block):
        super().__init__(operands=[condition], successors=[target, fallthrough])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        condition = _defined(parser)
        parser.parse_punctuation(",")
        target = parser.parse_successor()
        parser.parse_punctuation(",")
        return cls(condition, target, parser.parse_successor())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.condition)
        for block in (self.target, self.fallthrough):
            printer.print_string(", ")
            printer.print_block_name(block)

    def verify_(self) -> None:
        if self.parent is not None and self.fallthrough is not self.parent.next_block:
            raise VerifyException("the second block of a jump is the next block of the method")
        type = self.condition.type
        if type != i1 and not (isinstance(type, TensorType) and type.element_type == i1):
            raise VerifyException(f"the condition is i1 or a bool tensor, not {type}")


@irdl_op_definition
class JumpOp(IRDLOperation):
    """Go to a block: ``et.jump ^end``; in the file a jump on a constant that is false."""

    name = "et.jump"
    target = successor_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$target attr-dict"

    def __init__(self, target: Block):
        super().__init__(successors=[target])


@irdl_op_definition
class NextOp(IRDLOperation):
    """Go on with the next block: ``et.next ^bb1``; no instruction."""

    name = "et.next"
    target = successor_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$target attr-dict"

    def __init__(self, target: Block):
        super().__init__(successors=[target])

    def verify_(self) -> None:
        if self.parent is not None and self.target is not self.parent.next_block:
            raise VerifyException("et.next goes to the next block of the method; use et.jump")
