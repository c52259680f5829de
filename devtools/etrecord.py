"""ExecuTorch's ETRecord: what its Inspector and tools know of a program, written for one that etir compiled, and read.

The record holds the exported program and etir's edge level as an exported program, whose nodes have debug handles; a
map says which of them an instruction of the file was made of. Both directions need the packages ``torch`` and
``executorch``.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.backends.api.registry import backend_dialects
from etir.devtools.errors import E1407
from etir.devtools.trace.program import methods_of
from etir.devtools.trace.read import Trace
from etir.dialects.context import EtContext
from etir.dialects.et.arguments import ListArg
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.origin import number_origins
from etir.driver import module_of
from etir.emit.to_pte import instructions_of
from etir.lowering.export_fx import export_program
from etir.lowering.export_fx.nodes import ORIGINS
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline
from etir.program import Program

if TYPE_CHECKING:
    from torch.export import ExportedProgram

METHOD = "forward"
"""The only method that the stock Inspector reads."""

UNREADABLE = (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError)
"""What reading a file that is no record raises."""

ALWAYS_ALLOWED = 1 << 30
MOST_PACKED = 64
"""Times that a record may be larger than its file, if it is larger than a GiB: weights do not get smaller."""


def write_etrecord(
    program: Program,
    source: ExportedProgram,
    path: str | Path,
    inputs: Sequence[Sequence[Any]] = (),
) -> None:
    """Write the record of a program that was compiled with ``trace=True`` from ``source``, which has to be unchanged.

    ``inputs`` are samples, kept with the outputs that eager torch gives for them. Raises error E1407 for a program
    without a trace or without a method ``forward``, and what compiling raises.
    """
    from executorch.devtools import ETRecord as Stock

    stock: Any = Stock  # its annotations are not those of what it takes

    trace = program.trace
    if not isinstance(trace, Trace):
        raise E1407.error("the program was compiled without a trace")
    if METHOD not in trace.instructions:
        raise E1407.error(f"the program has no method '{METHOD}'; it has {', '.join(trace.instructions)}")
    module = module_of(source, program.options)
    number_origins(module)
    run_pipeline(EtContext(dialects=backend_dialects()), module, pipeline(program.options, "aten", "edge"))
    edge = export_program(module)
    handles = _handles(edge)
    record = stock(
        exported_program=source,
        export_graph_id=0,
        edge_dialect_program=edge,
        _debug_handle_map={METHOD: _of_instructions(trace, handles)},
        _delegate_map={METHOD: _of_delegates(trace, handles)},
        _instruction_id_to_num_outs_map={METHOD: _results(program)},
    )
    if inputs:
        module_of_source = source.module()
        outputs = [module_of_source(*sample) for sample in inputs]
        record.update_representative_inputs([list(sample) for sample in inputs])
        record.update_reference_outputs({METHOD: [_flat(output) for output in outputs]})
    record.save(str(path))


def _flat(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (list, tuple)) else [output]


def _handles(edge: ExportedProgram) -> dict[int, list[int]]:
    """Give the nodes debug handles, one for each set of origins; the handles by origin."""
    known: dict[tuple[int, ...], int] = {}
    found: dict[int, list[int]] = {}
    for node in edge.graph.nodes:
        numbers = node.meta.pop(ORIGINS, None)
        if not numbers or node.op != "call_function":
            continue
        if numbers not in known:
            known[numbers] = len(known) + 1
            for number in numbers:
                found.setdefault(number, []).append(known[numbers])
        node.meta["debug_handle"] = known[numbers]
    return found


def _of_instructions(trace: Trace, handles: dict[int, list[int]]) -> dict[str, list[int]]:
    table = trace.instructions[METHOD]
    return {str(row): _those(handles, table.several("origins", row)) for row in range(len(table))}


def _of_delegates(trace: Trace, handles: dict[int, list[int]]) -> dict[str, Any]:
    table = trace.instructions[METHOD]
    found: dict[str, Any] = {}
    for row, symbol in enumerate(table["delegate"]):
        nodes = None if symbol is None else trace.delegates.get(symbol)
        if nodes is None:
            continue
        inside = {str(i): _those(handles, nodes.several("origins", i)) for i in range(len(nodes))}
        found[str(row)] = {"name": nodes.columns["backend"], "delegate_map": inside}
    return found


def _results(program: Program) -> dict[str, int]:
    """How many tensors each instruction gives."""
    found: dict[str, int] = {}
    for method in methods_of(program.module):
        if method.sym_name.data != METHOD:
            continue
        for index, op in enumerate(instructions_of(method)):
            slot = op.return_slot if isinstance(op, CallOp) else None
            found[str(index)] = len(slot.items) if isinstance(slot, ListArg) else 1
    return found


def _those(handles: dict[int, list[int]], origins: Sequence[int]) -> list[int]:
    return sorted({handle for number in origins for handle in handles.get(number, ())})


def read_etrecord(path: str | Path) -> tuple[ExportedProgram, dict[str, ExportedProgram]]:
    """The exported program and the edge program of each method, as ``etir.import_program`` takes them.

    Raises error E1407 for a file that is no record, or one without an exported program.
    """
    from executorch.devtools import parse_etrecord as parse

    read: Any = parse
    _check_record(path)
    try:
        record = read(str(path))
    except Exception as error:  # it unpickles, parses and builds programs, and says what is wrong in many ways
        raise E1407.error(f"'{path}' cannot be read: {error}") from None
    if record.exported_program is None:
        raise E1407.error(f"'{path}' has no exported program in it")
    edge = record.edge_dialect_program
    programs = edge if isinstance(edge, dict) else {} if edge is None else {METHOD: edge}
    for program in (record.exported_program, *programs.values()):
        if not isinstance(program.state_dict, dict) or not isinstance(program.constants, dict):
            raise E1407.error(f"'{path}' has weights or constants without names")
    return record.exported_program, programs


def _check_record(path: str | Path) -> None:
    """Raises error E1407 for a file that is no zip, or that unpacks to far more bytes than it has."""
    try:
        packed = Path(path).stat().st_size
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except UNREADABLE as error:
        raise E1407.error(f"'{path}' cannot be read: {error}") from None
    if size > max(ALWAYS_ALLOWED, MOST_PACKED * packed):
        raise E1407.error(f"'{path}' has {packed:,} bytes and unpacks to {size:,}: no record is packed so tightly")


def debug_handles(path: str | Path) -> dict[int, int]:
    """Of the method ``forward`` in a record: the last debug handle of each instruction outside of delegates.

    Raises error E1407 for a file that is no record.
    """
    _check_record(path)
    try:
        with zipfile.ZipFile(path) as archive:
            found = json.loads(archive.read("debug_handle_map")).get(METHOD, {})
        last: dict[int, int] = {}
        for instruction, handles in found.items():
            several = [handle for handle in (handles if isinstance(handles, list) else [handles]) if handle]
            if several:
                last[int(instruction)] = int(several[-1])
    except (*UNREADABLE, KeyError, AttributeError, TypeError, RuntimeError) as error:
        raise E1407.error(f"'{path}' cannot be read: {error}") from None
    return last
