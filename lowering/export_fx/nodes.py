"""Operations as FX nodes.

:class:`GraphExporter` walks one block and builds the nodes of one graph, each with what torch computes for it on
FakeTensors. ``control.py`` uses it again for regions.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings
from xdsl.dialects.builtin import FunctionType, LocationAttr, NameLoc, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from etir.diagnostics import Diagnostic, EtirError
from etir.dialects.backend.ops import CallDelegateOp, ViewOp
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of
from etir.dialects.et.origin import origins_in, plain
from etir.dialects.et.program import NoneOp, StringOp, UpdateInputOp, WriteStateOp
from etir.dialects.literals import scalar_of
from etir.dialects.schema import Kind, OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.ops import ArithmeticOp, AssertOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0407
from etir.lowering.export_fx.sizes import Sizes
from etir.lowering.export_fx.targets import AtenTargets
from etir.lowering.import_fx.types import MEMORY_FORMATS, TORCH_DTYPES

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "sym.add": operator.add,
    "sym.sub": operator.sub,
    "sym.mul": operator.mul,
    "sym.floordiv": operator.floordiv,
    "sym.truediv": operator.truediv,
    "sym.mod": operator.mod,
    "sym.pow": operator.pow,
    "sym.eq": operator.eq,
    "sym.ne": operator.ne,
    "sym.lt": operator.lt,
    "sym.le": operator.le,
    "sym.gt": operator.gt,
    "sym.ge": operator.ge,
    "sym.and": operator.and_,
    "sym.or": operator.or_,
    "sym.neg": operator.neg,
    "sym.abs": operator.abs,
    "sym.min": torch.sym_min,
    "sym.max": torch.sym_max,
    "sym.not": torch.sym_not,
    "sym.to_float": torch.sym_float,
    "sym.to_int": torch.sym_int,
    "sym.ite": torch.sym_ite,
    "sym.sqrt": torch.sym_sqrt,
    "sym.ceil": math.ceil,
    "sym.floor": math.floor,
    "sym.trunc": math.trunc,
    "sym.round": builtins.round,
}
"""Arithmetic on sizes as the functions that ``torch.export`` writes; ``import_fx`` reads them."""

_RESHAPES = ("aten.view.default", "aten.view_copy.default")
"""What torch computes for some strides only, and the text for all."""

FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, ZeroDivisionError)
"""What torch raises when an operator does not take a call."""

Value = Any
"""What a value of the text is in a graph: a node, or a number, a string or None that stands for itself."""


ControlExporter: TypeAlias = "Callable[[GraphExporter, CondOp | WhileOp | ScanOp], Sequence[Value]]"
"""Gives the results of an operation with regions: ``control.export_control``, which makes exporters of regions."""


class GraphExporter:
    """Builds the nodes of one graph. ``values`` has what the block's values are, ``operations`` which operation a node
    stands for, ``stores`` the operations that store at the end, ``root`` the subgraphs of control flow, for which
    ``control`` makes the nodes.
    """

    def __init__(
        self,
        sizes: Sizes,
        targets: AtenTargets,
        symbols: Mapping[str, Operation],
        problems: list[Diagnostic],
        control: ControlExporter,
    ):
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self.sizes = sizes
        self.targets = targets
        self.symbols = symbols
        self.problems = problems
        self.control = control
        self.values: dict[SSAValue, Value] = {}
        self.operations: dict[fx.Node, Operation] = {}
        self.stores: list[WriteStateOp | UpdateInputOp] = []
        self.numbers: dict[Operation, fx.Node] = {}
        """The constant tensors that stand for a number in a call, where the dialect wants them."""
        self._inputs: dict[str, None] = {}

    def block(self, block: Block) -> list[Value]:
        """Export the operations of a block that ``values`` does not have yet; returns what its terminator gives."""
        for op in block.ops:
            if op.has_trait(IsTerminator) or isinstance(op, FuncReturnOp):
                return [self.values.get(v) for v in op.operands]
            if all(r in self.values for r in op.results) and op.results:
                continue
            try:
                with self.sizes.mode, enable_python_dispatcher():
                    results = self._results(op)
            except EtirError as error:
                self.problems.extend(d.at(source_location(op.location)) for d in error.diagnostics)
                results = [None] * len(op.results)
            except FAILURES as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                self.problems.append(E0407.diagnostic(f"'{op.name}': {reason}", source_location(op.location)))
                results = [None] * len(op.results)
            self.values.update(zip(op.results, results, strict=True))
        return []

    def placeholder(self, name: str, value: Any) -> fx.Node:
        """An input of the graph; ``value`` is its FakeTensor or number."""
        wanted, count = legal_name(name), 0
        name = wanted
        while name in self._inputs:
            count += 1
            name = f"{wanted}_{count}"
        self._inputs[name] = None
        node = self.graph.placeholder(name)
        # The graph renames what Python has a function for (input, max); as an argument it is what the caller calls it.
        node.name = node.target = name
        node.meta["val"] = value
        return node

    def fake(self, value: Value) -> Any:
        """What torch computes with in place of a node."""
        return value.meta["val"] if isinstance(value, fx.Node) else value

    def call(self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], op: Operation) -> fx.Node:
        """A node that calls ``function``, and what torch computes for it."""
        given = fx.map_arg((tuple(arguments), dict(keywords)), self.fake)
        value = function(*given[0], **given[1])
        return self.node(function, arguments, keywords, op, value)

    def node(
        self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], op: Operation, value: Any
    ) -> fx.Node:
        """A node that calls ``function`` and gives ``value``."""
        hint = next((r.name_hint for r in op.results if r.name_hint), None)
        name = legal_name(hint) if hint else None
        node = self.graph.create_node("call_function", function, tuple(arguments), dict(keywords), name=name)
        node.meta["val"] = value
        bindings = compute_unbacked_bindings(self.sizes.shape_env, value)
        if bindings:
            node.meta["unbacked_bindings"] = bindings
        node.meta.update(origin(op.location))
        self.operations[node] = op
        return node

    # --- operations -------------------------------------------------------------------------------------------------

    def _results(self, op: Operation) -> Sequence[Value]:
        match op:
            case SchemaOp():
                return self._operator(op)
            case SymConstantOp():
                return [scalar_of(op.value)]
            case ArithmeticOp():
                return [self.call(ARITHMETIC[op.name], [self.values[a] for a in op.arguments], {}, op)]
            case NoneOp():
                return [None]
            case StringOp():
                return [op.value.data]
            case AssertOp():
                condition = self.values[op.condition]
                if isinstance(condition, fx.Node):
                    self.node(torch.ops.aten._assert_scalar.default, [condition, op.message.data], {}, op, None)
                return []
            case WriteStateOp() | UpdateInputOp():
                self.stores.append(op)
                return []
            case ViewOp():
                return [self._view(op)]
            case CallDelegateOp():
                return self._inline(op)
            case CondOp() | WhileOp() | ScanOp():
                return self.control(self, op)
            case _:
                reason = op.attributes.get("reason")
                why = f": {reason.data}" if isinstance(reason, StringAttr) else ""
                raise E0407.error(f"'{op.name}' has no form in torch{why}")

    def _operator(self, op: SchemaOp) -> Sequence[Value]:
        schema = op.SCHEMA
        given = op.given_args()
        if op in self.numbers and (found := self.targets.as_tensor(op)) is not None:
            schema, name, _ = found
            given = {"self": given["self"], name: self.numbers[op]}
        function = self.targets.find(schema)
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        last = max((i for i, a in enumerate(schema.arguments) if a.name in given and not a.kwarg_only), default=-1)
        for position, argument in enumerate(schema.arguments):
            if argument.kwarg_only:
                if argument.name in given:
                    keywords[argument.name] = self._argument(schema, argument.name, given[argument.name])
            elif position <= last or not argument.has_default:
                value = given.get(argument.name, argument.default if argument.has_default else None)
                arguments.append(self._argument(schema, argument.name, value))
        keywords = self.targets.keywords(schema, keywords)
        try:
            node = self.call(function, arguments, keywords, op)
        except FAILURES:
            if schema.op_name not in _RESHAPES:
                raise
            copy, how = self.targets.in_default_order(self.fake(arguments[0]).dim())
            arguments[0] = self.call(copy, [arguments[0]], how, op)
            node = self.call(function, arguments, keywords, op)
        return self.results(op, node)

    def results(self, op: Operation, node: fx.Node) -> Sequence[Value]:
        """The values of an operation's results, from the node that computes all of them."""
        value = node.meta["val"]
        if not isinstance(value, (tuple, list)):
            if len(op.results) != 1:
                raise E0407.error(f"torch gives one result for '{op.name}', the text has {len(op.results)}")
            self._check(op, op.results[0].type, value)
            return [node]
        if len(value) != len(op.results):
            raise E0407.error(f"torch gives {len(value)} results for '{op.name}', the text has {len(op.results)}")
        found: list[Value] = []
        for index, (result, item) in enumerate(zip(op.results, value, strict=True)):
            if item is None or result.first_use is None:
                found.append(None)
                continue
            self._check(op, result.type, item)
            part = self.graph.call_function(operator.getitem, (node, index))
            part.meta.update(node.meta, val=item)
            part.meta.pop("unbacked_bindings", None)
            self.operations[part] = op
            found.append(part)
        return found

    def _check(self, op: Operation, type: Attribute, value: Any) -> None:
        """Compare what torch says of a result with the text, and learn the sizes that come from data."""
        if not isinstance(type, TensorType):
            return
        if not isinstance(value, torch.Tensor):
            raise E0407.error(f"torch gives a {value.__class__.__name__} for '{op.name}', the text {type}")
        shape = dims_of(type)
        same = len(shape) == value.dim() and all(
            not isinstance(d, int) or not isinstance(s, int) or d == s for d, s in zip(shape, value.shape, strict=False)
        )
        if not same or TORCH_DTYPES.get(type.element_type) != value.dtype:
            sizes = ", ".join(map(str, value.shape))
            raise E0407.error(f"torch gives [{sizes}] of {value.dtype} for '{op.name}', the text {type}")
        self.sizes.bind(type, value)

    def _argument(self, schema: OpSchema, name: str, value: Any) -> Any:
        if isinstance(value, SSAValue):
            return self.values[value]
        if isinstance(value, fx.Node):
            return value
        if isinstance(value, (tuple, list)):
            return [self._argument(schema, name, v) for v in value]
        kind = schema.arguments[schema.index[name]].kind
        if kind is Kind.DTYPE and isinstance(value, Attribute):
            return TORCH_DTYPES[value]
        if kind is Kind.MEMORY_FORMAT and isinstance(value, str):
            return {word: format for format, word in MEMORY_FORMATS.items()}[value]
        if kind is Kind.DEVICE and value is not None:
            return torch.device("cpu")
        return None if kind is Kind.LAYOUT else value

    def _view(self, op: ViewOp) -> fx.Node:
        """A view of bytes as the copies that it stands for: flat, the part, the shape."""
        assert isinstance(op.result.type, TensorType)
        named = [self.values[v] for v in op.sizes]
        dims = dims_of(op.result.type)
        sizes = [d if isinstance(d, int) else named.pop(0) if named else -1 for d in dims]
        reshape = self.targets.find(edge.aten.view_copy.default.SCHEMA)
        base = self.values[op.base]
        part = self.targets.find(edge.aten.slice_copy.Tensor.SCHEMA)
        if op.reinterprets:
            # A dtype of another width scales the last dim: flat, as bytes, any part is one of whole elements.
            element = op.result.type.element_type
            count = math.prod(op.result.type.get_shape()) * dtype_of(element).itemsize
            cast = self.targets.find(edge.aten.view_copy.dtype.SCHEMA)
            base = self.call(reshape, [base, [-1]], {}, op)
            base = self.call(cast, [base, torch.uint8], {}, op)
            base = self.call(part, [base, 0, op.byte_offset, op.byte_offset + count], {}, op)
            base = self.call(cast, [base, TORCH_DTYPES[element]], {}, op)
            return self.call(reshape, [base, sizes], {}, op)
        offset = op.element_offset
        count = math.prod(d for d in dims if isinstance(d, int))
        if offset or (all(isinstance(d, int) for d in dims) and self.fake(base).numel() != count):
            base = self.call(reshape, [base, [-1]], {}, op)
            base = self.call(part, [base, 0, offset, offset + count], {}, op)
        return self.call(reshape, [base, sizes], {}, op)

    def _inline(self, op: CallDelegateOp) -> Sequence[Value]:
        callee = self.symbols.get(op.callee.root_reference.data)
        if not isinstance(callee, FuncOp):
            raise E0407.error(f"delegate @{op.callee.root_reference.data} is a blob, which torch cannot run")
        block = callee.body.block
        self.values.update(zip(block.args, (self.values[a] for a in op.arguments), strict=True))
        return self.block(block)


def legal_name(name: str) -> str:
    """``name`` as a name that a graph can have."""
    found = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return found if found and not found[0].isdigit() else f"_{found}"


ORIGINS = "etir_origins"
"""In a node's metadata: the origins of the operation, where it has any."""


def origin(location: Attribute) -> dict[str, Any]:
    """What a node's metadata says of where it comes from: source line and module path."""
    found: dict[str, Any] = {}
    if (origins := origins_in(location)) is not None:
        found[ORIGINS] = origins.numbers
    location = plain(location) if isinstance(location, LocationAttr) else location
    place = source_location(location) if isinstance(location, LocationAttr) else None
    if place is not None and place.line:
        found["stack_trace"] = f'  File "{place.file}", line {place.line}, in forward\n'
    if isinstance(location, NameLoc) and location.desc.data:
        path = location.desc.data
        found["nn_module_stack"] = {path: (path, "torch.nn.modules.module.Module")}
    return found


def result_types(func: FuncOp) -> tuple[Attribute, ...]:
    """The types of a method's results."""
    assert isinstance(func.function_type, FunctionType)
    return tuple(func.function_type.outputs.data)
