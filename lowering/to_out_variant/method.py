"""Lower one method: values become definitions in the entry block, operators become calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, TensorType, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import SymbolTable

from etir.backends.api.delegate_arguments import safe_pairs
from etir.diagnostics import Diagnostic, SourceLocation
from etir.dialects.aten import ops as aten
from etir.dialects.aten.opaque import operator_of
from etir.dialects.backend.ops import CallDelegateOp, ViewOp
from etir.dialects.context import EtContext
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp
from etir.dialects.dtypes import dtype_of, f64, i1, ui8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.arguments import OPERAND
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp, InputsOp, MoveOp
from etir.dialects.et.layout import Dim, dims_of, is_static, order_of, tensor_type
from etir.dialects.et.origin import handed_on, of_result
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.program import (
    ConstantOp,
    GetWeightOp,
    NoneOp,
    NoneType,
    ReadStateOp,
    StringOp,
    UpdateInputOp,
    WriteStateOp,
)
from etir.dialects.et.values import SIZES, BufferOp, ScalarOp
from etir.dialects.et.workspace import workspace_of
from etir.dialects.literals import scalar_of
from etir.dialects.signatures import EXAMPLE
from etir.dialects.sym import expr as sym_expr
from etir.dialects.sym.ops import ArithmeticOp, AssertOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0417
from etir.lowering.to_out_variant.bounds import LARGEST, MOST_PLANNED, oversized, unbounded_dim
from etir.lowering.to_out_variant.calls import (
    PRIMITIVES,
    ArgumentList,
    add_argument,
    copy_call,
    kernel_call,
    primitive_call,
)
from etir.lowering.to_out_variant.constants import ConstantPool
from etir.lowering.to_out_variant.control_flow import lower_cond, lower_scan, lower_while
from etir.lowering.to_out_variant.in_place import (
    InPlace,
)
from etir.lowering.to_out_variant.input_checks import Form, InputChecks
from etir.lowering.to_out_variant.outputs import find_destinations, lower_return, save_old_outputs, store
from etir.lowering.to_out_variant.packing import packing_of
from etir.lowering.to_out_variant.places import dynamism, is_dynamic, root_of
from etir.lowering.to_out_variant.views import lower_view, sizes_text

Ranges = dict[str, tuple[int, int | None]]


class MethodLowering:
    """Lowers one ``func.func`` to an ``et.method``.

    ``missing`` collects operators without an out variant, ``problems`` everything else that cannot be lowered;
    ``plan_inputs`` False leaves the memory of all inputs to the caller, ``allocate`` that of tensors without a bound.
    """

    def __init__(
        self,
        ctx: EtContext,
        func: FuncOp,
        ranges: Ranges,
        constants: ConstantPool,
        missing: dict[str, list[EdgeOp]],
        problems: list[Diagnostic],
        *,
        plan_inputs: bool,
        plan_outputs: bool,
        checks: Form = "none",
        allocate: bool = False,
    ):
        self.ctx = ctx
        self.func = func
        self.ranges = ranges
        self.constants = constants
        self.missing = missing
        self.problems = problems
        self.plan_inputs = plan_inputs
        self.plan_outputs = plan_outputs
        self.allocate = allocate
        self.definitions: list[Operation] = []
        self.blocks: list[Block] = [Block()]
        self.values: dict[SSAValue, SSAValue] = {}
        self.destinations: dict[SSAValue, SSAValue] = {}
        self.weights: dict[str, SSAValue] = {}
        self.states: dict[str, SSAValue] = {}
        self.inputs: dict[SSAValue, SSAValue] = {}
        """Where the caller's values are; in ``values``, an argument may stand for a copy of what was there at first."""
        self.unbounded: dict[str, None] = {}
        self.workspaces: dict[str, list[SSAValue]] = {}
        self.places: dict[SSAValue, int] = {}
        """Where delegates in the branches of a condition have its results in their workspaces."""
        self.checks = InputChecks(self, checks)

    def run(self) -> MethodOp:
        """Lower the whole method."""
        block = self.func.body.block
        inputs = [self._input(argument, index) for index, argument in enumerate(block.args)]
        find_destinations(self, block)
        entry = self.blocks[0]
        self.emit(InputsOp(inputs), self.func)
        self.checks.sizes()
        self.lower_block(block)
        region = Region(self.blocks)
        first = entry.first_op
        assert first is not None
        for definition in self.definitions:
            entry.insert_op_before(definition, first)
        in_spec, out_spec = packing_of(self.func)
        method = MethodOp(self.func.sym_name.data, region, in_spec=in_spec, out_spec=out_spec)
        method.location = self.func.location
        for name in ("et.input_names", "et.output_names"):
            if name in self.func.attributes:
                method.attributes[name] = self.func.attributes[name]
        return method

    # --- values -----------------------------------------------------------------------------------------------------

    def define(self, op: Any, source: Operation | SSAValue | None = None) -> SSAValue:
        """Add the definition of a value, with the location and name of what it stands for."""
        self.definitions.append(op)
        if isinstance(source, Operation):
            op.location = handed_on(source.location)
        elif isinstance(source, SSAValue):
            owner = source.owner
            place = owner.location if isinstance(owner, Operation) else cast(BlockArgument, source).location
            op.location = of_result(place, source.index if isinstance(source, OpResult) else 0)
            op.results[0].name_hint = source.name_hint
        return op.results[0]

    def bounded(self, type: Attribute, source: SSAValue) -> tuple[Attribute, str | None]:
        """The static type of upper bounds, and ``"bound"`` when the type is dynamic; ``"unbound"``, and 0 in the place
        of dynamic sizes, for what is to be allocated at run time.
        """
        assert isinstance(type, TensorType)
        dims = dims_of(type)
        if is_static(type):
            size = math.prod(cast("tuple[int, ...]", dims)) * dtype_of(type.element_type).itemsize
            if size >= LARGEST:
                self.problems.append(oversized(source, size, self.func, self._location(source)))
            return type, None
        highest = [dim if isinstance(dim, int) else sym_expr.bounds(dim, self.ranges)[1] for dim in dims]
        known = [size for size in highest if size is not None]
        size = math.prod(max(n, 0) for n in known) * dtype_of(type.element_type).itemsize
        if len(known) < len(dims) or size > MOST_PLANNED:
            if self.allocate:
                return tensor_type(type.element_type, [d if isinstance(d, int) else 0 for d in dims], order_of(type)), (
                    "unbound"
                )
            if len(known) == len(dims):
                self.problems.append(oversized(source, size, self.func, self._location(source)))
                highest = [1] * len(dims)
        bounded = [self._unbounded(d, source) if n is None else max(n, 0) for d, n in zip(dims, highest, strict=True)]
        return tensor_type(type.element_type, bounded, order_of(type)), "bound"

    def _unbounded(self, dim: Dim, source: SSAValue) -> int:
        """Report the symbols without a bound of a dim; the size to go on with."""
        if isinstance(dim, int):
            return dim
        for name in dim.symbols:
            if self.ranges.get(name, (0, None))[1] is None and name not in self.unbounded:
                self.unbounded[name] = None
                self.problems.append(unbounded_dim(name, dim, source, self.func, self._location(source)))
        return 1

    def _location(self, source: SSAValue) -> SourceLocation | None:
        """The line of a value. An input has none of its own: the first operation that reads it does."""
        owner = source.owner
        ops = [owner] if isinstance(owner, Operation) else [u for u in self.func.walk() if source in u.operands]
        places = [place for op in ops if (place := source_location(op.location)) is not None]
        return places[0] if places else None

    def buffer(self, source: SSAValue, **options: Any) -> SSAValue:
        """A new buffer for a tensor value."""
        type, dynamic = self.bounded(source.type, source)
        op = BufferOp(type, dynamic=dynamic, **options)
        if dynamic == "bound":
            op.attributes[SIZES] = sizes_text(source.type)
        return self.define(op, source)

    def scalar(self, source: SSAValue, value: bool | float = 0) -> SSAValue:
        """A slot for a number."""
        if source.type == i1:
            value = bool(value)
        elif source.type == f64:
            value = float(value)
        return self.define(ScalarOp(value), source)

    def _input(self, argument: BlockArgument, index: int) -> SSAValue:
        attributes = self.func.arg_attrs.data[index].data if self.func.arg_attrs is not None else {}
        value = attributes.get("et.value")
        if isinstance(argument.type, TensorType):
            updated = any(isinstance(use.operation, UpdateInputOp) and use.index == 0 for use in argument.uses)
            lowered = self.buffer(argument, caller=updated or not self.plan_inputs)
        elif isinstance(argument.type, NoneType):
            lowered = self.define(NoneOp(), argument)
        elif isinstance(value, StringAttr):
            lowered = self.define(StringOp(value.data), argument)
        else:
            value = attributes.get(EXAMPLE) if value is None else value
            lowered = self.scalar(argument, 0 if value is None else cast(Any, scalar_of(value)))
        self.values[argument] = self.inputs[argument] = lowered
        return lowered

    def lower(self, value: SSAValue) -> SSAValue:
        """The executable value that stands for ``value``; literals get a slot when they are needed as values."""
        known = self.values.get(value)
        if known is None:
            raise KeyError(f"%{value.name_hint} has no value at the executable level")
        return known

    def literal_or_value(self, value: SSAValue) -> object:
        """A number that is a constant as a literal, anything else as a value."""
        if isinstance(value.owner, SymConstantOp):
            return scalar_of(value.owner.value)
        return self.lower(value)

    # --- instructions -----------------------------------------------------------------------------------------------

    def emit(self, op: Operation, source: Operation) -> None:
        """Append an instruction to the current block, with the location of ``source``."""
        if isinstance(op.location, UnknownLoc):
            op.location = handed_on(source.location)
        self.blocks[-1].add_op(op)

    def copy(self, target: SSAValue, source: SSAValue, op: Operation) -> None:
        """Copy ``source`` to ``target`` unless they are the same value or have no elements; numbers are moved."""
        if target is source or _is_empty(target):
            return
        if isinstance(target.type, TensorType):
            self.emit(copy_call(target, source, dynamic=is_dynamic(target) or is_dynamic(source)), op)
        else:
            self.emit(MoveOp(source, target), op)

    def copy_all(self, pairs: Sequence[tuple[SSAValue, SSAValue]], op: Operation) -> None:
        """Copy several (target, source) pairs as if at once: a source that is another pair's target is saved first."""
        pending = [(t, s) for t, s in pairs if t is not s]
        targets = [root_of(t) for t, _ in pending]
        saved: list[tuple[SSAValue, SSAValue]] = []
        for target, source in pending:
            overwritten = [t for t in targets if t is root_of(source) and t is not root_of(target)]
            if overwritten and isinstance(source.type, TensorType):
                temporary = self.define(BufferOp(source.type, dynamic=dynamism(source)), op)
                self.copy(temporary, source, op)
                source = temporary
            elif overwritten:
                temporary = self.scalar(source)
                self.copy(temporary, source, op)
                source = temporary
            saved.append((target, source))
        for target, source in saved:
            self.copy(target, source, op)

    # --- operations -------------------------------------------------------------------------------------------------

    def lower_block(self, block: Block) -> None:
        """Lower the operations of a block into the current one; terminators of regions are their parents' business."""
        stores: list[WriteStateOp | UpdateInputOp] = []
        for op in block.ops:
            if isinstance(op, (WriteStateOp, UpdateInputOp)):
                stores.append(op)
                continue
            if isinstance(op, FuncReturnOp):
                save_old_outputs(self, block, op)
                store(self, stores)
            self.lower_operation(op)

    def lower_operation(self, op: Operation) -> None:
        """Lower one operation."""
        match op:
            case EdgeOp():
                self._operator(op)
            case GetWeightOp():
                self.values[op.result] = self._weight(op.symbol.root_reference.data, op.result)
            case ConstantOp():
                self.values[op.result] = self._weight(self.constants.symbol(op), op.result)
            case ReadStateOp():
                self.values[op.result] = self.state(op.symbol.root_reference.data, op.result)
            case ViewOp():
                self.values[op.result] = lower_view(self, op)
            case SymConstantOp():
                if any(not isinstance(use.operation, (EdgeOp, ArithmeticOp)) for use in op.result.uses):
                    self.values[op.result] = self.scalar(op.result, cast(Any, scalar_of(op.value)))
            case ArithmeticOp():
                self._arithmetic(op)
            case NoneOp():
                self.values[op.result] = self.define(NoneOp(), op.result)
            case StringOp():
                self.values[op.result] = self.define(StringOp(op.value.data), op.result)
            case CondOp():
                lower_cond(self, op)
            case WhileOp():
                lower_while(self, op)
            case ScanOp():
                lower_scan(self, op)
            case CallDelegateOp():
                self._delegate(op)
            case FuncReturnOp():
                lower_return(self, op)
            case AssertOp():
                self.checks.assertion(op)
            case _:
                if op.results:
                    self._refuse(op, "has no form at the executable level")

    def _refuse(self, op: Operation, why: str) -> None:
        problem = E0417.diagnostic(f"'{op.name}' {why}", source_location(op.location))
        self.problems.append(problem.about(operator_of(op)))
        for result in op.results:
            if isinstance(result.type, TensorType):
                self.values[result] = self.buffer(result)
            else:
                self.values[result] = self.scalar(result)

    def _weight(self, symbol: str, source: SSAValue) -> SSAValue:
        value = self.weights.get(symbol)
        if value is None:
            value = self.weights[symbol] = self.define(GetWeightOp(symbol, source.type), source)
        return value

    def state(self, symbol: str, source: SSAValue) -> SSAValue:
        value = self.states.get(symbol)
        if value is None:
            value = self.states[symbol] = self.buffer(source, state=symbol)
            if isinstance(value.owner, Operation):  # What it holds changes: it stands for no one value.
                value.owner.location = handed_on(value.owner.location)
        return value

    def result_buffer(self, result: SSAValue) -> SSAValue:
        """The buffer that a result is written to: its destination, or one of its own."""
        known = self.destinations.get(result)
        return self.buffer(result) if known is None else known

    def _operator(self, op: EdgeOp) -> None:
        name = op.SCHEMA.op_name
        if name in PRIMITIVES:
            result = self.scalar(op.results[0])
            values = [self.literal_or_value(v) if isinstance(v, SSAValue) else v for v in op.args().values()]
            self.emit(primitive_call(PRIMITIVES[name], values, result), op)
            self.values[op.results[0]] = result
            return
        given = {k: self._argument(v) for k, v in op.args().items()}
        in_place = self._in_place(op)
        if in_place is not None:
            self.emit(in_place, op)
            return
        schema = self.ctx.out_variant(op.SCHEMA)
        if schema is None:
            self.missing.setdefault(op.name, []).append(op)
            self._placeholders(op)
            return
        outs: list[SSAValue | None] = []
        for result in op.results:
            if isinstance(result.type, TensorType):
                lowered = self.result_buffer(result)
                self.values[result] = lowered
                outs.append(lowered)
            else:
                self.values[result] = self.define(NoneOp(), result)
                outs.append(None)
        try:
            self.emit(kernel_call(schema, given, outs, lambda v: v), op)
        except TypeError as error:
            self._refuse(op, str(error))

    def _placeholders(self, op: Operation) -> None:
        for result in op.results:
            self.values[result] = self.buffer(result) if isinstance(result.type, TensorType) else self.scalar(result)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, SSAValue):
            return self.literal_or_value(value)
        if isinstance(value, tuple):
            return tuple(self._argument(v) for v in value)
        return value

    def _in_place(self, op: EdgeOp) -> CallOp | None:
        result = op.results[0] if op.results else None
        target = None if result is None else self.destinations.get(result)
        if result is None or target is None or not isinstance(op, InPlace) or self.values.get(op.self_) is not target:
            return None
        schema = aten.index_put_.default.SCHEMA
        arguments = ArgumentList.empty()
        for argument in schema.arguments:
            add_argument(arguments, argument, self._argument(op.arg(argument.name)), lambda v: v)
        self.values[result] = target
        return arguments.call(schema.qualified_name, (OPERAND,), [target])

    def _arithmetic(self, op: ArithmeticOp) -> None:
        kernel = PRIMITIVES.get(op.name)
        arguments = [self.literal_or_value(v) for v in op.arguments]
        result = self.scalar(op.result)
        self.values[op.result] = result
        if kernel is not None:
            self.emit(primitive_call(kernel, arguments, result), op)
        elif op.name == "sym.ne":
            equal = self.define(ScalarOp(False), op)
            self.emit(primitive_call(PRIMITIVES["sym.eq"], arguments, equal), op)
            self.emit(primitive_call(PRIMITIVES["sym.not"], [equal], result), op)
        elif op.name in ("sym.and", "sym.or"):
            # a and b is b if a else false; a or b is true if a else b
            first, second = arguments
            chosen = [first, second, False] if op.name == "sym.and" else [first, True, second]
            self.emit(primitive_call(PRIMITIVES["sym.ite"], chosen, result), op)
        else:
            self._refuse(op, "has no primitive operator at run time")

    def _delegate(self, op: CallDelegateOp) -> None:
        outs = []
        for result in op.outputs:
            lowered = self.result_buffer(result) if isinstance(result.type, TensorType) else self.scalar(result)
            self.values[result] = lowered
            outs.append(lowered)
        operands = [self.lower(v) for v in op.arguments]
        name = op.callee.root_reference.data
        if name not in self.workspaces:
            self.workspaces[name] = self._workspace(op)
        arguments = [*operands, *outs, *self.workspaces[name]]
        self.emit(DelegateCallOp(name, (OPERAND,) * len(arguments), arguments), op)

    def written_over(self, op: CallDelegateOp) -> list[tuple[int, int]]:
        """The inputs and outputs of a delegate that may be one memory."""
        delegate = self._called(op)
        return [] if delegate is None else [*safe_pairs(delegate)]

    def place_within(self, value: SSAValue) -> int | None:
        """Where a delegate has one of its results in its workspace; None if it is apart from that."""
        call = cast(CallDelegateOp, value.owner)
        delegate = self._called(call)
        workspace = None if delegate is None else workspace_of(delegate.compile_specs)
        return None if workspace is None else workspace.outputs[call.outputs.index(value)]

    def _called(self, op: CallDelegateOp) -> DelegateOp | None:
        module = self.func.parent_op()
        delegate = None if module is None else SymbolTable.lookup_symbol(module, op.callee)
        return delegate if isinstance(delegate, DelegateOp) else None

    def _workspace(self, op: CallDelegateOp) -> list[SSAValue]:
        """The buffer that a delegate works in, one for all of its calls; nothing for most delegates."""
        delegate = self._called(op)
        found = None if delegate is None else workspace_of(delegate.compile_specs)
        return [] if found is None else [self.define(BufferOp(tensor_type(ui8, [found.size])), op)]


def _is_empty(value: SSAValue) -> bool:
    """Whether a buffer has no elements in any run: what is allocated at run time has 0 where no bound is known."""
    owner = value.owner
    if not isinstance(owner, BufferOp) or owner.dynamic is not None or owner.is_allocated:
        return False
    return isinstance(value.type, TensorType) and 0 in dims_of(value.type)
