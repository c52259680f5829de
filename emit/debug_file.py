"""Debug files: where the instructions of a ``.pte`` file come from, kept beside it instead of in it.

A program on a device carries no source lines. The debug file is JSON with, for each method, the names of its values and
the source line of each instruction, by the indices that error records use; a checksum ties it to its program. Text at
the executable level (``.mlir``) holds the same, and serves as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.emit.errors import E0866
from etir.emit.pte import model
from etir.emit.to_pte import instructions_of, operator_of, source_frames

VERSION = 1


@dataclass(frozen=True)
class Source:
    """A place in the user's program: a file and a line, and the path of the submodule there, each empty where unknown.

    ``line`` counts from 1; 0 is none.
    """

    file: str
    line: int
    path: str


@dataclass(frozen=True)
class MethodDebug:
    """Names of values (empty for those without) and the source of each instruction (None where it is not known)."""

    values: tuple[str, ...]
    instructions: tuple[Source | None, ...]


def of_module(module: ModuleOp) -> dict[str, MethodDebug]:
    """What the text of a module at the executable level says about its methods."""
    found: dict[str, MethodDebug] = {}
    for method in module.body.block.ops:
        if isinstance(method, MethodOp):
            names = (op.results[0].name_hint for op in method.body.blocks[0].ops if op.results)
            frames = tuple(map(_source, source_frames(method)))
            found[method.sym_name.data] = MethodDebug(tuple(name or "" for name in names), frames)
    return found


def of_program(program: model.Program) -> dict[str, MethodDebug]:
    """What the ``.pte`` file itself holds: nothing, unless it was written with its source lines."""
    found: dict[str, MethodDebug] = {}
    for plan in program.execution_plan:
        frames: list[Source | None] = []
        for chain in plan.chains:
            known = chain.stacktrace
            frames += [None] * len(chain.instructions) if known is None else map(_source, known)
        found[plan.name] = MethodDebug((), tuple(frames))
    return found


def _source(frames: model.FrameList) -> Source | None:
    if not frames.items:
        return None
    frame = frames.items[-1]
    return Source(frame.filename, frame.lineno, frame.name)


def write_debug_file(module: ModuleOp, pte: bytes) -> str:
    """The text of the debug file of a module at the executable level and its ``.pte`` file."""
    methods = {
        name: {
            "values": debug.values,
            "instructions": [None if s is None else [s.file, s.line, s.path] for s in debug.instructions],
        }
        for name, debug in of_module(module).items()
    }
    head = {"etir_debug": VERSION, "sha256": hashlib.sha256(pte).hexdigest()}
    return json.dumps(head | {"methods": methods}, separators=(",", ":")) + "\n"


def read_debug_file(text: str, name: str, pte: bytes) -> dict[str, MethodDebug]:
    """Read a debug file. Raises error E0866 when it is none, or another program's."""
    try:
        data: Any = json.loads(text)
        if data["etir_debug"] != VERSION:
            raise E0866.error(f"'{name}' is a debug file of version {data['etir_debug']}, expected {VERSION}")
        if data["sha256"] != hashlib.sha256(pte).hexdigest():
            raise E0866.error(f"'{name}' is the debug file of another program: its checksum differs")
        return {
            method: MethodDebug(
                tuple(str(value) for value in debug["values"]),
                tuple(None if s is None else Source(str(s[0]), int(s[1]), str(s[2])) for s in debug["instructions"]),
            )
            for method, debug in data["methods"].items()
        }
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise E0866.error(f"'{name}' is no debug file of etir's") from None


def check_module(module: ModuleOp, program: model.Program, name: str) -> None:
    """Raises error E0866 unless the text calls what the program calls, instruction by instruction."""
    calls = {
        method.sym_name.data: [
            operator_of(op.kernel.data).full_name if isinstance(op, CallOp) else "" for op in instructions_of(method)
        ]
        for method in module.body.block.ops
        if isinstance(method, MethodOp)
    }
    if calls != calls_of(program):
        raise E0866.error(f"'{name}' is the text of another program: its instructions differ")


def calls_of(program: model.Program) -> Mapping[str, list[str]]:
    """By method the kernels that its instructions call, in the order of the file; empty for what is no such call."""
    found: dict[str, list[str]] = {}
    for plan in program.execution_plan:
        names = [operator.full_name for operator in plan.operators]
        entries = [entry for chain in plan.chains for entry in chain.instructions]
        found[plan.name] = [names[e.op_index] if isinstance(e, model.KernelCall) else "" for e in entries]
    return found
