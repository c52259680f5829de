"""A trace of a program file by itself: the executable level, instructions and the memory plan that its bytes say."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

import xdsl
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import etir
from etir.devtools.trace import program as described
from etir.devtools.trace.container import pack
from etir.devtools.trace.levels import level_of
from etir.devtools.trace.places import AttributeTexts
from etir.devtools.trace.read import VERSION, Trace
from etir.devtools.trace.record import origins_of
from etir.dialects.et.origin import number_origins
from etir.emit.from_pte import read_program


def trace_of_pte(data: bytes, name: str = "<pte>") -> Trace:
    """A trace with the level ``et`` alone: its origins are the operations of the file, whoever wrote it.

    Raises what reading the file does (E08xx).
    """
    module = read_program(data)
    number_origins(module)
    nodes: dict[SSAValue, list[tuple[str, int]]] = {}
    return pack_levels({"et": module}, origins_of(module, nodes), name, hashlib.sha256(data).hexdigest())


def pack_levels(levels: Mapping[str, ModuleOp], origins: list[dict[str, Any]], name: str, sha256: str) -> Trace:
    """A trace of modules by phase, without passes; the last one is at the executable level."""
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
    packed: dict[str, str | bytes] = {"trace.json": _json(head), "delegates.json": "{}"}
    for number, (phase, module) in enumerate(levels.items()):
        level = level_of(module, texts)
        packed[f"levels/{number}-{phase}.mlir"] = level.text
        packed[f"levels/{number}-{phase}.json"] = _json(level.columns)
        packed["instructions.json"] = _json(described.instructions(module, level.lines))
        packed["memory.json"] = _json(described.memory(module, ""))
    return Trace(pack(packed), name)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
