"""Result types of the operators that lowerings emit, without torch.

A rule is a function from a :class:`Call` (schema and arguments) to the result types, registered under the names of the
overloads that it covers. It serves operations that a pass *makes*, whose types it gives, and those of text, whose types
it checks. :func:`infer` raises ``LookupError`` for an operator without a rule; whoever creates it then gives the types.

Types are contiguous, except that pointwise operators, convolutions and pooling keep the dim order of their input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.et.layout import Dim, dims_of, tensor_type
from etir.dialects.operators import check_operator
from etir.dialects.schema import NO_DEFAULT, OpSchema
from etir.lowering.build.dims import OperandError
from etir.lowering.build.sizes import Size, dim_of

FAMILIES = ("pointwise", "shape", "reduction", "network", "creation")
"""Modules of this package; importing one registers its rules."""

Types: TypeAlias = TensorType[Attribute] | Sequence[Attribute]
Rule: TypeAlias = "Callable[[Call], Types]"


class Call:
    """One operator and its arguments: SSA values, literals, sizes, lists of them."""

    __slots__ = ("given", "schema")

    def __init__(self, schema: OpSchema, given: Mapping[str, Any]):
        self.schema = schema
        self.given = given

    def __getitem__(self, name: str) -> Any:
        """An argument, or its default."""
        if name in self.given:
            return self.given[name]
        default = self.schema.arguments[self.schema.index[name]].default
        return None if default is NO_DEFAULT else default

    def type(self, name: str = "self") -> TensorType[Attribute]:
        """The type of a tensor argument. Raises ``TypeError`` when it is not a tensor."""
        return tensor_type_of(self[name])

    def dims(self, name: str = "self") -> tuple[Dim, ...]:
        """The dims of a tensor argument."""
        return dims_of(self.type(name))

    def element(self, name: str = "self") -> Attribute:
        """The element type of a tensor argument."""
        return self.type(name).element_type

    def sizes(self, name: str) -> tuple[Dim, ...]:
        """A list of sizes as dims. Raises ``TypeError`` when nothing is known about an entry."""
        return tuple(size_as_dim(size) for size in self[name])

    def ints(self, name: str, rank: int) -> tuple[Dim, ...]:
        """A list of numbers with one entry for each of ``rank`` dims; a single one counts for all."""
        values = self.sizes(name)
        return values * rank if len(values) == 1 else values

    def tensors(self) -> list[SSAValue]:
        """The tensor arguments in order, those in lists included."""
        found: list[SSAValue] = []
        for argument in self.schema.arguments:
            value = self.given.get(argument.name)
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, SSAValue) and isinstance(item.type, TensorType):
                    found.append(item)
        return found


def tensor_type_of(value: Any) -> TensorType[Attribute]:
    """The type of a tensor value. Raises ``TypeError`` for anything else."""
    if isinstance(value, SSAValue) and isinstance(value.type, TensorType):
        return value.type
    raise TypeError(f"{value!r} is not a tensor")


def size_as_dim(size: Any) -> Dim:
    """An int, a size or a runtime scalar as a dim. Raises ``TypeError`` when nothing is known about it."""
    if isinstance(size, Size):
        return size.expr
    if isinstance(size, SSAValue):
        known = dim_of(size)
        if known is None:
            raise TypeError("a size is dynamic: the result type must be given")
        return known
    return int(size)


_RULES: dict[str, Rule] = {}


def rule(*op_names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function for the overloads ``aten.name.overload``; a rule is registered once only.

    Raises ``AttributeError`` for an overload that the schema table should have and has not.
    """

    def register(function: Rule) -> Rule:
        for op_name in map(check_operator, op_names):
            assert op_name not in _RULES, f"{op_name} has two rules"
            _RULES[op_name] = function
        return function

    return register


def like(type: TensorType[Attribute], element: Attribute | None = None) -> TensorType[Attribute]:
    """The same dims and dim order with another element type."""
    return type if element is None or element == type.element_type else TensorType(element, type.shape, type.encoding)


def contiguous(element: Attribute, dims: Sequence[Dim]) -> TensorType[Attribute]:
    """A contiguous tensor type."""
    return tensor_type(element, dims)


@cache
def _load() -> dict[str, Rule]:
    for family in FAMILIES:
        import_module(f"{__package__}.{family}")
    return _RULES


def has_rule(op_name: str) -> bool:
    """Whether :func:`infer` knows the operator ``aten.name.overload``."""
    return op_name in _load()


def is_pointwise(op_name: str) -> bool:
    """Whether each element of the result is computed from the elements of the same place, by its rule."""
    function = _load().get(op_name)
    return function is not None and function.__module__ == f"{__package__}.pointwise"


def infer(schema: OpSchema, arguments: Mapping[str, Any]) -> list[Attribute]:
    """The result types of a call.

    Raises ``LookupError`` for an operator without a rule; :class:`~etir.lowering.build.dims.OperandError` for
    arguments that the operator does not take; ``TypeError``, ``IndexError`` or another ``ValueError`` where they do not
    tell the types.
    """
    function = _load().get(schema.op_name)
    if function is None:
        raise LookupError(f"no rule for the result types of {schema.op_name}")
    try:
        types = function(Call(schema, arguments))
    except ZeroDivisionError:
        raise OperandError("a step, a stride or a count that sizes are divided by is 0") from None
    return [types] if isinstance(types, TensorType) else list(types)
