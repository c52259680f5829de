"""A trace of a program file by itself: the executable level, instructions and the memory plan that its bytes say."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

import xdsl
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

import etir
from etir.backends.api.registry import backend_dialects
from etir.devtools.trace import program as described
from etir.devtools.trace.container import pack
from etir.devtools.trace.levels import level_of
from etir.devtools.trace.places import AttributeTexts
from etir.devtools.trace.read import VERSION, Trace
from etir.devtools.trace.record import origins_of
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.et.origin import handed_on, number_origins
from etir.emit.from_pte import read_program
from etir.emit.ptd.model import FlatTensor
from etir.passes.delegation.attributes import delegate_of
from etir.passes.delegation.disassemble_delegates import DisassembleDelegatesPass


def trace_of_pte(data: bytes, name: str = "<pte>", external: Mapping[str, FlatTensor] | None = None) -> Trace:
    """A trace with the level ``et`` alone: its origins are the operations of the file, whoever wrote it.

    Raises what reading the file does (E08xx).
    """
    module = read_program(data, external, name=name)
    number_origins(module)
    nodes: dict[SSAValue, list[tuple[str, int]]] = {}
    sha256 = hashlib.sha256(data).hexdigest()
    return pack_levels({"et": module}, origins_of(module, nodes), name, sha256, inside_of_delegates(module, {}))


def inside_of_delegates(module: ModuleOp, places: Mapping[int, LocationAttr]) -> ModuleOp:
    """A copy of a module whose blobs are functions, where their backends can read them.

    Operations in them have the location that ``places`` has for their debug handle; where it has none they come from
    all that their call comes from. Blobs of a version that is not known stay as they are.
    """
    copy = module.clone()
    calls = {op.delegate.root_reference.data: op for op in copy.walk() if isinstance(op, DelegateCallOp)}
    try:
        DisassembleDelegatesPass().run(EtContext(dialects=backend_dialects()), copy)
    except EtirError:
        return module
    for func in copy.body.block.ops:
        if not isinstance(func, FuncOp) or delegate_of(func) is None:
            continue
        call = calls.get(func.sym_name.data)
        for op in func.walk():
            handle = op.properties.get("handle")
            known = places.get(handle.value.data) if isinstance(handle, IntegerAttr) else None
            if known is None and call is not None:
                known = handed_on(call.location)
            if known is not None:
                op.location = known
    return copy


def pack_levels(
    levels: Mapping[str, ModuleOp], origins: list[dict[str, Any]], name: str, sha256: str, inside: ModuleOp
) -> Trace:
    """A trace of modules by phase, without passes; the last one is at the executable level.

    ``inside`` is that one with functions instead of blobs.
    """
    texts = AttributeTexts()
    head: dict[str, Any] = {
        "etir_trace": VERSION,
        "etir": etir.__version__,
        "xdsl": str(xdsl.__version__),
        "python": platform.python_version(),
        "target": "",
        "sha256": sha256,
        "detail": "levels",
        "origins": origins,
        "passes": [],
        "remarks": [],
    }
    packed: dict[str, str | bytes] = {
        "trace.json": _json(head),
        "delegates.json": _json(described.delegates(inside, texts)),
    }
    for number, (phase, module) in enumerate(levels.items()):
        level = level_of(module, texts)
        packed[f"levels/{number}-{phase}.mlir"] = level.text
        packed[f"levels/{number}-{phase}.json"] = _json(level.columns)
        packed["instructions.json"] = _json(described.instructions(module, level.lines))
        packed["memory.json"] = _json(described.memory(module, ""))
    return Trace(pack(packed), name)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
