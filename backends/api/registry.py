"""Backends by name: the built-in ones, and those that installed packages add by entry point.

An entry point of group ``etir.backends`` names an instance of :class:`~etir.backends.api.interface.Backend`::

    [project.entry-points."etir.backends"]
    mine = "my_package.backend:BACKEND"

The built-in ones are found in the same form, so that a backend can leave this package without a change to it. Nothing
is imported before a backend is asked for.

Where a backend is named with options, it is written as passes are: ``xnnpack{fp16=true}`` (:func:`parse_delegate`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from etir.backends.errors import E1101, E1107, E1110
from etir.diagnostics import EtirError

if TYPE_CHECKING:
    from xdsl.ir import Dialect, Operation

    from etir.backends.api.interface import Backend
    from etir.backends.api.patterns import Table
    from etir.dialects.context import EtContext

BUILT_IN: dict[str, str] = {
    "xnnpack": "etir.backends.xnnpack.backend:BACKEND",
    "reference": "etir.backends.reference.backend:BACKEND",
}
"""Backend name to ``module:instance``."""

FAMILIES: dict[str, str] = {"executorch": "etir.backends.bridge.backend:BridgedBackend"}
"""What stands before the colon of a backend's name to ``module:class``, which is given what stands after it."""

BUILT_IN_DIALECTS: dict[str, str] = {"xnn": "xnnpack"}
"""Dialect name to the built-in backend that has it, so that reading text asks no entry point for these."""

GROUP = "etir.backends"


@cache
def installed() -> dict[str, str]:
    """Every backend by name as ``module:instance``: the built-in ones, then those of entry points by name.

    A package cannot replace a built-in backend.
    """
    from importlib.metadata import entry_points  # slow to import, and most runs need no backend

    found = dict(BUILT_IN)
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        found.setdefault(entry.name, entry.value)
    return found


@cache
def find_backend(name: str) -> Backend:
    """The backend called ``name``: an installed one, or one of a family as ``executorch:NAME``.

    Raises E1101 for an unknown name, with the installed ones, and E1110 when what is installed cannot be used.
    """
    from etir.backends.api.interface import Backend

    family, colon, member = name.partition(":")
    if colon and family in FAMILIES:
        module, _, attribute = FAMILIES[family].partition(":")
        return getattr(import_module(module), attribute)(member)
    target = BUILT_IN.get(name) or installed().get(name)
    if target is None:
        from difflib import get_close_matches

        near = get_close_matches(name, installed(), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise E1101.error(
            f"no backend named '{name}' is installed{hint}; available: {', '.join(installed())}, and partitioners of "
            f"executorch as executorch:NAME"
        )
    module, _, attribute = target.partition(":")
    try:
        backend = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise E1110.error(f"backend '{name}' ({target}) cannot be imported: {error}") from error
    if not isinstance(backend, Backend):
        raise E1110.error(f"backend '{name}' ({target}) is a {type(backend).__name__}, not a Backend")
    return backend


def forget() -> None:
    """Look all backends up again: what one of the names stands for has changed."""
    find_backend.cache_clear()
    parse_delegate.cache_clear()


def backend_of_runtime_id(runtime_id: str) -> Backend | None:
    """The installed backend that writes blobs for ``runtime_id``, or None. Imports every installed backend."""
    return next((b for b in usable() if b.runtime_id == runtime_id), None)


def usable() -> list[Backend]:
    """Every installed backend that can be imported: one that cannot must not keep files of others from being read."""
    found: list[Backend] = []
    for name in installed():
        try:
            found.append(find_backend(name))
        except EtirError:
            continue
    return found


def backend_of_dialect(dialect: str) -> Backend | None:
    """The installed backend whose dialect is called ``dialect``, or None."""
    if dialect in BUILT_IN_DIALECTS:
        return find_backend(BUILT_IN_DIALECTS[dialect])
    return next((b for b in usable() if b.dialect_name == dialect), None)


def dialect_of(name: str) -> Dialect:
    """The dialect called ``name``, of the installed backend that has it; an empty one when there is none."""
    from xdsl.ir import Dialect

    backend = backend_of_dialect(name)
    dialect = None if backend is None else backend.dialect()
    return Dialect(name) if dialect is None else dialect


def register_dialect(ctx: EtContext, name: str) -> None:
    """Make the dialect ``name`` of an installed backend known to ``ctx``; nothing happens when it is."""
    ctx.add_dialect(name, partial(dialect_of, name))


def backend_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects of the built-in backends, to be loaded when text names them: for a new context."""
    return {name: partial(dialect_of, name) for name in BUILT_IN_DIALECTS}


@dataclass(frozen=True)
class Delegate:
    """A backend with its options: one entry of ``delegates=[...]``."""

    backend: Backend
    options: Any

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @property
    def text(self) -> str:
        """The delegate as it is written: the name, and the options that differ from their defaults."""
        from etir.passes.infra.pipeline import options_text

        return self.name + options_text(self.options)

    @property
    def table(self) -> Table:
        """What the backend claims under these options."""
        return _table(self)

    @property
    def runtime_id(self) -> str:
        """What the file and the runtime call the backend."""
        return self.backend.runtime_id_of(self.options)

    def preserves(self, op: Operation) -> bool:
        """Whether decomposition preserves an operator of the ATen level, because the backend would claim it."""
        asked = self.backend.preserves(op, self.options)
        if asked is not None:
            return asked
        table = _preserved_ops(self).get(op.name)
        return table is not None and isinstance(table.match(op), tuple)


@cache
def _table(delegate: Delegate) -> Table:
    from etir.backends.api.patterns import Table

    return Table(delegate.backend.rows(delegate.options))


@cache
def _preserved_ops(delegate: Delegate) -> dict[str, Table]:
    """For every operator that the backend wants preserved, the rows that decide."""
    from etir.backends.api.patterns import Table

    preserved = delegate.backend.preserved_ops(delegate.options)
    return {op.operator: Table(op.rows) if op.rows else delegate.table for op in preserved}


@cache
def parse_delegate(text: str) -> Delegate:
    """A delegate from its text: ``xnnpack``, ``xnnpack{fp16=true}``.

    Raises E0506 for the syntax, E1101 and E1110 for the backend, E1107 for the options, all of them.
    """
    from etir.passes.errors import E0506
    from etir.passes.infra.pipeline import parse_specs, read_options

    specs = parse_specs(text)
    if len(specs) != 1:
        raise E0506.error(f"'{text}' is not one backend: write it as 'name' or 'name{{option=value other=1,2}}'")
    spec = specs[0]
    backend = find_backend(spec.name)
    options = read_options(backend.Options, f"delegate '{spec.name}'", spec, E1107)
    return Delegate(backend, options)


def delegate_text(name: str, options: Mapping[str, object] | Sequence[str] = ()) -> str:
    """The text of a delegate from its name and options, as a mapping of values or as ``option=value`` texts."""
    from etir.passes.infra.pipeline import value_text

    if isinstance(options, Mapping):
        items = [f"{k.replace('_', '-')}={value_text(v)}" for k, v in options.items()]
    else:
        items = list(options)
    return f"{name}{{{' '.join(items)}}}" if items else name


def option_rows(backend: Backend) -> list[tuple[str, str, str]]:
    """Name, type and default of every option of a backend, as users write them."""
    from etir.passes.infra.pipeline import dataclass_options

    return [(o.name, o.type, o.default or "") for o in dataclass_options(backend.Options)]


def is_frozen_options(cls: type[Any]) -> bool:
    """Whether a class can be a backend's ``Options``: a frozen dataclass with a default for every field."""
    return (
        dataclasses.is_dataclass(cls)
        and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
        and all(
            f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
            for f in dataclasses.fields(cls)
        )
    )
