"""Liveness on small programs written out by hand, against a search over all paths, and by running planned programs."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.liveness import Instruction, live_intervals, live_stretches
from etir.passes.analysis.planning.problem import Buffer, Problem


def op(reads=(), writes=(), to=None) -> Instruction:
    """An instruction that overwrites completely what it writes."""
    return Instruction(tuple(reads), tuple(writes), tuple(writes), to)


def partial(reads=(), writes=(), to=None) -> Instruction:
    """An instruction that may leave some bytes of what it writes as they were."""
    return Instruction(tuple(reads), tuple(writes), (), to)


def test_a_straight_line():
    x, a, b, y = range(4)
    program = [op([x], [a]), op([a], [b]), op([a, b], [y])]
    assert live_intervals(program, inputs=[x], outputs=[y]) == {
        x: ((0, 0),),
        a: ((0, 2),),
        b: ((1, 2),),
        y: ((2, 2),),
    }


def test_a_buffer_written_again_has_a_hole():
    t, y = 0, 1
    program = [op([], [t]), op([t], [y]), op(), op(), op([], [t]), op([t, y], [y])]
    assert live_intervals(program, outputs=[y])[t] == ((0, 1), (4, 5))
    kept = [*program[:4], partial([], [t]), program[5]]
    assert live_intervals(kept, outputs=[y])[t] == ((0, 5),)


def test_what_nobody_reads_is_live_where_it_is_written():
    assert live_intervals([op(), op([], [0]), op()]) == {0: ((1, 1),)}


def test_inputs_are_all_there_at_the_start_even_unused_and_outputs_last_to_the_end():
    program = [op([1], [2]), op(), op()]
    assert live_intervals(program, inputs=[0, 1], outputs=[2]) == {0: ((0, 0),), 1: ((0, 0),), 2: ((0, 2),)}


def test_an_input_that_is_also_the_output():
    assert live_intervals([op([0], [1]), op([1], [])], inputs=[0], outputs=[0])[0] == ((0, 1),)
    assert live_intervals([], inputs=[0], outputs=[0]) == {0: ((0, 0),)}


def test_persistent_buffers_are_always_live():
    assert live_intervals([op(), op([], [5]), op()], persistent=[5]) == {5: ((0, 2),)}


def test_a_branch_needs_what_either_side_needs():
    p, x, a, y = range(4)
    program = [
        op([p], to=[1, 3]),
        op([x], [a]),
        op([a], [y], to=[4]),
        op([], [y]),
        op(),
    ]
    assert live_intervals(program, inputs=[p, x], outputs=[y]) == {
        p: ((0, 0),),
        x: ((0, 1),),
        a: ((1, 2),),
        y: ((2, 4),),
    }


def test_stretches_begin_where_each_branch_writes_a_result():
    """Both branches write y: it is not handed from the end of the one to the beginning of the other."""
    p, y, s = range(3)
    program = [op([p], to=[1, 3]), op([], [y]), op(to=[4]), op([], [y, s]), op()]
    assert live_intervals(program, inputs=[p], outputs=[y])[y] == ((1, 4),)
    found = live_stretches(program, inputs=[p], outputs=[y], persistent=[s])
    assert found[y] == ((1, 2), (3, 4))
    assert found[s] == ((0, 4),)
    assert live_stretches([*program[:3], op([y], [y]), op()], inputs=[p], outputs=[y])[y] == ((1, 4),)


def test_a_result_written_on_one_path_only_keeps_its_old_contents_on_the_other():
    p, y, t = range(3)
    program = [op([], [y]), op([p], to=[2, 4]), op([], [t]), op([t], [y], to=[4]), op([y], [])]
    found = live_intervals(program, inputs=[p])
    # Overwritten at 3, so not needed at 2, but needed on the jump from 1 to 4.
    assert found[y] == ((0, 1), (3, 4))


def test_a_loop_keeps_what_the_next_round_needs():
    carry, invariant, t, y = range(4)
    program = [
        op([], [carry]),
        op([carry, invariant], [t]),  # head of the loop
        op([t], [carry]),
        op([], to=[1, 4]),
        op([carry], [y]),
    ]
    found = live_intervals(program, inputs=[invariant], outputs=[y])
    assert found == {carry: ((0, 4),), invariant: ((0, 3),), t: ((1, 2),), y: ((4, 4),)}


def test_a_result_filled_piece_by_piece_in_a_loop_is_not_live_before_the_loop():
    x, t, y = range(3)
    program = [op([x], [t]), op([t], [t]), op([t]), partial([t], [y]), op([], to=[2, 5]), op()]
    assert live_intervals(program, inputs=[x], outputs=[y])[y] == ((2, 5),)


def test_malformed_programs():
    with pytest.raises(EtirError, match="instruction 0 continues at 7, but there are 2") as refused:
        live_intervals([op(to=[7]), Instruction(full_writes=[3])])
    assert refused.value.ids == ("E0706", "E0706")
    assert "said to fully write buffer 3" in str(refused.value)


BUFFERS = 4


@st.composite
def programs(draw: st.DrawFn) -> list[Instruction]:
    length = draw(st.integers(1, 9))
    some = st.lists(st.integers(0, BUFFERS - 1), max_size=2, unique=True)
    result: list[Instruction] = []
    for _ in range(length):
        writes = draw(some)
        full = [buffer for buffer in writes if draw(st.booleans())]
        successors = draw(st.none() | st.none() | st.lists(st.integers(0, length), max_size=3))
        result.append(Instruction(draw(some), writes, full, successors))
    return result


def successors_of(program: list[Instruction], at: int) -> list[int]:
    """Where the program can go on; its length is the end."""
    successors = program[at].successors
    return [at + 1] if successors is None else list(successors) or [len(program)]


def live_by_search(program, inputs, outputs, persistent) -> dict[int, set[int]]:
    """The definition of liveness, spelled out as walks through the program, one instruction and buffer at a time."""
    end = len(program)

    def needed_before(at: int, buffer: int) -> bool:
        visited: set[int] = set()
        waiting = [at]
        while waiting:
            here = waiting.pop()
            if here == end:
                if buffer in outputs:
                    return True
                continue
            if here in visited:
                continue
            visited.add(here)
            if buffer in program[here].reads:
                return True
            if buffer not in program[here].full_writes:
                waiting += successors_of(program, here)
        return False

    def filled_before(buffer: int) -> set[int]:
        """The instructions that can run after the buffer got something."""
        waiting = [0] if buffer in inputs else []
        for at, instruction in enumerate(program):
            if buffer in instruction.writes:
                waiting += successors_of(program, at)
        reached: set[int] = set()
        while waiting:
            here = waiting.pop()
            if here != end and here not in reached:
                reached.add(here)
                waiting += successors_of(program, here)
        return reached

    result: dict[int, set[int]] = {}
    for buffer in range(BUFFERS):
        filled = filled_before(buffer)
        live = {0} if buffer in inputs else set()
        for at, instruction in enumerate(program):
            touched = buffer in instruction.reads or buffer in instruction.writes
            after = [
                needed_before(then, buffer) if then != end else buffer in outputs for then in successors_of(program, at)
            ]
            if (
                touched
                or buffer in persistent
                or (at in filled and needed_before(at, buffer))
                or ((at in filled or buffer in instruction.writes) and any(after))
                or (buffer in outputs and end in successors_of(program, at))
            ):
                live.add(at)
        result[buffer] = live
    return result


roles = st.lists(st.integers(0, BUFFERS - 1), max_size=2, unique=True)


@given(programs(), roles, roles, st.lists(st.integers(0, BUFFERS - 1), max_size=1))
@settings(max_examples=200, deadline=None)
def test_intervals_are_what_a_search_over_all_paths_finds(program, inputs, outputs, persistent):
    found = live_intervals(program, inputs=inputs, outputs=outputs, persistent=persistent)
    expected = live_by_search(program, inputs, outputs, persistent)
    for buffer in range(BUFFERS):
        intervals = found.get(buffer, ())
        assert {t for first, last in intervals for t in range(first, last + 1)} == expected[buffer], buffer
        assert all(last + 1 < first for (_, last), (first, _) in pairwise(intervals))


class Machine:
    """Runs a program in a shared arena beside a machine where every buffer has its own memory, and compares.

    Bytes that were never written are ``None`` in the separate memories, and nothing may depend on them.
    """

    def __init__(self, sizes: list[int], offsets: dict[int, int], arena_size: int) -> None:
        self.sizes, self.offsets = sizes, offsets
        self.arena = [-1] * arena_size
        self.separate: list[list[int | None]] = [[None] * size for size in sizes]
        self.stamp = 0

    def write(self, buffer: int, count: int) -> None:
        for byte in range(count):
            self.stamp += 1
            self.separate[buffer][byte] = self.arena[self.offsets[buffer] + byte] = self.stamp

    def check(self, buffer: int, count: int | None = None) -> None:
        """Compare all bytes of a buffer, or its first ``count``."""
        at = self.offsets[buffer]
        for byte, expected in enumerate(self.separate[buffer][:count]):
            assert expected is None or self.arena[at + byte] == expected, f"byte {byte} of buffer {buffer}"


@given(programs(), roles, roles, st.lists(st.integers(0, BUFFERS - 1), max_size=1), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_planned_programs_compute_the_same_as_with_separate_memories(program, inputs, outputs, persistent, seed):
    sizes = [1, 2, 3, 2]
    found = live_intervals(program, inputs=inputs, outputs=outputs, persistent=persistent)
    result = plan(Problem([Buffer(key, sizes[key], live, alignment=1) for key, live in found.items()]))
    machine = Machine(sizes, result.offsets, result.pool_sizes.get(1, 0))
    choose = random.Random(seed)
    for buffer in persistent:
        machine.write(buffer, sizes[buffer])
    for _ in range(2):
        for buffer in range(BUFFERS):
            # Contents do not outlive a run, except those of persistent buffers.
            if buffer not in persistent:
                machine.separate[buffer] = [None] * sizes[buffer]
        for buffer in inputs:
            machine.write(buffer, sizes[buffer])
        at, steps = 0, 0
        while at != len(program) and steps < 40:
            instruction = program[at]
            for buffer in instruction.reads:
                machine.check(buffer)
            written = {b: sizes[b] if b in instruction.full_writes else 1 for b in instruction.writes}
            for buffer, count in written.items():
                machine.write(buffer, count)
            # Results must not have run into what was read or into each other. What a write left as it was does not
            # count: perhaps nobody needs it any more.
            for buffer in instruction.reads:
                machine.check(buffer)
            for buffer, count in written.items():
                machine.check(buffer, count)
            at = choose.choice(successors_of(program, at))
            steps += 1
        if at == len(program):
            for buffer in outputs:
                machine.check(buffer)
        for buffer in persistent:
            machine.check(buffer)


def test_five_thousand_instructions(record_property):
    """Times are recorded for the curious, not judged."""
    straight = [op([max(0, key - 1), max(0, key - 7)], [key]) for key in range(5000)]
    begin = time.perf_counter()
    found = live_intervals(straight, outputs=[4999])
    record_property("straight line seconds", time.perf_counter() - begin)
    assert found[100] == ((100, 107),)

    # A branch around every tenth instruction and one loop around everything.
    jumps = [op(i.reads, i.writes, [k + 1, k + 2]) if k % 10 == 0 else i for k, i in enumerate(straight)]
    jumps[4999] = op(jumps[4999].reads, [4999], [0, 5000])
    begin = time.perf_counter()
    found = live_intervals(jumps, outputs=[4999])
    record_property("with jumps seconds", time.perf_counter() - begin)
    assert found[100][0][0] <= 100
    assert found[100][-1][1] >= 107
