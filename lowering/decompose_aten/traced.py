"""Decomposition by tracing: what has no hand-written pattern runs through torch's own decomposition.

The operator is called on fake tensors of the operand types, symbolic dims included, while ``make_fx`` records what
torch makes of it; the recorded graph becomes operations. Only this one operator is decomposed, one step deep: what
comes out of it meets the hand-written patterns again. Graphs are cached by operator, operand types and literals,
because a network repeats its layers.

A decomposition that asks about a size makes the graph valid for some sizes only. Questions that the declared ranges
answer are harmless; any other one is an error, never a silently specialized program.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from etir.diagnostics import Diagnostic, EtirError
from etir.dialects.aten.table import load_table
from etir.dialects.dtypes import BY_TYPE, i64
from etir.dialects.et.layout import Dim, dims_of, order_of, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import SymExpr, symbol
from etir.dialects.text import source_location
from etir.lowering.build.builder import Builder, declared_ranges, is_tensor
from etir.lowering.build.sizes import dim_of
from etir.lowering.decompose_aten.decomposition import OperatorPattern, replace, take_back
from etir.lowering.decompose_aten.formulas import formulas
from etir.lowering.decompose_aten.legality import is_legal
from etir.lowering.decompose_aten.preserved import PreservedOps
from etir.lowering.decompose_aten.size_facts import RELATIONS, Fact, choose_sizes, known_facts, range_of
from etir.lowering.errors import E0411, E0412
from etir.lowering.functionalize.storage_reads import as_copies
from etir.passes.infra.rewriting import PatternRewriter

if TYPE_CHECKING:
    from torch.fx import GraphModule

MAX_CACHED = 1024
"""Graphs that are kept; the oldest one goes first."""

Ranges = Mapping[str, tuple[int, int | None]]


@dataclass(frozen=True)
class Traced:
    """A recorded graph, and what its symbols are called in the program."""

    graph: GraphModule
    symbols: Mapping[str, SymExpr]


_cache: dict[object, Traced] = {}


class TraceDecomposition(OperatorPattern):
    """Any operator that may not stay; ``problems`` collects, by operation, why some could not be traced."""

    name = "trace"

    def __init__(self, preserved: PreservedOps, only: Sequence[str], problems: dict[Operation, Diagnostic]):
        super().__init__(_candidates(), preserved, problems)
        self.only = only
        self._ranges: Ranges | None = None
        self._facts: tuple[Fact, ...] = ()

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace ``op`` by what torch's decomposition of it does."""
        assert self.preserved is not None
        if is_legal(op, self.preserved) or not isinstance(op, SchemaOp) or (self.only and op.name not in self.only):
            return
        if op in self.problems:
            return  # A hand-written pattern knows that it must not be decomposed.
        place = source_location(op.location)
        if importlib.util.find_spec("torch") is None:
            self.problems[op] = E0411.diagnostic(f"'{op.name}' has no decomposition of etir's own", place)
            return
        if self._ranges is None:
            self._ranges = declared_ranges(op)
            self._facts = known_facts(op)
        try:
            traced = trace(op, self._ranges, self._facts)
        except EtirError as error:
            self.problems[op] = error.diagnostics[0].at(place)
            return
        if traced is None:
            rewriter.notify_match_failure("torch has no decomposition for it")
            return
        b = Builder(rewriter)
        try:
            replace(b, op, import_graph(b, op, traced), self.name)
        except EtirError as error:
            what = f"torch's decomposition of '{op.name}' gives other results than the operator"
            self.problems[op] = E0412.diagnostic(f"{what}: {error.diagnostics[0].message}", place)
            take_back(rewriter)


@cache
def _candidates() -> tuple[str, ...]:
    """The operators of ATen that are not core: all that there may be something to do for."""
    table = load_table()
    return tuple(name for name in table if name.startswith("aten.") and "c" not in table.flags(name))


# --- recording --------------------------------------------------------------------------------------------------------


def trace(op: SchemaOp, ranges: Ranges, facts: Sequence[Fact] = ()) -> Traced | None:
    """What torch's decomposition does for the types and literals of ``op``; None when torch has none.

    Raises E0412 when the decomposition cannot be recorded, or only for some of the sizes in ``ranges`` for which
    ``facts`` hold.
    """
    inputs = _run_time_inputs(op)
    numbers = tuple(str(dim_of(v)) for v in inputs if not is_tensor(v))
    literals = tuple(sorted(op.properties.items()))
    names = {name for v in inputs for name in _symbols(v)}
    facts = [fact for fact in facts if names.issuperset(fact.symbols)]
    key = (op.name, tuple(v.type for v in inputs), literals, numbers, tuple(sorted(ranges.items())), tuple(facts))
    traced = _cache.get(key)
    if traced is None:
        traced = _record(op, inputs, ranges, facts)
        if traced is None:
            return None
        if len(_cache) >= MAX_CACHED:
            del _cache[next(iter(_cache))]
        _cache[key] = traced
    return traced


def _run_time_inputs(op: SchemaOp) -> list[SSAValue]:
    return list(op.operands)


def _symbols(value: SSAValue) -> list[str]:
    """The symbols of a tensor's dims, or of a number."""
    dims = dims_of(value.type) if isinstance(value.type, TensorType) else (dim_of(value),)
    return [name for d in dims if isinstance(d, SymExpr) for name in d.symbols]


def _record(op: SchemaOp, inputs: Sequence[SSAValue], ranges: Ranges, facts: Sequence[Fact]) -> Traced | None:
    import torch
    from torch._decomp import decomposition_table
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses import FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    from etir.lowering.import_fx.checks import FACTORIZATION
    from etir.lowering.import_fx.prims import definitions

    overload = _overload(op)
    # A composite operator decomposes itself; the table's functions may end in another set (prims).
    target: Callable[..., Any] | None = formulas().get(op.name)
    if target is None:
        target = overload if overload._can_decompose() else decomposition_table.get(overload)
    if target is None:
        return None
    sizes = _SymbolicSizes(ranges, choose_sizes([name for v in inputs for name in _symbols(v)], ranges, facts))
    mode = FakeTensorMode(shape_env=sizes.environment, allow_non_fake_inputs=True)
    try:
        fakes = [sizes.fake(v, mode) for v in inputs]
        sizes.assume(facts)
        with warnings.catch_warnings(), torch.no_grad(), enable_python_dispatcher(), _without_effects():
            warnings.simplefilter("ignore")
            function = dispatch_functionalize(_caller(op, target), FunctionalTensorMode())
            graph = make_fx(function, decomposition_table=definitions())(*fakes)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, LookupError) as error:
        first_line = str(error).strip().split("\n")[0]
        raise E0412.error(f"torch's decomposition of '{op.name}' stops: {first_line}") from error
    sizes.check(op, graph)
    graph.graph.eliminate_dead_code(lambda node: node.is_impure() or str(node.target) == FACTORIZATION)
    for node in graph.graph.nodes:
        if node.target is overload:
            return None  # It is as simple as it gets: torch only has another name for it.
    return Traced(graph, sizes.names())


@contextmanager
def _without_effects() -> Iterator[None]:
    """Checks of data inside decompositions are operators like others: the import makes assertions of them."""
    from torch._higher_order_ops.effects import _register_effectful_op

    handle = _register_effectful_op("aten::_linalg_check_errors", None)
    try:
        yield
    finally:
        handle.destroy()


def _overload(op: SchemaOp) -> Any:
    import torch

    schema = op.SCHEMA
    return getattr(getattr(getattr(torch.ops, schema.namespace), schema.name), schema.overload or "default")


def _caller(op: SchemaOp, target: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the runtime inputs that calls ``target`` with the literals of the operator."""
    from etir.lowering.import_fx.types import MEMORY_FORMATS, TORCH_DTYPES

    formats = {word: memory_format for memory_format, word in MEMORY_FORMATS.items()}

    def call(*inputs: Any) -> Any:
        values = iter(inputs)

        def plain(name: str, value: Any) -> Any:
            if isinstance(value, SSAValue):
                return next(values)
            if isinstance(value, tuple):
                return [plain(name, item) for item in value]
            if isinstance(value, Attribute):
                return TORCH_DTYPES[value]
            return formats[value] if name == "memory_format" and value is not None else value

        given = op.given_args()
        arguments = [a for a in op.SCHEMA.arguments if a.name in given]
        # Parameters of Python decompositions have other names than the schema's: all but keyword-only ones by position.
        needed = [a for a in op.SCHEMA.arguments if a.name in given or not a.has_default]
        last = max((op.SCHEMA.index[a.name] for a in needed if not a.kwarg_only), default=-1)
        values_by_name = op.args()
        positional = [plain(a.name, values_by_name[a.name]) for a in op.SCHEMA.arguments[: last + 1]]
        result = target(*positional, **{a.name: plain(a.name, given[a.name]) for a in arguments if a.kwarg_only})
        if result is NotImplemented:
            raise NotImplementedError("it does not take these arguments")
        return result

    return call


class _SymbolicSizes:
    """The symbols of the operand types as torch's: a hint inside of the declared range, and that range."""

    def __init__(self, ranges: Ranges, hints: Mapping[str, int]):
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.environment = ShapeEnv()
        self.ranges = ranges
        self.hints = hints
        self.known = 0
        self.sizes: dict[str, Any] = {}

    def size(self, name: str) -> Any:
        """The torch size for a symbol; dims of size 0 and 1 are constants, as in ``torch.export``."""
        if name not in self.sizes:
            from torch._dynamo.source import ConstantSource
            from torch.fx.experimental.symbolic_shapes import DimDynamic, StrictMinMaxConstraint
            from torch.utils._sympy.value_ranges import ValueRanges

            low, high = range_of(name, self.ranges)
            hint = self.hints[name]
            source = ConstantSource(f"__{name}")
            constraint = StrictMinMaxConstraint(vr=ValueRanges(low, high), warn_only=False)
            made = self.environment.create_symbol(
                hint, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=constraint
            )
            self.sizes[name] = self.environment.create_symintnode(made, hint=hint, source=source)
        return self.sizes[name]

    def evaluate(self, dim: Dim) -> Any:
        """A dim as an int or a torch size."""
        from etir.lowering.torch_sizes import torch_size

        return torch_size(dim, self.size)

    def fake(self, value: SSAValue, mode: Any) -> Any:
        """A fake tensor, or a symbolic number, of the type of a value. Raises ``ValueError`` for other numbers."""
        import torch

        from etir.lowering.import_fx.types import TORCH_DTYPES

        if not isinstance(value.type, TensorType):
            dim = dim_of(value)
            if value.type != i64 or dim is None:
                raise ValueError("an argument is a runtime scalar")
            return self.evaluate(dim)
        sizes = [self.evaluate(d) for d in dims_of(value.type)]
        order = order_of(value.type)
        with mode:
            made = torch.empty([sizes[d] for d in order], dtype=TORCH_DTYPES[value.type.element_type])
            return made.permute([order.index(d) for d in range(len(order))])

    def assume(self, facts: Sequence[Fact]) -> None:
        """Let torch know what holds for the sizes, so that it does not ask for it."""
        for fact in facts:
            if fact.holds(self.hints):
                bool(RELATIONS[fact.relation](self.evaluate(fact.left), self.evaluate(fact.right)))
        self.known = len(self.environment.guards)

    def check(self, op: SchemaOp, graph: GraphModule) -> None:
        """Raise E0412 when the graph is not valid for all sizes, or has sizes that are no function of the inputs'."""
        import sympy
        import torch
        from torch.utils._sympy.value_ranges import ValueRanges

        from etir.lowering.decompose_aten.size_proofs import always_holds

        names = self._torch_names()
        # Not those of the environment, which every question narrows down.
        ranges = {s.node.expr: ValueRanges(*range_of(name, self.ranges)) for name, s in self.sizes.items()}
        for guard in self.environment.guards[self.known :]:
            asked = guard.expr
            if always_holds(asked, ranges):
                continue
            ours = {s: sympy.Symbol(names.get(str(s), str(s))) for s in asked.free_symbols}
            raise E0412.error(f"torch's decomposition of '{op.name}' is only valid for {asked.xreplace(ours)}")
        for node in graph.graph.nodes:
            value = node.meta.get("val")
            for item in value if isinstance(value, (list, tuple)) else (value,):
                sizes = item.shape if isinstance(item, torch.Tensor) else (item,)
                expressions = [size.node.expr for size in sizes if isinstance(size, torch.SymInt)]
                if any(str(s) not in names for expression in expressions for s in expression.free_symbols):
                    raise E0412.error(f"torch's decomposition of '{op.name}' has a size that depends on data")

    def _torch_names(self) -> dict[str, str]:
        return {str(size.node.expr): name for name, size in self.sizes.items()}

    def names(self) -> dict[str, SymExpr]:
        """The program's symbols by torch's names."""
        return {made: symbol(name) for made, name in self._torch_names().items()}


# --- importing --------------------------------------------------------------------------------------------------------


def import_graph(b: Builder, op: SchemaOp, traced: Traced) -> list[SSAValue | None]:
    """Build the recorded graph before ``op``, and give what it outputs."""
    from etir.lowering.import_fx.nodes import NodeImporter
    from etir.lowering.import_fx.structures import as_number, flatten

    graph = traced.graph
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    values: dict[Any, Any] = dict(zip(placeholders, _run_time_inputs(op), strict=True))
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            values[node] = _constant(b, getattr(graph, str(node.target)))
    _check_storage(op, graph)
    block = Block()
    outputs = NodeImporter().run(graph, values, block)
    results = [v if v is None else as_number(v, block) for v in flatten([outputs])]
    copies = as_copies(list(block.ops))
    results = [v if v is None else copies.get(v, v) for v in results]
    for made in list(block.ops):
        made.detach()
        made.location = op.location
        b.insert(made)
        for value in list(made.results):
            renamed = _renamed(value.type, traced.symbols)
            if renamed != value.type:
                new = Rewriter.replace_value_with_new_type(value, renamed)
                results = [new if r is value else r for r in results]
    return results


def _check_storage(op: SchemaOp, graph: Any) -> None:
    """Raise E0412 for ``as_strided`` of a view: in a program without storage it takes elements in row-major order."""
    import torch

    from etir.lowering.import_fx.layouts import is_whole_storage

    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.as_strided.default and not is_whole_storage(node.args[0].meta["val"]):
            raise E0412.error(f"torch's decomposition of '{op.name}' reads the storage of a view")


def _renamed(type: Attribute, symbols: Mapping[str, SymExpr]) -> Attribute:
    """The type with the program's symbols."""
    if not isinstance(type, TensorType):
        return type
    dims = [d.substitute(symbols) if isinstance(d, SymExpr) else d for d in dims_of(type)]
    return tensor_type(type.element_type, dims, order_of(type))


def _constant(b: Builder, tensor: Any) -> SSAValue:
    """A tensor that the graph holds. Raises E0412 for one without elements of its own, as ``vmap`` makes."""
    import torch

    from etir.lowering.import_fx.types import ELEMENT_TYPES

    element = ELEMENT_TYPES[tensor.dtype]
    narrow = BY_TYPE[element].numpy_name is None
    try:
        elements = (tensor.detach().to(torch.float32) if narrow else tensor.detach()).numpy()
    except RuntimeError as error:
        first_line = str(error).split("\n")[0]
        raise E0412.error(f"torch's decomposition has a constant without elements: {first_line}") from error
    value = b.constant(elements, ELEMENT_TYPES[torch.float32] if narrow else element)
    value = value if tensor.dim() else b.view(value, [])  # a constant has one dim at least
    return b.cast(value, element) if narrow else value
