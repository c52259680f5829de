"""The values of a method at the executable level: buffers, views of them, and scalars.

They stand in the entry block before the instructions, one operation for each value of the ``.pte`` file. A buffer
without ``at`` is not planned yet; ``caller`` marks one whose memory the caller supplies. A view has no instruction: it
is another value over the same bytes. Types are upper bounds; ``dynamic`` says that the shape changes below them at run
time. Two tensors with the same ``sizes`` (an attribute; the dims as expressions of the program's symbols) have the same
shape then, too.
"""

from __future__ import annotations

from typing import Self, cast

from xdsl.dialects.builtin import (
    FlatSymbolRefAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AnyAttr, IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import f64, i1, i64
from etir.dialects.et.arguments import parse_defined
from etir.dialects.et.layout import is_static, layout_errors
from etir.dialects.et.program import GetWeightOp, NoneOp, StringOp
from etir.dialects.literals import int_attr, scalar_attr
from etir.dialects.sym.ops import scalar_type

DYNAMISM = ("bound", "unbound")
"""What ``dynamic`` may say: sizes change below the type's, or without a bound."""

SIZES = "et.sizes"
"""The attribute of a dynamic buffer or view that says its dims: ``{et.sizes = "2, s0 + 1"}``."""


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A tensor in planned memory (``at <memory id, byte offset>``), in the caller's, or not placed yet.

    ``%b = et.buffer at <1, 512> : tensor<1x8xf32>``; ``dynamic`` for a shape that changes at run time, ``state @cache``
    for the memory of a mutable buffer (whose initial bytes, if any, are loaded with the method), ``caller`` for memory
    that the caller supplies.
    """

    name = "et.buffer"
    state = opt_prop_def(FlatSymbolRefAttr)
    caller = opt_prop_def(UnitAttr)
    dynamic = opt_prop_def(StringAttr)
    memory_id = opt_prop_def(IntegerAttr)
    offset = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        type: Attribute,
        *,
        state: str | None = None,
        caller: bool = False,
        dynamic: str | None = None,
        place: tuple[int, int] | None = None,
    ):
        super().__init__(
            properties={
                "state": None if state is None else SymbolRefAttr(state),
                "caller": UnitAttr() if caller else None,
                "dynamic": None if dynamic is None else StringAttr(dynamic),
                "memory_id": None if place is None else int_attr(place[0]),
                "offset": None if place is None else int_attr(place[1]),
            },
            result_types=[type],
        )

    @property
    def place(self) -> tuple[int, int] | None:
        """Memory id (from 1) and byte offset, or None when the buffer is not planned."""
        memory_id, offset = self.memory_id, self.offset
        return None if memory_id is None or offset is None else (memory_id.value.data, offset.value.data)

    @property
    def is_allocated(self) -> bool:
        """Whether the client's allocator gives the memory at run time: sizes without a bound, and no place."""
        return self.dynamic is not None and self.dynamic.data == "unbound" and self.place is None

    @place.setter
    def place(self, place: tuple[int, int] | None) -> None:
        self.memory_id = None if place is None else int_attr(place[0])
        self.offset = None if place is None else int_attr(place[1])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        place = None
        state = None
        if parser.parse_optional_keyword("at") is not None:
            with parser.in_angle_brackets():
                memory_id = parser.parse_integer()
                parser.parse_punctuation(",")
                place = (memory_id, parser.parse_integer())
        if parser.parse_optional_keyword("state") is not None:
            state = parser.parse_symbol_name().data
        caller = parser.parse_optional_keyword("caller") is not None
        dynamic, attributes, type = _parse_rest(parser)
        op = cls(type, state=state, caller=caller, dynamic=dynamic, place=place)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        if self.place is not None:
            printer.print_string(f" at <{self.place[0]}, {self.place[1]}>")
        if self.state is not None:
            printer.print_string(" state ")
            printer.print_symbol_name(self.state.root_reference.data)
        if self.caller is not None:
            printer.print_string(" caller")
        _print_rest(printer, self)

    def verify_(self) -> None:
        """B1 static type; B2 a place has both parts, memory ids count from 1; B3 the caller's memory is not planned."""
        _verify_value_type(self.result.type)
        if (self.memory_id is None) != (self.offset is None):
            raise VerifyException("a place is a memory id and an offset (B2)")
        if self.place is not None and (self.place[0] < 1 or self.place[1] < 0):
            raise VerifyException(f"<{self.place[0]}, {self.place[1]}> is not a place: memory ids count from 1 (B2)")
        if self.caller is not None and (self.place is not None or self.state is not None):
            raise VerifyException("a buffer in the caller's memory has no place and no state (B3)")
        if self.dynamic is not None and self.dynamic.data not in DYNAMISM:
            raise VerifyException(f"'dynamic' is one of {', '.join(DYNAMISM)}")


def _verify_value_type(type: Attribute) -> None:
    assert isinstance(type, TensorType)
    if (problem := layout_errors(type)) is not None:
        raise VerifyException(problem)
    if not is_static(type):
        raise VerifyException(f"{type} is not static: executable types are upper bounds (B1)")


def _parse_rest(parser: Parser) -> tuple[str | None, dict[str, Attribute], Attribute]:
    """What buffers and views end with: ``dynamic``, the attributes, and the type."""
    dynamic = None
    if parser.parse_optional_keyword("dynamic") is not None:
        dynamic = parser.parse_optional_keyword("unbound") or "bound"
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    return dynamic, attributes, parser.parse_type()


def _print_rest(printer: Printer, op: BufferOp | ViewOp) -> None:
    """Print what :func:`_parse_rest` parses."""
    if op.dynamic is not None:
        printer.print_string(" dynamic" if op.dynamic.data == "bound" else " dynamic unbound")
    if op.attributes:
        printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.result.type)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """Another tensor over the bytes of a buffer: ``%v = et.view %b at 256 : tensor<4x2xf32>``; no instruction.

    ``dynamic`` marks a view without a fixed place: an ``et_view`` instruction points it at its base at run time.
    """

    name = "et.view"
    base = operand_def(TensorType)
    offset = prop_def(IntegerAttr)
    dynamic = opt_prop_def(StringAttr)
    late = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self, base: SSAValue, type: Attribute, offset: int = 0, *, dynamic: str | None = None, late: bool = False
    ):
        super().__init__(
            operands=[base],
            properties={
                "offset": int_attr(offset),
                "dynamic": None if dynamic is None else StringAttr(dynamic),
                "late": UnitAttr() if late else None,
            },
            result_types=[type],
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        base = parse_defined(parser)
        if base is None:
            parser.raise_error("expected the buffer that is viewed")
        offset = parser.parse_integer() if parser.parse_optional_keyword("at") is not None else 0
        late = parser.parse_optional_keyword("late") is not None
        dynamic, attributes, type = _parse_rest(parser)
        op = cls(base, type, offset, dynamic=dynamic, late=late)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        if self.offset.value.data:
            printer.print_string(f" at {self.offset.value.data}")
        if self.late is not None:
            printer.print_string(" late")
        _print_rest(printer, self)

    def verify_(self) -> None:
        _verify_value_type(self.result.type)
        if self.offset.value.data < 0:
            raise VerifyException("the offset of a view is not negative")
        elements = [cast("TensorType[Attribute]", v.type).element_type for v in (self.base, self.result)]
        if elements[1] == i1 != elements[0]:
            raise VerifyException(f"bytes of {elements[0]} are no bools: a bool is the byte 0 or 1 (B4)")


def sizes_of(op: BufferOp | ViewOp) -> str | None:
    """The dims as text, or None when nobody said: of what control flow fills, and of what was read from a file."""
    found = op.attributes.get(SIZES)
    return found.data if isinstance(found, StringAttr) else None


@irdl_op_definition
class ScalarOp(IRDLOperation):
    """A number in a slot that instructions may write: ``%n = et.scalar 0 : i64``."""

    name = "et.scalar"
    value = prop_def(Attribute)
    result = result_def(AnyAttr())

    def __init__(self, value: int | float | bool):
        super().__init__(properties={"value": scalar_attr(value)}, result_types=[scalar_type(value)])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        return cls.create(
            properties={"value": value}, attributes=attributes, result_types=[getattr(value, "type", value)]
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if not isinstance(self.value, (IntegerAttr, FloatAttr)) or self.value.type not in (i64, f64, i1):
            raise VerifyException(f"{self.value} is not an i64, f64 or i1 scalar")
        if self.value.type != self.result.type:
            raise VerifyException(f"{self.value} does not have type {self.result.type}")


VALUE_OPS: tuple[type[Operation], ...] = (BufferOp, ViewOp, ScalarOp, GetWeightOp, NoneOp, StringOp)
"""The operations that define a value of a method and are no instruction."""
