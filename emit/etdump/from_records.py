"""An ETDump of the records of etir's runtime (``runtime/devtools/recorder.h``), which a device sends as they are.

``runtime/devtools/etdump_writer.cc`` does the same in C++, for hosts without Python.

A record is the end of an instruction, whose beginning is the boundary before it; of an operation inside of a delegate
both ends are recorded, before the call's. Records that do not belong to the program are refused. What is not complete
because the device had no room for more is left out, or, of a run, the event of the whole run is.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from etir.diagnostics import SourceLocation
from etir.emit.errors import E0809, E0843
from etir.emit.etdump.model import (
    Block,
    Content,
    DebugEvent,
    ETDump,
    Event,
    ProfileEvent,
    TensorValue,
    Value,
    ValueKind,
)
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import SCALAR_TYPES
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte

RECORD = struct.Struct("<QIHH")
"""Ticks, instruction, kind, delegate."""

BEGIN, KERNEL, DELEGATE, MOVE, JUMP, FREE, END, FAILED, RESUME = range(9)
NODE_BEGIN, NODE_END = 16, 17
CLOSING = {
    KERNEL: "OPERATOR_CALL",
    DELEGATE: "DELEGATE_CALL",
    MOVE: "MOVE_CALL",
    JUMP: "JF_CALL",
    FREE: "FREE_CALL",
}
_CALLS: dict[type[pte.Instruction], int] = {
    pte.KernelCall: KERNEL,
    pte.DelegateCall: DELEGATE,
    pte.MoveCall: MOVE,
    pte.JumpFalseCall: JUMP,
    pte.FreeCall: FREE,
}
_KINDS = {
    "int": ValueKind.INT,
    "bool": ValueKind.BOOL,
    "float": ValueKind.DOUBLE,
    "tensor": ValueKind.TENSOR,
    "list of tensors": ValueKind.TENSOR_LIST,
}

LoggedValue = tuple[
    int, bool, str, int | float | bool | None, "Sequence[tuple[int, Sequence[int], Sequence[int], int]] | None"
]
"""(index of the record, whether it is an output, kind, number, (dtype, sizes, strides, offset) of its tensors)."""


@dataclass(frozen=True)
class Records:
    """What a runtime recorded.

    Attributes:
        data: the records, 16 bytes each, as they lay in the device's memory.
        load_ticks: when loading began and ended, on the records' clock.
        values: in the order of their records.
        dropped, dropped_values: how many there was no room for.
    """

    data: Buffer
    load_ticks: tuple[int, int] = (0, 0)
    values: Sequence[LoggedValue] = field(default=())
    dropped: int = 0
    dropped_values: int = 0


def etdump_of_records(records: Records, program: Buffer, *, method: str = "forward", name: str = "<records>") -> ETDump:
    """The profile that ``records`` are, of a method of the ``.pte`` file ``program``; ``name`` is their file.

    Raises ``EtirError`` E0843 for records that cannot be of this method, and those of reading a ``.pte`` file.
    """
    plans = {plan.name: plan for plan in read_pte(program).execution_plan}
    location = SourceLocation(name)
    if method not in plans:
        raise E0843.error(f"the program has no method '{method}'; it has {', '.join(plans)}", location)
    size = len(memoryview(records.data).cast("B"))
    if size % RECORD.size:
        raise E0843.error(f"{size} bytes are no whole number of records of {RECORD.size} bytes", location)
    said = {
        "runtime": "etir",
        "method": method,
        "program": hashlib.sha256(program).hexdigest(),
        "dropped": records.dropped,
        "dropped_values": records.dropped_values,
    }
    metadata = json.dumps(said, ensure_ascii=False).encode()
    start, end = records.load_ticks
    loading = (
        ProfileEvent("Method::init", -1, 0, start, end, None, metadata),
        ProfileEvent("Program::load_method", -1, 0, start, end),
    )
    converter = _Converter(plans[method], records, location)
    return ETDump((Block("Default", loading), *converter.blocks()))


class _Converter:
    """Walks the records once."""

    def __init__(self, plan: pte.ExecutionPlan, records: Records, location: SourceLocation):
        self.plan = plan
        self.records = records
        self.location = location
        self.places = [(c, i) for c, chain in enumerate(plan.chains) for i in range(len(chain.instructions))]
        self.values: dict[int, list[LoggedValue]] = {}
        for value in records.values:
            self.values.setdefault(value[0], []).append(value)
        self.events: list[Event] = []
        # (delegate, id, start, end), the end None as long as it runs
        self.nodes: list[tuple[int, int, int, int | None]] = []

    def blocks(self) -> list[Block]:
        found: list[Block] = []
        running = False
        begin = last = 0
        for index, (ticks, instruction, kind, delegate) in enumerate(RECORD.iter_unpack(self.records.data)):
            if kind == NODE_BEGIN:
                self.nodes.append((delegate, instruction, ticks, None))
                continue
            if kind == NODE_END:
                self.end_node(delegate, instruction, ticks)
                continue
            if kind == BEGIN:
                if running:
                    found.append(self.block())
                running, begin = True, ticks
            elif kind in (END, FAILED):
                self.events.append(ProfileEvent("Method::execute", -1, 0, begin, ticks))
                self.log(index, -1, 0)
                if running:
                    found.append(self.block())
                running = False
            elif kind in CLOSING:
                self.instruction(index, instruction, kind, last, ticks)
            elif kind != RESUME:
                raise E0843.error(f"record {index} is of kind {kind}, which there is not", self.location)
            last = ticks
        if running:
            found.append(self.block())
        return found

    def block(self) -> Block:
        block = Block("Execute", tuple(self.events))
        self.events, self.nodes = [], []
        return block

    def end_node(self, delegate: int, id: int, ticks: int) -> None:
        for at in reversed(range(len(self.nodes))):
            node = self.nodes[at]
            if node[:2] == (delegate, id) and node[3] is None:
                self.nodes[at] = (delegate, id, node[2], ticks)
                return

    def instruction(self, index: int, instruction: int, kind: int, start: int, end: int) -> None:
        call = self.call(index, instruction, kind)
        chain, position = self.places[instruction]
        for _, id, began, ended in self.nodes:
            if ended is not None:
                signed = id - (1 << 32) if id >> 31 else id
                node = None if signed == -1 else signed
                self.events.append(ProfileEvent(None, chain, position, began, ended, node))
        self.nodes = []
        self.log(index, chain, position)
        if isinstance(call, pte.KernelCall):
            name = self.plan.operators[call.op_index].full_name
            name = name.partition("::")[2] or name
            self.events.append(ProfileEvent(f"native_call_{name}", chain, position, start, end))
        self.events.append(ProfileEvent(CLOSING[kind], chain, position, start, end))

    def call(self, index: int, instruction: int, kind: int) -> pte.Instruction:
        if instruction >= len(self.places):
            message = f"record {index} is of instruction {instruction}, '{self.plan.name}' has {len(self.places)}"
            raise E0843.error(message, self.location)
        chain, position = self.places[instruction]
        call = self.plan.chains[chain].instructions[position]
        if _CALLS[type(call)] != kind:
            message = f"record {index} is a {CLOSING[kind]}, instruction {instruction} of '{self.plan.name}' is a "
            raise E0843.error(message + CLOSING[_CALLS[type(call)]], self.location)
        return call

    def log(self, index: int, chain: int, instruction: int) -> None:
        for value in self.values.get(index, ()):
            self.events.append(DebugEvent(chain, instruction, self.value(value)))

    def value(self, logged: LoggedValue) -> Value:
        _, is_output, kind, number, tensors = logged
        content: Content = number
        if tensors is not None:
            found = tuple([self.tensor(*tensor) for tensor in tensors])
            content = found[0] if kind == "tensor" else found
        return Value(_KINDS[kind], content, True if is_output else None)

    def tensor(self, number: int, sizes: Sequence[int], strides: Sequence[int], offset: int) -> TensorValue:
        if number not in SCALAR_TYPES:
            raise E0809.error(f"a value has the dtype {number}, which there is not", self.location)
        return TensorValue(SCALAR_TYPES[number], tuple(sizes), tuple(strides), offset)
