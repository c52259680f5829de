"""Backends by name: the built-in ones, and those that installed packages add by entry point.

An entry point of group ``etir.backends`` names an instance of :class:`~etir.backends.api.interface.Backend`::

    [project.entry-points."etir.backends"]
    mine = "my_package.backend:BACKEND"

The built-in ones are found in the same form, so that a backend can leave this package without a change to it. Nothing
is imported before a backend is asked for. :func:`register_backend` adds one in a running process, the plug-ins of
``etir.plugins`` add theirs with what else they have.

Where a backend is named with options, it is written as passes are: ``xnnpack{fp16=true}`` (:func:`parse_delegate`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from etir.backends.errors import E1101, E1107, E1110
from etir.diagnostics import EtirError
from etir.extensions import (
    call_foreign,
    installed_plugins,
    may_have_entry_points,
    registry_cache,
    registry_changed,
    taken,
    warn,
)

if TYPE_CHECKING:
    from xdsl.ir import Dialect, Operation

    from etir.backends.api.interface import Backend
    from etir.backends.api.patterns import Table
    from etir.dialects.context import EtContext

BUILT_IN: dict[str, str] = {
    "xnnpack": "etir.backends.xnnpack.backend:BACKEND",
    "reference": "etir.backends.reference.backend:BACKEND",
    "native": "etir.backends.native.backend:BACKEND",
}
"""Backend name to ``module:instance``."""

FAMILIES: dict[str, str] = {"executorch": "etir.backends.bridge.backend:BridgedBackend"}
"""What stands before the colon of a backend's name to ``module:class``, which is given what stands after it."""

BUILT_IN_DIALECTS: dict[str, str] = {"native": "native", "tile": "native", "xnn": "xnnpack"}
"""Dialect name to the built-in backend that has it, so that reading text asks no entry point for these."""

GROUP = "etir.backends"


_ADDED: dict[str, str | Backend] = {}
"""What :func:`register_backend` has added, by name."""


def register_backend(backend: str | Backend, name: str = "", *, replace: bool = False) -> None:
    """Make a backend known, which is an instance of ``Backend``, or ``module:INSTANCE`` with its name.

    Raises E1303 when there is another one of that name, unless it is to ``replace`` it, and ``ValueError`` for a text
    without a name.
    """
    if isinstance(backend, str) and not name:
        raise ValueError("a backend that is given as module:INSTANCE needs a name")
    name = name or getattr(backend, "name", "")
    holder = _ADDED.get(name) or BUILT_IN.get(name)
    if holder is not None and not replace and _place(holder) != _place(backend):
        raise taken("backends", name, _place(holder), _place(backend))
    _ADDED[name] = backend
    registry_changed()


def _place(backend: str | Backend) -> str:
    """Where a backend comes from: its module."""
    return backend.partition(":")[0] if isinstance(backend, str) else type(backend).__module__


@registry_cache
def installed() -> dict[str, str | Backend]:
    """Every backend by name as ``module:instance`` or as the instance: the built-in ones, those that were registered,
    those of plug-ins, and those of entry points by name.

    A package cannot replace a backend that is there without it; the attempt is a warning (E1303).
    """
    found: dict[str, str | Backend] = {**BUILT_IN, **_ADDED}

    def add(name: str, backend: str | Backend, owner: str) -> None:
        holder = found.setdefault(name, backend)
        if _place(holder) != _place(backend):
            warn(taken("backends", name, _place(holder), owner))

    for owner, plugin in installed_plugins().items():
        for name, backend in plugin.backends.items():
            add(name, backend, owner)
    if may_have_entry_points(GROUP):
        from importlib.metadata import entry_points  # Slow to import, and most runs need no backend.

        for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
            add(entry.name, entry.value, f"entry point '{entry.name}' ({entry.value})")
    return found


@registry_cache
def find_backend(name: str) -> Backend:
    """The backend called ``name``: an installed one, or one of a family as ``executorch:NAME``.

    Raises E1101 for an unknown name, with the installed ones, and E1110 when what is installed cannot be used.
    """
    from etir.backends.api.interface import Backend

    family, colon, member = name.partition(":")
    if colon and family in FAMILIES:
        module, _, attribute = FAMILIES[family].partition(":")
        return getattr(import_module(module), attribute)(member)
    target = _ADDED.get(name) or BUILT_IN.get(name) or installed().get(name)
    if target is None:
        from difflib import get_close_matches

        near = get_close_matches(name, installed(), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise E1101.error(
            f"no backend named '{name}' is installed{hint}; available: {', '.join(installed())}, and partitioners of "
            f"executorch as executorch:NAME"
        )
    backend = target
    if isinstance(target, str):
        module, _, attribute = target.partition(":")
        try:
            backend = call_foreign(f"backend '{name}'", lambda: getattr(import_module(module), attribute))
        except EtirError as error:
            raise E1110.error(f"backend '{name}' ({target}) cannot be imported: {_cause(error)}") from error
    if not isinstance(backend, Backend):
        raise E1110.error(f"backend '{name}' ({target}) is a {type(backend).__name__}, not a Backend")
    return backend


def _cause(error: EtirError) -> object:
    return error if error.__cause__ is None else error.__cause__


def backend_of_runtime_id(runtime_id: str) -> Backend | None:
    """The installed backend that writes blobs for ``runtime_id``, or is called so, or None.

    Imports every installed backend.
    """
    return next((b for b in usable() if runtime_id in (b.runtime_id, b.name)), None)


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
    found = () if backend is None else backend.dialects()
    return next((dialect for dialect in found if dialect.name == name), Dialect(name))


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


@registry_cache
def _table(delegate: Delegate) -> Table:
    from etir.backends.api.patterns import Table

    return Table(delegate.backend.rows(delegate.options))


@registry_cache
def _preserved_ops(delegate: Delegate) -> dict[str, Table]:
    """For every operator that the backend wants preserved, the rows that decide."""
    from etir.backends.api.patterns import Table

    preserved = delegate.backend.preserved_ops(delegate.options)
    return {op.operator: Table(op.rows) if op.rows else delegate.table for op in preserved}


@registry_cache
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


def leave_integers(texts: Iterable[str]) -> bool:
    """Whether there are delegates and all of them leave to the target what is computed on integers. Raises E1101, E1107
    and E1110 for wrong backends.
    """
    found = [parse_delegate(text).backend.leaves_integers for text in texts]
    return bool(found) and all(found)


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
