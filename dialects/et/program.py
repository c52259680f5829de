"""Operations that every level shares: what a program is made of besides its operators.

* ``et.weight`` is a constant of the program (parameter, buffer that is never written, lifted constant), ``et.state`` a
  mutable buffer with its initial bytes; both are symbols, read by ``et.get_weight`` and ``et.read_state``.
* State is explicit: ``et.write_state`` says what a buffer holds after the method, ``et.update_input`` what a mutated
  user input does. Between them the body is functional.
* ``et.constant`` is a small constant whose value stands in the text.
* ``et.schema`` carries the schema of a custom library's operator, so that text can be read without the library.

Methods are ``func.func`` with the attributes of :data:`METHOD_ATTRIBUTES`, see docs/reference/dialects/et.md.
"""

from __future__ import annotations

from typing import Self, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FlatSymbolRefAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, MemoryReadEffect, MemoryWriteEffect, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import dtype_of, i1
from etir.dialects.et.layout import is_static, layout_errors
from etir.dialects.et.weights import BlobAttr, SyntheticAttr
from etir.dialects.schema import SchemaError, parse_schema

METHOD_ATTRIBUTES = ("et.in_spec", "et.out_spec", "et.input_names", "et.output_names")
"""Discardable attributes of a method's ``func.func``: pytree specs as JSON, names of flat inputs and outputs."""


@irdl_attr_definition
class NoneType(ParametrizedAttribute, TypeAttribute):
    """The type of Python's ``None`` as a method input or output: ``!et.none``."""

    name = "et.none"


@irdl_attr_definition
class StringType(ParametrizedAttribute, TypeAttribute):
    """The type of a string as a method input or output: ``!et.string``."""

    name = "et.string"


@irdl_op_definition
class SchemaDeclOp(IRDLOperation):
    """The schema of a custom library's operator: ``et.schema "mylib::foo(Tensor x) -> Tensor"``.

    The parser makes the operator known to its context, so the declaration stands before the first use.
    """

    name = "et.schema"
    schema = prop_def(StringAttr)

    def __init__(self, schema: str):
        super().__init__(properties={"schema": StringAttr(schema)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(parser.parse_str_literal(" with an operator schema"))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.schema.data)

    def verify_(self) -> None:
        try:
            parse_schema(self.schema.data)
        except SchemaError as error:
            raise VerifyException(str(error)) from None


def _verify_payload(value: Attribute, type: Attribute) -> None:
    if not isinstance(type, TensorType):
        raise VerifyException(f"a weight is a tensor, not {type}")
    if (problem := layout_errors(type)) is not None:
        raise VerifyException(problem)
    if not is_static(type):
        raise VerifyException("the shape of a weight is static")
    if isinstance(value, BlobAttr):
        size = dtype_of(type.element_type).itemsize
        for dim in type.get_shape():
            size *= dim
        if size != value.data.size:
            raise VerifyException(f"{type} takes {size} bytes, the blob has {value.data.size}")
    elif not isinstance(value, SyntheticAttr):
        raise VerifyException("the payload is #et.blob<...> or #et.synthetic<...>")


@irdl_op_definition
class WeightOp(IRDLOperation):
    """A constant tensor of the program.

    ``et.weight @conv1.weight : tensor<64x3x7x7xf32> = #et.blob<"sha256:...", 37632> {fqn = "conv1.weight"}``;
    attribute ``kind`` is ``"parameter"``, ``"buffer"`` or ``"constant"``, ``fqn`` the name in the user's module.
    """

    name = "et.weight"
    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(Attribute)
    value = prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name `:` $type `=` qualified($value) attr-dict"

    def __init__(self, name: str, type: Attribute, value: Attribute, attributes: dict[str, Attribute] | None = None):
        super().__init__(
            properties={"sym_name": StringAttr(name), "type": type, "value": value}, attributes=dict(attributes or {})
        )

    def verify_(self) -> None:
        _verify_payload(self.value, self.type)


@irdl_op_definition
class StateOp(IRDLOperation):
    """A mutable buffer of the program; without an initial value its bytes are undefined until the first write.

    ``et.state @cache : tensor<1x4x128x32xf32> = #et.blob<...> {fqn = "cache"}``
    """

    name = "et.state"
    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(Attribute)
    value = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name `:` $type (`=` qualified($value)^)? attr-dict"

    def __init__(
        self, name: str, type: Attribute, value: Attribute | None, attributes: dict[str, Attribute] | None = None
    ):
        super().__init__(
            properties={"sym_name": StringAttr(name), "type": type, "value": value}, attributes=dict(attributes or {})
        )

    def verify_(self) -> None:
        if self.value is not None:
            _verify_payload(self.value, self.type)
        elif not isinstance(self.type, TensorType):
            raise VerifyException(f"state is a tensor, not {self.type}")


@irdl_op_definition
class GetWeightOp(IRDLOperation):
    """Read a weight: ``%w = et.get_weight @conv1.weight : tensor<64x3x7x7xf32>``."""

    name = "et.get_weight"
    symbol = prop_def(FlatSymbolRefAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())
    assembly_format = "$symbol attr-dict `:` type($result)"

    def __init__(self, symbol: str, type: Attribute):
        super().__init__(properties={"symbol": SymbolRefAttr(symbol)}, result_types=[type])


@irdl_op_definition
class ReadStateOp(IRDLOperation):
    """What a mutable buffer holds at this point: ``%c = et.read_state @cache : tensor<1x4x128x32xf32>``."""

    name = "et.read_state"
    symbol = prop_def(FlatSymbolRefAttr)
    result = result_def(AnyAttr())
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$symbol attr-dict `:` type($result)"

    def __init__(self, symbol: str, type: Attribute):
        super().__init__(properties={"symbol": SymbolRefAttr(symbol)}, result_types=[type])


@irdl_op_definition
class WriteStateOp(IRDLOperation):
    """Store into a mutable buffer: ``et.write_state @cache, %new : tensor<1x4x128x32xf32>``."""

    name = "et.write_state"
    symbol = prop_def(FlatSymbolRefAttr)
    value = operand_def(AnyAttr())
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$symbol `,` $value attr-dict `:` type($value)"

    def __init__(self, symbol: str, value: SSAValue):
        super().__init__(properties={"symbol": SymbolRefAttr(symbol)}, operands=[value])


@irdl_op_definition
class UpdateInputOp(IRDLOperation):
    """After the method, the caller's tensor ``input`` holds ``value``: ``et.update_input %x, %new : tensor<4xf32>``."""

    name = "et.update_input"
    input = operand_def(AnyAttr())
    value = operand_def(AnyAttr())
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$input `,` $value attr-dict `:` type($input) `,` type($value)"

    def __init__(self, input: SSAValue, value: SSAValue):
        super().__init__(operands=[input, value])


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A small constant: ``%c = et.constant dense<[1, 2]> : tensor<2xi64>``."""

    name = "et.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: DenseIntOrFPElementsAttr):
        super().__init__(properties={"value": value}, result_types=[value.type])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        value = parser.parse_attribute()
        if isinstance(value, DenseResourceAttr):
            parser.raise_error("the values of this constant were left out when it was printed", position)
        if not isinstance(value, DenseIntOrFPElementsAttr):
            parser.raise_error("expected dense<...> : tensor<...>", position)
        op = cls(value)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)

    def verify_(self) -> None:
        if self.value.type != self.result.type:
            raise VerifyException(f"a constant of type {self.value.type} does not give {self.result.type}")


@irdl_op_definition
class NoneOp(IRDLOperation):
    """Python's ``None`` as a method output: ``%n = et.none : !et.none``."""

    name = "et.none"
    result = result_def(NoneType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[NoneType()])


@irdl_op_definition
class StringOp(IRDLOperation):
    """A string as a method output: ``%s = et.string "abc" : !et.string``."""

    name = "et.string"
    value = prop_def(StringAttr)
    result = result_def(StringType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($result)"

    def __init__(self, value: str):
        super().__init__(properties={"value": StringAttr(value)}, result_types=[StringType()])


def dense_bytes(value: DenseIntOrFPElementsAttr) -> bytes:
    """The bytes of a constant, row-major; a splat is spelled out, a bool is one byte of 0 or 1."""
    type = cast("TensorType[Attribute]", value.type)
    element = type.element_type
    data = value.data.data
    count = 1
    for dim in type.get_shape():
        count *= dim
    if len(data) == dtype_of(element).itemsize and count != 1:
        data = data * count
    if element == i1:
        return bytes(1 if byte else 0 for byte in data)
    return bytes(data)
