"""The ``xnn`` dialect: an XNNPACK graph as operations, one for each node kind of ``schema.NODES``.

A graph is a ``func.func``; constants are operations, layouts are dims, nothing is implied::

    func.func @forward_xnnpack_0(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x4x8xf32> {
      %0 = xnn.input(%x) : (tensor<1x3x8x8xf32>) -> !xnn.tensor<1x3x8x8xfp32>
      %w = xnn.constant "08fb..." : !xnn.tensor<8x3x3x3xfp32>
      %1 = xnn.static_transpose(%0, perm = [0, 2, 3, 1]) : ...
      %2 = xnn.conv2d(%1, %w, none, ..., groups = 1, clamp = [0.0, 6.0]) : ...
      %3 = xnn.output(%2) : (!xnn.tensor<1x4x4x8xfp32>) -> tensor<1x4x4x8xf32>
      func.return %3 : tensor<1x4x4x8xf32>
    }

A graph that was read from a blob, which does not know the tensors outside, has ``!xnn.tensor`` arguments and results.

The classes come from the table. An attribute that is 0 is left out; ``clamp`` is the range of the output, ``handle`` is
the number of the node in a profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation, OpTraits, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from etir.backends.xnnpack.schema import NODES, NodeKind
from etir.backends.xnnpack.shapes import result_dims
from etir.backends.xnnpack.types import XnnTensorType
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.weights import BlobAttr
from etir.dialects.literals import dense_values, float_attr, format_scalar, int_attr, ints_attr, parse_scalar, scalar_of

CLAMP, HANDLE = "clamp", "handle"


class NodeOp(Operation):
    """A node of the graph; subclasses have the row of the table in ``KIND``."""

    KIND: ClassVar[NodeKind]
    traits: ClassVar[OpTraits] = OpTraits(lambda: (Pure(),))

    @classmethod
    def make(
        cls,
        operands: Sequence[SSAValue | None],
        types: Sequence[Attribute],
        attributes: Mapping[str, int | float | Sequence[int]] = {},
        *,
        clamp: tuple[float, float] | None = None,
        handle: int = 0,
        location: Any = None,
    ) -> Self:
        """A node; attributes that are left out are 0, an optional last operand may be None."""
        properties: dict[str, Attribute] = {}
        for name, value in attributes.items():
            if isinstance(value, float):
                properties[name] = float_attr(value)
            elif isinstance(value, int):
                if value:
                    properties[name] = int_attr(value)
            else:
                properties[name] = ints_attr(tuple(value))
        if clamp is not None:
            properties[CLAMP] = ArrayAttr([float_attr(float(bound)) for bound in clamp])
        if handle:
            properties[HANDLE] = int_attr(handle)
        present = [operand for operand in operands if operand is not None]
        return cls.create(operands=present, result_types=types, properties=properties, location=location)

    def attribute_values(self) -> dict[str, int | float | tuple[int, ...]]:
        """All attributes of the node, those that are left out as 0."""
        values: dict[str, int | float | tuple[int, ...]] = {}
        for name in self.KIND.attributes:
            stored = self.properties.get(name)
            if stored is None:
                values[name] = 0.0 if name in self.KIND.floats else 0
            elif name in self.KIND.lists:
                values[name] = cast("tuple[int, ...]", dense_values(stored))
            else:
                values[name] = cast("int | float", scalar_of(stored))
        return values

    @property
    def clamp(self) -> tuple[float, float] | None:
        """The range of the output, None for any."""
        stored = self.properties.get(CLAMP)
        if not isinstance(stored, ArrayAttr):
            return None
        low, high = (cast(float, scalar_of(bound)) for bound in stored.data)
        return low, high

    @property
    def handle(self) -> int:
        """The number that a profile shows for the node."""
        stored = self.properties.get(HANDLE)
        return 0 if stored is None else cast(int, scalar_of(stored))

    def verify_(self) -> None:
        kind = self.KIND
        least = len(kind.operands) - len(kind.optional)
        if not least <= len(self.operands) <= len(kind.operands):
            raise VerifyException(f"takes {', '.join(kind.operands)}, not {len(self.operands)} operands")
        if len(self.results) != len(kind.outputs):
            raise VerifyException(f"gives {', '.join(kind.outputs)}, not {len(self.results)} results")
        known = {*kind.attributes, CLAMP, HANDLE}
        for name in self.properties:
            if name not in known:
                raise VerifyException(f"'{name}' is not an attribute of a {kind.name}")
        for name in kind.lists:
            if name not in self.properties:
                raise VerifyException(f"attribute '{name}' is missing")
        infos = [v.type.data for v in (*self.operands, *self.results) if isinstance(v.type, XnnTensorType)]
        if len(infos) != len(self.operands) + len(self.results):
            raise VerifyException("operands and results are !xnn.tensor values")
        try:
            values = self.attribute_values()
            clamp = self.clamp
            dims = result_dims(kind, [i.dims for i in infos[: len(self.operands)]], values)
        except (TypeError, ValueError) as error:
            raise VerifyException(str(error)) from None
        if any(number < 0 for v in values.values() for number in (v if isinstance(v, tuple) else ()) if number < 0):
            raise VerifyException("dims, sizes and paddings are not negative")
        if any(isinstance(v, int) and v < 0 for v in values.values()):
            raise VerifyException("the numbers of a node are not negative")
        if clamp is not None and not clamp[0] <= clamp[1]:
            raise VerifyException(f"the range {list(clamp)} is empty")
        result = infos[len(self.operands)]
        if result.dims != dims:
            raise VerifyException(f"gives dims {list(dims)}, its type says {list(result.dims)}")
        if kind.name != "convert" and len(self.operands) == 1 and infos[0].datatype is not result.datatype:
            raise VerifyException(f"keeps the datatype {infos[0].datatype.name}; only a convert changes it")

    def print(self, printer: Printer) -> None:
        """Print the call as Python would write it."""
        kind = self.KIND
        printer.print_string("(")
        separator = ""
        for i in range(len(kind.operands)):
            printer.print_string(separator)
            separator = ", "
            if i < len(self.operands):
                printer.print_operand(self.operands[i])
            else:
                printer.print_string("none")
        for name in (*kind.attributes, CLAMP, HANDLE):
            stored = self.properties.get(name)
            if stored is None:
                continue
            printer.print_string(f"{separator}{name} = ")
            if name in kind.lists:
                printer.print_string(f"[{', '.join(str(v) for v in dense_values(stored))}]")
            elif isinstance(stored, ArrayAttr):
                printer.print_string(f"[{', '.join(format_scalar(scalar_of(v)) for v in stored.data)}]")
            else:
                printer.print_string(format_scalar(scalar_of(stored)))
        printer.print_string(")")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse what :meth:`print` writes."""
        start = parser.pos
        operands: list[UnresolvedOperand] = []
        attributes: dict[str, int | float | list[int]] = {}
        clamp: tuple[float, float] | None = None

        def one() -> None:
            nonlocal clamp
            operand = parser.parse_optional_unresolved_operand()
            if operand is not None:
                operands.append(operand)
                return
            position = parser.pos
            word = parser.parse_identifier(" or a value")
            if word == "none":
                return
            if word not in (*cls.KIND.attributes, CLAMP, HANDLE):
                parser.raise_error(f"'{word}' is not an attribute of a {cls.KIND.name}", position, parser.pos)
            parser.parse_punctuation("=")
            if parser.parse_optional_punctuation("[") is None:
                attributes[word] = cast("int | float", parse_scalar(parser))
                return
            items = _rest_of_list(parser)
            if word != CLAMP:
                attributes[word] = cast("list[int]", items)
            elif len(items) == 2:
                clamp = (float(items[0]), float(items[1]))
            else:
                parser.raise_error("a range is [low, high]", position, parser.pos)

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one, " of operands and attributes")
        discardable = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types_at = parser.pos
        types = parser.parse_function_type()
        values = parser.resolve_operands(operands, types.inputs.data, types_at)
        handle = attributes.pop(HANDLE, 0)
        for name, value in attributes.items():
            expected = list if name in cls.KIND.lists else float if name in cls.KIND.floats else int
            if not isinstance(value, expected) or isinstance(value, list) and not all(type(v) is int for v in value):
                parser.raise_error(f"'{name}' is {'a list of ints' if expected is list else expected.__name__}", start)
        op = cls.make(values, types.outputs.data, attributes, clamp=clamp, handle=cast(int, handle))
        op.attributes.update(discardable)
        return op


def _rest_of_list(parser: Parser) -> list[int | float]:
    if parser.parse_optional_punctuation("]") is not None:
        return []
    items = [cast("int | float", parse_scalar(parser))]
    while parser.parse_optional_punctuation(",") is not None:
        items.append(cast("int | float", parse_scalar(parser)))
    parser.parse_punctuation("]")
    return items


class ConstantOp(Operation):
    """Constant bytes: ``xnn.constant "08fb..." = #et.blob<...> scales "5c1a..." = #et.blob<...> : !xnn.tensor<...>``.

    A key names the bytes among the program's named data; ``inline`` in its place puts them into the blob. Payloads are
    absent when a blob was read without the named data.
    """

    name = "xnn.constant"
    traits: ClassVar[OpTraits] = OpTraits(lambda: (Pure(), ConstantLike()))

    @classmethod
    def make(
        cls,
        type: XnnTensorType,
        value: tuple[str | None, BlobAttr | None],
        scales: tuple[str | None, BlobAttr | None] | Sequence[float] | None = None,
        *,
        location: Any = None,
    ) -> Self:
        """A constant; ``value`` and ``scales`` are key (None: inline) and payload, or the scales are numbers."""
        properties = _payload("", value)
        if scales is not None:
            if len(scales) == 2 and not isinstance(scales[0], float):
                properties |= _payload("scales_", cast("tuple[str | None, BlobAttr | None]", scales))
            else:
                properties["scales"] = ArrayAttr([float_attr(cast(float, s)) for s in scales])
        return cls.create(result_types=[type], properties=properties, location=location)

    def payload(self, prefix: str = "") -> tuple[str | None, BlobAttr | None]:
        """Key and bytes of the value, or with ``"scales_"`` of the scales."""
        key, data = self.properties.get(f"{prefix}key"), self.properties.get(f"{prefix}value")
        return key.data if isinstance(key, StringAttr) else None, data if isinstance(data, BlobAttr) else None

    @property
    def scale_numbers(self) -> tuple[float, ...] | None:
        """The scales that stand in the FlatBuffer."""
        stored = self.properties.get("scales")
        return tuple(cast(float, scalar_of(s)) for s in stored.data) if isinstance(stored, ArrayAttr) else None

    @property
    def has_scales(self) -> bool:
        """Whether scales come with the constant."""
        return any(name in self.properties for name in ("scales", "scales_key", "scales_inline"))

    def verify_(self) -> None:
        if len(self.results) != 1 or not isinstance(self.results[0].type, XnnTensorType) or self.operands:
            raise VerifyException("a constant is one !xnn.tensor value")
        info = self.results[0].type.data
        for prefix, size in (("", info.nbytes), ("scales_", None)):
            data = self.properties.get(f"{prefix}value")
            if isinstance(data, BlobAttr) and size is not None and data.data.size < size:
                raise VerifyException(f"{self.results[0].type} takes {size} bytes, the blob has {data.data.size}")
            if f"{prefix}inline" in self.properties and data is None:
                raise VerifyException("a constant inside the blob comes with its bytes")
        if "key" not in self.properties and "inline" not in self.properties:
            raise VerifyException("a constant has a key or is inline")
        if self.has_scales != bool(info.scale_count):
            raise VerifyException(f"{self.results[0].type} comes with {info.scale_count} scales")

    def print(self, printer: Printer) -> None:
        """Print the constant with its payloads."""
        _print_payload(printer, self.properties, "")
        if self.scale_numbers is not None:
            printer.print_string(f" scales [{', '.join(format_scalar(s) for s in self.scale_numbers)}]")
        elif self.has_scales:
            printer.print_string(" scales")
            _print_payload(printer, self.properties, "scales_")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse what :meth:`print` writes."""
        value = _parse_payload(parser)
        scales: Any = None
        if parser.parse_optional_keyword("scales") is not None:
            if parser.parse_optional_punctuation("[") is not None:
                scales = [float(s) for s in _rest_of_list(parser)]
            else:
                scales = _parse_payload(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_type()
        if not isinstance(type, XnnTensorType):
            parser.raise_error("expected !xnn.tensor<...>", position)
        op = cls.make(type, value, scales)
        op.attributes.update(attributes)
        return op


def _payload(prefix: str, payload: tuple[str | None, BlobAttr | None]) -> dict[str, Attribute]:
    key, data = payload
    properties: dict[str, Attribute] = (
        {f"{prefix}inline": UnitAttr()} if key is None else {f"{prefix}key": StringAttr(key)}
    )
    if data is not None:
        properties[f"{prefix}value"] = data
    return properties


def _print_payload(printer: Printer, properties: Mapping[str, Attribute], prefix: str) -> None:
    key, data = properties.get(f"{prefix}key"), properties.get(f"{prefix}value")
    printer.print_string(" ")
    if isinstance(key, StringAttr):
        printer.print_string_literal(key.data)
    else:
        printer.print_string("inline")
    if data is not None:
        printer.print_string(" = ")
        printer.print_attribute(data)


def _parse_payload(parser: Parser) -> tuple[str | None, BlobAttr | None]:
    key = None if parser.parse_optional_keyword("inline") is not None else parser.parse_str_literal(" with a key")
    if parser.parse_optional_punctuation("=") is None:
        return key, None
    position = parser.pos
    data = parser.parse_attribute()
    if not isinstance(data, BlobAttr):
        parser.raise_error("expected #et.blob<...>", position)
    return key, data


class InputOp(Operation):
    """A tensor that enters the delegate: ``xnn.input(%x) : (tensor<1x3x8x8xf32>) -> !xnn.tensor<1x3x8x8xfp32>``.

    The bytes are the same on both sides; the dims differ where the tensor is not in the default dim order.
    """

    name = "xnn.input"
    traits: ClassVar[OpTraits] = OpTraits(lambda: (Pure(),))

    @classmethod
    def make(cls, value: SSAValue, type: Attribute, *, location: Any = None) -> Self:
        """The boundary operation from ``value``."""
        return cls.create(operands=[value], result_types=[type], location=location)

    def verify_(self) -> None:
        if len(self.operands) != 1 or len(self.results) != 1:
            raise VerifyException("takes one value and gives one")
        inside, outside = self.results[0].type, self.operands[0].type
        if isinstance(self, OutputOp):
            inside, outside = outside, inside
        if not isinstance(inside, XnnTensorType) or not isinstance(outside, TensorType):
            raise VerifyException("connects a tensor outside with an !xnn.tensor inside")
        if inside.data.datatype.torch_name != dtype_of(outside.element_type).torch_name:
            raise VerifyException(f"{outside} and {inside} differ in their elements")

    def print(self, printer: Printer) -> None:
        """Print operand and types."""
        printer.print_string("(")
        printer.print_operand(self.operands[0])
        printer.print_string(") : ")
        printer.print_function_type(self.operand_types, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse what :meth:`print` writes."""
        with parser.in_parens():
            operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_function_type()
        operands = parser.resolve_operands([operand], types.inputs.data, position)
        return cls.create(operands=operands, result_types=types.outputs.data)


class OutputOp(InputOp):
    """A value that leaves the delegate: ``xnn.output(%r) : (!xnn.tensor<1x8xfp32>) -> tensor<1x8xf32>``."""

    name = "xnn.output"


NODE_OPS: dict[str, type[NodeOp]] = {
    kind.name: type(f"{kind.name.title().replace('_', '')}Op", (NodeOp,), {"name": f"xnn.{kind.name}", "KIND": kind})
    for kind in NODES
}
"""The operation of each node kind, by the kind's name."""


def xnn_dialect() -> Dialect:
    """The dialect, for ``EtContext.register_dialect``."""
    return Dialect("xnn", [ConstantOp, InputOp, OutputOp, *NODE_OPS.values()], [XnnTensorType])
