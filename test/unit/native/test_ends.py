"""One register tile for products with other ends: each does what its body says, to the bit."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.arith import AddfOp, ConstantOp, MaximumfOp, MinimumfOp, MulfOp
from xdsl.dialects.builtin import Float32Type, FloatAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from etir.backends.native.cpu import cpu
from etir.backends.native.errors import E1164
from etir.backends.native.kernels.brgemm_ends import ADDED, BEGINS, BIAS, HIGH, LOW, MASKS, ends_of
from etir.backends.native.kernels.template import set_schedule
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.print_c import print_c
from etir.backends.native.tile import BrgemmOp, YieldOp, row_major
from etir.diagnostics import EtirError

from etir_testing.native.images import Code, here
from etir_testing.native.random_functions import Function

F32 = Float32Type()


def body(mask: int, low: float = 0.0, high: float = 6.0, swap: bool = False) -> Region:
    """The body that is an end; ``swap`` has operands of additions in the other order."""
    block = Block(arg_types=[F32] * (1 + bool(mask & BIAS) + bool(mask & ADDED)))
    value, *others = block.args
    value = _then(block, value, others, mask, low, high, swap)
    block.add_op(YieldOp(value))
    return Region(block)


def _then(
    block: Block, value: SSAValue, others: Sequence[SSAValue], mask: int, low: float, high: float, swap: bool
) -> SSAValue:
    for other in others:
        block.add_op(op := AddfOp(other, value) if swap else AddfOp(value, other))
        value = op.result
    for part, bound, kind in ((LOW, low, MaximumfOp), (HIGH, high, MinimumfOp)):
        if mask & part:
            block.add_op(number := ConstantOp(FloatAttr(bound, F32)))
            block.add_op(limited := kind(value, number.result))
            value = limited.result
    return value


def function(products: Sequence[tuple[tuple[int, int, int], int, Region]], lines: int = 0) -> Function:
    """Products [m, k, n] whose bodies read what ends add; ``lines`` of each are together where that is not 0."""
    made = Function(1)
    panel = made.panel
    for (m, k, n), mask, region in products:
        batch = (lines,) if lines else ()
        a = made.strided((*batch, m, k), row_major((*batch, m, k)))
        dense = (*batch, -(-n // panel), k, panel)
        b = made.strided(dense, (*(0 for _ in batch), *row_major(dense)[-3:]))
        wide = (*batch, m, n)
        extras = [made.strided(wide, (*(0 for _ in wide[1:]), 1))] if mask & BIAS else []
        extras += [made.strided(wide, row_major(wide))] if mask & ADDED else []

        def make(of, out, a=a, b=b, extras=extras, region=region):  # type: ignore[no-untyped-def]
            return BrgemmOp(of(a), of(b), out, [of(e) for e in extras], region.clone())

        made.step(wide, make)
    return made


def products_in(func: FuncOp) -> list[BrgemmOp]:
    return [op for op in func.walk() if isinstance(op, BrgemmOp)]


def tiles(func: FuncOp, name: str) -> set[str]:
    """The register tiles of a function, of whole panels."""
    return set(re.findall(r"void (brgemm\d+_\d+x\d+)\(", print_c(func, cpu(name)).text))


ENDS = [0, BIAS, ADDED, BIAS | ADDED, BIAS | LOW, BIAS | ADDED | LOW, BIAS | LOW | HIGH, HIGH]


@pytest.mark.parametrize(
    ("name", "lines"), [("x86-64-v4", 0), ("x86-64-v4", 4), ("x86-64-v3", 0), ("x86-64", 0), ("aarch64", 0)]
)
def test_one_tile_for_all(name: str, lines: int) -> None:
    shape = (84, 160, 64) if not lines else (7, 160, 64)
    func = function([(shape, mask, body(mask)) for mask in ENDS], lines).build()
    plan_function(func)
    choose_schedules(func, cpu(name))
    alone = tiles(func, name)
    share_kernels(func, cpu(name))
    together = tiles(func, name)
    assert len(together) * len(ENDS) == 2 * len(alone)  # what only stores its sums is alone


@pytest.mark.parametrize("name", here())
@pytest.mark.parametrize(("shape", "lines"), [((84, 160, 64), 0), ((33, 900, 70), 0), ((7, 300, 33), 4)])
def test_the_bits_are_the_same(name: str, shape: tuple[int, int, int], lines: int) -> None:
    """Also of infinities, of zeros with a sign, and of bounds that differ from product to product."""
    ends = [(shape, mask, body(mask, -0.5 * number, 0.5 + number)) for number, mask in enumerate(ENDS)]
    made = function(ends, lines)
    func = made.build()
    given = [data.copy() for _, _, data in made.inputs]
    for number, data in enumerate(given):
        data[number % 7 :: 11] = -0.0
        data[number % 5 :: 501] = [np.inf, -np.inf, 1e-41, 0.0][number % 4]
    together = Code(func.clone(), name)(given)
    at = 0
    for one, found in zip(ends, together, strict=True):
        alone = function([one], lines)
        count = len(alone.inputs)
        np.testing.assert_array_equal(Code(alone.build(), name)(given[at : at + count])[0], found)
        at += count
    # A tile of AVX-512 is two whole lines; lower ones go over lines, and keep their own ends.
    assert (name != "x86-64-v4" and lines > 0) or all(
        ("ends" in op.schedule.data) == bool(mask) for op, mask in zip(_scheduled(func, name), ENDS, strict=True)
    )


def _scheduled(func: FuncOp, name: str) -> list[BrgemmOp]:
    func = func.clone()
    plan_function(func)
    choose_schedules(func, cpu(name))
    share_kernels(func, cpu(name))
    return products_in(func)


@pytest.mark.parametrize("name", here())
@pytest.mark.parametrize("seed", range(3))
def test_any_choice_that_has_the_own_end(name: str, seed: int) -> None:
    """Sums that begin with what is added, too: in slices of depth, over the memory of what the body reads."""
    chance = random.Random(seed)
    masks = [ADDED, ADDED | LOW, *chance.sample(ENDS, 4)]
    made = function([((30, 900, 64), mask, body(mask, swap=chance.random() < 0.5)) for mask in masks])
    func = made.build()
    for op in products_in(func)[:2]:
        op.properties["over"] = UnitAttr()
    plan_function(func)
    choose_schedules(func, cpu(name))
    choosing = func.clone()
    for op, other in zip(products_in(func), products_in(choosing), strict=True):
        own = ends_of(op)
        assert own is not None and op.schedule is not None
        entries = {key: _numbers(value) for key, value in op.schedule.data.items()}
        entries["depth"] = 300 if op.over is not None else chance.choice([300, 900])
        begins = None if op.over is None else own.added
        ends = own.asked(begins) | sum(1 << one for one in chance.sample(range(MASKS), 3)) | BEGINS
        set_schedule(op, entries)
        set_schedule(other, {**entries, "ends": ends, "slices": 1})
    given = [data for _, _, data in made.inputs]
    np.testing.assert_equal(Code(choosing, name)(given), Code(func, name)(given))


def test_what_is_no_end() -> None:
    """Other operations, another order, one operand twice, a column for all columns."""
    block = Block(arg_types=[F32] * 2)
    block.add_op(op := MulfOp(*block.args))
    block.add_op(YieldOp(op.result))
    other = Block(arg_types=[F32] * 2)
    other.add_op(number := ConstantOp(FloatAttr(0.0, F32)))
    other.add_op(limited := MaximumfOp(other.args[0], number.result))
    other.add_op(added := AddfOp(limited.result, other.args[1]))
    other.add_op(YieldOp(added.result))
    twice = Block(arg_types=[F32] * 2)
    twice.add_op(once := AddfOp(*twice.args))
    twice.add_op(again := AddfOp(once.result, twice.args[1]))
    twice.add_op(YieldOp(again.result))
    for region in (Region(block), Region(other), Region(twice)):
        (op,) = products_in(function([((30, 160, 64), BIAS, region)]).build())
        assert ends_of(op) is None
    made = Function(1)
    a, b = made.dense((30, 160)), made.dense((-(-64 // made.panel), 160, made.panel))
    column = made.strided((30, 1), (1, 1))
    made.step((30, 64), lambda of, out: BrgemmOp(of(a), of(b), out, [of(column)], body(BIAS)))
    assert ends_of(products_in(made.build())[0]) is None
    for mask, swap in product(ENDS, (False, True)):
        (op,) = products_in(function([((30, 160, 64), mask, body(mask, swap=swap))]).build())
        found = ends_of(op)
        assert found is not None and found.mask == mask


@pytest.mark.parametrize("ends", [1 << (BIAS | LOW), -1, 1 << 40])
def test_a_choice_without_the_own_end_is_refused(ends: int) -> None:
    func = function([((30, 160, 64), BIAS, body(BIAS))]).build()
    plan_function(func)
    choose_schedules(func, cpu("x86-64-v4"))
    (op,) = products_in(func)
    assert op.schedule is not None
    set_schedule(op, {**{key: _numbers(value) for key, value in op.schedule.data.items()}, "ends": ends})
    with pytest.raises(EtirError) as caught:
        print_c(func, cpu("x86-64-v4"))
    assert caught.value.ids == (E1164.id,)


def _numbers(value) -> int | list[int]:  # type: ignore[no-untyped-def]
    """An entry of a schedule."""
    return [one.value.data for one in value] if hasattr(value, "__iter__") else value.value.data
