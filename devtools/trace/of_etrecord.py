"""A trace of what the stock pipeline made: the edge program of an ETRecord, and the executable level of its file.

They are linked by debug handles: numbers that ExecuTorch gives to nodes, and that the record has for instructions. The
operations inside of XNNPACK's blobs carry those of the nodes that they were made from.
Needs the packages ``torch`` and ``executorch``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import LocationAttr, ModuleOp

from etir.devtools.errors import E1407
from etir.devtools.etrecord import METHOD, read_etrecord
from etir.devtools.trace.of_pte import inside_of_delegates, pack_levels
from etir.devtools.trace.read import Trace
from etir.devtools.trace.record import origins_of
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.origin import Origins, number_origins, origins_in, with_origins
from etir.emit.from_pte import read_program
from etir.emit.ptd.model import FlatTensor
from etir.emit.to_pte import instructions_of
from etir.lowering.import_fx.node_names import NodeNames
from etir.lowering.import_fx.program import import_programs


def trace_of_etrecord(
    path: str, pte: bytes, name: str = "<pte>", external: Mapping[str, FlatTensor] | None = None
) -> Trace:
    """A trace with the levels ``edge`` and ``et``, for the method ``forward``.

    Raises error E1407 when the record has no edge program, and what importing it and reading the file (E08xx) does.
    """
    from executorch.devtools import parse_etrecord as parse

    read: Any = parse
    _, programs = read_etrecord(path)
    if METHOD not in programs:
        raise E1407.error(f"'{path}' has no edge program of a method '{METHOD}'")
    names = NodeNames()
    edge = import_programs({METHOD: programs[METHOD]}, {}, names)
    number_origins(edge)
    origins = origins_of(edge, names.nodes)
    handle_of = {node.name: node.meta.get("debug_handle") for node in programs[METHOD].graph.nodes}
    numbers: dict[int, list[int]] = {}
    for row in origins:
        handles = [handle_of.get(name) for result in row.get("nodes", ()) for name, _ in result]
        for handle in dict.fromkeys(h for h in handles if isinstance(h, int)):
            numbers.setdefault(handle, []).append(row["origin"])
    by_instruction = _handles(read(path)._debug_handle_map, path)
    module = read_program(pte, external)
    for method in module.body.block.ops:
        if not isinstance(method, MethodOp) or method.sym_name.data != METHOD:
            continue
        for index, op in enumerate(instructions_of(method)):
            handles = by_instruction.get(str(index), ())
            found = tuple(dict.fromkeys(n for handle in handles for n in numbers.get(handle, ())))
            op.location = with_origins(op.location, Origins.of(found))
    inside = inside_of_delegates(module, _places(edge, numbers))
    return pack_levels({"edge": edge, "et": module}, origins, name, hashlib.sha256(pte).hexdigest(), inside)


def _handles(said: Any, path: str) -> dict[str, list[int]]:
    """By instruction of the method: its debug handles, as a record says them. Raises error E1407."""
    try:
        found = {key: [value] if isinstance(value, int) else list(value) for key, value in said[METHOD].items()}
        if all(isinstance(handle, int) for handles in found.values() for handle in handles):
            return found
    except (TypeError, AttributeError):
        pass
    except KeyError:
        return {}
    raise E1407.error(f"'{path}' has debug handles that are no whole numbers")


def _places(edge: ModuleOp, numbers: dict[int, list[int]]) -> dict[int, LocationAttr]:
    """By debug handle: where the edge program's operations with it come from."""
    of_origin: dict[int, LocationAttr] = {}
    for op in edge.walk():
        found = origins_in(op.location)
        for number in () if found is None else found.numbers:
            of_origin.setdefault(number, op.location)
    return {
        handle: with_origins(of_origin[origins[0]], Origins.of(origins))
        for handle, origins in numbers.items()
        if origins[0] in of_origin
    }
