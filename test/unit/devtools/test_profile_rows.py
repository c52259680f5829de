"""Rows of profiles: what closes an instruction, loops, recordings that ended early, what etir's runtime says."""

from __future__ import annotations

from etir.devtools.profile import Kind, Row, profile_of_etdump
from etir.devtools.profile.profile import LOADING
from etir.emit.etdump.model import AllocationEvent, Block, DebugEvent, ETDump, Event, ProfileEvent, Value, ValueKind
from etir.emit.pte import model as pte

PLAN = pte.ExecutionPlan(
    "encode",
    (pte.Bool(True),),
    (),
    (),
    (
        pte.Chain((pte.KernelCall(0, (0,)), pte.JumpFalseCall(0, 0))),
        pte.Chain((pte.KernelCall(1, (0,)), pte.DelegateCall(0, (0,)), pte.MoveCall(0, 0), pte.FreeCall(0))),
    ),
    (pte.Operator("aten::add", "out"), pte.Operator("aten::sum")),
    (pte.BackendDelegate("XnnpackBackend", b"x"),),
)
PROGRAM = pte.Program((PLAN,))


def operator(name: str, chain: int, instruction: int, start: int, end: int) -> tuple[Event, ...]:
    return (
        ProfileEvent(f"native_call_{name}", chain, instruction, start + 1, end - 1),
        ProfileEvent("OPERATOR_CALL", chain, instruction, start, end),
    )


def run_of(*events: Event) -> ETDump:
    return ETDump((Block("Execute", events),))


def test_kinds_names_and_places() -> None:
    int_value = Value(ValueKind.INT, 3)
    profile = profile_of_etdump(
        ETDump(
            (
                Block("Default", (ProfileEvent("Method::init", -1, 0, 0, 2),)),
                Block(
                    "Execute",
                    (
                        DebugEvent(0, 0, int_value),
                        *operator("add.out", 0, 0, 10, 20),
                        ProfileEvent("JF_CALL", 0, 1, 20, 21),
                        *operator("add.out", 0, 0, 21, 30),
                        ProfileEvent("OPERATOR_CALL", 1, 0, 30, 31),
                        ProfileEvent(None, 1, 1, 32, 33, 0),
                        AllocationEvent(0, 16),
                        ProfileEvent(None, 1, 1, 33, 34, "Add (ND) #1", b"m"),
                        DebugEvent(1, 1, int_value),
                        DebugEvent(1, 1, None, 7),
                        ProfileEvent("DELEGATE_CALL", 1, 1, 31, 35),
                        ProfileEvent("MOVE_CALL", 1, 2, 35, 36),
                        ProfileEvent("FREE_CALL", 1, 3, 36, 37),
                        ProfileEvent("Method::execute", -1, 0, 9, 38),
                        DebugEvent(-1, 0, Value(ValueKind.INT, 5, True)),
                        DebugEvent(-1, 0, int_value),
                        ProfileEvent("mine", -1, 0, 39, 40),
                    ),
                ),
            )
        ),
        PROGRAM,
    )
    assert profile.method == "encode"
    assert profile.runs == 1
    assert profile.rows == (
        Row(LOADING, -1, -1, 0, Kind.LOAD, "Method::init", 0, 2),
        Row(0, 0, 0, 0, Kind.OPERATOR, "aten::add.out", 10, 20),
        Row(0, 0, 1, 0, Kind.JUMP, "jump", 20, 21),
        Row(0, 0, 0, 1, Kind.OPERATOR, "aten::add.out", 21, 30),
        Row(0, 1, 0, 0, Kind.OPERATOR, "aten::sum", 30, 31),
        Row(0, 1, 1, 0, Kind.NODE, "", 32, 33, 0, 0),
        Row(0, 1, 1, 0, Kind.NODE, "", 33, 34, 0, "Add (ND) #1", b"m"),
        Row(0, 1, 1, 0, Kind.DELEGATE, "XnnpackBackend", 31, 35, 0),
        Row(0, 1, 2, 0, Kind.MOVE, "move", 35, 36),
        Row(0, 1, 3, 0, Kind.FREE, "free", 36, 37),
        Row(0, -1, -1, 0, Kind.RUN, "Method::execute", 9, 38),
        Row(0, -1, -1, 0, Kind.OTHER, "mine", 39, 40),
    )
    places = [(v.chain, v.instruction, v.occurrence, v.position, v.id, v.output) for v in profile.values]
    assert places == [
        (0, 0, 0, 0, None, False),
        (1, 1, 0, 0, None, False),
        (1, 1, 0, 1, 7, False),
        (-1, -1, 0, 0, None, True),
        (-1, -1, 0, 1, None, True),
    ]


def test_a_recording_that_ends_early() -> None:
    """What is not closed keeps its place: the kernel's own time, a node without its call, values without times."""
    events = (
        *operator("add.out", 0, 0, 0, 4),
        ProfileEvent("native_call_sum", 1, 0, 5, 6),
        ProfileEvent(None, 1, 1, 7, 8, 3),
    )
    rows = profile_of_etdump(run_of(*events)).rows
    assert [(row.kind, row.instruction, row.name, row.ticks) for row in rows] == [
        (Kind.OPERATOR, 0, "add.out", 4),
        (Kind.OPERATOR, 0, "sum", 1),
        (Kind.NODE, 1, "", 1),
    ]
    values = profile_of_etdump(run_of(DebugEvent(0, 0, None), DebugEvent(0, 1, None), DebugEvent(0, 0, None))).values
    assert [(v.instruction, v.occurrence) for v in values] == [(0, 0), (1, 0), (0, 1)]


def test_clocks_of_32_bits_start_over() -> None:
    (row,) = profile_of_etdump(run_of(ProfileEvent("Method::execute", -1, 0, (1 << 32) - 5, 3))).rows
    assert row.ticks == 8


def test_what_the_runtime_says_of_itself() -> None:
    def saying(metadata: bytes) -> ETDump:
        event = ProfileEvent("Method::init", -1, 0, 0, 1, None, metadata)
        return ETDump((Block("Default", (event,)), Block("Execute", operator("x", 0, 0, 0, 1))))

    profile = profile_of_etdump(saying(b'{"method": "encode", "dropped": 12, "program": "ab"}'), PROGRAM)
    assert (profile.method, profile.dropped, profile.program, profile.runs) == ("encode", 12, "ab", 1)
    for other in (b"\xff", b"[1]", b"{", b'{"dropped": "x", "program": 1, "method": []}'):
        profile = profile_of_etdump(saying(other))
        assert (profile.method, profile.dropped, profile.program) == (None, 0, None)


def test_a_program_with_fewer_instructions() -> None:
    """The profile of another program: places that the program does not have keep the names of the file."""
    (row,) = profile_of_etdump(run_of(*operator("mul.out", 7, 99, 0, 1)), PROGRAM).rows
    assert (row.name, row.chain, row.instruction) == ("mul.out", 7, 99)
