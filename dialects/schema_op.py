"""The base of all operations that have an operator schema: ATen, edge and custom libraries' operators.

Storage. Tensors and runtime scalars are operands; every other argument is a property named like the
argument. ``operand_segments`` counts, for each schema argument, the operands that belong to it. An integer list with
runtime entries keeps the literal ones in its property, with a sentinel where an operand stands; ``Tensor?[]`` keeps a
mask of the entries that are present. An argument that equals its default is left out.

Syntax. A call as Python would write it: tensors by position, everything else by name, ``none`` for a missing tensor::

    %1 = aten.convolution.default(%x, %w, none, stride = [1, 1], ...) : (...) -> tensor<1x4x8x8xf32>
    %2 = aten.view.default(%1, size = [%n, 128]) : (tensor<?x4x32xf32, ...>, i64) -> tensor<?x128xf32, ...>

One parser and one printer, driven by the schema, serve thousands of overloads; a class costs about 20 µs to make and
is made at first use. These are plain ``Operation`` subclasses rather than IRDL definitions for that reason: the schema
already is the definition, and one verifier reads it.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Never,
    NoReturn,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from xdsl.dialects.builtin import DenseArrayBase, NoneType, TensorType
from xdsl.ir import Attribute, Operation, OpResult, OpTraits, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from etir.diagnostics import did_you_mean
from etir.dialects.dtypes import BY_TYPE, f64, i1, i64
from etir.dialects.et.layout import layout_errors
from etir.dialects.literals import (
    SYMBOLIC,
    ArgValue,
    bools_attr,
    dense_values,
    format_scalar,
    ints_attr,
    literal_attr,
    literal_of,
    parse_optional_scalar,
    parse_scalar,
    segments_attr,
)
from etir.dialects.schema import Argument, Kind, OpSchema, SchemaKind

SEGMENTS = "operand_segments"
SCALAR_TYPES: tuple[Attribute, ...] = (i64, f64, i1)
"""The types of runtime scalars."""


_T = TypeVar("_T")


class ArgumentMember(Generic[_T]):
    """Class attribute that reads a schema argument: ``op.mat2`` for ``op.arg("mat2")``. It cannot be assigned."""

    def __init__(self, argument: Argument, index: int):
        self._argument = argument
        self._index = index

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: SchemaOp, owner: type) -> _T: ...

    def __get__(self, instance: SchemaOp | None, owner: type) -> Any:
        return self if instance is None else instance.argument_value(self._index)

    def __set__(self, instance: SchemaOp, value: Never) -> NoReturn:
        raise AttributeError(f"'{self._argument.name}' is only read; `with_args` makes a changed operation")


class ResultMember:
    """Class attribute that reads a result that the schema names: ``op.indices``. It cannot be assigned."""

    def __init__(self, index: int):
        self._index = index

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: SchemaOp, owner: type) -> OpResult: ...

    def __get__(self, instance: SchemaOp | None, owner: type) -> Any:
        return self if instance is None else instance.results[self._index]

    def __set__(self, instance: SchemaOp, value: Never) -> NoReturn:
        raise AttributeError("the results of an operation are fixed")


_ParsedItem: TypeAlias = UnresolvedOperand | int | float | bool | complex | str | None | Attribute
_ParsedValue: TypeAlias = "_ParsedItem | list[_ParsedItem]"


class SchemaOp(Operation):
    """An operation whose arguments, syntax and verification come from an :class:`OpSchema`."""

    SCHEMA: ClassVar[OpSchema]
    traits: ClassVar[OpTraits] = OpTraits(tuple)

    @classmethod
    def make(
        cls,
        arguments: Mapping[str, ArgValue],
        result_types: Sequence[Attribute],
        *,
        location: Any = None,
    ) -> Self:
        """Build the operation from schema arguments by name; a missing one takes its default.

        ``result_types`` are the types of the flattened results (a ``Tensor[]`` return gives several). Raises
        ``TypeError`` for an argument that the schema does not have, that is missing, or that is of another type.
        """
        operands: list[SSAValue] = []
        segments: list[int] = []
        properties: dict[str, Attribute] = {}
        used = 0
        for argument in cls.SCHEMA.arguments:
            if argument.name not in arguments:
                if not argument.has_default and not argument.optional:
                    raise TypeError(f"{cls.name} needs argument '{argument.name}'")
                segments.append(0)
                if not argument.has_default:
                    continue
            else:
                used += 1
                before = len(operands)
                attribute = _store(argument, arguments[argument.name], operands)
                segments.append(len(operands) - before)
                if attribute is not None:
                    properties[argument.name] = attribute
        if used != len(arguments):
            unknown = [name for name in arguments if name not in cls.SCHEMA.index]
            raise TypeError(f"{cls.name} has no argument '{unknown[0]}'; it takes {cls.SCHEMA}")
        properties[SEGMENTS] = segments_attr(tuple(segments))
        return cls.create(operands=operands, result_types=result_types, properties=properties, location=location)

    if not TYPE_CHECKING:  # for a type checker, the stubs say which members there are

        def __getattr__(self, name: str) -> Any:
            """A member whose class has not read its schema yet."""
            members = members_of(type(self).SCHEMA)
            if name not in members:
                raise AttributeError(f"'{self.name}' has no argument or result '{name}'", name=name, obj=self)
            return members[name].__get__(self, type(self))

    @property
    def result(self) -> OpResult:
        """The only result. Raises ``ValueError`` when there is none, or several."""
        (result,) = self.results
        return result

    @property
    def segments(self) -> tuple[int, ...]:
        """Number of operands of each schema argument."""
        return cast(tuple[int, ...], dense_values(self.properties[SEGMENTS]))

    def arg(self, name: str) -> Any:
        """The value of a schema argument: an SSA value, a Python literal, a tuple of them, or None.

        Raises ``KeyError`` for a name that the schema does not have.
        """
        return self.argument_value(self.SCHEMA.index[name])

    def argument_value(self, index: int) -> ArgValue:
        """The value of the schema argument number ``index``, as :meth:`arg` gives it."""
        segments = self.segments
        return self._value(self.SCHEMA.arguments[index], sum(segments[:index]), segments[index])

    def args(self) -> dict[str, ArgValue]:
        """All arguments by name, defaults filled in."""
        values: dict[str, ArgValue] = {}
        start = 0
        for argument, count in zip(self.SCHEMA.arguments, self.segments, strict=True):
            values[argument.name] = self._value(argument, start, count)
            start += count
        return values

    def given_args(self) -> dict[str, ArgValue]:
        """The arguments that are stored, by name: those that differ from their defaults."""
        values: dict[str, ArgValue] = {}
        start = 0
        for argument, count in zip(self.SCHEMA.arguments, self.segments, strict=True):
            if count or argument.name in self.properties or not (argument.has_default or argument.optional):
                values[argument.name] = self._value(argument, start, count)
            start += count
        return values

    def _value(self, argument: Argument, start: int, count: int) -> ArgValue:
        stored = self.properties.get(argument.name)
        if argument.is_tensor_list:
            operands = self._operands[start : start + count]
            if stored is None or not argument.elements_optional:
                return None if stored is None and not count and argument.optional else tuple(operands)
            rest = iter(operands)
            return tuple(next(rest) if present else None for present in dense_values(stored))
        if argument.is_list and count:
            operands = iter(self._operands[start : start + count])
            if stored is None:
                return tuple(operands)
            return tuple(next(operands) if v == SYMBOLIC else v for v in dense_values(stored))
        if count:
            return self._operands[start]
        if stored is not None:
            return literal_of(argument, stored)
        return argument.default if argument.has_default else None  # type: ignore[return-value]

    def with_args(self, result_types: Sequence[Attribute] | None = None, /, **changes: ArgValue) -> Self:
        """A new operation of the same kind with some arguments changed; location and attributes are kept."""
        arguments = {**self.given_args(), **changes}
        op = type(self).make(
            arguments, [r.type for r in self.results] if result_types is None else result_types, location=self.location
        )
        op.attributes.update(self.attributes)
        return op

    # --- verification -----------------------------------------------------------------------------------------------

    def verify_(self) -> None:
        """Constraints S1 to S5 of docs/reference/dialects/aten.md: segments, literals, required, operands, results."""
        schema = self.SCHEMA
        stored = self.properties.get(SEGMENTS)
        if not isinstance(stored, DenseArrayBase):
            raise VerifyException(f"property '{SEGMENTS}' (one operand count for each argument) is missing (S1)")
        segments = self.segments
        if (
            len(segments) != len(schema.arguments)
            or sum(segments) != len(self._operands)
            or min(segments, default=0) < 0
        ):
            raise VerifyException(
                f"'{SEGMENTS}' {list(segments)} does not fit {len(schema.arguments)} arguments and "
                f"{len(self._operands)} operands (S1)"
            )
        start = 0
        known = 1
        for argument, count in zip(schema.arguments, segments, strict=True):
            attribute = self.properties.get(argument.name)
            known += attribute is not None
            self._verify_argument(argument, count, attribute, self._operands[start : start + count])
            start += count
        if known != len(self.properties):
            unknown = [n for n in self.properties if n != SEGMENTS and n not in schema.index]
            raise VerifyException(f"'{unknown[0]}' is not an argument of {schema} (S2)")
        self._verify_results()

    def _verify_argument(
        self, argument: Argument, count: int, attribute: Attribute | None, operands: Sequence[SSAValue]
    ) -> None:
        name = argument.name
        if argument.is_tensor_list:
            if argument.elements_optional and attribute is not None:
                try:
                    present = sum(1 for v in dense_values(attribute) if v)
                except TypeError:
                    present = -1
                if present != count:
                    raise VerifyException(f"the mask of '{name}' does not name {count} operands (S1)")
            elif attribute is not None:
                raise VerifyException(f"'{name}' takes tensors, not {attribute} (S2)")
        elif attribute is not None:
            self._verify_literal(argument, count, attribute)
        elif count == 0 and not (argument.has_default or argument.optional):
            raise VerifyException(f"argument '{name}' ({argument.type_text}) is missing (S3)")
        elif count > 1 and not argument.is_list:
            raise VerifyException(f"argument '{name}' takes one value, not {count} (S1)")
        for operand in operands:
            if argument.is_tensor:
                if not isinstance(operand.type, TensorType) and operand.type not in SCALAR_TYPES:
                    raise VerifyException(f"operand '{name}' must be a tensor, not {operand.type} (S4)")
            elif not argument.may_be_symbolic or operand.type not in SCALAR_TYPES:
                raise VerifyException(f"operand '{name}' must be {argument.type_text}, not {operand.type} (S4)")

    def _verify_literal(self, argument: Argument, count: int, attribute: Attribute) -> None:
        name = argument.name
        try:
            value = literal_of(argument, attribute)
            if argument.is_list and argument.kind in (Kind.INT, Kind.SYMINT) and isinstance(value, tuple):
                if sum(1 for v in value if v == SYMBOLIC) != count:
                    raise VerifyException(f"'{name}' does not name {count} operands (S1)")
            elif count:
                raise VerifyException(f"'{name}' is both an operand and a property (S1)")
            if value is None and not argument.optional:
                raise VerifyException(f"'{name}' ({argument.type_text}) may not be none (S2)")
            if literal_attr(argument, value) != attribute:
                raise VerifyException(f"'{name}' takes {argument.type_text}, not {attribute} (S2)")
        except TypeError as error:
            raise VerifyException(f"{error} (S2)") from None

    def _verify_results(self) -> None:
        returns = self.SCHEMA.returns
        has_list = any(r.is_list for r in returns)
        if len(self.results) < len(returns) - has_list or (not has_list and len(self.results) != len(returns)):
            raise VerifyException(f"has {len(self.results)} results, the schema returns {len(returns)} (S5)")
        for i, result in enumerate(self.results):
            declared = returns[min(i, len(returns) - 1)]
            if isinstance(result.type, TensorType):
                if not declared.is_tensor:
                    raise VerifyException(f"result {i} must be {declared.type_text}, not {result.type} (S5)")
                if result.type.element_type not in BY_TYPE:
                    raise VerifyException(f"result {i}: torch has no element type {result.type.element_type} (S5)")
                if (problem := layout_errors(result.type)) is not None:
                    raise VerifyException(f"result {i}: {problem}")
            elif result.type not in SCALAR_TYPES and not isinstance(result.type, NoneType):
                raise VerifyException(f"result {i} must be a tensor or a scalar, not {result.type} (S5)")

    # --- text -------------------------------------------------------------------------------------------------------

    def print(self, printer: Printer) -> None:
        """Print the call, its discardable attributes and its types."""
        printer.print_string("(")
        separator = ""
        missing = 0
        start = 0
        for argument, count in zip(self.SCHEMA.arguments, self.segments, strict=True):
            given = count or argument.name in self.properties
            if argument.is_tensor:
                if not given and (not argument.is_tensor_list or argument.optional):
                    missing += 1
                else:
                    printer.print_string(separator + "none, " * missing)
                    separator, missing = ", ", 0
                    _print_value(printer, argument, self._value(argument, start, count))
            elif given:
                printer.print_string(f"{separator}{argument.name} = ")
                separator = ", "
                _print_value(printer, argument, self._value(argument, start, count))
            start += count
        printer.print_string(")")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse what :meth:`print` writes."""
        start = parser.pos
        values = cls._parse_arguments(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types_at = parser.pos
        types = parser.parse_function_type()
        unresolved = [
            item
            for argument in cls.SCHEMA.arguments
            for item in _items(values.get(argument.name))
            if isinstance(item, UnresolvedOperand)
        ]
        operands = iter(parser.resolve_operands(unresolved, types.inputs.data, types_at))
        arguments: dict[str, ArgValue] = {}
        for argument in cls.SCHEMA.arguments:
            if argument.name not in values:
                continue
            value = values[argument.name]
            if isinstance(value, list):
                arguments[argument.name] = [
                    next(operands) if isinstance(item, UnresolvedOperand) else cast(Any, item) for item in value
                ]
            else:
                arguments[argument.name] = (
                    next(operands) if isinstance(value, UnresolvedOperand) else cast(ArgValue, value)
                )
        try:
            op = cls.make(arguments, types.outputs.data)
        except TypeError as error:
            parser.raise_error(str(error), start, parser.pos)
        op.attributes.update(attributes)
        return op

    @classmethod
    def _parse_arguments(cls, parser: Parser) -> dict[str, _ParsedValue]:
        """The arguments as written: tensors by position, then by name, in any order of names."""
        values: dict[str, _ParsedValue] = {}
        positional = iter(a for a in cls.SCHEMA.arguments if a.is_tensor)

        def parse_one() -> None:
            position = parser.pos
            if (operand := parser.parse_optional_unresolved_operand()) is not None:
                take(position, operand)
            elif parser.parse_optional_punctuation("[") is not None:
                take(position, _parse_list_tail(parser))
            elif (number := parse_optional_scalar(parser)) is not None:
                take(position, number)
            else:
                word = parser.parse_identifier(" or a value as an argument")
                if word == "none" and parser.parse_optional_punctuation("=") is None:
                    take(position, None)
                    return
                if word != "none":
                    parser.parse_punctuation("=", f" after the argument name '{word}'")
                index = cls.SCHEMA.index.get(word)
                if index is None:
                    near = did_you_mean(word, cls.SCHEMA.index)
                    parser.raise_error(f"{cls.name} has no argument '{word}'; it takes {cls.SCHEMA}{near}", position)
                if word in values:
                    parser.raise_error(f"argument '{word}' is given twice", position)
                values[word] = _parse_named(parser, cls.SCHEMA.arguments[index])

        def take(position: int, value: _ParsedValue) -> None:
            argument = next(positional, None)
            if argument is None:
                parser.raise_error(f"too many tensor arguments; {cls.name} takes {cls.SCHEMA}", position)
            if argument.name in values:
                parser.raise_error(f"argument '{argument.name}' is given twice", position)
            if value is not None or argument.default is not None:
                values[argument.name] = value

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_one, " of arguments")
        return values


def _store(argument: Argument, value: ArgValue, operands: list[SSAValue]) -> Attribute | None:
    """Append the operands of an argument and return its property, or None when it needs none."""
    if isinstance(value, SSAValue):
        if argument.is_list:
            raise TypeError(f"'{argument.name}' takes {argument.type_text}, not one value")
        operands.append(value)
        return None
    if argument.is_tensor_list:
        if value is None:
            return None
        items = cast(Sequence[SSAValue | None], value)
        present = [item for item in items if isinstance(item, SSAValue)]
        if len(present) != sum(item is not None for item in items):
            raise TypeError(f"'{argument.name}' takes a list of tensors")
        operands.extend(present)
        if argument.elements_optional:
            return bools_attr([item is not None for item in items])
        if len(present) != len(items):
            raise TypeError(f"'{argument.name}' may not contain none")
        return None
    if isinstance(value, (list, tuple)) and any(isinstance(item, SSAValue) for item in value):
        if argument.kind not in (Kind.INT, Kind.SYMINT):
            raise TypeError(f"'{argument.name}' takes {argument.type_text} with literal entries only")
        operands.extend(item for item in value if isinstance(item, SSAValue))
        return ints_attr(tuple(SYMBOLIC if isinstance(item, SSAValue) else int(cast(int, item)) for item in value))
    if argument.has_default and _is_default(argument, value):
        return None
    if value is None:
        if not argument.optional:
            raise TypeError(f"'{argument.name}' may not be none")
        return literal_attr(argument, None) if argument.has_default else None
    return literal_attr(argument, value)


def _is_default(argument: Argument, value: object) -> bool:
    default = argument.default
    if isinstance(value, (list, tuple)):
        value = tuple(cast(Sequence[object], value))
    if argument.kind is Kind.FLOAT and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return type(value) is type(default) and value == default


def _items(value: _ParsedValue) -> Sequence[_ParsedItem]:
    return value if isinstance(value, list) else (value,)


def _parse_list_tail(parser: Parser) -> list[_ParsedItem]:
    """The rest of a list after its opening bracket."""

    def item() -> _ParsedItem:
        if (operand := parser.parse_optional_unresolved_operand()) is not None:
            return operand
        if parser.parse_optional_keyword("none") is not None:
            return None
        return parse_scalar(parser)

    if parser.parse_optional_punctuation("]") is not None:
        return []
    items = [item()]
    while parser.parse_optional_punctuation(",") is not None:
        items.append(item())
    parser.parse_punctuation("]")
    return items


def _parse_named(parser: Parser, argument: Argument) -> _ParsedValue:
    if (operand := parser.parse_optional_unresolved_operand()) is not None:
        return operand
    if parser.parse_optional_keyword("none") is not None:
        return None
    if argument.kind is Kind.DTYPE:
        return parser.parse_type()
    if argument.kind in (Kind.STR, Kind.LAYOUT, Kind.DEVICE, Kind.MEMORY_FORMAT):
        return parser.parse_identifier_or_str_literal()
    if parser.parse_optional_punctuation("[") is not None:
        return _parse_list_tail(parser)
    return parse_scalar(parser)


_NUMBERS = (int, float, complex)  # and bool, which is an int
_WORD_KINDS = frozenset({Kind.MEMORY_FORMAT, Kind.LAYOUT})


def _print_value(printer: Printer, argument: Argument, value: ArgValue) -> None:
    if value is None:
        printer.print_string("none")
    elif type(value) is OpResult:
        printer.print_operand(value)
    elif isinstance(value, _NUMBERS):  # before classes whose ``isinstance`` asks Python code
        printer.print_string(format_scalar(value))
    elif isinstance(value, SSAValue):
        printer.print_operand(value)
    elif isinstance(value, str):
        if argument.kind in _WORD_KINDS:
            printer.print_string(value)
        else:
            printer.print_string_literal(value)
    elif isinstance(value, Attribute):
        printer.print_attribute(value)
    else:
        with printer.in_square_brackets():
            printer.print_list(value, lambda item: _print_value(printer, argument, item))


_PURE = OpTraits(lambda: (Pure(),))
_EFFECTS = OpTraits(lambda: (MemoryReadEffect(), MemoryWriteEffect()))


def make_op_class(base: type[SchemaOp], name: str, schema: OpSchema) -> type[SchemaOp]:
    """The operation class of a custom library's overload at one level."""
    cls = type(
        f"{schema.name}_{schema.overload or 'default'}",
        (base,),
        {
            "name": name,
            "SCHEMA": schema,
            "traits": traits_of(schema.kind is SchemaKind.FUNCTIONAL, False),
            "__module__": base.__module__,
        },
    )
    add_members(cls)
    return cls


def traits_of(is_functional: bool, is_random: bool) -> OpTraits:
    """Pure unless the operator writes an argument or its result is random."""
    return _PURE if is_functional and not is_random else _EFFECTS


_TAKEN = frozenset({"self", *dir(SchemaOp), *SchemaOp.__dataclass_fields__})


def python_name(name: str) -> str:
    """A schema's name in Python: with an underscore appended to a keyword, ``self``, or an attribute of all operators.

    ``op.self_``, ``aten.random.from_``.
    """
    return f"{name}_" if name in _TAKEN or keyword.iskeyword(name) else name


@cache
def members_of(schema: OpSchema) -> dict[str, ArgumentMember[Any] | ResultMember]:
    """The arguments and the named results of a schema as class attributes, by Python name.

    A result with the name of an argument is not among them, nor are results of which one is a list.
    """
    members: dict[str, ArgumentMember[Any] | ResultMember] = {
        python_name(argument.name): ArgumentMember(argument, index)
        for index, argument in enumerate(schema.arguments)
        if argument.name.isidentifier()  # the parser keeps torch's class types with the name
    }
    if not any(declared.is_list for declared in schema.returns):
        for index, declared in enumerate(schema.returns):
            if declared.name:
                members.setdefault(python_name(declared.name), ResultMember(index))
    return members


def add_members(cls: type[SchemaOp]) -> None:
    """Give the class of an overload its :func:`members_of`."""
    for name, member in members_of(cls.SCHEMA).items():
        setattr(cls, name, member)
