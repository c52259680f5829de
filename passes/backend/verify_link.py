"""`verify-link`: refuse, at compile time, a program that the target's runtime could not load or would run wrongly.

Every operator is looked up in the target's manifest by its out variant, with the dtypes, dim orders, ranks and shapes
that the types give. All problems come in one report, one entry for each operator and reason: how often, where first,
and what to do. Operators of libraries that the manifest knows nothing of are the user's own: their kernels are
registered by the user, and only the out variant must exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.backends.errors import E1102
from etir.diagnostics import Diagnostic, ErrorId, raise_if_errors
from etir.dialects.aten.opaque import operator_of
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, order_of
from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.schema import Kind, OpSchema
from etir.dialects.sym.ops import ArithmeticOp
from etir.dialects.text import source_location
from etir.emit.formats.scalar_type import ScalarType
from etir.lowering.errors import E0415
from etir.lowering.to_out_variant.calls import PRIMITIVES
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.targets.errors import E0603, E0604, E0605
from etir.targets.manifest import Manifest, load, other_target


@register_pass
@dataclass(frozen=True)
class VerifyLinkPass(Pass):
    """Check every operator against the kernels of a target.

    ``target`` names the manifest; ``libraries`` are kernel libraries, and ``backends`` delegates' runtime halves, that
    are linked besides those the target always has.
    """

    name = "verify-link"
    checks_only = True
    target: str = "executorch"
    libraries: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with every operator that does not link (E0415, E0603, E0604, E0605, E1102)."""
        for op in module.body.block.ops:
            if isinstance(op, SchemaDeclOp):
                ctx.declare_schema(op.schema.data)
        link = _Link(ctx, load(self.target), self.libraries, self.backends)
        for method in methods(module):
            for op in method.walk():
                link.check(op)
        raise_if_errors(link.report())


class _Link:
    def __init__(self, ctx: EtContext, manifest: Manifest, libraries: Sequence[str], backends: Sequence[str]):
        self.ctx = ctx
        self.backends = backends
        self.manifest = manifest
        self.libraries = libraries
        self.namespaces = dict.fromkeys(name.partition("::")[0] for name in manifest.kernels)
        self.found: dict[tuple[str, str], tuple[ErrorId, str, list[Operation]]] = {}

    def problem(self, op: Operation, kind: ErrorId, message: str, help: str = "") -> None:
        """Note a problem; equal ones of one operator are counted."""
        self.found.setdefault((op.name, message), (kind, help, []))[2].append(op)

    def report(self) -> list[Diagnostic]:
        """One diagnostic for each operator and reason, with the count and the first location."""
        diagnostics: list[Diagnostic] = []
        for (name, message), (kind, help, ops) in self.found.items():
            count = "" if len(ops) == 1 else f" ({len(ops)} uses, this is the first)"
            place = source_location(ops[0].location)
            problem = kind.diagnostic(f"'{name}': {message}{count}", place, help=help or None)
            diagnostics.append(problem.about(operator_of(ops[0])))
        return diagnostics

    def check(self, op: Operation) -> None:
        """Check one operation."""
        if isinstance(op, ArithmeticOp):
            kernel = PRIMITIVES.get(op.name)
            if kernel is not None and self.manifest.lookup(kernel) is None:
                self.problem(op, E0603, f"{self._target} has no '{kernel}'")
        elif isinstance(op, EdgeOp):
            self._operator(op)
        elif isinstance(op, CallDelegateOp) and op.backend.data not in (*self.manifest.backends, *self.backends):
            known = ", ".join(self.manifest.backends) or "none"
            self.problem(op, E1102, f"{self._target} has no backend '{op.backend.data}' (it has {known})")

    @property
    def _target(self) -> str:
        return f"{self.manifest.name} {self.manifest.version}"

    def _operator(self, op: EdgeOp) -> None:
        name = op.SCHEMA.op_name
        if name in PRIMITIVES:
            if self.manifest.lookup(PRIMITIVES[name]) is None:
                self.problem(op, E0603, f"{self._target} has no '{PRIMITIVES[name]}'")
            return
        schema = self.ctx.out_variant(op.SCHEMA)
        if schema is None:
            self.problem(
                op,
                E0415,
                "there is no out variant",
                f"register {op.SCHEMA.namespace}::{op.SCHEMA.name}.out with the same arguments and 'Tensor(a!) out', "
                "or decompose the operator",
            )
            return
        kernel = schema.qualified_name
        entry = self.manifest.lookup(kernel)
        if entry is None:
            if schema.namespace in self.namespaces and kernel not in self.manifest.unchecked:
                near = self.manifest.nearest(kernel)
                help = (
                    f"nearest kernels: {', '.join(near)}; decompose the operator or register the kernel" if near else ""
                )
                self.problem(op, E0603, f"{self._target} has no kernel '{kernel}'", self._elsewhere(op, schema) or help)
            return
        if not self.manifest.libraries.get(entry.library, True) and entry.library not in self.libraries:
            self.problem(op, E0605, f"kernel '{kernel}' is in library '{entry.library}', which is not linked")
            return
        reason = self._call(op, schema)
        if reason is not None:
            self.problem(op, E0604, f"kernel '{kernel}' of {self._target}: {reason}", self._elsewhere(op, schema))

    def _elsewhere(self, op: EdgeOp, schema: OpSchema) -> str:
        """The advice to take another target; empty if none takes the call."""
        other = other_target(self.manifest.name, lambda m: call_failure(m, op, schema) is None)
        return f"target '{other}' has a kernel that takes the call; or decompose the operator" if other else ""

    def _call(self, op: EdgeOp, schema: OpSchema) -> str | None:
        return call_failure(self.manifest, op, schema)


def call_failure(manifest: Manifest, op: EdgeOp, schema: OpSchema, *, contiguous: bool = False) -> str | None:
    """Why the target's kernel ``schema`` does not take the call that ``op`` becomes, or None.

    ``contiguous`` asks about the same call with every tensor in the default dim order.
    """
    given = op.args()
    results = list(op.results)
    dtypes: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.is_write and argument.kwarg_only:
            value: Any = tuple(results) if argument.is_list else results.pop(0)
        else:
            value = given.get(argument.name)
        if argument.is_tensor:
            for table, read in ((dtypes, _dtype), (orders, _default if contiguous else _order), (shapes, _shape)):
                table[argument.name] = _each(value, read)
        elif argument.name in given:
            others[argument.name] = _other(argument.kind, value)
    return manifest.check_call(schema.qualified_name, dtypes, orders, None, others, shapes)


def _each(value: Any, read: Any) -> Any:
    if isinstance(value, tuple):
        return [read(v.type) if isinstance(v, SSAValue) else None for v in value]
    if not isinstance(value, SSAValue) or not isinstance(value.type, TensorType):
        return None
    return read(value.type)


def _dtype(type: TensorType[Attribute]) -> int:
    return dtype_of(type.element_type).number


def _order(type: TensorType[Attribute]) -> tuple[int, ...]:
    return order_of(type)


def _default(type: TensorType[Attribute]) -> tuple[int, ...]:
    return tuple(range(type.get_num_dims()))


def _shape(type: TensorType[Attribute]) -> tuple[int | None, ...]:
    return tuple(d if isinstance(d, int) else None for d in dims_of(type))


def _other(kind: Kind, value: Any) -> Any:
    """An argument that is no tensor, as manifests name it; a runtime scalar is its type."""
    if isinstance(value, SSAValue):
        return {"i64": int, "f64": float, "i1": bool}[str(value.type)]
    if kind is Kind.DTYPE and isinstance(value, Attribute):
        return ScalarType(dtype_of(value).number)
    if isinstance(value, tuple):
        return tuple(_other(kind, v) for v in value)
    return value
