"""Rows of an ETDump, of either runtime.

An instruction's events come in the order in which they end: its values, ``native_call_<operator>``, then
``OPERATOR_CALL`` around it, which closes the instruction. The row has the time of the outer one and the name of the
inner one. A delegate's own events and its values are closed by ``DELEGATE_CALL``. What is not closed, because the
recording ended there or times were not recorded, is a row of its own.

etir's runtime says in the metadata of ``Method::init`` which program and method it ran, and what it had no room for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from etir.devtools.profile.profile import LOADING, Kind, LoggedValue, Profile, Row
from etir.emit.etdump import read_etdump
from etir.emit.etdump.model import AllocationEvent, Block, DebugEvent, ETDump, ProfileEvent
from etir.emit.formats.buffers import Buffer
from etir.emit.pte import model as pte

NATIVE_CALL = "native_call_"
CLOSING = {
    "OPERATOR_CALL": Kind.OPERATOR,
    "DELEGATE_CALL": Kind.DELEGATE,
    "MOVE_CALL": Kind.MOVE,
    "JF_CALL": Kind.JUMP,
    "FREE_CALL": Kind.FREE,
}
"""Events that end an instruction."""
LOAD_EVENTS = ("Method::init", "Program::load_method")
RUN_EVENT = "Method::execute"


def read_profile(
    data: Buffer, program: pte.Program | None = None, *, method: str = "", name: str = "<etdump>"
) -> Profile:
    """The rows of an ETDump's bytes; see :func:`profile_of_etdump`. ``name`` is the file for messages.

    Raises ``EtirError`` with ids E0801 to E0841.
    """
    return replace(profile_of_etdump(read_etdump(data, name), program, method=method), name=name)


def profile_of_etdump(etdump: ETDump, program: pte.Program | None = None, *, method: str = "") -> Profile:
    """The rows of an ETDump.

    With the ``program``, operators have their whole names and calls the index of their delegate. ``method`` names the
    one that ran where the file does not say it; by default the first one that has such instructions, ``forward`` before
    others.
    """
    said = _said(etdump)
    found = said.get("method")
    name = found if isinstance(found, str) and found else method or None
    plan = None if program is None else _plan(program, name, etdump)
    rows: list[Row] = []
    values: list[LoggedValue] = []
    runs = 0
    for block in etdump.blocks:
        is_run = _is_run(block)
        reader = _Block(runs if is_run else LOADING, plan)
        reader.read(block)
        rows += reader.rows
        values += reader.values
        runs += is_run
    dropped = said.get("dropped", 0)
    digest = said.get("program")
    return Profile(
        tuple(rows),
        tuple(values),
        runs,
        name if plan is None else plan.name,
        dropped if isinstance(dropped, int) else 0,
        digest if isinstance(digest, str) else None,
    )


def _said(etdump: ETDump) -> dict[str, object]:
    """What etir's runtime says of itself; empty for other runtimes."""
    for block in etdump.blocks:
        for event in block.events:
            if isinstance(event, ProfileEvent) and event.name == LOAD_EVENTS[0] and event.metadata:
                try:
                    found = json.loads(event.metadata)
                except ValueError:
                    return {}
                return found if isinstance(found, dict) else {}
    return {}


def _plan(program: pte.Program, method: str | None, etdump: ETDump) -> pte.ExecutionPlan | None:
    plans = {plan.name: plan for plan in program.execution_plan}
    if method in plans:
        return plans[method]
    if len(plans) == 1:
        return program.execution_plan[0]
    ordered = sorted(plans.values(), key=lambda plan: plan.name != "forward")
    return next((plan for plan in ordered if _has_instructions_of(plan, etdump)), plans.get("forward"))


def _has_instructions_of(plan: pte.ExecutionPlan, etdump: ETDump) -> bool:
    """Whether every kernel that ran is the one that the method calls there."""
    called = {
        (chain, number, event.name.removeprefix(NATIVE_CALL))
        for block in etdump.blocks
        for event in block.events
        if isinstance(event, ProfileEvent) and event.name is not None and event.name.startswith(NATIVE_CALL)
        for chain, number in ((event.chain_index, event.instruction_id),)
    }
    for chain, number, name in called:
        calls = plan.chains[chain].instructions if 0 <= chain < len(plan.chains) else ()
        call = calls[number] if 0 <= number < len(calls) else None
        if not isinstance(call, pte.KernelCall):
            return False
        if plan.operators[call.op_index].full_name.partition("::")[2] != name.rpartition("::")[2]:
            return False
    return True


def _is_run(block: Block) -> bool:
    """Whether it is a run and not the loading before it."""
    names = [event.name for event in block.events if isinstance(event, ProfileEvent)]
    if RUN_EVENT in names:
        return True
    return bool(block.events) and not any(name in LOAD_EVENTS for name in names)


class _Block:
    """Reads the events of one block."""

    def __init__(self, run: int, plan: pte.ExecutionPlan | None):
        self.run = run
        self.plan = plan
        self.rows: list[Row] = []
        self.values: list[LoggedValue] = []
        self.counts: dict[tuple[int, int], int] = {}
        self.outputs = 0
        # Of the instruction that has not been closed yet.
        self.place: tuple[int, int] | None = None
        self.inner: ProfileEvent | None = None
        self.nodes: list[ProfileEvent] = []
        self.logged: list[DebugEvent] = []

    def read(self, block: Block) -> None:
        for event in block.events:
            match event:
                case ProfileEvent():
                    self.profile_event(event)
                case DebugEvent():
                    self.debug_event(event)
                case AllocationEvent():
                    pass
        self.close()

    def at(self, chain: int, instruction: int) -> None:
        """What comes belongs to this instruction; one that was not closed before ends here."""
        if self.place not in (None, (chain, instruction)):
            self.close()
        self.place = (chain, instruction)

    def profile_event(self, event: ProfileEvent) -> None:
        name = event.name or ""
        kind = CLOSING.get(name)
        if event.delegate_id is not None:
            self.at(event.chain_index, event.instruction_id)
            self.nodes.append(event)
        elif name.startswith(NATIVE_CALL) and event.chain_index >= 0:
            self.at(event.chain_index, event.instruction_id)
            if self.inner is not None:  # a second kernel of one instruction that nothing closes
                self.close()
                self.place = (event.chain_index, event.instruction_id)
            self.inner = event
        elif kind is not None and event.chain_index >= 0:
            self.at(event.chain_index, event.instruction_id)
            self.close(event, kind)
        else:
            self.close()
            kind = Kind.RUN if name == RUN_EVENT else Kind.LOAD if name in LOAD_EVENTS else Kind.OTHER
            self.rows.append(Row(self.run, -1, -1, 0, kind, name, event.start_time, event.end_time))

    def debug_event(self, event: DebugEvent) -> None:
        # Of outputs that are numbers, the stock runtime says so by the place alone.
        if event.chain_index < 0 or (event.value is not None and event.value.output):
            self.close()
            self.values.append(LoggedValue(self.run, -1, -1, 0, self.outputs, event.value, None, True))
            self.outputs += 1
            return
        self.at(event.chain_index, event.instruction_id)
        self.logged.append(event)

    def close(self, event: ProfileEvent | None = None, kind: Kind | None = None) -> None:
        """The instruction has ended: by ``event``, or without one."""
        place, inner, nodes, logged = self.place, self.inner, self.nodes, self.logged
        self.place, self.inner, self.nodes, self.logged = None, None, [], []
        if place is None:
            return
        chain, instruction = place
        occurrence = self.counts.get(place, 0)
        self.counts[place] = occurrence + 1
        call = self.call(chain, instruction)
        delegate = call.delegate_index if isinstance(call, pte.DelegateCall) else None
        for node in nodes:
            times = (node.start_time, node.end_time)
            row = Row(self.run, chain, instruction, occurrence, Kind.NODE, node.name or "", *times)
            self.rows.append(replace(row, delegate=delegate, id=node.delegate_id, metadata=node.metadata))
        for position, value in enumerate(logged):
            where = (self.run, chain, instruction, occurrence, position)
            self.values.append(LoggedValue(*where, value.value, value.delegate_id))
        timed = event or inner
        if timed is None:
            return
        kind = kind or Kind.OPERATOR
        name = self.name_of(call, kind, inner)
        times = (timed.start_time, timed.end_time)
        self.rows.append(Row(self.run, chain, instruction, occurrence, kind, name, *times, delegate=delegate))

    def call(self, chain: int, instruction: int) -> pte.Instruction | None:
        """The instruction in the program, where that is known and has it."""
        if self.plan is None or not 0 <= chain < len(self.plan.chains):
            return None
        found: Sequence[pte.Instruction] = self.plan.chains[chain].instructions
        return found[instruction] if 0 <= instruction < len(found) else None

    def name_of(self, call: pte.Instruction | None, kind: Kind, inner: ProfileEvent | None) -> str:
        own = "" if inner is None else (inner.name or "").removeprefix(NATIVE_CALL)
        if self.plan is not None and isinstance(call, pte.KernelCall) and kind is Kind.OPERATOR:
            return self.plan.operators[call.op_index].full_name
        if self.plan is not None and isinstance(call, pte.DelegateCall) and kind is Kind.DELEGATE:
            return self.plan.delegates[call.delegate_index].id
        return own if kind is Kind.OPERATOR else kind.value
