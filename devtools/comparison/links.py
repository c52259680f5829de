"""Which operation of the imported program a value is of: by the marks of a trace, or the handles of an ETRecord."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation, SSAValue

from etir.devtools.trace.places import place_of, relative_path
from etir.devtools.trace.read import Trace
from etir.devtools.values.interpreted import Key, marks_of
from etir.dialects.text import source_location
from etir.lowering.import_fx.locations import frame_of


class Links:
    """Without a trace and a record there is none: what is known of instructions is what the file says."""

    exact = True
    """Whether a key says which value it is; otherwise a value of another size is another one."""

    def keys(self, instruction: int, position: int, value: SSAValue) -> list[Key]:
        """The keys of what an instruction writes at a position."""
        return []

    def operator(self, key: Key) -> str:
        """The operator of the imported program."""
        return ""

    def name(self, key: Key) -> str:
        """What to call the value: the node of the FX graph, or the operator."""
        return f"value {key[0]}"

    def where(self, key: Key) -> str:
        """Source line and path of the module."""
        return ""

    def where_of(self, instruction: int, op: Operation) -> str:
        """The same for an instruction that is no value of the imported program."""
        file, line, path = place_of(op)
        return " ".join(part for part in (f"{file}:{line}" if file else "", path) if part)


class TraceLinks(Links):
    """By the marks in the locations of a level."""

    def __init__(self, trace: Trace):
        self.trace = trace

    def keys(self, instruction: int, position: int, value: SSAValue) -> list[Key]:
        return [(mark.origin, mark.result) for mark in marks_of(value)]

    def operator(self, key: Key) -> str:
        origin = self.trace.origin(key[0])
        return "" if origin is None else origin.op

    def name(self, key: Key) -> str:
        origin = self.trace.origin(key[0])
        return f"value {key[0]}" if origin is None else origin.node or origin.op

    def where(self, key: Key) -> str:
        origin = self.trace.origin(key[0])
        return "" if origin is None else " ".join(part for part in (origin.where, origin.path) if part)


class RecordLinks(Links):
    """By debug handles: of an instruction that has several, the last one is what it leaves."""

    exact = False

    def __init__(self, handles: Mapping[int, int], nodes: Mapping[int, Any]):
        self.handles, self.nodes = handles, nodes

    def keys(self, instruction: int, position: int, value: SSAValue) -> list[Key]:
        handle = self.handles.get(instruction)
        return [(handle, position)] if handle in self.nodes and handle is not None else []

    def operator(self, key: Key) -> str:
        return str(self.nodes[key[0]].target) if key[0] in self.nodes else ""

    def name(self, key: Key) -> str:
        return str(self.nodes[key[0]].name) if key[0] in self.nodes else super().name(key)

    def where(self, key: Key) -> str:
        node = self.nodes.get(key[0])
        place = None if node is None else source_location(frame_of(node.meta.get("stack_trace") or ""))
        return "" if place is None or not place.file else f"{relative_path(place.file)}:{place.line}"
