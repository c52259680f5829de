"""A trace of a program file by itself: the executable level, instructions and the memory plan that its bytes say."""

from __future__ import annotations

import hashlib
import json
import platform
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
    return trace_of_module(read_program(data), "et", name, hashlib.sha256(data).hexdigest())


def trace_of_module(module: ModuleOp, phase: str, name: str, sha256: str | None = None) -> Trace:
    """A trace of one level as it is; its operations are numbered if they have no origins yet."""
    number_origins(module)
    nodes: dict[SSAValue, list[tuple[str, int]]] = {}
    texts = AttributeTexts()
    level = level_of(module, texts)
    head: dict[str, Any] = {
        "etir_trace": VERSION,
        "etir": etir.__version__,
        "xdsl": str(xdsl.__version__),
        "python": platform.python_version(),
        "target": "",
        "sha256": sha256,
        "detail": "levels",
        "origins": origins_of(module, nodes),
        "passes": [],
        "remarks": [],
    }
    entries: dict[str, Any] = {
        "trace.json": head,
        f"levels/0-{phase}.json": level.columns,
        "delegates.json": {},
        "instructions.json": described.instructions(module, level.lines),
        "memory.json": described.memory(module, ""),
    }
    packed: dict[str, str | bytes] = {key: json.dumps(value, separators=(",", ":")) for key, value in entries.items()}
    packed[f"levels/0-{phase}.mlir"] = level.text
    return Trace(pack(packed), name)
