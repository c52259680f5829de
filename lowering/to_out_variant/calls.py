"""Kernel calls from operators: the out variant by schema, its arguments in the order of that schema.

The list of a call is every argument of the out variant, outs included, and then a slot for the result (a list of
the outs when there are several); primitive operators take their arguments and the result, and have no slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import Attribute, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.arguments import OPERAND, Item, ListArg, Template
from etir.dialects.et.instructions import CallOp
from etir.dialects.schema import Argument, Kind, OpSchema

MEMORY_FORMAT_NUMBERS = {"contiguous": 0, "preserve": 1}
"""Memory formats that a ``.pte`` can hold, as torch numbers them."""

PRIMITIVES: dict[str, str] = {
    "aten.sym_size.int": "aten::sym_size.int",
    "aten.sym_numel.default": "aten::sym_numel",
    "aten._local_scalar_dense.default": "aten::_local_scalar_dense",
    "aten.item.default": "aten::_local_scalar_dense",
    "sym.add": "executorch_prim::add.Scalar",
    "sym.sub": "executorch_prim::sub.Scalar",
    "sym.mul": "executorch_prim::mul.Scalar",
    "sym.floordiv": "executorch_prim::floordiv.Scalar",
    "sym.truediv": "executorch_prim::truediv.Scalar",
    "sym.mod": "executorch_prim::mod.Scalar",
    "sym.eq": "executorch_prim::eq.Scalar",
    "sym.lt": "executorch_prim::lt.Scalar",
    "sym.le": "executorch_prim::le.Scalar",
    "sym.gt": "executorch_prim::gt.Scalar",
    "sym.ge": "executorch_prim::ge.Scalar",
    "sym.neg": "executorch_prim::neg.Scalar",
    "sym.ceil": "executorch_prim::ceil.Scalar",
    "sym.round": "executorch_prim::round.Scalar",
    "sym.trunc": "executorch_prim::trunc.Scalar",
    "sym.to_float": "executorch_prim::sym_float.Scalar",
    "sym.to_int": "executorch_prim::sym_int.Scalar",
    "sym.not": "executorch_prim::sym_not.Scalar",
    "sym.min": "executorch_prim::sym_min.Scalar",
    "sym.max": "executorch_prim::sym_max.Scalar",
    "sym.ite": "executorch_prim::sym_ite.Scalar",
}
"""Operators on numbers, and the primitive operator that computes each at run time."""


@dataclass
class ArgumentList:
    """A call's template and operands, built item by item."""

    template: list[Item | ListArg]
    operands: list[SSAValue]

    @staticmethod
    def empty() -> ArgumentList:
        """A list without arguments."""
        return ArgumentList([], [])

    def add(self, item: object) -> None:
        """Append a value or a literal."""
        self.template.append(self._item(item))

    def add_list(self, kind: str, items: Sequence[object]) -> None:
        """Append a list of values and literals."""
        self.template.append(ListArg(kind, tuple(self._item(item) for item in items)))

    def _item(self, item: object) -> Item:
        if isinstance(item, SSAValue):
            self.operands.append(item)
            return OPERAND
        assert item is None or isinstance(item, (bool, int, float, str)), item
        return item

    def call(self, kernel: str, returns: Template | None, return_operands: Sequence[SSAValue]) -> CallOp:
        """The instruction."""
        return CallOp(kernel, tuple(self.template), [*self.operands, *return_operands], returns)


def out_variant_of(ctx: EtContext, op: EdgeOp) -> OpSchema | None:
    """The out variant that implements ``op``, or None when the library has none."""
    return ctx.out_variant(op.SCHEMA)


def add_argument(
    arguments: ArgumentList, argument: Argument, value: Any, lower: Callable[[SSAValue], SSAValue]
) -> None:
    """Append one schema argument. ``lower`` maps a value of the edge level to one of the executable level.

    Raises ``TypeError`` for a literal that no ``.pte`` can hold (complex numbers, devices, other memory formats).
    """

    def item(element: Any) -> object:
        if isinstance(element, SSAValue):
            return lower(element)
        if isinstance(element, complex):
            raise TypeError(f"argument '{argument.name}' is complex, and a .pte holds no complex number")
        return element

    if value is None:
        arguments.add(None)
    elif argument.is_list:
        kind = _list_kind(argument)
        elements = cast(Sequence[Any], value)
        if argument.kind is Kind.FLOAT:
            elements = [float(v) for v in elements]
        arguments.add_list(kind, [item(v) for v in elements])
    elif argument.kind is Kind.DTYPE:
        arguments.add(dtype_of(cast(Attribute, value)).number)
    elif argument.kind is Kind.MEMORY_FORMAT:
        if value not in MEMORY_FORMAT_NUMBERS:
            raise TypeError(
                f"memory format '{value}' cannot be passed to a kernel: it is a dim order at the edge level"
            )
        arguments.add(MEMORY_FORMAT_NUMBERS[value])
    elif argument.kind is Kind.LAYOUT:
        arguments.add(0)
    elif argument.kind in (Kind.DEVICE, Kind.GENERATOR, Kind.OTHER):
        raise TypeError(f"argument '{argument.name}' of type {argument.type_text} cannot be passed to a kernel")
    elif argument.kind is Kind.FLOAT and not isinstance(value, SSAValue):
        arguments.add(float(value))
    else:
        arguments.add(item(value))


def _list_kind(argument: Argument) -> str:
    if argument.kind is Kind.TENSOR:
        return "optionals" if argument.elements_optional else "tensors"
    if argument.kind is Kind.FLOAT:
        return "doubles"
    return "bools" if argument.kind is Kind.BOOL else "ints"


def kernel_call(
    schema: OpSchema, given: dict[str, Any], outs: Sequence[SSAValue | None], lower: Callable[[SSAValue], SSAValue]
) -> CallOp:
    """The call of an out variant. ``outs`` are the buffers of the flattened results, None for a result that is None."""
    arguments = ArgumentList.empty()
    rest = list(outs)
    for argument in schema.arguments:
        if argument.is_write and argument.kwarg_only:
            if argument.is_list:
                arguments.add_list("tensors", rest)
                rest = []
            else:
                arguments.add(rest.pop(0))
        else:
            default = argument.default if argument.has_default else None
            add_argument(arguments, argument, given.get(argument.name, default), lower)
    present = [out for out in outs if out is not None]
    is_list = not (len(schema.out_arguments) == 1 and not schema.out_arguments[0].is_list)
    slot: Item | ListArg = OPERAND if not is_list else ListArg("tensors", (OPERAND,) * len(present))
    return arguments.call(schema.qualified_name, (slot,), present)


def primitive_call(kernel: str, values: Sequence[object], result: SSAValue) -> CallOp:
    """The call of a primitive operator: arguments, then the result; no slot follows."""
    arguments = ArgumentList.empty()
    for value in values:
        arguments.add(value)
    arguments.add(result)
    return arguments.call(kernel, None, ())


def copy_call(target: SSAValue, source: SSAValue, *, dynamic: bool) -> CallOp:
    """Copy the bytes of a tensor into another of the same type.

    ``aten::copy_`` writes a static target; a dynamic one takes the source's sizes, which ``aten::clone.out`` does.
    """
    arguments = ArgumentList.empty()
    if dynamic:
        for value in (source, None, target):
            arguments.add(value)
        return arguments.call("aten::clone.out", (OPERAND,), [target])
    for value in (target, source, False):
        arguments.add(value)
    return arguments.call("aten::copy_", (OPERAND,), [target])


def view_call(base: SSAValue, sizes: Sequence[object], view: SSAValue) -> CallOp:
    """The instruction that points a view at its base."""
    arguments = ArgumentList.empty()
    arguments.add(base)
    arguments.add_list("ints", sizes)
    arguments.add(view)
    return arguments.call("executorch_prim::et_view.default", None, ())
