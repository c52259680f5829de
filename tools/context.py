"""The context of the tools: etir's dialects, and those of installed plug-ins and backends when a name is not etir's.

Looking for plug-ins reads the metadata of every installed package, which takes longer than to parse a small file, so it
waits until something is unknown.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, TypeAttribute

from etir.backends.api.registry import backend_dialects, register_dialect, usable
from etir.dialects.context import DIALECTS, EtContext
from etir.extensions import installed_plugins, taken, warn


class ToolContext(EtContext):
    """A context that asks the plug-ins for dialects it does not have."""

    def __init__(self, *, allow_unregistered: bool = False):
        super().__init__(allow_unregistered=allow_unregistered, dialects=backend_dialects())
        self._has_plugins = False

    def register_plugins(self) -> bool:
        """Make the dialects of plug-ins known, once. False when that was done before. A name of etir's stays etir's."""
        if self._has_plugins:
            return False
        self._has_plugins = True
        for owner, plugin in installed_plugins().items():
            for name, load in plugin.dialects.items():
                known = self._registered_dialects.get(name)
                if known is not None and known.__module__ != load.__module__:
                    holder = known.__module__ if name in DIALECTS else "another plug-in or backend"
                    warn(taken("dialects", name, holder, owner))
                self.add_dialect(name, load)
        for backend in usable():
            if backend.dialect_name:
                register_dialect(self, backend.dialect_name)
        return True

    def _get_known_op(self, name: str) -> type[Operation] | None:
        known = super()._get_known_op(name)
        if known is None and self.register_plugins():
            known = super()._get_known_op(name)
        return known

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        """The class of a type, asking plug-ins for a dialect that is not known."""
        if name not in self._loaded_types and name.split(".")[0] not in self._registered_dialects:
            self.register_plugins()
        return super().get_optional_type(name)

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        """The class of an attribute, asking plug-ins for a dialect that is not known."""
        if name not in self._loaded_attrs and name.split(".")[0] not in self._registered_dialects:
            self.register_plugins()
        return super().get_optional_attr(name)
