"""What a trace says of the program that came out: instructions, the memory plan, what is inside of delegates."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.devtools.trace.changes import origin_numbers
from etir.devtools.trace.levels import print_level, rows_of
from etir.devtools.trace.places import AttributeTexts, place_of
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp
from etir.dialects.et.values import BufferOp
from etir.emit.to_pte import instructions_of, operator_of
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import memory_of, tensor_bytes
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.delegation.attributes import delegate_of
from etir.passes.infra.base import is_private


def methods_of(module: ModuleOp) -> list[MethodOp]:
    """The methods at the executable level."""
    return [op for op in module.body.block.ops if isinstance(op, MethodOp)]


def instructions(module: ModuleOp, lines: dict[Operation, int]) -> dict[str, Any]:
    """By method: the instructions in the order of the file, as columns."""
    return {method.sym_name.data: _instructions(method, lines) for method in methods_of(module)}


def _instructions(method: MethodOp, lines: dict[Operation, int]) -> dict[str, Any]:
    ops = instructions_of(method)
    places = [place_of(op) for op in ops]
    return {
        "operator": [_operator(op) for op in ops],
        "delegate": [op.delegate.root_reference.data if isinstance(op, DelegateCallOp) else None for op in ops],
        "line": [lines.get(op, 0) for op in ops],
        "path": [path for _, _, path in places],
        "source": [[file, line] if file else None for file, line, _ in places],
        **rows_of("origins", [origin_numbers(op.location) for op in ops]),
    }


def _operator(op: Operation) -> str:
    return operator_of(op.kernel.data).full_name if isinstance(op, CallOp) else op.name


def memory(module: ModuleOp, target: str) -> dict[str, Any]:
    """By method: planned buffers with their places and lifetimes in instructions of the file, bounds, what is alive at
    the peak of each pool.
    """
    return {method.sym_name.data: _memory(method, target) for method in methods_of(module)}


def _memory(method: MethodOp, target: str) -> dict[str, Any]:
    buffers = [op for op in method.body.blocks[0].ops if isinstance(op, BufferOp)]
    fixed: dict[Operation, tuple[int, int]] = {
        op: place for op in buffers if (place := op.place) is not None and place[0] != 1
    }
    found = memory_of(EtContext(), method, fixed=fixed, in_place=in_place_kernels(target) if target else {})
    every = list(method.instructions)
    in_file = {op: i for i, op in enumerate(instructions_of(method))}
    known = [i for i, op in enumerate(every) if op in in_file]

    def index(at: int) -> int:
        """The instruction of the file at or before one of the method, which has more (inputs, return)."""
        return max(bisect_right(known, at) - 1, 0)

    rows: list[dict[str, Any]] = []
    number = {op: i for i, op in enumerate(buffers)}
    for op in buffers:
        key = found.keys.get(op)
        buffer = None if key is None else found.problem.by_key.get(key)
        rows.append(
            {
                "name": op.result.name_hint or f"value_{number[op]}",
                "type": str(op.result.type),
                "bytes": tensor_bytes(op.result.type),
                "pool": None if op.place is None else op.place[0],
                "offset": None if op.place is None else op.place[1],
                "live": [] if buffer is None else [[index(first), index(last)] for first, last in buffer.live],
                "state": None if op.state is None else op.state.root_reference.data,
                "origins": list(origin_numbers(op.location)),
            }
        )
    by_key = {found.keys[op]: i for op, i in number.items() if op in found.keys}
    bounds = {
        str(pool): {
            "bound": bound.bytes,
            "peak": None if bound.instruction is None else index(bound.instruction),
            "alive": [by_key[key] for key in bound.alive if key in by_key],
        }
        for pool, bound in lower_bound(found.problem).items()
    }
    return {"pools": list(method.pool_sizes or (0,)), "buffers": rows, "bounds": bounds, "instructions": len(in_file)}


def delegates(module: ModuleOp, texts: AttributeTexts) -> dict[str, Any]:
    """By the symbol of the delegate: its backend, the text of its function, and the operations that its runtime half
    reports, in order. To be asked before the functions become bytes.
    """
    found: dict[str, Any] = {}
    for op in module.body.block.ops:
        delegate = delegate_of(op) if op.name == "func.func" and is_private(op) else None  # type: ignore[arg-type]
        if delegate is None:
            continue
        text, lines = print_level(op, texts)
        nodes = delegate.backend.event_nodes(op, delegate.options)  # type: ignore[arg-type]
        places = [_place_of_all(ops) for ops in nodes]
        found[op.sym_name.data] = {  # type: ignore[attr-defined]
            "backend": delegate.runtime_id,
            "options": delegate.text,
            "name": [ops[0].name for ops in nodes],
            "line": [lines[ops[0]] for ops in nodes],
            "path": [path for _, _, path in places],
            "source": [[file, line] if file else None for file, line, _ in places],
            **rows_of("origins", [_origins_of_all(ops) for ops in nodes]),
            "text": text,
        }
    return found


def _place_of_all(ops: Sequence[Operation]) -> tuple[str, int, str]:
    """The source line of operations, if it is that of all, and the module that they are in."""
    places = [place_of(op) for op in ops]
    file, line, path = places[0]
    if any(place[:2] != (file, line) for place in places):
        file, line = "", 0
    if any(other != path for _, _, other in places):
        path = ".".join(os.path.commonprefix([other.split(".") for _, _, other in places]))
    return file, line, path


def _origins_of_all(ops: Sequence[Operation]) -> list[int]:
    return list(dict.fromkeys(number for op in ops for number in origin_numbers(op.location)))
