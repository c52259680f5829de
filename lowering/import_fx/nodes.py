"""FX nodes as operations.

:class:`NodeImporter` walks one graph and builds operations into a block. Whole programs use it for methods and for the
bodies of control flow; ``decompose-aten`` uses it for graphs that torch's own decompositions produce.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from xdsl.dialects.builtin import LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp, aten_op, custom_op
from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.aten.recorded_layout import DIM_ORDERS
from etir.dialects.aten.table import load_table
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, YieldOp
from etir.dialects.et.layout import dims_of, is_static, order_of, tensor_type
from etir.dialects.literals import ArgValue
from etir.dialects.schema import Kind, OpSchema, parse_schema
from etir.dialects.sym.ops import ARITHMETIC_OPS, AssertOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0413
from etir.lowering.import_fx.checks import CHECKS, check, check_results
from etir.lowering.import_fx.layouts import dim_orders
from etir.lowering.import_fx.locations import location_of
from etir.lowering.import_fx.lowered import CALL, called, memory_format_of, plain_operator, with_memory_format
from etir.lowering.import_fx.numbers import (
    SHAPE_OPERATORS,
    gives_numbers,
    is_said_anyway,
    known_numbers,
    shape_numbers,
)
from etir.lowering.import_fx.prims import Operator, definition, expansion
from etir.lowering.import_fx.storage_copies import (
    STORAGE_COPIES,
    STORAGE_VIEWS,
    record_layout,
    without_storage_copy,
)
from etir.lowering.import_fx.structures import (
    Value,
    as_number,
    flat_outputs,
    flatten,
    literal,
    map_structure,
    no_tensor,
    output_type,
    restore,
    target_name,
)
from etir.lowering.import_fx.types import ELEMENT_TYPES, MEMORY_FORMATS, type_of_tensor, type_of_value
from etir.targets.manifest import kernel_forms

ARITHMETIC: dict[Any, str] = {
    operator.add: "sym.add",
    operator.sub: "sym.sub",
    operator.mul: "sym.mul",
    operator.floordiv: "sym.floordiv",
    operator.truediv: "sym.truediv",
    operator.mod: "sym.mod",
    operator.pow: "sym.pow",
    operator.eq: "sym.eq",
    operator.ne: "sym.ne",
    operator.lt: "sym.lt",
    operator.le: "sym.le",
    operator.gt: "sym.gt",
    operator.ge: "sym.ge",
    operator.and_: "sym.and",
    operator.or_: "sym.or",
    operator.not_: "sym.not",
    operator.neg: "sym.neg",
    operator.abs: "sym.abs",
    builtins.abs: "sym.abs",
    builtins.min: "sym.min",
    builtins.max: "sym.max",
    builtins.round: "sym.round",
    math.ceil: "sym.ceil",
    math.floor: "sym.floor",
    math.trunc: "sym.trunc",
    math.sqrt: "sym.sqrt",
    torch.sym_max: "sym.max",
    torch.sym_min: "sym.min",
    torch.sym_float: "sym.to_float",
    torch.sym_int: "sym.to_int",
    torch.sym_not: "sym.not",
    torch.sym_ite: "sym.ite",
    torch.sym_sqrt: "sym.sqrt",
}
"""Python's operators on sizes, as the operations they become."""

_DROPPED = frozenset(
    {
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
        # They give dtypes and truths that later nodes have as literals.
        "aten.can_cast.default",
        "aten.promote_types.default",
        "aten.result_type.Scalar",
        "aten.result_type.Scalar_Scalar",
        "aten.result_type.Scalar_Tensor",
        "aten.result_type.Tensor",
    }
)
"""Operators that only check what types and declared ranges already say."""

_OF_ASSIGNED_DATA = "aten._has_compatible_shallow_copy_type.default"
"""All that a trace has of ``y.data = z``: torch asks this first, and records nothing of the assignment itself."""

_KEEPS_ORDER = frozenset({"aten._to_copy.default", "aten.clone.default", "aten.contiguous.default", "aten.to.dtype"})
"""Operators that may change the memory format on the user's request: their dim order is recorded."""

INNER_TENSOR = "export.access_subclass_inner_tensor.default"
"""How a graph reads a part of a weight that is a tensor subclass (of torchao, of DTensor)."""


@dataclass(frozen=True, eq=False)
class WrappedTensor:
    """A weight that consists of several tensors, under its qualified name: no value of the IR, its parts are."""

    name: str
    tensor: torch.Tensor


class NodeImporter:
    """Builds the operations of FX graphs into blocks.

    ``schemas`` collects the schemas of custom libraries' operators that were met (by IR name), ``constant`` makes an
    SSA value of a tensor that a graph holds as an attribute, ``lowered`` names the blob of a lowered module.
    ``with_layouts`` records dim orders of results for ``functionalize``.
    """

    def __init__(
        self,
        constant: Callable[[torch.Tensor, str], Operation] | None = None,
        lowered: Callable[[Any, str], str] | None = None,
        *,
        with_layouts: bool = False,
    ):
        self.schemas: dict[str, OpSchema] = {}
        self._constant = constant
        self._lowered = lowered
        self._with_layouts = with_layouts

    def run(self, graph_module: fx.GraphModule, values: dict[fx.Node, Value], block: Block) -> Value:
        """Import every node that ``values`` does not have yet, and return what the graph outputs."""
        for node in graph_module.graph.nodes:
            if node.op == "output":
                return map_structure(node.args[0], lambda n: values[n])
            if node in values:
                continue
            location = location_of(node.meta, node.name)
            start = block.last_op
            values[node] = self._node(graph_module, node, values, block, location)
            self._finish(node, values[node], start, block, location)
        raise AssertionError("a graph ends with an output node")

    def _finish(
        self, node: fx.Node, value: Value, start: Operation | None, block: Block, location: LocationAttr
    ) -> None:
        op = block.first_op if start is None else start.next_op
        while op is not None:
            for nested in op.walk():
                if isinstance(nested.location, UnknownLoc):
                    nested.location = location
            op = op.next_op
        if isinstance(value, SSAValue) and value.name_hint is None and SSAValue.is_valid_name(node.name):
            value.name_hint = node.name

    def _node(
        self,
        graph_module: fx.GraphModule,
        node: fx.Node,
        values: dict[fx.Node, Value],
        block: Block,
        location: LocationAttr,
    ) -> Value:
        target = plain_operator(node.target)
        if node.op == "get_attr":
            return self._attribute(graph_module, str(target), block)
        if node.op != "call_function":
            return self._opaque(node, values, block, f"a node of kind {node.op}")
        if is_said_anyway(node):
            return None
        if target is operator.getitem:
            container, index = node.args
            return values[container][index]  # type: ignore[index]
        arguments = map_structure(node.args, lambda n: values[n])
        keywords = {k: map_structure(v, lambda n: values[n]) for k, v in node.kwargs.items()}
        if isinstance(target, torch._ops.OpOverload):
            return self._overload(node, target, arguments, keywords, values, block, location)
        if target in ARITHMETIC:
            if target is builtins.round and list(arguments[1:]) not in ([], [None]):
                return self._opaque(node, values, block, "numbers are not rounded to digits at run time")
            numbers = [a for a in arguments if a is not None]  # ``round(x)`` is recorded as ``round(x, None)``
            return self._arithmetic(ARITHMETIC[target], numbers, block)
        if isinstance(target, torch._ops.HigherOrderOperator):
            if definition(target) is not None:
                return self._expanded(node, target, values, block)
            return self._higher_order(node, target, arguments, keywords, block)
        return self._opaque(node, values, block, called(target))

    # --- operators --------------------------------------------------------------------------------------------------

    def _overload(
        self,
        node: fx.Node,
        target: torch._ops.OpOverload,
        arguments: Sequence[Value],
        keywords: Mapping[str, Value],
        values: dict[fx.Node, Value],
        block: Block,
        location: LocationAttr,
    ) -> Value:
        name = str(target)
        if name in _DROPPED:
            return None
        if name == _OF_ASSIGNED_DATA:
            raise E0413.error(
                "torch.export does not record that 'data' of a tensor is assigned, so the program would go on with "
                "what the tensor held before",
                source_location(location),
                help="assign the variable (y = z), or copy the contents: y.copy_(z)",
            )
        with_format = with_memory_format(name, keywords)
        if isinstance(with_format, str):
            return self._opaque(node, values, block, with_format)
        if with_format is not None:
            target, keywords = with_format
            name = str(target)
        if not node.users and gives_numbers(target):
            return None
        known = known_numbers(node.meta.get("val"), target)
        if known is not None:
            return known
        if definition(target) is not None:
            return self._expanded(node, target, values, block)
        dtypes = [v for v in flatten([*arguments, *keywords.values()]) if isinstance(v, torch.dtype)]
        if any(dtype not in ELEMENT_TYPES for dtype in dtypes):
            return self._opaque(node, values, block, f"no .pte has elements of {' or '.join(map(str, dtypes))}")
        if name == INNER_TENSOR:
            return self._inner_tensor(arguments[0], str(arguments[1]), block)
        if name in CHECKS:
            return check(name, arguments, keywords, block)
        if name == "aten._assert_scalar.default":
            condition = arguments[0]
            if isinstance(condition, SSAValue):
                block.add_op(AssertOp(condition, str(arguments[1])))
            return None
        if self._with_layouts and name in STORAGE_COPIES:
            made = without_storage_copy(node, name, arguments, keywords, block)
            if made is not None:
                return made
        if name in SHAPE_OPERATORS:
            numbers = shape_numbers(name, node, arguments[0], block)
            return numbers if numbers is not None else self._opaque(node, values, block, "it reads dynamic strides")
        cls = self._class_of(target, name)
        schema = cls.SCHEMA
        given: dict[str, ArgValue] = {}
        for argument, value in zip(schema.arguments, arguments, strict=False):
            given[argument.name] = value
        given.update(keywords)
        for argument in schema.arguments:
            if argument.name not in given:
                continue
            value = given[argument.name]
            if argument.kind in (Kind.DEVICE, Kind.LAYOUT, Kind.GENERATOR) or argument.name in ("pin_memory",):
                # Everything is on the CPU, dense and unpinned here; anything else shows in the result's metadata.
                if argument.kind is Kind.DEVICE and not (argument.has_default or argument.optional):
                    given[argument.name] = "cpu"
                else:
                    del given[argument.name]
                continue
            given[argument.name] = literal(value, block)
        outputs = flat_outputs(node.meta["val"]) if schema.returns or node.meta["val"] is not None else []
        keep_order = name in _KEEPS_ORDER
        empty = no_tensor(given) if any(r.is_tensor for r in schema.returns) else None
        types = [output_type(v, keep_order) if v is not None or empty is None else empty for v in outputs]
        try:
            op = cls.make(given, types)
        except TypeError as error:
            operands = [v for v in flatten(list(given.values())) if isinstance(v, SSAValue)]
            op = OpaqueOp(name, operands, types, str(error))
        block.add_op(op)
        check_results(op, schema, given, block)
        if self._with_layouts and (orders := dim_orders(node, schema, outputs)) is not None:
            op.attributes[DIM_ORDERS] = orders
        if name in STORAGE_VIEWS:
            record_layout(op, node)
        results = [None if v is None and empty is not None else r for v, r in zip(outputs, op.results, strict=True)]
        return restore(node.meta["val"], iter(results)) if outputs else None

    def _expanded(self, node: fx.Node, target: Operator, values: dict[fx.Node, Value], block: Block) -> Value:
        """An operator of ``prims`` as the operators of ATen that torch runs for it."""
        given = ((n, values[n]) for n in node.all_input_nodes)
        found = expansion(node, target, {n: v for n, v in given if isinstance(v, fx.GraphModule)})
        if isinstance(found, str):
            return self._opaque(node, values, block, found)
        graph, inputs = found
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        made: dict[fx.Node, Value] = dict(zip(placeholders, [values[n] for n in inputs], strict=True))
        outputs = flatten([self.run(graph, made, block)])
        return restore(node.meta["val"], iter(outputs)) if node.meta["val"] is not None else None

    def _inner_tensor(self, outer: Value, name: str, block: Block) -> Value:
        """A part of a weight that is several tensors in one: it stands for itself until a part of it is plain."""
        assert isinstance(outer, WrappedTensor)
        inner: torch.Tensor = getattr(outer.tensor, name)
        path = f"{outer.name}.{name}"
        if is_traceable_wrapper_subclass(inner):
            return WrappedTensor(path, cast(torch.Tensor, inner))
        assert self._constant is not None
        op = self._constant(inner, path)
        block.add_op(op)
        return op.results[0]

    def _class_of(self, target: torch._ops.OpOverload, name: str) -> type[AtenOp]:
        if name in load_table():
            return aten_op(name)
        schema = self.schemas.get(name)
        if schema is None:
            packet = target._overloadpacket
            for overload in packet.overloads():
                sibling = parse_schema(str(getattr(packet, overload)._schema))
                self.schemas[sibling.op_name] = sibling
            # torch may not know of the kernels' form of an operator that it defines in Python.
            for sibling in kernel_forms(self.schemas[name]):
                self.schemas.setdefault(sibling.op_name, sibling)
            schema = self.schemas[name]
        return custom_op(schema)

    def _arithmetic(self, name: str, arguments: Sequence[Value], block: Block) -> Value:
        operands = [as_number(value, block) for value in arguments]
        op = ARITHMETIC_OPS[name](operands)
        block.add_op(op)
        return op.result

    def _opaque(self, node: fx.Node, values: dict[fx.Node, Value], block: Block, reason: str) -> Value:
        operands = [values[n] for n in node.all_input_nodes if isinstance(values.get(n), SSAValue)]
        value = node.meta.get("val")
        types = [output_type(v, False) for v in flat_outputs(value)]
        op = OpaqueOp(target_name(plain_operator(node.target)), operands, types, reason)
        block.add_op(op)
        return restore(value, iter(op.results))

    def _attribute(self, graph_module: fx.GraphModule, target: str, block: Block) -> Value:
        value: Any = graph_module
        for part in target.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor) and self._constant is not None:
            op = self._constant(value, target)
            block.add_op(op)
            return op.results[0]
        return value

    # --- control flow -----------------------------------------------------------------------------------------------

    def _higher_order(
        self,
        node: fx.Node,
        target: torch._ops.HigherOrderOperator,
        arguments: Sequence[Value],
        keywords: Mapping[str, Value],
        block: Block,
    ) -> Value:
        name = target.name()
        value = node.meta.get("val")
        types = [output_type(v, False) for v in flat_outputs(value)]
        padded: tuple[Any, ...] = (*arguments, (), ())
        if name == "cond":
            predicate, true_graph, false_graph, operands = padded[:4]
            regions = [self._region(graph, operands, types) for graph in (true_graph, false_graph)]
            op: Operation = CondOp(as_number(predicate, block), types, *regions)
        elif name == "while_loop":
            condition, body, carried, extra = padded[:4]
            inits = [as_number(v, block) for v in carried]
            carried_types = [v.type for v in inits]
            op = WhileOp(
                inits,
                self._loop_region(condition, carried_types, extra, None),
                self._loop_region(body, carried_types, extra, carried_types),
            )
        elif name in ("map_impl", "scan"):
            op = self._scan(name, arguments, block, types)
        elif name == CALL and self._lowered is not None:
            op = self._delegate_call(node, arguments, types, block)
        elif name.startswith("wrap_with_") or name in ("wrap", "invoke_subgraph", "strict_mode"):
            return self._inline(arguments, keywords, block)
        elif name == "hints_wrapper":
            return self._inline(arguments[:2], {}, block)
        else:
            operands = [v for v in flatten(list(arguments)) if isinstance(v, SSAValue)]
            op = OpaqueOp(f"higher_order.{name}", operands, types, "an unsupported higher-order operator")
        block.add_op(op)
        return restore(value, iter(op.results))

    def _delegate_call(
        self, node: fx.Node, arguments: Sequence[Value], types: Sequence[Attribute], block: Block
    ) -> Operation:
        """A call of a blob, which is handed tensors in the memory formats that it was made for."""
        assert self._lowered is not None
        module, inputs = node.args[0], node.args[1:]
        operands: list[SSAValue] = []
        for argument, value in zip(inputs, arguments[1:], strict=True):
            operand = as_number(value, block)
            memory_format = memory_format_of(argument.meta.get("val")) if isinstance(argument, fx.Node) else None
            if memory_format is not None:
                type = type_of_tensor(argument.meta["val"], keep_order=True)  # type: ignore[union-attr]
                copy = aten.clone.default.make(
                    {"self": operand, "memory_format": MEMORY_FORMATS[memory_format]}, [type]
                )
                block.add_op(copy)
                operand = copy.results[0]
            operands.append(operand)
        given = [
            type_of_tensor(v, keep_order=True) if isinstance(v, torch.Tensor) else t
            for v, t in zip(flat_outputs(node.meta["val"]), types, strict=True)
        ]
        name = module.name if isinstance(module, fx.Node) else CALL
        return CallDelegateOp(self._lowered(arguments[0], name), arguments[0].backend_id, operands, given)

    def _scan(self, name: str, arguments: Sequence[Value], block: Block, types: list[Attribute]) -> Operation:
        if name == "map_impl":
            body, inputs, extra = arguments
            inits: Sequence[Value] = ()
        else:
            padded: tuple[Any, ...] = (*arguments, ())
            body, inits, inputs, extra = padded[:4]
        init_values = [as_number(v, block) for v in inits]
        input_values = [as_number(v, block) for v in inputs]
        placeholders = [n for n in body.graph.nodes if n.op == "placeholder"]
        argument_types = [v.type for v in init_values]
        argument_types += [type_of_value(n.meta["val"]) for n in placeholders[len(inits) : len(inits) + len(inputs)]]
        carried = [v.type for v in init_values]
        slices = [tensor_type(t.element_type, dims_of(t)[1:]) if isinstance(t, TensorType) else t for t in types]
        results = [*carried, *slices[len(carried) :]]
        return ScanOp(init_values, input_values, types, self._loop_region(body, argument_types, extra, results))

    def _inline(self, arguments: Sequence[Value], keywords: Mapping[str, Value], block: Block) -> Value:
        position = next(i for i, a in enumerate(arguments) if isinstance(a, fx.GraphModule))
        graph = arguments[position]
        operands = arguments[position + 1 :]
        if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
            operands = operands[0]
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        operands = [v for v in operands if not isinstance(v, str)][-len(placeholders) or len(operands) :]
        return self.run(graph, dict(zip(placeholders, operands, strict=True)), block)

    def _region(self, graph: fx.GraphModule, operands: Sequence[Value], types: Sequence[Attribute]) -> Region:
        """A region that sees the values around it: the graph's placeholders are bound to them."""
        block = Block()
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        outputs = self.run(graph, dict(zip(placeholders, operands, strict=True)), block)
        _yield(block, outputs, types)
        return Region(block)

    def _loop_region(
        self,
        graph: fx.GraphModule,
        types: Sequence[Attribute],
        extra: Sequence[Value],
        results: Sequence[Attribute] | None,
    ) -> Region:
        """A region with one argument for each of ``types``; the placeholders after them are bound to ``extra``."""
        block = Block(arg_types=types)
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        values: dict[fx.Node, Value] = dict(zip(placeholders, [*block.args, *extra], strict=True))
        for node, argument in zip(placeholders, block.args, strict=False):
            if SSAValue.is_valid_name(node.name):
                argument.name_hint = node.name
        outputs = self.run(graph, values, block)
        _yield(block, outputs, results)
        return Region(block)


def _yield(block: Block, outputs: Value, types: Sequence[Attribute] | None) -> None:
    flat = flatten([outputs])
    if types is not None and len(flat) != len(types):
        flat = [v for v in flat if v is not None]
    values = [as_number(v, block) for v in flat]
    if types is not None and len(values) == len(types):
        values = [_in_order(_as_it_was(v, type, block), type, block) for v, type in zip(values, types, strict=True)]
    block.add_op(YieldOp(values))


def _as_it_was(value: SSAValue, type: Attribute, block: Block) -> SSAValue:
    """A result of the block with the type that the program around it has for it.

    torch records one tensor for what a body returns and for what the loop gives: an in-place operator after the loop
    that changes a shape (`unsqueeze_`) seems to have changed it in the body, too.
    """
    owner, recorded = value.owner, value.type
    if not isinstance(recorded, TensorType) or not isinstance(type, TensorType) or owner.parent is not block:
        return value
    if recorded.element_type != type.element_type or not (is_static(recorded) and is_static(type)):
        return value
    if dims_of(recorded) == dims_of(type) or math.prod(recorded.get_shape()) != math.prod(type.get_shape()):
        return value
    return Rewriter.replace_value_with_new_type(value, tensor_type(type.element_type, dims_of(type)))


def _in_order(value: SSAValue, type: Attribute, block: Block) -> SSAValue:
    """A value that leaves the block in the dim order that it has outside: a copy where they differ.

    A region hands out its results in one layout; an input of the program that it returns may have another.
    """
    own = value.type
    if not isinstance(own, TensorType) or not isinstance(type, TensorType) or own.get_num_dims() != type.get_num_dims():
        return value
    if order_of(own) == order_of(type) or order_of(type) != tuple(range(type.get_num_dims())):
        return value
    plain = tensor_type(own.element_type, dims_of(own))
    copy = aten.clone.default.make({"self": value, "memory_format": "contiguous"}, [plain])
    block.add_op(copy)
    return copy.results[0]
