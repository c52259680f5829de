"""An operator that the importer could not understand, kept with its types so that the import never stops.

``%r = aten.opaque "triton.add_kernel"(%x, %y) {reason = "..."} : (...) -> tensor<4xf32>``. Every lowering refuses it
with one table of all that is unsupported; nothing executes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AnyAttr, IRDLOperation, irdl_op_definition, prop_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from etir.dialects.schema_op import SchemaOp


@irdl_op_definition
class OpaqueOp(IRDLOperation):
    """An unknown operator."""

    name = "aten.opaque"
    target = prop_def(StringAttr)
    arguments = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())

    def __init__(self, target: str, arguments: Sequence[SSAValue], types: Sequence[Attribute], reason: str):
        super().__init__(
            operands=[arguments],
            result_types=[types],
            properties={"target": StringAttr(target)},
            attributes={"reason": StringAttr(reason)},
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        target = parser.parse_str_literal(" with the operator's name")
        unresolved = parser.parse_op_args_list()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_function_type()
        operands = parser.resolve_operands(unresolved, types.inputs.data, position)
        return cls.create(
            operands=operands,
            result_types=types.outputs.data,
            properties={"target": StringAttr(target)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.target.data)
        printer.print_operands(self.arguments)
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


def operator_of(op: Operation) -> str:
    """The overload that an operation calls, by the same name at every level, opaque or not; empty for none."""
    if isinstance(op, SchemaOp):
        return op.SCHEMA.op_name
    return op.target.data if isinstance(op, OpaqueOp) else ""
