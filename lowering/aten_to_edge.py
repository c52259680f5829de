"""`aten-to-edge`: functional ATen becomes the edge level.

Before::

    %1 = aten.add.Tensor(%x, 1.5) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %2 = aten.view.default(%1, size = [16]) : (tensor<2x8xf32>) -> tensor<16xf32>

After::

    %1 = edge.aten.add.Scalar(%x, other = 1.5) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %2 = edge.aten.view_copy.default(%1, size = [16]) : (tensor<2x8xf32>) -> tensor<16xf32>

One walk, in order: views become copies, operators that give their argument back disappear, numbers that do not fit
beside integers wrap around, numbers in tensor slots become the overload that takes a scalar or a 0-d constant, memory
formats become explicit dim orders, and a dim order that the user asked for is carried through the operators whose
kernels keep it (elsewhere a copy to the contiguous order is inserted). What has no place at the edge level is collected
and reported in one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.aten.base import AtenOp
from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.aten.table import load_table
from etir.dialects.context import EtContext
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, YieldOp
from etir.dialects.dtypes import dtype_of, f32, f64, i1, i64
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp, edge_class, edge_op
from etir.dialects.edge.rules import (
    IDENTITIES,
    ORDER_KEEPING,
    copy_form,
    is_pointwise,
    scalar_form,
)
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_of, tensor_type
from etir.dialects.et.origin import give_marks, handed_on
from etir.dialects.et.program import ConstantOp, UpdateInputOp, WriteStateOp
from etir.dialects.literals import ArgValue
from etir.dialects.schema import SchemaKind
from etir.dialects.text import source_location
from etir.lowering.build.promotion import FLOATING, INTEGER, category_of, common_type, scalar_type_of
from etir.lowering.errors import E0410, E0414
from etir.lowering.numbers_that_wrap import wrapped
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

_DROPPED_ARGUMENTS = ("layout", "device", "pin_memory")


@register_pass
@dataclass(frozen=True)
class AtenToEdgePass(Pass):
    """Lower functional ATen to the edge level: copies for views, explicit dim order, no numbers in tensor slots."""

    name = "aten-to-edge"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with every operator that has no place at the edge level (E0410, E0414)."""
        problems: list[Diagnostic] = []
        for method in methods(module):
            lowering = _Lowering(problems)
            lowering.block(method.body.block)
            problems += lowering.unsupported()
            last = method.body.block.last_op
            if isinstance(last, ReturnOp):
                method.function_type = FunctionType.from_lists(
                    [a.type for a in method.body.block.args], [v.type for v in last.arguments]
                )
        raise_if_errors(problems)


class _Lowering:
    def __init__(self, problems: list[Diagnostic]):
        self.problems = problems
        self.opaque: dict[tuple[str, str], list[OpaqueOp]] = {}

    def unsupported(self) -> list[Diagnostic]:
        """One problem for each operator that was imported without a meaning, with the number of its uses."""
        found: list[Diagnostic] = []
        for (name, reason), ops in self.opaque.items():
            count = "" if len(ops) == 1 else f" ({len(ops)} uses, this is the first)"
            place = source_location(ops[0].location)
            found.append(E0410.diagnostic(f"'{name}' is not supported: {reason}{count}", place).about(name))
        return found

    def refuse(self, op: AtenOp, why: str) -> None:
        """Note an operator that has no place at the edge level."""
        problem = E0414.diagnostic(f"'{op.name}' {why}", source_location(op.location))
        self.problems.append(problem.about(op.SCHEMA.op_name))

    def block(self, block: Block) -> None:
        """Lower every operation of a block and of the regions inside it."""
        for op in list(block.ops):
            if isinstance(op, AtenOp):
                self.operator(op)
                continue
            if isinstance(op, OpaqueOp):
                self.opaque.setdefault((op.target.data, str(op.attributes.get("reason"))), []).append(op)
            if isinstance(op, (WhileOp, ScanOp)):
                for index, argument in enumerate(op.regions[-1].block.args):
                    op.operands[index] = self.in_order(op.operands[index], _order(argument.type), op)
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
            if isinstance(op, UpdateInputOp) and isinstance(op.input.type, TensorType):
                # The caller's tensor is where the value goes: a copy of it would be changed instead.
                op.operands[1] = self.in_order(op.value, order_of(op.input.type), op)
            elif isinstance(op, WriteStateOp):
                op.operands[0] = self.in_order(op.operands[0], None, op)  # state is contiguous
            elif isinstance(op, YieldOp):
                for index, order in enumerate(_result_orders(op)):
                    op.operands[index] = self.in_order(op.operands[index], order, op)

    def operator(self, op: AtenOp) -> None:
        """Lower one operator."""
        name = op.SCHEMA.op_name
        if name in IDENTITIES:
            _replace(op, [op.operands[0]])
            return
        if op.SCHEMA.kind is not SchemaKind.FUNCTIONAL:
            self.refuse(op, "writes its arguments (E1): run functionalize first")
            return
        arguments = wrapped(op, op.given_args())
        if name in _MEMORY_FORMAT_OPS:
            self.memory_format(op, arguments)
            return
        for dropped in _DROPPED_ARGUMENTS:
            arguments.pop(dropped, None)
        copied = copy_form(name)
        if copied is not None:
            # The copying form may call an argument something else (reshape's shape is view's size).
            target = load_table().get(copied)
            assert target is not None
            positions = op.SCHEMA.index
            arguments = {target.arguments[positions[k]].name: v for k, v in arguments.items()}
            name = copied
        elif op.SCHEMA.is_view:
            self.refuse(op, "is a view without a copying form (E2)")
            return
        arguments.pop("memory_format", None)
        name = self.scalars(op, name, arguments)
        order = self.orders(op, name, arguments)
        cls = edge_op(name) if name in load_table() else edge_class(op.SCHEMA)
        types = [with_order(r.type, order) for r in op.results]
        self.emit(op, cls, arguments, types)

    def emit(
        self, op: AtenOp, cls: type[EdgeOp], arguments: Mapping[str, ArgValue], types: Sequence[Attribute]
    ) -> None:
        """Replace ``op`` by an edge operator."""
        new = cls.make(arguments, types, location=op.location)
        new.attributes.update(op.attributes)
        Rewriter.insert_op(new, InsertPoint.before(op))
        _replace(op, new.results)

    # --- numbers in tensor slots (E3) -------------------------------------------------------------------------------

    def scalars(self, op: AtenOp, name: str, arguments: dict[str, ArgValue]) -> str:
        """Rewrite scalars in tensor slots; returns the overload to use."""
        promotes = name.startswith("aten.add.") and _promotes(op)
        if promotes:
            name = "aten.add.Tensor"
        schema = load_table().get(name) or op.SCHEMA
        for argument in schema.arguments:
            value = arguments.get(argument.name)
            if not argument.is_tensor or argument.is_list or value is None:
                continue
            is_number = not isinstance(value, SSAValue) or not isinstance(value.type, TensorType)
            if not is_number:
                continue
            scalar = None if promotes else scalar_form(name, argument.name)
            if scalar is not None:
                name = scalar
            elif isinstance(value, SSAValue):
                new = edge.aten.scalar_tensor.default.make(
                    {"s": value, "dtype": value.type}, [tensor_type(value.type, ())], location=handed_on(op.location)
                )
                Rewriter.insert_op(new, InsertPoint.before(op))
                arguments[argument.name] = new.results[0]
            else:
                arguments[argument.name] = self.constant(op, cast(Any, value))
        return name

    def constant(self, op: AtenOp, value: bool | float) -> SSAValue:
        """A 0-d constant: int64, bool, or float32 (float64 beside a float64 tensor, so that no digit is lost).

        Beside tensors that are 0-d themselves it has their type: as a tensor it would take part in promotion as they
        do, and a scalar does not.
        """
        element: Attribute | None = _type_of_scalars(op, value)
        if element is not None:
            pass
        elif isinstance(value, bool):
            element = i1
        elif isinstance(value, int):
            element = i64
        else:
            doubles = [v for v in op.operands if isinstance(v.type, TensorType) and v.type.element_type == f64]
            element = f64 if doubles else f32
        number = value if isinstance(element, IntegerType) else float(value)
        attribute = DenseIntOrFPElementsAttr.from_list(TensorType(element, []), [number])  # type: ignore[arg-type]
        new = ConstantOp(attribute)
        new.location = handed_on(op.location)
        Rewriter.insert_op(new, InsertPoint.before(op))
        return new.result

    # --- dim order (E4) ---------------------------------------------------------------------------------------------

    def orders(self, op: AtenOp, name: str, arguments: dict[str, ArgValue]) -> tuple[int, ...] | None:
        """Make the tensor arguments agree on a dim order; returns that of the result (None: contiguous)."""
        orders = {
            order_of(value.type): None
            for value in op.operands
            if isinstance(value.type, TensorType) and not is_contiguous(value.type)
        }
        if not orders:
            return None
        order = next(iter(orders))
        ranks = [value.type.get_num_dims() for value in op.operands if isinstance(value.type, TensorType)]
        keeps = len(orders) == 1 and (is_pointwise(name) or name in ORDER_KEEPING)
        if keeps and is_pointwise(name):
            keeps = all(rank == len(order) for rank in ranks)
        wanted = order if keeps else None
        for argument in op.SCHEMA.arguments:
            value = arguments.get(argument.name)
            if not argument.is_tensor or value is None:
                continue
            if argument.is_list:
                arguments[argument.name] = [
                    self.in_order(v, wanted, op) if isinstance(v, SSAValue) else v for v in cast(Sequence[Any], value)
                ]
            elif isinstance(value, SSAValue):
                arguments[argument.name] = self.in_order(value, wanted, op)
        return wanted

    def in_order(self, value: SSAValue, order: tuple[int, ...] | None, op: Operation) -> SSAValue:
        """``value`` in a dim order, through a copy before ``op`` when it is in another one."""
        if not isinstance(value.type, TensorType):
            return value
        type = value.type
        if order is not None and len(order) != type.get_num_dims():
            order = None
        wanted = tensor_type(type.element_type, dims_of(type), order)
        if wanted == type:
            return value
        new = edge.dim_order_ops._to_dim_order_copy.default.make(
            {"self": value, "dim_order": list(order_of(wanted))}, [wanted], location=handed_on(op.location)
        )
        Rewriter.insert_op(new, InsertPoint.before(op))
        return new.results[0]

    def memory_format(self, op: AtenOp, arguments: dict[str, ArgValue]) -> None:
        """``_to_copy``, ``clone``, ``contiguous`` and ``empty`` with their memory format as a dim order."""
        result = tensor_of(op.results[0])
        rank = result.get_num_dims()
        value = arguments.get("self")
        if value is not None and not (isinstance(value, SSAValue) and isinstance(value.type, TensorType)):
            # A scalar, as traced gradients have them.
            given: dict[str, ArgValue] = {"size": [], "fill_value": value, "dtype": result.element_type}
            self.emit(op, edge.aten.full.default, given, [result])
            return
        default = "contiguous" if op.SCHEMA.name in ("contiguous", "empty") else "preserve"
        word = arguments.get("memory_format") or default
        source = op.operands[0] if op.operands and op.SCHEMA.arguments[0].is_tensor else None
        if word == "preserve" and source is not None:
            order = order_of(tensor_of(source))
        elif word in ("channels_last", "channels_last_3d"):
            order = (0, *range(2, rank), 1)
        else:
            order = tuple(range(rank))
        type = tensor_type(result.element_type, dims_of(result), order)
        if source is not None and source.type == type:
            _replace(op, [source])
            return
        dim_order = list(order)
        if op.SCHEMA.name == "empty":
            cls = edge.dim_order_ops._empty_dim_order.default
            self.emit(op, cls, {"size": arguments["size"], "dtype": type.element_type, "dim_order": dim_order}, [type])
            return
        given = {"self": source, "dim_order": dim_order}
        assert source is not None and isinstance(source.type, TensorType)
        if source.type.element_type != type.element_type:
            given["dtype"] = type.element_type
        self.emit(op, edge.dim_order_ops._to_dim_order_copy.default, given, [type])


_MEMORY_FORMAT_OPS = frozenset(
    {"aten._to_copy.default", "aten.clone.default", "aten.contiguous.default", "aten.empty.memory_format"}
)


def _order(type: Attribute) -> tuple[int, ...] | None:
    return order_of(type) if isinstance(type, TensorType) else None


def _result_orders(op: YieldOp) -> list[tuple[int, ...] | None]:
    """The dim orders that what is around a region declares for what it yields: contiguous for slices of a result."""
    parent = op.parent_op()
    types: Sequence[Attribute] = ()
    if isinstance(parent, CondOp):
        types = parent.outputs.types
    elif isinstance(parent, WhileOp):
        types = parent.outputs.types if op.parent is parent.body.block else ()
    elif isinstance(parent, ScanOp):
        types = parent.outputs.types[: len(parent.inits)]
    orders = [_order(type) for type in types]
    return [*orders, *[None] * (len(op.operands) - len(orders))]


def with_order(type: Attribute, order: tuple[int, ...] | None) -> Attribute:
    """A result type with a dim order, where the rank fits."""
    if not isinstance(type, TensorType):
        return type
    dtype_of(type.element_type)
    return tensor_type(
        type.element_type, dims_of(type), order if order is not None and len(order) == type.get_num_dims() else None
    )


def _type_of_scalars(op: AtenOp, value: bool | float) -> Attribute | None:
    """The common element type of the other operands when all are 0-d and ``value`` does not change it."""
    types = [
        v.type
        for argument in op.SCHEMA.arguments
        if argument.is_tensor and not argument.is_list and argument.name != "condition"
        if isinstance(v := op.arg(argument.name), SSAValue) and isinstance(v.type, TensorType)
    ]
    if not types or any(type.get_num_dims() for type in types):
        return None
    try:
        common = common_type([type.element_type for type in types])
        changed = category_of(scalar_type_of(value)) > category_of(common)
    except (TypeError, KeyError):
        return None
    if changed or category_of(common) not in (INTEGER, FLOATING):
        return None
    if isinstance(common, IntegerType):
        bits, signed = common.width.data, common.signedness.data is not Signedness.UNSIGNED
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
        return common if low <= value < high else None
    return common


def _promotes(op: Operation) -> bool:
    """Whether an addition's scalar is of a higher category than its tensor, which kernels of ``add.Scalar`` refuse."""
    types = [v.type.element_type for v in (*op.operands[:1], *op.results) if isinstance(v.type, TensorType)]
    return len(types) == 2 and types[0] != types[1]


def _replace(op: Operation, values: Sequence[SSAValue]) -> None:
    for old, new in zip(op.results, values, strict=True):
        if new.name_hint is None and old.name_hint is not None:
            new.name_hint = old.name_hint
        give_marks(old, new)
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
