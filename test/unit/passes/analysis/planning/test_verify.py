"""The verifier finds every kind of mistake, and exactly the pairs that a look at all pairs finds."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.problem import Buffer, Plan, Pool, Problem
from etir.passes.analysis.planning.verify import verify_plan


def ids(found):
    return [diagnostic.id.id for diagnostic in found]


PROBLEM = Problem(
    [
        Buffer(0, 64, ((0, 4),), name="input"),
        Buffer(1, 100, ((2, 6),), name="hidden"),
        Buffer(2, 32, ((5, 8),), name="view", alias_of=(0, 16)),
        Buffer(3, 16, ((0, 8),), name="pinned", fixed_offset=256),
        Buffer(4, 48, ((0, 2), (7, 8)), name="scratch", pool=2),
    ],
    {1: Pool(capacity=512), 2: Pool(padding=64)},
)
GOOD = Plan({0: 0, 1: 64, 2: 16, 3: 256, 4: 0}, {1: 272, 2: 112})


def moved(**changes: int) -> Plan:
    """The good plan with some offsets changed: ``k1=32`` puts buffer 1 at 32."""
    return replace(GOOD, offsets=GOOD.offsets | {int(key[1:]): offset for key, offset in changes.items()})


def test_a_sound_plan_has_nothing_to_say():
    assert verify_plan(PROBLEM, GOOD) == []
    assert verify_plan(Problem([]), Plan({}, {})) == []


@pytest.mark.parametrize(
    ("wrong", "expected", "words"),
    [
        (moved(k1=65), ["E0712"], "'hidden' is at offset 65, which is no multiple of 16"),
        (moved(k1=-16), ["E0713", "E0714", "E0714"], "'hidden' is at bytes [-16, 84), but pool 1 has 272 bytes"),
        (moved(k1=192), ["E0713", "E0714"], "'hidden' is at bytes [192, 292)"),
        (moved(k1=48), ["E0714"], "'input' and 'hidden' share bytes [48, 64) of pool 1, and both are live at instruct"),
        (moved(k1=160), ["E0714"], "'hidden' and 'pinned' share bytes [256, 260) of pool 1, and both are live at"),
        (moved(k2=32), ["E0715"], "'view' is at offset 32, but it aliases byte 16 of 'input', which is at offset 0"),
        (moved(k3=240), ["E0715"], "'pinned' is at offset 240 but was fixed to 256"),
        (
            moved(k4=16),
            ["E0713"],
            "'scratch' is at bytes [16, 64) and 64 bytes of padding follow, but pool 2 has 112 bytes",
        ),
        (replace(GOOD, pool_sizes={1: 256, 2: 112}), ["E0713"], "'pinned' is at bytes [256, 272)"),
        (replace(GOOD, pool_sizes={1: 272}), ["E0711"], "no size for pool 2"),
        (
            replace(GOOD, pool_sizes={1: 528, 2: 112}),
            ["E0704"],
            "pool 1 is planned with 528 bytes, its capacity is 512",
        ),
        (replace(GOOD, offsets={0: 0, 2: 16, 3: 256, 4: 0}), ["E0711"], "no offset for 'hidden'"),
        (moved(k7=0), ["E0711"], "an offset for buffer 7, which the problem does not have"),
    ],
)
def test_each_mistake_is_named(wrong, expected, words):
    found = verify_plan(PROBLEM, wrong)
    assert ids(found) == expected
    assert words in "\n".join(map(str, found))


def test_an_overlap_names_offsets_sizes_and_lifetimes_of_both():
    (found,) = verify_plan(PROBLEM, moved(k1=48))
    assert found.message.endswith("live at instruction 2")
    assert found.notes == (
        "'input': offset 0, 64 bytes, live at instructions [0, 4]",
        "'hidden': offset 48, 100 bytes, live at instructions [2, 6]",
    )


def test_touching_lifetimes_overlap_and_touching_bytes_do_not():
    at = [Buffer(0, 16, ((0, 3),)), Buffer(1, 16, ((3, 5),))]
    assert ids(verify_plan(Problem(at), Plan({0: 0, 1: 0}, {1: 16}))) == ["E0714"]
    after = [at[0], Buffer(1, 16, ((4, 5),))]
    assert verify_plan(Problem(after), Plan({0: 0, 1: 0}, {1: 16})) == []
    assert verify_plan(Problem(at), Plan({0: 0, 1: 16}, {1: 32})) == []


def test_holes_may_be_used_by_others_but_only_holes():
    holed = Buffer(0, 16, ((0, 2), (6, 8)))
    for live, expected in [((3, 5), []), ((2, 5), ["E0714"]), ((3, 6), ["E0714"]), ((0, 8), ["E0714"])]:
        problem = Problem([holed, Buffer(1, 16, (live,))])
        assert ids(verify_plan(problem, Plan({0: 0, 1: 0}, {1: 16}))) == expected


def test_aliases_may_share_with_their_group_and_with_nobody_else():
    base = Buffer(0, 64, ((0, 2),))
    views = [Buffer(key, 32, ((1, 6),), alias_of=(0, 16 * (key - 1))) for key in (1, 2)]
    nested = Buffer(3, 16, ((2, 7),), alias_of=(2, 16))
    offsets = {0: 0, 1: 0, 2: 16, 3: 32}
    assert verify_plan(Problem([base, *views, nested]), Plan(offsets, {1: 64})) == []
    # The base is dead at 5, and of its bytes only [0, 48) are still in use.
    for offset, expected in [(48, []), (32, ["E0714", "E0714"])]:
        problem = Problem([base, *views, nested, Buffer(4, 16, ((5, 5),))])
        assert ids(verify_plan(problem, Plan(offsets | {4: offset}, {1: 64}))) == expected


def test_different_pools_never_overlap_and_empty_buffers_neither():
    problem = Problem([Buffer(0, 16, ((0, 1),)), Buffer(1, 16, ((0, 1),), pool=2), Buffer(2, 0, ((0, 1),))])
    assert verify_plan(problem, Plan({0: 0, 1: 0, 2: 0}, {1: 16, 2: 16})) == []


def test_many_overlaps_are_cut_short_and_say_so():
    problem = Problem([Buffer(key, 16, ((0, 9),)) for key in range(40)])
    everything_at_zero = Plan(dict.fromkeys(range(40), 0), {1: 16})
    found = verify_plan(problem, everything_at_zero, limit=10)
    assert ids(found) == ["E0714"] * 10
    assert found[-1].notes[-1] == "only the first 10 overlaps are listed"
    assert len(verify_plan(problem, everything_at_zero, limit=40 * 39 // 2)) == 40 * 39 // 2
    assert all("only the first" not in str(d) for d in verify_plan(problem, everything_at_zero, limit=780))


placed_buffers = st.lists(
    st.tuples(
        st.integers(0, 40),  # size
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=3),  # lifetime
        st.integers(-10, 60),  # offset
        st.integers(1, 2),  # pool
        st.integers(0, 5),  # 0: an alias of the buffer before, if any
    ),
    max_size=16,
)


@given(placed_buffers)
@settings(max_examples=300, deadline=None)
def test_overlaps_found_are_those_of_all_pairs(described):
    buffers: list[Buffer] = []
    group: list[int] = []
    offsets: dict[int, int] = {}
    for key, (size, spans, offset, pool, kind) in enumerate(described):
        live = tuple((first, first + length) for first, length in spans)
        if kind == 0 and buffers:
            base = buffers[-1]
            size = min(size, base.size)
            buffers.append(Buffer(key, size, live, 1, base.pool, alias_of=(base.key, base.size - size)))
            group.append(group[-1])
            offsets[key] = offsets[base.key] + base.size - size
        else:
            buffers.append(Buffer(key, size, live, 1, pool))
            group.append(key)
            offsets[key] = offset

    def clash(a: int, b: int) -> bool:
        mine, yours = buffers[a], buffers[b]
        instructions = [{t for first, last in x.live for t in range(first, last + 1)} for x in (mine, yours)]
        bytes_ = [set(range(offsets[x.key], offsets[x.key] + x.size)) for x in (mine, yours)]
        return mine.pool == yours.pool and bool(instructions[0] & instructions[1]) and bool(bytes_[0] & bytes_[1])

    count = len(buffers)
    expected = {(a, b) for a in range(count) for b in range(a + 1, count) if group[a] != group[b] and clash(a, b)}
    found = verify_plan(Problem(buffers), Plan(offsets, {1: 1000, 2: 1000}), limit=1000)
    overlaps = [d for d in found if d.id.id == "E0714"]
    pairs = [re.match(r"buffer (\d+) and buffer (\d+) share", d.message) for d in overlaps]
    assert all(pair is not None for pair in pairs)
    named = [(int(pair[1]), int(pair[2])) for pair in pairs if pair is not None]
    assert len(named) == len(overlaps) == len(expected)
    assert set(named) == expected
    assert {d.id.id for d in found} <= {"E0713", "E0714"}


def random_problem(choose: random.Random) -> Problem:
    buffers: list[Buffer] = []
    for key in range(choose.randint(4, 25)):
        first = choose.randrange(15)
        live = ((first, first + choose.randrange(6)),)
        if choose.random() < 0.2:
            live += ((25, 25 + choose.randrange(3)),)
        if buffers and choose.random() < 0.15:
            base = choose.choice(buffers)
            buffers.append(Buffer(key, base.size, live, base.alignment, alias_of=(base.key, 0)))
        else:
            buffers.append(Buffer(key, choose.randint(1, 300), live, choose.choice([16, 16, 64])))
    return Problem(buffers)


@pytest.mark.parametrize("seed", range(60))
def test_seeded_corruptions_of_planned_offsets_are_caught(seed):
    choose = random.Random(seed)
    problem = random_problem(choose)
    good = plan(problem)
    assert verify_plan(problem, good) == []
    buffer = choose.choice([b for b in problem.buffers if b.alias_of is None])

    def corrupted(offset: int) -> Plan:
        return replace(good, offsets=good.offsets | {buffer.key: offset})

    assert "E0712" in ids(verify_plan(problem, corrupted(good.offsets[buffer.key] + buffer.alignment // 2)))
    assert "E0713" in ids(verify_plan(problem, corrupted(good.pool_sizes[1] // 64 * 64 + 64)))
    assert "E0713" in ids(verify_plan(problem, corrupted(-64)))
    assert "E0713" in ids(verify_plan(problem, replace(good, pool_sizes={1: good.pool_sizes[1] - 64})))
    live = {t for first, last in buffer.live for t in range(first, last + 1)}
    for other in problem.buffers:
        root, _ = problem.positions[other.key]
        if root is buffer or not any(t in live for first, last in other.live for t in range(first, last + 1)):
            continue
        found = verify_plan(problem, corrupted(good.offsets[other.key]))
        clashes = [d.message for d in found if d.id.id == "E0714"]
        assert any(str(buffer) in message and str(other) in message for message in clashes)
    for view in problem.buffers:
        if view.alias_of is not None:
            wrong = replace(good, offsets=good.offsets | {view.key: good.offsets[view.key] + 64})
            assert "E0715" in ids(verify_plan(problem, wrong))


def test_many_buffers(record_property):
    """The time is recorded for the curious, not judged."""
    choose = random.Random(0)
    buffers: list[Buffer] = []
    for key in range(5000):
        first = choose.randrange(10_000)
        buffers.append(Buffer(key, choose.randint(1, 10_000), ((first, first + choose.randrange(10)),)))
    problem = Problem(buffers)
    good = plan(problem, "greedy")
    begin = time.perf_counter()
    assert verify_plan(problem, good) == []
    record_property("seconds", time.perf_counter() - begin)
