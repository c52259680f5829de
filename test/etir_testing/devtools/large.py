"""Traces of large programs, in the form of the recorder's, without the minutes that compiling them takes.

A program of layers: each has as many operations as a small transformer block, in a module of its own, from a file of a
hundred lines. An operation is one row of each of five levels; every tenth one of them comes from two.
"""

from __future__ import annotations

import json
import random
from typing import Any

from etir.devtools.profile.profile import Kind, Profile, Row
from etir.devtools.trace.container import pack
from etir.devtools.trace.levels import rows_of
from etir.devtools.trace.read import VERSION, Trace

LEVELS = ("aten", "core", "edge", "backend", "et")
OPERATORS = ("linear", "add", "mul", "rsqrt", "permute_copy", "bmm", "softmax", "gelu", "view_copy", "slice_copy")
IN_LAYER = 40
IN_BLOCK = 8
LINES = 100


def large_trace(operations: int, operator: str = "", file: str = "model.py") -> Trace:
    """A trace of so many operations; ``operator`` is what all are called, if it is given."""
    numbers = random.Random(0)
    names = [operator or OPERATORS[numbers.randrange(len(OPERATORS))] for _ in range(operations)]
    paths = [
        f"layers.{i // IN_LAYER}.{('attention', 'norm', 'mlp', 'rotary', 'cache')[i % IN_LAYER // IN_BLOCK]}"
        for i in range(operations)
    ]
    lines = [1 + (i * 7) % LINES for i in range(operations)]
    origins = [[i + 1, i] if i and i % 10 == 0 else [i + 1] for i in range(operations)]
    entries: dict[str, Any] = {
        "trace.json": {
            "etir_trace": VERSION,
            "target": "etir",
            "sha256": None,
            "origins": [
                {
                    "origin": i + 1,
                    "method": "forward",
                    "op": f"aten.{names[i]}.default",
                    "name": f"{names[i]}_{i}",
                    "file": file,
                    "line": lines[i],
                    "path": paths[i],
                }
                for i in range(operations)
            ],
            "passes": [],
            "remarks": [],
        }
    }
    for number, level in enumerate(LEVELS):
        head = ["builtin.module {", "  func.func @forward(%x: tensor<1x64x256xf32>) {"]
        text = [
            f"    %{names[i]}_{i} = {level}.{names[i]}(%v{max(i - 1, 0)}, %v{max(i - numbers.randrange(1, 30), 0)}) : "
            f"(tensor<1x64x256xf32>, tensor<256x256xf32>) -> tensor<1x64x256xf32> loc(fused<#et.origin<{i + 1}>>"
            f'["{paths[i]}"("{file}":{lines[i]}:0)])'
            for i in range(operations)
        ]
        entries[f"levels/{number}-{level}.mlir"] = "\n".join([*head, *text, "  }", "}"]) + "\n"
        operands = [[i - 1, max(i - 1 - numbers.randrange(30), 0)] if i else [] for i in range(operations)]
        entries[f"levels/{number}-{level}.json"] = {
            "line": [i + 3 for i in range(operations)],
            "name": [f"{level}.{name}" for name in names],
            "path": paths,
            "source": [[file, line] for line in lines],
            **rows_of("origins", origins),
            **rows_of("operands", operands),
            "bytes": [65536] * operations,
            "partition": [None] * operations,
        }
    entries["delegates.json"] = {}
    entries["instructions.json"] = {
        "forward": {
            "operator": [f"aten::{name}.out" for name in names],
            "delegate": [None] * operations,
            "line": [i + 3 for i in range(operations)],
            "path": paths,
            "source": [[file, line] for line in lines],
            **rows_of("origins", origins),
        }
    }
    entries["memory.json"] = {"forward": _plan(operations, names, origins)}
    packed = {key: value if isinstance(value, str) else json.dumps(value) for key, value in entries.items()}
    return Trace(pack(packed), f"large-{operations}.trace")


def _plan(operations: int, names: list[str], origins: list[list[int]]) -> dict[str, Any]:
    buffers = [
        {
            "name": f"{names[i]}_{i}",
            "type": "tensor<1x64x256xf32>",
            "bytes": 65536,
            "pool": 1,
            "offset": i % 12 * 65536,
            "live": [[i, min(i + 1 + i % 10, operations - 1)]],
            "state": None,
            "origins": origins[i],
        }
        for i in range(operations)
    ]
    peak = operations // 2
    bounds = {"1": {"bound": 11 * 65536, "peak": peak, "alive": list(range(max(peak - 10, 0), peak + 1))}}
    return {"pools": [0, 12 * 65536], "buffers": buffers, "bounds": bounds, "instructions": operations}


def made_profile(trace: Trace, runs: int = 3) -> Profile:
    """A profile with a row for each instruction of ``forward``; instruction 5 is the slow one."""
    table = trace.instructions["forward"]
    rows: list[Row] = []
    numbers = random.Random(1)
    for run in range(runs):
        now = 0
        for index, name in enumerate(table["operator"]):
            spent = 5_000_000 if index == 5 else numbers.randrange(200, 9000)
            rows.append(Row(run, 0, index, 0, Kind.OPERATOR, name, now, now + spent))
            now += spent
    return Profile(tuple(rows), (), runs, "forward", program=trace.sha256)
