"""The definitions: what a problem accepts, how aliases group, and what the lower bound says."""

from __future__ import annotations

import pytest

from etir.diagnostics import EtirError
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.problem import Buffer, Pool, Problem, align_up, merge_intervals


def test_intervals_merge_when_they_touch_or_overlap():
    assert merge_intervals([(7, 9), (0, 2), (3, 4), (8, 12), (8, 8)]) == ((0, 4), (7, 12))
    assert merge_intervals([]) == ()


def test_align_up():
    assert [align_up(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]


@pytest.mark.parametrize(
    ("buffers", "pools", "ids", "words"),
    [
        ([Buffer(0, -1, ((0, 1),), name="x")], {}, ("E0701",), "'x' has size -1 bytes"),
        ([Buffer(0, 8, ((0, 1),), alignment=12)], {}, ("E0701",), "buffer 0 has alignment 12"),
        ([Buffer(0, 8, ((0, 1),), alignment=0)], {}, ("E0701",), "alignment 0"),
        ([Buffer(0, 8, ((3, 1),))], {}, ("E0701",), "live from instruction 3 to 1"),
        ([Buffer(0, 8, ((0, 1),), pool=0)], {}, ("E0701",), "is in pool 0"),
        ([Buffer(0, 8, (), name="a"), Buffer(0, 8, (), name="b")], {}, ("E0701",), "'b' and 'a' have the same key 0"),
        ([], {1: Pool(capacity=-1)}, ("E0701",), "pool 1 has capacity -1"),
        ([], {0: Pool()}, ("E0701",), "pool 0"),
        ([Buffer(0, 8, (), fixed_offset=8)], {}, ("E0703",), "fixed offset 8 and alignment 16"),
        ([Buffer(0, 8, (), fixed_offset=-16)], {}, ("E0703",), "fixed offset -16"),
        ([Buffer(0, 8, (), alias_of=(9, 0))], {}, ("E0702",), "aliases buffer 9, which does not exist"),
        ([Buffer(0, 8, (), alias_of=(0, 0))], {}, ("E0702",), "ends at no buffer"),
        (
            [Buffer(0, 8, (), alias_of=(1, 0)), Buffer(1, 8, (), alias_of=(0, 0))],
            {},
            ("E0702", "E0702"),
            "ends at no buffer",
        ),
        ([Buffer(0, 8, ()), Buffer(1, 8, (), alias_of=(0, 0), pool=2)], {}, ("E0702",), "in pool 2 aliases buffer 0"),
        ([Buffer(0, 8, ()), Buffer(1, 8, (), 1, alias_of=(0, 1))], {}, ("E0702",), "covers bytes [1, 9)"),
        ([Buffer(0, 64, ()), Buffer(1, 8, (), alias_of=(0, 8))], {}, ("E0702",), "alignment 16 starts at byte 8"),
        (
            [Buffer(0, 64, ()), Buffer(1, 8, (), alias_of=(0, 16), fixed_offset=16)],
            {},
            ("E0702",),
            "has the fixed offset 16 as well",
        ),
        (
            [Buffer(0, 64, (), 8, fixed_offset=8), Buffer(1, 8, (), 16, alias_of=(0, 0))],
            {},
            ("E0703",),
            "its alias buffer 1 has alignment 16",
        ),
    ],
)
def test_malformed_problems_are_refused_with_names_and_numbers(buffers, pools, ids, words):
    with pytest.raises(EtirError) as refused:
        Problem(buffers, pools)
    assert refused.value.ids == ids
    assert words in str(refused.value)


def test_all_mistakes_are_reported_together():
    with pytest.raises(EtirError) as refused:
        Problem([Buffer(0, -1, ()), Buffer(1, 8, (), alignment=3), Buffer(2, 8, ((1, 0),))])
    assert refused.value.ids == ("E0701",) * 3


def test_an_alias_of_an_alias_must_be_aligned_where_it_really_is():
    root, inner = Buffer(0, 64, (), 16), Buffer(1, 32, (), 8, alias_of=(0, 8))
    with pytest.raises(EtirError, match="starts at byte 8 of buffer 0"):
        Problem([root, inner, Buffer(2, 16, (), 16, alias_of=(1, 0))])
    assert Problem([root, inner, Buffer(2, 16, (), 16, alias_of=(1, 8))]).positions[2] == (root, 16)


def test_aliases_group_with_their_root_whatever_the_order():
    leaf = Buffer(0, 8, ((9, 9),), 32, alias_of=(1, 0))
    middle = Buffer(1, 16, ((5, 6),), 16, alias_of=(2, 32))
    root = Buffer(2, 64, ((0, 4),), 16)
    other = Buffer(3, 8, ((1, 1),))
    first, second = Problem([leaf, middle, root, other]).groups
    assert (first.root, first.members, first.alignment, first.live) == (
        root,
        (root, leaf, middle),
        32,
        ((0, 6), (9, 9)),
    )
    assert (second.root, second.members) == (other, (other,))


def test_lower_bound_of_each_pool_with_the_peak():
    bounds = lower_bound(
        Problem(
            [
                Buffer(0, 100, ((0, 3),)),  # 112 with 16-byte granules
                Buffer(1, 16, ((3, 5),)),  # touches buffer 0 at instruction 3
                Buffer(2, 32, ((3, 3), (8, 9))),
                Buffer(3, 500, ((4, 7),), pool=2),
                Buffer(4, 1000, ((8, 9),), pool=2),
            ],
            {2: Pool(padding=64)},
        )
    )
    assert list(bounds) == [1, 2]
    assert (bounds[1].bytes, bounds[1].peak_bytes, bounds[1].instruction) == (112 + 32 + 16, 160, 3)
    assert bounds[1].alive == (0, 2, 1)
    assert (bounds[2].bytes, bounds[2].peak_bytes, bounds[2].instruction) == (1008 + 64, 1008, 8)
    assert bounds[2].alive == (4,)


def test_lower_bound_counts_in_granules_of_the_smallest_alignment():
    bound = lower_bound(Problem([Buffer(0, 1, ((0, 0),), 64), Buffer(1, 3, ((0, 0),), 4)]))[1]
    assert bound.bytes == 4 + 4


def test_lower_bound_covers_buffers_that_are_never_live_and_fixed_ones():
    assert lower_bound(Problem([Buffer(0, 64, ()), Buffer(1, 16, ((0, 0),))]))[1].bytes == 64
    assert lower_bound(Problem([Buffer(0, 16, ((0, 0),), fixed_offset=96)]))[1].bytes == 112
    unused = lower_bound(Problem([Buffer(0, 64, ())]))[1]
    assert (unused.instruction, unused.alive) == (None, ())


def test_nothing_to_plan():
    assert lower_bound(Problem([])) == {}
