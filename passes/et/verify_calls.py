"""`verify-calls`: the instructions of a method do what its text says, on the runtime that the file is for.

What the pipeline makes is right by construction; text that somebody edited, or that came from another file, is not. For
every instruction this pass asks what the runtimes do not ask, or ask by ending the process:

* there is such a kernel, and it takes tensors of these dtypes, dim orders and ranks (the link check, on the calls);
* its arguments are as many as the schema has, each of the kind that stands there, and the result slot is what it
  writes;
* the sizes of what it writes follow from the sizes of what it reads, where there is a rule for the operator;
* it writes no constant, no two results into the same bytes, and into none that it reads, except element by element;
* what it reads, something before it can have written.

`verify-plan` checks where the bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.errors import E0308, E0309
from etir.dialects.et.arguments import ListArg
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, InputsOp, MoveOp
from etir.dialects.et.layout import dims_of, order_of
from etir.dialects.et.program import GetWeightOp, SchemaDeclOp, StateOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.schema import Kind, OpSchema, SchemaKind
from etir.dialects.text import source_location
from etir.emit.formats.scalar_type import ScalarType
from etir.lowering.build.dims import OperandError
from etir.lowering.build.inference import has_rule, infer, is_pointwise
from etir.passes.analysis.call_arguments import BoundArgument, BoundCall, argument_problems, bind
from etir.passes.analysis.memory_effects import schema_of_kernel, storage_of
from etir.passes.analysis.uninitialized import overlap, uninitialized_reads
from etir.passes.et.call_rules import FORMATS, functional_of, given_for_rule
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.targets.errors import E0603, E0604, E0605
from etir.targets.manifest import KernelEntry, Manifest, available, load

_NUMBERS: dict[str, type] = {"i64": int, "f64": float, "i1": bool}


@register_pass
@dataclass(frozen=True)
class VerifyCallsPass(Pass):
    """Check every instruction against the schema and the kernel that it calls.

    ``target`` names the manifest, empty for any target: a call that none of them takes is an error. ``libraries`` are
    kernel libraries that are linked besides those the target always has.
    """

    name = "verify-calls"
    checks_only = True
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with everything that is wrong (E0308, E0309, E0603, E0604, E0605)."""
        states: dict[str, StateOp] = {}
        for op in module.body.block.ops:
            if isinstance(op, SchemaDeclOp):
                ctx.declare_schema(op.schema.data)
            elif isinstance(op, StateOp):
                states[op.sym_name.data] = op
        manifests = [load(self.target)] if self.target else [load(name) for name in available()]
        checker = _Checker(ctx, manifests, self.libraries, states)
        methods = (op for op in module.body.block.ops if isinstance(op, MethodOp))
        raise_if_errors([problem for method in methods for problem in checker.method(method)])


class _Checker:
    def __init__(
        self, ctx: EtContext, manifests: list[Manifest], libraries: tuple[str, ...], states: Mapping[str, StateOp]
    ):
        self.ctx = ctx
        self.manifests = manifests
        self.libraries = libraries
        self.states = states
        self.namespaces = dict.fromkeys(name.partition("::")[0] for m in manifests for name in m.kernels)

    def method(self, method: MethodOp) -> Iterator[Diagnostic]:
        """Everything that is wrong with a method."""
        for op in method.body.blocks[0].ops:
            if isinstance(op, BufferOp) and op.state is not None:
                state = self.states.get(op.state.root_reference.data)
                if state is None or state.type != op.result.type:
                    known = "no state" if state is None else f"a {state.type}"
                    yield _wrong(op, f"is @{op.state.root_reference.data}, {known}, as {op.result.type}")
        for op in method.instructions:
            yield from self.instruction(op)
        for op, value in uninitialized_reads(self.ctx, method):
            yield E0308.diagnostic(
                f"'{_name(op)}' reads {_shown(value)}, which nothing before it writes", source_location(op.location)
            )

    def instruction(self, op: Operation) -> Iterator[Diagnostic]:
        """What is wrong with one instruction."""
        if isinstance(op, CallOp):
            yield from self.call(op)
        elif isinstance(op, MoveOp):
            if op.source.type != op.target.type:
                yield _wrong(op, f"makes {_shown(op.target)} a handle of {_shown(op.source)}")
            elif _is_constant(op.target):
                yield _wrong(op, f"writes {_shown(op.target)}, which is a constant")
        elif isinstance(op, InputsOp):
            given: dict[SSAValue, None] = {}
            for value in op.arguments:
                if value in given:
                    yield _wrong(op, f"names {_shown(value)} twice: one input would overwrite the other")
                elif _is_constant(value):
                    yield _wrong(op, f"lets the caller set {_shown(value)}, which is a constant")
                given[value] = None

    def call(self, op: CallOp) -> Iterator[Diagnostic]:
        """What is wrong with a kernel call."""
        kernel = op.kernel.data
        entries = [(m, entry) for m in self.manifests if (entry := m.lookup(kernel)) is not None]
        if entries:
            schema: OpSchema | None = entries[0][1].schema
        else:
            schema = schema_of_kernel(self.ctx, kernel)
            unchecked = any(kernel in manifest.unchecked for manifest in self.manifests)
            if kernel.partition("::")[0] in self.namespaces and not unchecked:
                near = ", ".join(self.manifests[0].nearest(kernel))
                yield E0603.diagnostic(
                    f"{self.targets} has no kernel '{kernel}'",
                    source_location(op.location),
                    help=f"nearest kernels: {near}" if near else None,
                )
                return
        if schema is None:
            return  # A kernel of the user's own, that nothing describes.
        is_primitive = entries[0][1].kind == "prim" if entries else kernel.startswith("executorch_prim::")
        bound = bind(op, schema, is_primitive=is_primitive)
        if isinstance(bound, str):
            yield _wrong(op, bound)
            return
        problems = [*argument_problems(bound, schema), *_memory_problems(bound, schema)]
        problems += [] if problems else _size_problems(bound, schema)
        for problem in problems:
            yield _wrong(op, problem)
        if not problems and entries:
            yield from self.link(op, bound, entries)

    @property
    def targets(self) -> str:
        """The targets that are asked, for messages."""
        return " and ".join(f"{m.name} {m.version}" for m in self.manifests)

    def link(self, op: CallOp, bound: BoundCall, entries: list[tuple[Manifest, KernelEntry]]) -> Iterator[Diagnostic]:
        """Why no target takes the call."""
        if _is_stop(bound, entries[0][1]):
            return
        refused: list[Diagnostic] = []
        for manifest, entry in entries:
            place = source_location(op.location)
            if not manifest.libraries.get(entry.library, True) and entry.library not in self.libraries:
                if self.manifests[1:]:
                    return  # Which libraries are linked is not known where the target is not.
                message = f"kernel '{entry.name}' is in library '{entry.library}', which is not linked"
                refused.append(E0605.diagnostic(message, place))
                continue
            reason = _refusal(entry, bound)
            if reason is None:
                return
            message = f"kernel '{entry.name}' of {manifest.name} {manifest.version}: {reason}"
            refused.append(E0604.diagnostic(message, place))
        yield from refused


def _is_stop(bound: BoundCall, entry: KernelEntry) -> bool:
    """Whether this is the sum of two bools by which a method ends with an error, as the runtimes refuse it.

    Where there is no kernel for that: ``lowering/to_out_variant/input_checks.py``.
    """
    numbers = [argument.given for argument in bound.arguments]
    return entry.name == "executorch_prim::add.Scalar" and all(number is True for number in numbers)


def _refusal(entry: KernelEntry, bound: BoundCall) -> str | None:
    dtypes: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for argument in bound.arguments:
        name = argument.argument.name
        if not argument.argument.is_tensor:
            others[name] = _other(argument)
            continue
        for table, read in ((dtypes, _dtype), (orders, _order), (shapes, _shape)):
            items = tuple(read(v) if v in argument.tensors else None for v in argument.values)
            table[name] = items if isinstance(argument.item, ListArg) else items[0]
    return entry.check(dtypes, orders, None, others, shapes)


def _dtype(value: Any) -> int:
    return dtype_of(value.type.element_type).number


def _order(value: Any) -> tuple[int, ...]:
    return order_of(value.type)


def _shape(value: Any) -> tuple[int | None, ...]:
    dims = value.type.get_shape()
    return (None,) * len(dims) if _is_dynamic(value) else dims


def _other(bound: BoundArgument) -> Any:
    """An argument that is no tensor, as manifests name it."""

    def plain(value: Any) -> Any:
        if isinstance(value, SSAValue):
            return _NUMBERS.get(str(value.type))
        if bound.argument.kind is Kind.DTYPE and isinstance(value, int):
            return ScalarType(value)
        return FORMATS.get(value, value) if bound.argument.kind is Kind.MEMORY_FORMAT else value

    given = bound.given
    return tuple(plain(v) for v in given) if isinstance(given, tuple) else plain(given)


def _memory_problems(bound: BoundCall, schema: OpSchema) -> Iterator[str]:
    """Constants that are written, results that share bytes, and results over what is read."""
    written = bound.written
    for value in written:
        if _is_constant(value):
            yield f"writes {_shown(value)}, which is a constant"
    for index, value in enumerate(written):
        if any(overlap(value, other) for other in written[:index]):
            yield f"writes {_shown(value)} over another result"
    if schema.kind is not SchemaKind.OUT or schema.namespace == "executorch_prim":
        return
    functional = functional_of(schema)
    elementwise = functional is not None and is_pointwise(functional.op_name)
    for argument in bound.arguments:
        for read in () if argument.argument.is_write else argument.tensors:
            for value in written:
                if overlap(value, read) and not (elementwise and _same_place(value, read)):
                    yield f"writes {_shown(value)} over argument '{argument.argument.name}', which it reads"


def _same_place(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are the same elements in the same order."""
    return a is b or (a.type == b.type and not _is_dynamic(a) and not _is_dynamic(b) and _offset(a) == _offset(b))


def _offset(value: SSAValue) -> int:
    total = 0
    while isinstance(owner := value.owner, ViewOp):
        total += owner.offset.value.data
        value = owner.base
    return total


def _size_problems(bound: BoundCall, schema: OpSchema) -> list[str]:
    """Results whose sizes do not follow from the arguments; empty where there is no rule."""
    if schema.op_name == "executorch_prim.et_view.default":
        return _view_problems(bound)
    functional = functional_of(schema)
    if functional is None or not has_rule(functional.op_name):
        return []
    given: dict[str, Any] = {}
    for argument in bound.arguments:
        if argument.argument.name in functional.index:
            value = given_for_rule(argument)
            if value is not None or argument.argument.optional:
                given[argument.argument.name] = value
    written = bound.written
    if "dtype" in functional.index and "dtype" not in schema.index and written:
        given["dtype"] = _element(written[0])
    try:
        expected = infer(functional, given)
    except OperandError as error:
        dynamic = any(_is_dynamic(t) for a in bound.arguments for t in a.tensors)
        return [] if dynamic else [f"takes operands that do not fit: {error}"]
    except (LookupError, TypeError, ValueError):
        return []
    exact = not any(_is_dynamic(t) for a in bound.arguments for t in a.tensors)
    return [
        f"writes {_shown(value)}; its rule gives {type}"
        for value, type in zip(written, expected, strict=False)
        if isinstance(type, TensorType) and not _fits(value, type, exact=exact)
    ]


def _fits(value: SSAValue, type: TensorType[Attribute], *, exact: bool) -> bool:
    """Whether a buffer has the sizes of ``type``; with dynamic sizes about only the rank can be told."""
    assert isinstance(value.type, TensorType)
    if value.type.get_num_dims() != type.get_num_dims():
        return False
    wanted = dims_of(type)
    return not exact or all(
        a == b or not isinstance(b, int) for a, b in zip(value.type.get_shape(), wanted, strict=True)
    )


def _view_problems(bound: BoundCall) -> list[str]:
    """An ``et_view`` instruction that points a view at another buffer than its definition says, or at too few bytes."""
    source, view = bound.arguments[0].tensors[0], bound.written[0]
    owner = view.owner
    if not isinstance(owner, ViewOp) or owner.late is None:
        # Files of other tools have views as buffers of their own, whose memory the instruction replaces.
        return []
    if storage_of(owner.base) is not storage_of(source) or _offset(owner.base) != _offset(source):
        return [f"points {_shown(view)} at {_shown(source)}, but it is a view of {_shown(owner.base)}"]
    return []


def _is_constant(value: SSAValue) -> bool:
    while isinstance(owner := value.owner, ViewOp):
        value = owner.base
    return isinstance(value.owner, GetWeightOp)


def _is_dynamic(value: SSAValue) -> bool:
    return isinstance(value.owner, (BufferOp, ViewOp)) and value.owner.dynamic is not None


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.element_type


def _shown(value: SSAValue) -> str:
    return f"%{value.name_hint} of type {value.type}" if value.name_hint else f"a {value.type}"


def _name(op: Operation) -> str:
    return op.kernel.data if isinstance(op, CallOp) else op.name


def _wrong(op: Operation, message: str) -> Diagnostic:
    return E0309.diagnostic(f"'{_name(op)}' {message}", source_location(op.location))
