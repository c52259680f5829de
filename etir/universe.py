"""etir's dialects and passes for xDSL's own tools, through the entry point ``xdsl.universe``.

Every xDSL tool imports this module when it starts, so it imports nothing heavy; dialects and passes load when a file or
a pipeline names them. Passes are called ``etir-<name>`` there, because xDSL has its own ``cse`` and ``dce``. Two things
work in ``et-opt`` only: operators of custom libraries (xDSL's context cannot learn an operator while it parses), and
what a pass tells its observers. Loading ``aten`` or ``edge`` makes the class of every overload, about 0.3 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from etir.passes.infra.registry import own_passes

PREFIX = "etir-"


def _whole(name: str, operators: Callable[[], Iterable[type[Operation]]]) -> Callable[[], Dialect]:
    """The dialect of that name with the classes of all its operators made."""

    def load() -> Dialect:
        from etir.dialects.context import DIALECTS

        dialect = DIALECTS[name]()
        return Dialect(name, [*dialect.operations, *operators()], list(dialect.attributes))

    return load


def _aten_operators() -> Iterable[type[Operation]]:
    from etir.dialects.aten.base import aten_op
    from etir.dialects.aten.table import load_table

    return (aten_op(name) for name in load_table() if name.partition(".")[0] == "aten")


def _edge_operators() -> Iterable[type[Operation]]:
    from etir.dialects.aten.table import load_table
    from etir.dialects.edge.base import edge_op

    return (edge_op(name) for name in load_table())


def _plain(name: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        from etir.dialects.context import DIALECTS

        return DIALECTS[name]()

    return load


def _adapted(name: str) -> Callable[[], type[ModulePass]]:
    """A pass under its prefixed name that brings etir's context with it."""

    def load() -> type[ModulePass]:
        from etir.dialects.context import EtContext
        from etir.dialects.et.program import SchemaDeclOp
        from etir.passes.infra.registry import find_pass

        cls = find_pass(name)

        def apply(self: ModulePass, ctx: Context, op: ModuleOp) -> None:
            own = EtContext(allow_unregistered=ctx.allow_unregistered)
            for declaration in op.body.block.ops:
                if isinstance(declaration, SchemaDeclOp):
                    own.declare_schema(declaration.schema.data)
            cls.apply(self, own, op)

        namespace = {"name": PREFIX + name, "apply": apply, "__doc__": cls.__doc__, "__module__": __name__}
        return type(cls.__name__, (cls,), namespace)

    return load


UNIVERSE = Universe(
    all_dialects={
        "aten": _whole("aten", _aten_operators),
        "edge": _whole("edge", _edge_operators),
        **{name: _plain(name) for name in ("backend", "et", "sym", "control")},
    },
    all_passes={PREFIX + name: _adapted(name) for name in own_passes()},
)
