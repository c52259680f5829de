"""Results written over operands: what planners may do, and what the verifier lets through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.passes.analysis.planning.algorithms import ALGORITHMS, plan
from etir.passes.analysis.planning.coalescing import variants
from etir.passes.analysis.planning.instance import build_instance, count_conflicts, find_conflicts
from etir.passes.analysis.planning.lower_bound import live_bytes, lower_bound
from etir.passes.analysis.planning.placement import place_in_time
from etir.passes.analysis.planning.problem import Buffer, Plan, Problem, Share
from etir.passes.analysis.planning.verify import verify_plan


def chain(length: int, size: int = 64) -> Problem:
    """Each instruction reads the buffer before and writes the next one, over which it may be written."""
    buffers = [Buffer(i, size, ((i, i + 1),)) for i in range(length)]
    return Problem(buffers, shares=[Share(i + 1, i, i + 1) for i in range(length - 1)])


def ids(problem: Problem, plan: Plan) -> list[str]:
    return [diagnostic.id.id for diagnostic in verify_plan(problem, plan)]


def test_a_chain_is_one_buffer() -> None:
    """64 bytes, not 2 x 64; the bound says so; the algorithms that stand for other compilers do not."""
    problem = chain(100)
    assert lower_bound(problem)[1].bytes == 64
    assert live_bytes(problem, 1) == [64] * 101
    for name, size in {"auto": 64, "best_fit": 64, "search": 64, "in_time": 64, "greedy": 128, "naive": 6400}.items():
        found = plan(problem, name)
        assert found.pool_sizes[1] == size, name
        assert verify_plan(problem, found) == []


def test_not_above_what_it_is_without() -> None:
    """A small result in a large operand would keep the operand: 1024 bytes for instructions 1 to 9, and 992 beside."""
    buffers = [Buffer(0, 1024, ((0, 1),)), Buffer(1, 16, ((1, 9),)), Buffer(2, 1024, ((2, 9),))]
    problem = Problem(buffers, shares=[Share(1, 0, 1)])
    # Written over: 1024 + 1024. Apart: 1024 + 16.
    assert [max(g.live[-1][1] for g in v.groups) for v in variants(problem)] == [9, 9]
    assert plan(problem).pool_sizes[1] == 1040


def test_written_over_in_a_row() -> None:
    """A sum is written over what is added to, and the sum is written over by what has been that sum's place before:
    they are one buffer though the sum lives at two of its instructions.
    """
    buffers = [Buffer(0, 64, ((1, 4),)), Buffer(1, 64, ((4, 5),)), Buffer(2, 64, ((0, 1), (5, 6)))]
    problem = Problem([*buffers, Buffer(3, 256, ((3, 4),))], shares=[Share(1, 2, 0), Share(4, 0, 1), Share(5, 1, 2)])
    found = plan(problem)
    assert found.pool_sizes[1] == 320
    assert found.offsets[0] == found.offsets[1] == found.offsets[2]
    assert verify_plan(problem, found) == []
    # Nothing says that the last one may be over the sum.
    apart = plan(Problem(problem.buffers, shares=[Share(1, 2, 0), Share(4, 0, 1)]))
    assert apart.pool_sizes[1] == 384


def test_written_over_and_back() -> None:
    """A sum is written over what is added to, and copied back to where that was: two buffers, twice in a row."""
    buffers = [Buffer(0, 64, ((0, 2), (3, 5))), Buffer(1, 64, ((2, 3),))]
    problem = Problem(buffers, shares=[Share(2, 0, 1), Share(3, 1, 0)])
    found = plan(problem)
    assert found.pool_sizes[1] == 64 and verify_plan(problem, found) == []
    assert ids(Problem(buffers, shares=[Share(2, 0, 1)]), found) == ["E0714"]


def test_written_over_in_each_branch() -> None:
    """Two branches, 2 and 3 and then 4 and 5, write the same result over their operands, which begins twice."""
    buffers = [Buffer(0, 64, ((0, 2),)), Buffer(1, 64, ((0, 1), (4, 4))), Buffer(2, 64, ((2, 3), (4, 6)))]
    problem = Problem(buffers, shares=[Share(2, 0, 2), Share(4, 1, 2)])
    found = plan(problem)
    assert verify_plan(problem, found) == [] and found.pool_sizes[1] == 128
    apart = Problem([Buffer(1, 64, ((4, 4),)), buffers[2]], shares=[Share(4, 1, 2)])
    assert ids(apart, Plan({1: 0, 2: 0}, {1: 64}, {})) == []
    joined = Problem([Buffer(1, 64, ((4, 4),)), Buffer(2, 64, ((2, 6),))], shares=[Share(4, 1, 2)])
    assert ids(joined, Plan({1: 0, 2: 0}, {1: 64}, {})) == ["E0714"]


def test_live_bytes() -> None:
    """At each instruction, in one pool; the largest of them is the bound."""
    buffers = [Buffer(0, 16, ((2, 4),)), Buffer(1, 30, ((3, 3), (6, 6))), Buffer(2, 64, ((0, 9),), pool=2)]
    problem = Problem(buffers)
    assert live_bytes(problem, 1) == [0, 0, 16, 48, 16, 0, 32]
    assert live_bytes(problem, 2) == [64] * 10
    assert live_bytes(problem, 3) == []
    assert {pool: bound.bytes for pool, bound in lower_bound(problem).items()} == {1: 48, 2: 64}


def test_what_is_free_between_parts() -> None:
    """1024 bytes for instruction 2 alone, and a part of them that is there before: the other half is free until then.
    The whole from instruction 0 on, and 512 beside it, are 1536.
    """
    buffers = [Buffer(0, 64, ((0, 2),)), Buffer(1, 1024, ((2, 2),)), Buffer(2, 512, ((0, 1),))]
    problem = Problem(buffers, shares=[Share(2, 0, 1, -512)])
    found = plan(problem)
    assert (found.offsets[1] + 512, found.pool_sizes) == (found.offsets[0], {1: 1024})
    assert verify_plan(problem, found) == []


def test_over_a_buffer_that_is_fixed() -> None:
    """The result goes to where the operand is said to be, or the operand to where the result is."""
    for fixed in (0, 1):
        buffers = [Buffer(n, 64, ((n, n + 1),), fixed_offset=32 if n == fixed else None) for n in (0, 1)]
        problem = Problem(buffers, shares=[Share(1, 0, 1)])
        found = plan(problem)
        assert (found.offsets, found.pool_sizes) == ({0: 32, 1: 32}, {1: 96})
        assert verify_plan(problem, found) == []


def test_fixed_over_one_another() -> None:
    """Two buffers at fixed places may be so where the one may be written over the other, and are refused elsewhere."""
    buffers = [Buffer(0, 64, ((0, 1),), fixed_offset=32), Buffer(1, 32, ((1, 2),), fixed_offset=48)]
    problem = Problem(buffers, shares=[Share(1, 0, 1, 16)])
    assert verify_plan(problem, plan(problem)) == []
    with pytest.raises(EtirError) as refused:
        plan(Problem(buffers, shares=[Share(1, 0, 1, 32)]))
    assert refused.value.ids == ("E0703",)


@pytest.mark.parametrize("count", [3, 4, 6])
def test_fixed_ends_of_a_chain(count: int) -> None:
    """An input and a result at one place, between which each is written over the one before, as a sum goes through the
    layers of a transformer: all of them lie there, beside what the layers need for themselves.
    """
    ends = (0, count - 1)
    buffers = [Buffer(n, 64, ((n, n + 1),), fixed_offset=128 if n in ends else None) for n in range(count)]
    buffers += [Buffer(count + n, 128, ((n, n),)) for n in range(1, count - 1)]
    problem = Problem(buffers, shares=[Share(n + 1, n, n + 1) for n in range(count - 1)])
    found = plan(problem)
    assert [found.offsets[n] for n in range(count)] == [128] * count
    assert found.pool_sizes == {1: 192}
    assert verify_plan(problem, found) == []


def test_fixed_ends_at_other_places() -> None:
    """The chain breaks somewhere where its ends are not at one place."""
    places = (0, None, 64)
    buffers = [Buffer(n, 64, ((n, n + 1),), fixed_offset=at) for n, at in enumerate(places)]
    problem = Problem(buffers, shares=[Share(1, 0, 1), Share(2, 1, 2)])
    found = plan(problem)
    assert found.pool_sizes == {1: 128}
    assert verify_plan(problem, found) == []


def test_a_fixed_buffer_in_a_larger_one() -> None:
    """What is written over a smaller operand, whose place is given, stays apart from it."""
    problem = Problem([Buffer(0, 64, ((0, 1),), fixed_offset=32), Buffer(1, 96, ((1, 2),))], shares=[Share(1, 0, 1)])
    found = plan(problem)
    assert found.offsets[0] == 32
    assert verify_plan(problem, found) == []


def test_a_fixed_buffer_in_the_way() -> None:
    """What is joined to a fixed buffer may not live on where another one is fixed to the same bytes."""
    buffers = [
        Buffer(0, 64, ((0, 1),), fixed_offset=0),
        Buffer(1, 64, ((1, 6),)),
        Buffer(2, 64, ((3, 5),), fixed_offset=0),
        Buffer(3, 64, ((6, 7),)),
        Buffer(4, 64, ((6, 6),)),
    ]
    problem = Problem(buffers, shares=[Share(1, 0, 1), Share(6, 1, 3)])
    found = plan(problem)
    assert found.pool_sizes == {1: 128}
    assert found.offsets[1] == found.offsets[3] == 64
    assert verify_plan(problem, found) == []


def test_a_part_of_an_operand() -> None:
    """A result of half the size, 32 bytes into the operand."""
    problem = Problem([Buffer(0, 64, ((0, 1),)), Buffer(1, 32, ((1, 2),))], shares=[Share(1, 0, 1, 32)])
    found = plan(problem)
    assert (found.offsets, found.pool_sizes) == ({0: 0, 1: 32}, {1: 64})
    assert verify_plan(problem, found) == []
    assert ids(problem, Plan({0: 0, 1: 16}, {1: 64})) == ["E0714"]


def test_two_operands() -> None:
    """Both die, and both could take the result: it lies in one of them."""
    buffers = [Buffer(0, 64, ((0, 2),)), Buffer(1, 64, ((1, 2),)), Buffer(2, 64, ((2, 3),))]
    problem = Problem(buffers, shares=[Share(2, 0, 2), Share(2, 1, 2)])
    assert plan(problem).pool_sizes == {1: 128} == {1: lower_bound(problem)[1].bytes}


@pytest.mark.parametrize(
    ("live", "shares"),
    [
        pytest.param(((0, 3),), [Share(1, 0, 1)], id="the operand lives on"),
        pytest.param(((0, 2),), [Share(1, 0, 1), Share(2, 0, 1)], id="one instruction too long"),
        pytest.param(((0, 1),), [], id="nobody may"),
        pytest.param(((0, 1),), [Share(2, 0, 1)], id="at another instruction"),
        pytest.param(((0, 1), (2, 2)), [Share(1, 0, 1)], id="the operand comes back"),
    ],
)
def test_the_verifier_refuses(live: tuple[tuple[int, int], ...], shares: list[Share]) -> None:
    """One place for two buffers that are live at instructions 1 and 2, say."""
    problem = Problem([Buffer(0, 64, live), Buffer(1, 64, ((1, 2),))], shares=shares)
    assert ids(problem, Plan({0: 0, 1: 0}, {1: 64})) == ["E0714"]


def test_malformed() -> None:
    """What a share names has to be there and to fit."""
    buffers = [Buffer(0, 64, ((0, 1),)), Buffer(1, 32, ((1, 2),)), Buffer(2, 32, ((1, 2),), pool=2)]
    for share in (Share(1, 0, 7), Share(1, 0, 2), Share(1, 0, 1, 64), Share(1, 1, 0, -64)):
        with pytest.raises(EtirError) as refused:
            Problem(buffers, shares=[share])
        assert refused.value.ids == ("E0702",)


@st.composite
def programs(draw: st.DrawFn) -> Problem:
    """Straight-line programs: instruction i writes buffer i after reading some; those that die may be written over."""
    count = draw(st.integers(1, 14))
    sizes = [draw(st.sampled_from([16, 32, 48, 64])) for _ in range(count)]
    last = list(range(count))
    reads: list[list[int]] = []
    for index in range(count):
        read = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else []
        reads.append(read)
        for buffer in read:
            last[buffer] = index
    shares: list[Share] = []
    for index, read in enumerate(reads):
        for buffer in read:
            if last[buffer] == index and sizes[buffer] >= sizes[index] and draw(st.booleans()):
                room = (sizes[buffer] - sizes[index]) // 16
                shares.append(Share(index, buffer, index, 16 * draw(st.integers(0, room))))
    return Problem([Buffer(i, sizes[i], ((i, last[i]),)) for i in range(count)], shares=shares)


@settings(max_examples=300, deadline=None)
@given(programs())
def test_plans_hold(problem: Problem) -> None:
    """Every plan verifies, is not above the one without sharing, nor beneath the bound."""
    apart = Problem(problem.buffers)
    bound = lower_bound(problem)[1].bytes
    for name in ("auto", *ALGORITHMS):
        found = plan(problem, name)
        assert verify_plan(problem, found) == [], name
        assert bound <= found.pool_sizes[1] <= plan(apart, name).pool_sizes[1], name


@settings(max_examples=300, deadline=None)
@given(programs(), st.data())
def test_values_survive(problem: Problem, data: st.DataObject) -> None:
    """Run it: each instruction checks what it reads, then writes its number to every byte of its result."""
    found = plan(problem)
    memory = [-1] * found.pool_sizes[1]
    for index, buffer in enumerate(problem.buffers):
        for other in problem.buffers[:index]:
            if other.live[0][1] >= index:
                begin = found.offsets[other.key]
                assert memory[begin : begin + other.size] == [other.key] * other.size
        begin = found.offsets[buffer.key]
        memory[begin : begin + buffer.size] = [buffer.key] * buffer.size


lives = st.lists(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), min_size=1, max_size=2).map(
        lambda spans: tuple((first, first + more) for first, more in spans)
    ),
    max_size=12,
)


@given(lives)
def test_conflicts_are_counted(found: list[tuple[tuple[int, int], ...]]) -> None:
    """The number of pairs of intervals is that of those listed, where no lifetime has a hole."""
    whole = [(live[0],) for live in found]
    assert count_conflicts(whole) == sum(map(len, find_conflicts(whole))) // 2


@given(lives, st.booleans())
def test_in_time(found: list[tuple[tuple[int, int], ...]], backward: bool) -> None:
    """An allocator's placement is a plan, forward and backward, with alignments and pinned buffers."""
    buffers = [Buffer(i, 16 * (1 + i % 3), live, alignment=64 if i % 4 == 1 else 16) for i, live in enumerate(found)]
    buffers.append(Buffer(99, 40, ((0, 30),), fixed_offset=16))
    problem = Problem(buffers)
    instance = build_instance(problem, 1, lower_bound(problem)[1])
    placement = place_in_time(instance, backward=backward)
    offsets = {group.root.key: offset for group, offset in zip(instance.groups, placement, strict=True)}
    assert verify_plan(problem, Plan(offsets, {1: instance.height(placement)})) == []


def test_many_that_live_at_once() -> None:
    """20,000 at once, then their sum: 200 million pairs, which nobody lists. At the end all bytes are in use."""
    count = 20_000
    buffers = [Buffer(i, 16, ((i, count + i),)) for i in range(count)]
    buffers += [Buffer(count + i, 16, ((count + i, count + i + 1),)) for i in range(count)]
    problem = Problem(buffers)
    found = plan(problem)
    assert found.algorithms == {1: "in_time"}
    assert found.pool_sizes[1] == lower_bound(problem)[1].bytes == 16 * (count + 1)
    assert verify_plan(problem, found) == []
