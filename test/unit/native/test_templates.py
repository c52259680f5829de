"""Templates as machine code of this computer, against what their operations mean: every processor that it can be.

Sizes are around multiples of tiles, panels and vectors; operands have gaps, broadcast dims and permuted dims; memory
that nothing writes is NaN, and so is what lies around every buffer. The code runs between guard pages, too, and with
``ETIR_SANITIZED`` in the environment under sanitizers.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Block, Region, SSAValue

from etir.backends.native.cpu import cpu
from etir.backends.native.elementwise import Body
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.verify_tile import verify_function
from etir.backends.native.tile import (
    BrgemmOp,
    MapOp,
    NormOp,
    PackOp,
    SoftmaxOp,
    TemplateOp,
    YieldOp,
    body_of,
    f32,
    memref,
    row_major,
)

from etir_testing.native.guarded import paged, sanitized
from etir_testing.native.images import Code, here, meaning

pytestmark = pytest.mark.filterwarnings("ignore")
PANEL = 32


class Function:
    """Builds a function of ``tile``; every operation writes an output of its own."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.inputs: list[tuple[tuple[int, ...], tuple[int, ...], np.ndarray]] = []
        self.steps: list[Callable[[Callable[[int], SSAValue], SSAValue], TemplateOp]] = []
        self.outputs: list[tuple[int, ...]] = []

    def tensor(self, shape: tuple[int, ...], columns: bool = True) -> int:
        """An input that is read with strides of its own: gaps between rows, dims in another order, broadcast dims."""
        order = list(range(len(shape) - columns))
        self.random.shuffle(order)
        order += list(range(len(order), len(shape)))
        extents = [shape[d] for d in order]
        repeated = [self.random.random() < 0.2 and d < len(shape) - columns for d in range(len(shape))]
        held = [1 if repeated[d] else n for d, n in zip(order, extents, strict=True)]
        if held:
            held[-1] += self.random.choice([0, 0, 3])
        dense = row_major(held)
        strides = [0] * len(shape)
        for d, step in zip(order, dense, strict=True):
            strides[d] = 0 if repeated[d] else step
        data = self.numbers.standard_normal(max(1, int(np.prod(held)))).astype(np.float32)
        self.inputs.append((shape, tuple(strides), data))
        return len(self.inputs) - 1

    def step(self, shape: tuple[int, ...], make: Callable[[Callable[[int], SSAValue], SSAValue], TemplateOp]) -> None:
        """An operation that writes an output of this shape."""
        self.outputs.append(shape)
        self.steps.append(make)

    def build(self) -> FuncOp:
        types = [memref((data.size,)) for _, _, data in self.inputs] + [memref(shape) for shape in self.outputs]
        block = Block(arg_types=types)

        def operand(number: int) -> SSAValue:
            shape, strides, _ = self.inputs[number]
            static = DenseArrayBase.from_list
            cast = ReinterpretCastOp(
                block.args[number], [], [], [], static(i64, [0]), static(i64, [*shape]), static(i64, [*strides]),
                memref(shape, strides),
            )  # fmt: skip
            block.add_op(cast)
            return cast.results[0]

        for number, make in enumerate(self.steps):
            block.add_op(make(operand, block.args[len(self.inputs) + number]))
        block.add_op(ReturnOp())
        func = FuncOp("forward", (types, []), Region(block))
        func.attributes["native.outputs"] = IntegerAttr(len(self.outputs), i64)
        func.verify()
        return func

    def check(self, tolerance: float = 2e-6) -> None:
        """The code for every processor of this machine computes what the function means."""
        func = self.build()
        given = [data for _, _, data in self.inputs]
        wanted = meaning(func, given, {})
        for name in here():
            for got, want in zip(Code(func.clone(), name)(given), wanted, strict=True):
                scale = max(1.0, float(np.nanmax(np.abs(want), initial=0)))
                np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=tolerance, err_msg=name)
            verify_function(scheduled(func, name), cpu(name), {})
            paged(func.clone(), name, given, {})
            if "ETIR_SANITIZED" in os.environ:
                sanitized(func.clone(), name, given, {})


def scheduled(func: FuncOp, name: str) -> FuncOp:
    """A copy with the schedules of a processor."""
    copy = func.clone()
    choose_schedules(copy, cpu(name))
    return copy


def sizes(chance: random.Random, multiples: tuple[int, ...], most: int = 3) -> int:
    """A size near a multiple of one of these numbers."""
    return max(1, chance.choice(multiples) * chance.randint(1, most) + chance.choice([-1, 0, 0, 1]))


def epilogue(chance: random.Random, count: int, first: int = 0) -> Region:
    """A body of some operators on all of its numbers."""
    region = body_of(count)
    body = Body(region.block, {})
    value: SSAValue = region.block.args[0]
    for arg in region.block.args[1:]:
        value = chance.choice([body.add, body.mul, body.sub])(value, arg)
    value = chance.choice(
        [
            lambda x: x,
            lambda x: body.clamp(x, -1.0, 2.5),
            lambda x: body.mul(x, body.sigmoid(x)),
            lambda x: body.select("ogt", x, 0.0, x, body.mul(x, 0.25)),
        ]
    )(value)
    region.block.add_op(YieldOp(value))
    return region


@pytest.mark.parametrize("seed", range(6))
def test_products(seed: int) -> None:
    function = Function(seed)
    chance = function.random
    for _ in range(8):
        m, k, n = sizes(chance, (1, 6, 14)), sizes(chance, (5, 16)), sizes(chance, (PANEL, 8))
        if chance.random() < 0.2:
            k = 800  # several slices of depth
        batch = tuple(chance.randint(1, 3) for _ in range(chance.choice([0, 0, 1, 2])))
        a, extras = (
            function.tensor((*batch, m, k)),
            [function.tensor((*batch, m, n)) for _ in range(chance.choice([0, 1, 2]))],
        )
        b = function.tensor((*batch, -(-n // PANEL), k, PANEL))
        shape, strides, data = function.inputs[b]
        function.inputs[b] = (shape, row_major(shape), np.resize(data, int(np.prod(shape))))
        body = epilogue(chance, 1 + len(extras))
        function.step(
            (*batch, m, n),
            lambda of, out, a=a, b=b, e=extras, body=body: BrgemmOp(
                of(a), of(b), out, [of(x) for x in e], body.clone()
            ),
        )
    function.check(5e-5)  # sums of 800 products, before a clamp


@pytest.mark.parametrize("seed", range(3))
def test_maps_and_packs(seed: int) -> None:
    function = Function(seed)
    chance = function.random
    for _ in range(10):
        shape = tuple(sizes(chance, (1, 3, 16)) for _ in range(chance.randint(0, 4)))
        inputs = [
            function.tensor(shape, columns=bool(shape) and chance.random() < 0.6) for _ in range(chance.randint(1, 3))
        ]
        body = epilogue(chance, len(inputs))
        function.step(shape, lambda of, out, i=inputs, body=body: MapOp(out, [of(x) for x in i], body.clone()))
    for _ in range(4):
        k, n = sizes(chance, (5, 16)), sizes(chance, (PANEL, 8))
        batch = tuple(chance.randint(1, 3) for _ in range(chance.choice([0, 1])))
        x = function.tensor((*batch, k, n), columns=chance.random() < 0.5)
        function.step((*batch, -(-n // PANEL), k, PANEL), lambda of, out, x=x: PackOp(of(x), out))
    function.check()


@pytest.mark.parametrize("seed", range(3))
def test_rows(seed: int) -> None:
    function = Function(seed)
    chance = function.random
    for number in range(10):
        shape = (*(chance.randint(1, 4) for _ in range(chance.randint(0, 3))), sizes(chance, (1, 8, 16)))
        x = function.tensor(shape)
        if number % 2:
            function.step(shape, lambda of, out, x=x: SoftmaxOp(of(x), out))
            continue
        parameters = [function.tensor(shape[-1:]) for _ in range(chance.choice([0, 2]))]
        function.step(
            shape,
            lambda of, out, x=x, p=parameters: NormOp(of(x), out, [of(v) for v in p], FloatAttr(1e-5, f32)),
        )
    function.check()


def test_numbers_that_are_none() -> None:
    """NaN and infinities go through bodies as in torch, on every processor."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38] * 5, np.float32)
    function = Function(0)
    x = function.tensor((special.size,))
    function.inputs[x] = (special.shape, (1,), special)
    bodies: list[Callable[[Body, SSAValue], SSAValue]] = [
        lambda b, v: b.clamp(v, -1.0, 1.0),
        lambda b, v: b.at_least(v, v),
        lambda b, v: b.sigmoid(v),
        lambda b, v: b.at_most(v, 0.0),
        lambda b, v: b.div(1.0, v),
    ]
    for make in bodies:
        region = body_of(1)
        region.block.add_op(YieldOp(make(Body(region.block, {}), region.block.args[0])))
        function.step(special.shape, lambda of, out, r=region: MapOp(out, [of(x)], r.clone()))
    func = function.build()
    wanted = meaning(func, [special], {})
    for name in here():
        for got, want in zip(Code(func.clone(), name)([special]), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
