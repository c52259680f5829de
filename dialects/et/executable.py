"""The executable level: what the runtime will do, one operation per instruction, over explicit values.

A method's entry block first defines its values, one operation for each value of the ``.pte`` file (buffers, views,
weights, numbers), then come the instructions; control flow is blocks and jumps, in the order of the file::

    et.method @forward pools [0, 1024] {
      %x = et.buffer at <1, 0> : tensor<1x8xf32>
      %w = et.get_weight @w : tensor<8x8xf32>
      %y = et.buffer at <1, 64> : tensor<1x8xf32>
      et.inputs %x
      et.call "aten::linear.out"(%x, %w, none, %y) -> %y
      et.return %y
    }

A buffer without ``at`` is not planned yet; ``caller`` marks one whose memory the caller supplies. A view has no
instruction: it is another value over the same bytes. Types are upper bounds; ``dynamic`` says that the shape changes
below them at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, MemoryReadEffect, MemoryWriteEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from etir.dialects.dtypes import f64, i1, i64
from etir.dialects.et.arguments import (
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
from etir.dialects.et.layout import is_static, layout_errors
from etir.dialects.et.program import GetWeightOp, NoneOp, StringOp
from etir.dialects.et.weights import BlobAttr
from etir.dialects.literals import dense_values, int_attr, ints_attr, scalar_attr
from etir.dialects.sym.ops import number_type

DYNAMISM = ("bound", "unbound")
"""What ``dynamic`` may say: sizes change below the type's, or without a bound."""


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
        if self.memory_id is None or self.offset is None:
            return None
        return self.memory_id.value.data, self.offset.value.data

    @place.setter
    def place(self, place: tuple[int, int] | None) -> None:
        self.memory_id = None if place is None else int_attr(place[0])
        self.offset = None if place is None else int_attr(place[1])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        place = None
        state = dynamic = None
        if parser.parse_optional_keyword("at") is not None:
            with parser.in_angle_brackets():
                memory_id = parser.parse_integer()
                parser.parse_punctuation(",")
                place = (memory_id, parser.parse_integer())
        if parser.parse_optional_keyword("state") is not None:
            state = parser.parse_symbol_name().data
        caller = parser.parse_optional_keyword("caller") is not None
        if parser.parse_optional_keyword("dynamic") is not None:
            dynamic = parser.parse_optional_keyword("unbound") or "bound"
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.parse_type(), state=state, caller=caller, dynamic=dynamic, place=place)
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
        if self.dynamic is not None:
            printer.print_string(" dynamic" if self.dynamic.data == "bound" else " dynamic unbound")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

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
        dynamic = None
        if parser.parse_optional_keyword("dynamic") is not None:
            dynamic = parser.parse_optional_keyword("unbound") or "bound"
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(base, parser.parse_type(), offset, dynamic=dynamic, late=late)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        if self.offset.value.data:
            printer.print_string(f" at {self.offset.value.data}")
        if self.late is not None:
            printer.print_string(" late")
        if self.dynamic is not None:
            printer.print_string(" dynamic" if self.dynamic.data == "bound" else " dynamic unbound")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        _verify_value_type(self.result.type)
        if self.offset.value.data < 0:
            raise VerifyException("the offset of a view is not negative")


@irdl_op_definition
class ScalarOp(IRDLOperation):
    """A number in a slot that instructions may write: ``%n = et.scalar 0 : i64``."""

    name = "et.scalar"
    value = prop_def(Attribute)
    result = result_def(AnyAttr())

    def __init__(self, value: int | float | bool):
        super().__init__(properties={"value": scalar_attr(value)}, result_types=[number_type(value)])

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
            raise VerifyException(f"{self.value} is not an i64, f64 or i1 number")
        if self.value.type != self.result.type:
            raise VerifyException(f"{self.value} does not have type {self.result.type}")


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

    The arguments are those of the kernel's schema, outs included. What stands behind the arrow is the extra slot that
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
        """The arguments with the result slot behind them, as the file has them."""
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
            else:
                printer.print_operand(self.arguments[count])
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


@irdl_op_definition
class MethodOp(IRDLOperation):
    """A method at the executable level.

    ``pools`` are the sizes of the planned memories as the file has them: entry 0 is reserved and 0, entry n is memory
    id n. ``in_spec`` and ``out_spec`` are the pytree descriptions, absent when the file has none. ``devices`` lists
    ``[memory id, device type, device index]`` for memories that are not the CPU's.
    """

    name = "et.method"
    sym_name = prop_def(SymbolNameConstraint())
    pools = opt_prop_def(DenseArrayBase)
    devices = opt_prop_def(DenseArrayBase)
    in_spec = opt_prop_def(StringAttr)
    out_spec = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove())

    def __init__(
        self,
        name: str,
        body: Region,
        *,
        pools: Sequence[int] | None = None,
        in_spec: str | None = None,
        out_spec: str | None = None,
        devices: Sequence[tuple[int, int, int]] = (),
    ):
        flat = tuple(number for device in devices for number in device)
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "pools": None if pools is None else ints_attr(tuple(pools)),
                "devices": ints_attr(flat) if flat else None,
                "in_spec": None if in_spec is None else StringAttr(in_spec),
                "out_spec": None if out_spec is None else StringAttr(out_spec),
            },
            regions=[body],
        )

    @property
    def pool_sizes(self) -> tuple[int, ...] | None:
        """The sizes in bytes, entry 0 reserved; None before planning."""
        return None if self.pools is None else tuple(int(v) for v in dense_values(self.pools))

    @property
    def instructions(self) -> list[Operation]:
        """Every operation after the value definitions, in file order, block by block, terminators included."""
        return [op for block in self.body.blocks for op in block.ops if not isinstance(op, VALUE_OPS)]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name)}
        for field in ("pools", "devices"):
            if parser.parse_optional_keyword(field) is not None:
                values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                properties[field] = ints_attr(tuple(values))
        for field in ("in_spec", "out_spec"):
            if parser.parse_optional_keyword(field) is not None:
                properties[field] = StringAttr(parser.parse_str_literal())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        op = cls.create(properties=properties, regions=[body])
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for field, value in (("pools", self.pools), ("devices", self.devices)):
            if value is not None:
                printer.print_string(f" {field} [{', '.join(str(v) for v in dense_values(value))}]")
        for field, text in (("in_spec", self.in_spec), ("out_spec", self.out_spec)):
            if text is not None:
                printer.print_string(f" {field} ")
                printer.print_string_literal(text.data)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        """M1 value definitions stand in the entry block, before the instructions; M2 pool 0 is reserved."""
        sizes = self.pool_sizes
        if sizes is not None and (not sizes or sizes[0] != 0 or min(sizes) < 0):
            raise VerifyException("'pools' starts with the reserved entry 0 and has no negative size (M2)")
        for index, block in enumerate(self.body.blocks):
            started = index > 0
            for op in block.ops:
                if not isinstance(op, VALUE_OPS):
                    started = True
                elif started:
                    raise VerifyException(f"'{op.name}' stands after the first instruction of the method (M1)")


BESIDE = "beside"
"""Attribute of ``et.delegate``: the weights and states that it finds by name in the files beside the program."""


@irdl_op_definition
class DelegateOp(IRDLOperation):
    """A delegate's payload: ``et.delegate @lowered_0 "XnnpackBackend" = #et.blob<...> {specs = [...]}``.

    ``specs`` are the compile options as ``[key, bytes in hexadecimal]`` pairs; ``inline`` keeps the payload inside the
    program instead of in a segment of its own.
    """

    name = "et.delegate"
    sym_name = prop_def(SymbolNameConstraint())
    backend = prop_def(StringAttr)
    value = prop_def(BlobAttr)
    specs = opt_prop_def(ArrayAttr)
    inline = opt_prop_def(UnitAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name $backend `=` qualified($value) (`specs` $specs^)? (`inline` $inline^)? attr-dict"

    def __init__(
        self,
        name: str,
        backend: str,
        value: BlobAttr,
        specs: Sequence[tuple[str, bytes]] = (),
        *,
        inline: bool = False,
    ):
        pairs = [ArrayAttr([StringAttr(key), StringAttr(data.hex())]) for key, data in specs]
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "backend": StringAttr(backend),
                "value": value,
                "specs": ArrayAttr(pairs) if pairs else None,
                "inline": UnitAttr() if inline else None,
            }
        )

    @property
    def compile_specs(self) -> tuple[tuple[str, bytes], ...]:
        """The compile options, in order."""
        pairs = () if self.specs is None else self.specs.data
        return tuple((p.data[0].data, bytes.fromhex(p.data[1].data)) for p in pairs)  # type: ignore[attr-defined]


@irdl_op_definition
class NamedDataOp(IRDLOperation):
    """Bytes that delegates look up by name: ``et.named_data "key" = #et.blob<...>``."""

    name = "et.named_data"
    key = prop_def(StringAttr)
    value = prop_def(BlobAttr)
    alignment = opt_prop_def(IntegerAttr)
    assembly_format = "$key `=` qualified($value) (`align` $alignment^)? attr-dict"

    def __init__(self, key: str, value: BlobAttr, alignment: int | None = None):
        super().__init__(
            properties={
                "key": StringAttr(key),
                "value": value,
                "alignment": None if alignment is None else int_attr(alignment),
            }
        )


EXECUTABLE_OPS: tuple[type[Operation], ...] = (
    BufferOp,
    ViewOp,
    ScalarOp,
    InputsOp,
    ReturnOp,
    CallOp,
    DelegateCallOp,
    MoveOp,
    FreeOp,
    JumpFalseOp,
    JumpOp,
    NextOp,
    MethodOp,
    DelegateOp,
    NamedDataOp,
)
EXECUTABLE_ATTRIBUTES: tuple[type[Attribute], ...] = (ArgsAttr,)


VALUE_OPS: tuple[type[Operation], ...] = (BufferOp, ViewOp, ScalarOp, GetWeightOp, NoneOp, StringOp)
"""The operations that define a value of a method and are no instruction."""
