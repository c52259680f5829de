"""``tile-share``: micro-kernels that several products have in common compute the bits of those that each had alone."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from etir.backends.native.cpu import cpu
from etir.backends.native.errors import E1164
from etir.backends.native.kernels.brgemm_result import SHARED
from etir.backends.native.kernels.template import set_schedule
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.print_c import print_c
from etir.backends.native.tile import BrgemmOp, row_major
from etir.diagnostics import EtirError

from etir_testing.native.images import Code, here
from etir_testing.native.random_functions import Function, epilogue

Shape = tuple[int, int, int, int]
"""Rows, steps of depth, columns and taps of a product."""
SHAPES: list[Shape] = [
    (126, 160, 64, 1),
    (30, 300, 64, 1),
    (126, 701, 70, 1),
    (126, 500, 64, 1),
    (28, 80, 64, 3),
    (126, 300, 33, 3),
]


def products(shapes: Sequence[Shape], seed: int) -> tuple[FuncOp, list[np.ndarray]]:
    """A function of products, to each of which a row is added, and numbers for it."""
    function = Function(seed)
    panel = function.panel
    for rows, k, n, taps in shapes:
        counts = (taps,) if taps > 1 else ()
        dense = (*counts, -(-n // panel), k, panel)
        a = function.strided((*counts, rows, k), (*(k for _ in counts), taps * k, 1))
        b, added = function.strided(dense, row_major(dense)), function.strided((rows, n), (0, 1))
        body = epilogue(random.Random(1), 2)

        def make(of, out, a=a, b=b, added=added, body=body, counts=counts):  # type: ignore[no-untyped-def]
            return BrgemmOp(of(a), of(b), out, [of(added)], body.clone(), counts)

        function.step((rows, n), make)
    return function.build(), [data for _, _, data in function.inputs]


def tiles(func: FuncOp, name: str) -> list[str]:
    """The functions of register tiles."""
    return re.findall(r"void (brgemm\d+_\d+x\d+\w*)\(", print_c(func, cpu(name)).text)


def entries_of(func: FuncOp) -> list[set[str]]:
    """What of :data:`SHARED` the schedules say."""
    found = [op.schedule.data for op in func.walk() if isinstance(op, BrgemmOp) and op.schedule is not None]
    return [{name for name in SHARED if name in entries} for entries in found]


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v3", "aarch64"])
def test_there_are_fewer_tiles(name: str) -> None:
    func, _ = products(SHAPES, 0)
    choose_schedules(func, cpu(name))
    alone = tiles(func, name)
    share_kernels(func, cpu(name))
    together = tiles(func, name)
    assert len(together) < len(alone)
    assert any(entries_of(func))


def test_what_is_linked_keeps_its_own() -> None:
    func, _ = products(SHAPES, 0)
    choose_schedules(func, cpu("cortex-m55"))
    share_kernels(func, cpu("cortex-m55"))
    assert not any(entries_of(func))


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([(126, 160, 64, 1), (126, 8, 64, 3)], id="a short one"),
        pytest.param([(126, 160, 64, 1), (126, 180, 64, 1)], id="of the same needs"),
        pytest.param([(126, 160, 64, 1)], id="one alone"),
    ],
)
def test_some_have_nothing_to_share(shapes: list[Shape]) -> None:
    func, _ = products(shapes, 0)
    choose_schedules(func, cpu("x86-64-v4"))
    share_kernels(func, cpu("x86-64-v4"))
    assert not any(entries_of(func))


def test_tiles_of_other_heights_stay_apart() -> None:
    """Two products of which no height is the same would have as many tiles, and longer ones."""
    func, _ = products([(14, 160, 64, 1), (13, 300, 64, 1)], 0)
    choose_schedules(func, cpu("x86-64-v4"))
    share_kernels(func, cpu("x86-64-v4"))
    assert not any(entries_of(func))


@pytest.mark.parametrize("name", here())
@pytest.mark.parametrize("seed", range(3))
def test_the_bits_are_the_same(name: str, seed: int) -> None:
    """A tile with whatever others may need: as the pass chooses, and anything else that a schedule may say."""
    chance = random.Random(seed)
    func, given = products(SHAPES, seed)
    alone = [Code(products([shape], 0)[0], name)(given[3 * i : 3 * i + 3])[0] for i, shape in enumerate(SHAPES)]
    np.testing.assert_equal(Code(func.clone(), name)(given), alone)
    choose_schedules(func, cpu(name))
    for op in func.walk():
        if isinstance(op, BrgemmOp) and op.schedule is not None:
            own = {key: _numbers(value) for key, value in op.schedule.data.items()}
            others = {key: chance.randint(1, 3) for key in SHARED if key != "ends" and chance.random() < 0.6}
            set_schedule(op, {**own, **others})
    np.testing.assert_equal(Code(func, name)(given), alone)


@pytest.mark.parametrize("entry", ["loops", "fetched"])
def test_a_schedule_that_says_too_much_is_refused(entry: str) -> None:
    """Each is as many lines of C."""
    func, _ = products([(126, 160, 64, 1)], 0)
    plan_function(func)
    (op,) = (op for op in func.walk() if isinstance(op, BrgemmOp))
    set_schedule(op, {"tile": [14, 2], "depth": 160, "rows": 126, entry: 1 << 40})
    with pytest.raises(EtirError) as caught:
        print_c(func, cpu("x86-64-v4"))
    assert caught.value.ids == (E1164.id,)


def _numbers(value) -> int | list[int]:  # type: ignore[no-untyped-def]
    """An entry of a schedule."""
    return [one.value.data for one in value] if hasattr(value, "__iter__") else value.value.data
