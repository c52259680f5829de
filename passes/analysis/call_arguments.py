"""The arguments of a kernel call by name, and what is wrong with them by the kernel's schema.

Text says the arguments of ``et.call`` by position, and a ``.pte`` file names one value for each: nothing in either says
that there are as many as the schema has, that a tensor stands where the kernel reads a tensor, or that the result slot
is the tensor that the kernel writes. The stock runtime ends the process on some of these and computes something else on
the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.dialects.dtypes import f64, i1, i64
from etir.dialects.et.arguments import OPERAND, Item, ListArg
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.program import NoneOp, StringOp
from etir.dialects.et.values import ScalarOp
from etir.dialects.schema import Argument, Kind, OpSchema

Value = SSAValue | int | float | bool | str | None


@dataclass(frozen=True)
class BoundArgument:
    """An argument of a schema with what the call gives for it: a value, or the items of a list."""

    argument: Argument
    item: Item | ListArg
    values: tuple[Value, ...]

    @property
    def given(self) -> Value | tuple[Value, ...]:
        """The value, or the tuple of a list's items."""
        return self.values if isinstance(self.item, ListArg) else self.values[0]

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The values that are tensors."""
        return tuple(v for v in self.values if isinstance(v, SSAValue) and isinstance(v.type, TensorType))


@dataclass(frozen=True)
class BoundCall:
    """The arguments of a call in schema order, and the values of its result slot (None: it has no slot)."""

    arguments: tuple[BoundArgument, ...]
    slot: tuple[Value, ...] | None

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The tensors that the kernel writes, in schema order."""
        return tuple(v for bound in self.arguments if bound.argument.is_write for v in bound.tensors)


def bind(op: CallOp, schema: OpSchema, *, is_primitive: bool) -> BoundCall | str:
    """The call's arguments by the kernel's schema, or why there is no telling which is which.

    A primitive operator on numbers has its result as a last argument after those of the schema, unless it returns
    nothing; any other kernel has a slot after them.
    """
    result = is_primitive and bool(schema.returns) and not any(a.is_write for a in schema.arguments)
    count = len(schema.arguments) + result
    if len(op.template.data) != count:
        names = [*(a.name for a in schema.arguments), *(["the result"] if result else [])]
        return f"takes {count} arguments ({', '.join(names)}), {len(op.template.data)} are given"
    if is_primitive and op.returns is not None:
        return "is a primitive operator, which has no result slot"
    if not is_primitive and op.returns is None:
        return "has no result slot: write '-> %out' after its arguments"
    operands = iter(op.arguments)

    def opened(item: Item | ListArg) -> tuple[Value, ...]:
        items = item.items if isinstance(item, ListArg) else (item,)
        return tuple(next(operands) if i is OPERAND else i for i in items)  # type: ignore[misc]

    arguments = tuple(BoundArgument(a, i, opened(i)) for a, i in zip(schema.arguments, op.template.data, strict=False))
    slot: tuple[Value, ...] | None = None
    if result:
        slot = opened(op.template.data[-1])
    elif op.returns is not None:
        slot = opened(op.returns.data[0])
    return BoundCall(arguments, slot)


def argument_problems(call: BoundCall, schema: OpSchema) -> Iterator[str]:
    """What is wrong with the kinds of the arguments, and with the result slot."""
    for bound in call.arguments:
        problem = _list_problem(bound) if bound.argument.is_list else _value_problem(bound)
        if problem is not None:
            yield f"argument '{bound.argument.name}' {problem}"
    yield from _slot_problems(call, schema)


def _list_problem(bound: BoundArgument) -> str | None:
    argument, item = bound.argument, bound.item
    if item is None and argument.optional:
        return None
    if not isinstance(item, ListArg):
        if argument.optional and isinstance(bound.values[0], SSAValue) and isinstance(bound.values[0].owner, NoneOp):
            return None
        return f"takes {argument.type_text}, not {_text(bound.values[0])}"
    wanted = {Kind.TENSOR: ("tensors", "optionals"), Kind.FLOAT: ("doubles",), Kind.BOOL: ("bools",)}
    kinds = wanted.get(argument.kind, ("ints",))
    if item.kind not in kinds:
        return f"takes {argument.type_text}, not a list of {item.kind}"
    for value in bound.values:
        if value is None and argument.elements_optional:
            continue
        if argument.is_tensor and not _is_tensor(value):
            return f"takes {argument.type_text}, not a list with {_text(value)}"
        if item.kind == "ints" and isinstance(value, SSAValue) and value.type != i64:
            return f"takes {argument.type_text}, not a list with {_text(value)}"
    return None


def _value_problem(bound: BoundArgument) -> str | None:
    argument, value = bound.argument, bound.values[0] if bound.values else None
    wrong = f"takes {argument.type_text}, not {_text(value)}"
    if isinstance(bound.item, ListArg):
        return f"takes {argument.type_text}, not a list"
    if value is None or (isinstance(value, SSAValue) and isinstance(value.owner, NoneOp)):
        # The emitter of other tools leaves optional numbers and devices out whatever their type says.
        may_miss = argument.optional or argument.kind in (Kind.DEVICE, Kind.GENERATOR, Kind.LAYOUT, Kind.OTHER)
        return None if may_miss or argument.default is None else f"({argument.type_text}) is missing"
    if argument.is_tensor:
        return None if _is_tensor(value) else wrong
    return None if _fits(argument.kind, value) else wrong


def _fits(kind: Kind, value: Value) -> bool:
    if isinstance(value, SSAValue):
        is_text = isinstance(value.owner, StringOp)
        match kind:
            case Kind.INT | Kind.SYMINT | Kind.DTYPE | Kind.MEMORY_FORMAT | Kind.LAYOUT:
                return value.type == i64
            case Kind.FLOAT:
                return value.type in (f64, i64)
            case Kind.BOOL | Kind.SYMBOOL:
                return value.type == i1
            case Kind.SCALAR:
                return value.type in (i1, i64, f64)
            case Kind.STR:
                return is_text
            case _:
                return True
    match kind:
        case Kind.INT | Kind.SYMINT | Kind.DTYPE | Kind.MEMORY_FORMAT | Kind.LAYOUT:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.FLOAT:
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case Kind.BOOL | Kind.SYMBOOL:
            return isinstance(value, bool)
        case Kind.SCALAR:
            return isinstance(value, (int, float))
        case Kind.STR:
            return isinstance(value, str)
        case _:
            return True


def _slot_problems(call: BoundCall, schema: OpSchema) -> Iterator[str]:
    """The slot names what the kernel writes: the runtime makes it a handle of just that."""
    if call.slot is None:
        return
    if not any(a.is_write for a in schema.arguments):
        for value in call.slot:
            if not (isinstance(value, SSAValue) and isinstance(value.owner, ScalarOp)):
                yield f"writes its result into {_text(value)}, which is no et.scalar"
        return
    if call.slot in ((None,), ()):
        return
    given = tuple(v for v in call.slot if isinstance(v, SSAValue))
    if len(given) != len(call.written) or any(a is not b for a, b in zip(given, call.written, strict=True)):
        yield "names another result after '->' than the tensors that it writes"


def _is_tensor(value: Value) -> bool:
    return isinstance(value, SSAValue) and isinstance(value.type, TensorType)


def _text(value: Value) -> str:
    if isinstance(value, SSAValue):
        return f"%{value.name_hint}, a {value.type}" if value.name_hint else f"a {value.type}"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else repr(value)
