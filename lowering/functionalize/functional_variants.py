"""The functional operator for an in-place, out or mutating one, found in the schema table.

In-place ``aten.add_.Tensor`` belongs to the functional overload of ``aten.add`` that takes the same arguments; out
variants to the overload of the same name without the outs. Operators with several mutated arguments have a sibling that
returns their new contents after its own results: ``aten._native_batch_norm_legit_functional``. A custom library's
operator is looked up among the schemas that the module carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from etir.dialects.aten.table import load_table
from etir.dialects.schema import Argument, OpSchema, SchemaKind

_OTHER_NAMES = {"fused_moving_avg_obs_fake_quant": "_fused_moving_avg_obs_fq_helper_functional"}
"""Functional variants whose name does not follow from the operator's; their results begin with the operator's own."""

_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


class FunctionalVariants:
    """Finds functional operators; ``declared`` are the schemas of custom libraries by IR name."""

    def __init__(self, declared: Mapping[str, OpSchema]):
        self._declared: dict[str, list[OpSchema]] = {}
        for schema in declared.values():
            self._declared.setdefault(f"{schema.namespace}.{schema.name}", []).append(schema)
        self._found: dict[str, OpSchema | None] = {}

    def find(self, schema: OpSchema) -> OpSchema | None:
        """The functional variant of ``schema``, or None."""
        key = schema.text
        if key not in self._found:
            match schema.kind:
                case SchemaKind.INPLACE:
                    found = self._in_place(schema)
                case SchemaKind.OUT:
                    found = self._out(schema)
                case _:
                    found = self._in_place(schema) or self._returning(schema)
            self._found[key] = found
        return self._found[key]

    def _overloads(self, namespace: str, name: str, first: str) -> list[OpSchema]:
        """The functional overloads of a name; the overload called ``first`` comes first."""
        table = load_table()
        packet = f"{namespace}.{name}"
        schemas = [s for n in table.overloads(packet) if (s := table.get(n)) is not None]
        schemas += self._declared.get(packet, [])
        functional = [s for s in schemas if s.kind is SchemaKind.FUNCTIONAL]
        return sorted(functional, key=lambda s: s.overload != first)

    def _in_place(self, schema: OpSchema) -> OpSchema | None:
        name = schema.name
        if name.startswith("__i") and name.endswith("__"):
            names = [f"__{name[3:]}"]
        elif name.endswith("_"):
            names = [name[:-1], f"{name[:-1]}_functional"]
        else:
            return None
        if sum(a.is_write for a in schema.arguments) != 1:
            return None
        wanted = _signature(schema.arguments)
        types = [a.type_text for a in schema.arguments]
        for candidate in (c for n in names for c in self._overloads(schema.namespace, n, schema.overload)):
            if _signature(candidate.arguments) == wanted:
                return candidate
            # The tensor itself may be called differently: dropout_(self, ...), dropout(input, ...).
            same_rest = _signature(candidate.arguments[1:]) == _signature(schema.arguments[1:])
            if same_rest and [a.type_text for a in candidate.arguments] == types:
                return candidate
        return None

    def _out(self, schema: OpSchema) -> OpSchema | None:
        wanted = _signature(a for a in schema.arguments if not a.is_write)
        relaxed = [pair for pair in wanted if pair[0] not in _OPTIONS]
        candidates = self._overloads(schema.namespace, schema.name, schema.overload.removesuffix("_out"))
        for candidate in candidates:
            if _signature(candidate.arguments) == wanted:
                return candidate
        for candidate in candidates:
            if [p for p in _signature(candidate.arguments) if p[0] not in _OPTIONS] == relaxed:
                return candidate
        return None

    def _returning(self, schema: OpSchema) -> OpSchema | None:
        """The operator that returns the new contents of mutated arguments after its own results."""
        written = sum(a.is_write for a in schema.arguments)
        own = sum(not r.is_write for r in schema.returns)
        wanted = _signature(schema.arguments)
        other = _OTHER_NAMES.get(schema.name)
        plain = schema.name.rstrip("_")
        names = [f"{plain}_functional", *dict.fromkeys((schema.name, plain)), *([] if other is None else [other])]
        for name in names:
            for candidate in self._overloads(schema.namespace, name, schema.overload):
                exact = name == other or len(candidate.returns) == own + written
                if exact and _signature(candidate.arguments) == wanted:
                    return candidate
        return None


def _signature(arguments: Iterable[Argument]) -> list[tuple[str, str]]:
    return sorted((a.name, a.type_text) for a in arguments)
