"""The context that knows etir's dialects, and makes operator classes when they are first met.

Dialects load on first use; operators of the schema table and of libraries declared by ``et.schema`` get their classes
in :meth:`EtContext._get_known_op`. Creating a context imports nothing heavy. Dialects of delegates are
handed in by whoever puts the compiler together, those of plug-ins are registered; nothing here knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.context import Context
from xdsl.ir import Dialect, Operation

from etir.diagnostics import Diagnostic
from etir.dialects.aten.table import load_table
from etir.dialects.attachments import Attachments
from etir.dialects.definitions import dialect_of
from etir.dialects.schema import OpSchema, SchemaKind, parse_schema
from etir.dialects.verified import VerifiedOperations
from etir.extensions import registry_changed, taken


def _builtin() -> Dialect:
    from xdsl.dialects.builtin import Builtin

    return Builtin


def _func() -> Dialect:
    from xdsl.dialects.func import Func

    return Func


def _pdl() -> Dialect:
    from xdsl.dialects.pdl import PDL

    return PDL


def _arith() -> Dialect:
    from xdsl.dialects.arith import Arith

    return Arith


def _math() -> Dialect:
    from xdsl.dialects.math import Math

    return Math


def _memref() -> Dialect:
    from xdsl.dialects.memref import MemRef

    return MemRef


def _aten() -> Dialect:
    from etir.dialects.aten import opaque

    return dialect_of("aten", opaque)


def _edge() -> Dialect:
    return Dialect("edge", [], [])


def _backend() -> Dialect:
    from etir.dialects.backend import ops

    return dialect_of("backend", ops)


def _et() -> Dialect:
    from etir.dialects import dtypes
    from etir.dialects.et import arguments, executable, instructions, layout, origin, payloads, program, values, weights

    modules = (dtypes, layout, origin, weights, program, arguments, values, instructions, executable, payloads)
    return dialect_of("et", *modules)


def _sym() -> Dialect:
    from etir.dialects.sym import ops

    return dialect_of("sym", ops, operations=ops.ARITHMETIC_OPS.values())


def _control() -> Dialect:
    from etir.dialects.control import ops

    return dialect_of("control", ops)


def _quant() -> Dialect:
    from etir.dialects.quant import ops

    return dialect_of("quant", ops)


DIALECTS: dict[str, Callable[[], Dialect]] = {
    "builtin": _builtin,
    "func": _func,
    "pdl": _pdl,
    "arith": _arith,
    "math": _math,
    "memref": _memref,
    "aten": _aten,
    "edge": _edge,
    "backend": _backend,
    "et": _et,
    "sym": _sym,
    "control": _control,
    "quant": _quant,
}
"""Dialect name to a function that loads it."""


_ADDED: dict[str, Callable[[], Dialect]] = {}


def register_dialect(name: str, load: Callable[[], Dialect], *, replace: bool = False) -> None:
    """Make a dialect known to every context that is made from now on; ``load`` returns it when text first names it.

    Raises E1303 when there is one of that name, unless it is to ``replace`` it.
    """
    known = _ADDED.get(name) or DIALECTS.get(name)
    if known is not None and known.__module__ != load.__module__ and not replace:
        raise taken("dialects", name, known.__module__, load.__module__)
    _ADDED[name] = load
    registry_changed()


class EtContext(Context):
    """A context with etir's dialects registered, those of ``dialects`` by name, as functions that load them, and what
    :func:`register_dialect` has added.
    """

    def __init__(
        self, *, allow_unregistered: bool = False, dialects: Mapping[str, Callable[[], Dialect]] | None = None
    ):
        super().__init__(allow_unregistered)
        self.schemas: dict[str, OpSchema] = {}
        """Schemas of custom libraries' operators by IR name, declared by the modules read so far."""
        self.attachments = Attachments()
        """What passes and those who run them hand to each other: the observer of rewrites, reports."""
        self.diagnostics: list[Diagnostic] = []
        """Warnings and remarks of passes, in order: they stop nothing, tools print them."""
        self.verified = VerifiedOperations()
        """What the passes run in this context have verified so far."""
        for name, factory in {**(dialects or {}), **DIALECTS, **_ADDED}.items():
            self.register_dialect(name, factory)

    def add_dialect(self, name: str, load: Callable[[], Dialect]) -> None:
        """Make a dialect known unless one of that name is."""
        if name not in self._registered_dialects:
            self.register_dialect(name, load)

    def clone(self) -> EtContext:
        """A context with the same registrations, that can change on its own."""
        other = EtContext(allow_unregistered=self.allow_unregistered)
        other.schemas = dict(self.schemas)
        other.attachments = self.attachments.copy()
        for name in ("_loaded_dialects", "_loaded_ops", "_loaded_attrs", "_loaded_types", "_registered_dialects"):
            setattr(other, name, dict(getattr(self, name)))
        return other

    def declare_schema(self, text: str) -> OpSchema:
        """Make the operator of ``text`` known. Raises ``SchemaError`` for a malformed text."""
        schema = parse_schema(text)
        self.schemas[schema.op_name] = schema
        return schema

    def schema(self, op_name: str) -> OpSchema | None:
        """The schema of ``aten.add.Tensor`` or ``mylib.foo.default``, or None."""
        return load_table().get(op_name) or self.schemas.get(op_name)

    def out_variant(self, schema: OpSchema) -> OpSchema | None:
        """The out variant of a functional schema, in the table or among the declared ones."""
        from etir.dialects.aten.table import find_out_variant, out_variant

        if schema.op_name in load_table():
            return out_variant(schema.op_name)
        packet = schema.op_name.rsplit(".", 1)[0] + "."
        declared = [s for n, s in self.schemas.items() if n.startswith(packet) and s.kind is SchemaKind.OUT]
        return find_out_variant(schema, declared)

    def _get_known_op(self, name: str) -> type[Operation] | None:
        known = super()._get_known_op(name)
        if known is not None:
            return known
        from etir.dialects.aten.base import aten_op, custom_op
        from etir.dialects.edge.base import PREFIX, edge_class

        schema = self.schema(name.removeprefix(PREFIX))
        if schema is None:
            return None
        if name.startswith(PREFIX):
            op: type[Operation] = edge_class(schema)
        elif name in load_table():
            op = aten_op(name)
        else:
            op = custom_op(schema)
        self._loaded_ops[name] = op
        return op
