"""Functions of ``tile`` made at random: every template, with sizes around multiples of tiles, panels and vectors.

Operands have gaps, broadcast dims and permuted dims; memory that nothing writes is NaN. Code of this machine runs
between guard pages, too, and with ``ETIR_SANITIZED`` in the environment under sanitizers.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import math as log_ops
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from etir.backends.native.body import Body
from etir.backends.native.cpu import cpu
from etir.backends.native.flags import flags
from etir.backends.native.loop import LoopOp
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.passes.verify_tile import verify_function
from etir.backends.native.row_loop import RowsOp
from etir.backends.native.tile import (
    COMBINATIONS,
    BrgemmOp,
    BufferOp,
    DepthwiseOp,
    MapOp,
    NormOp,
    PackOp,
    PoolOp,
    ReduceOp,
    SoftmaxOp,
    TemplateOp,
    YieldOp,
    body_of,
    f32,
    identity,
    memref,
    row_major,
)

from etir_testing.native.guarded import paged, sanitized
from etir_testing.native.images import Code, here, meaning


class Function:
    """Builds a function of ``tile``; every operation writes an output of its own."""

    def __init__(self, seed: int, panel: int = 32):
        self.panel = panel
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
        return self.strided(shape, tuple(strides), math.prod(held))

    def dense(self, shape: tuple[int, ...]) -> int:
        """An input without gaps."""
        return self.strided(shape, row_major(shape))

    def strided(self, shape: tuple[int, ...], strides: Sequence[int], count: int = 0) -> int:
        """An input that is read with these strides, of ``count`` numbers (0: as many as are read)."""
        count = count or 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        self.inputs.append((shape, tuple(strides), self.numbers.standard_normal(max(1, count)).astype(np.float32)))
        return len(self.inputs) - 1

    def truth(self, shape: tuple[int, ...]) -> int:
        """An input of truth values."""
        self.inputs.append((shape, (), self.numbers.random(shape) < 0.5))
        return len(self.inputs) - 1

    def step(self, shape: tuple[int, ...], make: Callable[[Callable[[int], SSAValue], SSAValue], TemplateOp]) -> None:
        """An operation that writes an output of this shape."""
        self.outputs.append(shape)
        self.steps.append(make)

    def build(self) -> FuncOp:
        given = [flags(s) if data.dtype == np.bool_ else memref((data.size,)) for s, _, data in self.inputs]
        types = [*given, *map(memref, self.outputs)]
        block = Block(arg_types=types)

        def operand(number: int) -> SSAValue:
            shape, strides, data = self.inputs[number]
            if data.dtype == np.bool_:
                return block.args[number]
            static = DenseArrayBase.from_list
            cast = ReinterpretCastOp(
                block.args[number], [], [], [], static(i64, [0]), static(i64, [*shape]), static(i64, [*strides]),
                memref(shape, strides),
            )  # fmt: skip
            block.add_op(cast)
            return cast.results[0]

        for number, make in enumerate(self.steps):
            op = make(operand, block.args[len(self.inputs) + number])
            for value in op.operands:
                if isinstance(value.owner, (BufferOp, ReinterpretCastOp)) and value.owner.parent is None:
                    block.add_op(value.owner)
            block.add_op(op)
        block.add_op(ReturnOp())
        func = FuncOp("forward", (types, []), Region(block))
        func.attributes["native.outputs"] = IntegerAttr(len(self.outputs), i64)
        func.verify()
        return func

    def check(self, tolerance: float = 1e-5, names: Sequence[str] = ()) -> None:
        """The code for some processors (default: those of this machine) computes what the function means.

        The tolerance is for products before a body; other operations are given a smaller one.
        """
        names = names or here()
        func = self.build()
        given = [data for _, _, data in self.inputs]
        wanted = meaning(func, given, {})
        for name in names:
            for got, want in zip(Code(func.clone(), name)(given), wanted, strict=True):
                scale = max(1.0, float(np.nanmax(np.abs(want), initial=0)))
                np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=tolerance, err_msg=name)
            verify_function(scheduled(func, name), cpu(name), {})
            if name in here():
                paged(func.clone(), name, given, {})
                if "ETIR_SANITIZED" in os.environ:
                    sanitized(func.clone(), name, given, {})


def scheduled(func: FuncOp, name: str) -> FuncOp:
    """A copy with the schedules of a processor."""
    copy = func.clone()
    choose_schedules(copy, cpu(name))
    share_kernels(copy, cpu(name))
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


def products(function: Function, count: int = 8) -> None:
    """Products with batches, bodies and several slices of depth."""
    chance, wide = function.random, function.panel
    for _ in range(count):
        m, k, n = sizes(chance, (1, 6, 14)), sizes(chance, (5, 16)), sizes(chance, (wide, 8))
        if chance.random() < 0.2:
            k = 800  # several slices of depth
        batch = tuple(chance.randint(1, 3) for _ in range(chance.choice([0, 0, 1, 2])))
        a, extras = (
            function.tensor((*batch, m, k)),
            [function.tensor((*batch, m, n)) for _ in range(chance.choice([0, 1, 2]))],
        )
        b = function.dense((*batch, -(-n // wide), k, wide))
        body = epilogue(chance, 1 + len(extras))
        function.step(
            (*batch, m, n),
            lambda of, out, a=a, b=b, e=extras, body=body: BrgemmOp(
                of(a), of(b), out, [of(x) for x in e], body.clone()
            ),
        )
    for panel in (4, 8, 16, 32):  # a matrix as it lies, also with panels that are narrower than a vector
        m, k, parts, gap = sizes(chance, (1, 6)), sizes(chance, (5, 16)), chance.randint(1, 3), chance.randint(0, 3)
        n = panel * parts
        a = function.tensor((2, m, k))
        b = function.strided((2, parts, k, panel), (k * (n + gap), panel, n + gap, 1))
        body = epilogue(chance, 1)
        function.step((2, m, n), lambda of, out, a=a, b=b, body=body: BrgemmOp(of(a), of(b), out, [], body.clone()))


def maps(function: Function, count: int = 10) -> None:
    """Elementwise bodies, and packing."""
    chance, wide = function.random, function.panel
    for _ in range(count):
        shape = tuple(sizes(chance, (1, 3, 16)) for _ in range(chance.randint(0, 4)))
        inputs = [
            function.tensor(shape, columns=bool(shape) and chance.random() < 0.6) for _ in range(chance.randint(1, 3))
        ]
        body = epilogue(chance, len(inputs))
        function.step(shape, lambda of, out, i=inputs, body=body: MapOp(out, [of(x) for x in i], body.clone()))
    plain = body_of(1)
    plain.block.add_op(YieldOp(plain.block.args[0]))
    for planes in range(2, 6):  # channels side by side of planes
        image = (chance.randint(1, 2), chance.randint(1, 4), 15 + chance.randint(0, 20), planes)
        n, h, w, c = image
        x = function.strided(image, (c * h * w, w, 1, h * w))
        function.step(image, lambda of, out, x=x: MapOp(out, [of(x)], plain.clone()))
    for _ in range(count // 2):
        k, n = sizes(chance, (5, 16)), sizes(chance, (wide, 8))
        batch = tuple(chance.randint(1, 3) for _ in range(chance.choice([0, 1])))
        x = function.tensor((*batch, k, n), columns=chance.random() < 0.5)
        function.step((*batch, -(-n // wide), k, wide), lambda of, out, x=x: PackOp(of(x), out))


def rows(function: Function, count: int = 10) -> None:
    """Softmax and its logarithm, and norms with and without parameters."""
    chance = function.random
    for number in range(count):
        shape = (*(chance.randint(1, 4) for _ in range(chance.randint(0, 3))), sizes(chance, (1, 8, 16)))
        x = function.tensor(shape)
        if number % 2:
            log, safe = number % 4 == 1, number % 8 == 3
            function.step(shape, lambda of, out, x=x, a=log, b=safe: SoftmaxOp(of(x), out, a, safe=b))
            continue
        parameters = [function.tensor(shape[-1:]) for _ in range(chance.choice([0, 2]))]
        function.step(
            shape,
            lambda of, out, x=x, p=parameters: NormOp(of(x), out, [of(v) for v in p], FloatAttr(1e-5, f32)),
        )


def windows(function: Function, count: int = 6) -> None:
    """Convolutions as products of windows that overlap, a window for each channel, and pools; some of so many channels
    that they are computed by blocks of them.
    """
    chance, wide = function.random, function.panel
    for number in range(count):
        taps = chance.randint(1, 3), chance.randint(1, 3)
        step = chance.randint(1, 2)
        h, w, c = chance.randint(1, 6), chance.randint(1, 9), sizes(chance, (4, 16) if number % 3 else (200,))
        rows_in, columns_in = (h - 1) * step + taps[0], (w - 1) * step + taps[1]
        row = columns_in * c
        image = rows_in * row
        given = function.strided((h, w, *taps, c), (step * row, step * c, row, c, 1), image)
        weights, extra = function.dense((*taps, c)), [function.tensor((h, w, c))] * chance.randint(0, 1)
        body = epilogue(chance, 1 + len(extra))
        function.step(
            (h, w, c),
            lambda of, out, a=given, b=weights, e=extra, body=body: DepthwiseOp(
                of(a), of(b), out, [of(x) for x in e], body.clone()
            ),
        )
        for kind in COMBINATIONS:
            function.step(
                (h, w, c),
                lambda of, out, a=given, e=extra, kind=kind, body=body: PoolOp(
                    kind, of(a), out, [of(x) for x in e], body.clone()
                ),
            )
        n, k = sizes(chance, (wide, 8)), taps[1] * c
        lines = function.strided((h, taps[0], w, k), (step * row, row, step * c, 1), image)
        panels = function.strided(
            (h, taps[0], -(-n // wide), k, wide), (0, *row_major((taps[0], -(-n // wide), k, wide)))
        )
        plain = epilogue(chance, 1)
        function.step(
            (h, w, n),
            lambda of, out, a=lines, b=panels, t=taps[0], body=plain: BrgemmOp(
                of(a), of(b), out, [], body.clone(), (t,)
            ),
        )


def reductions(function: Function, count: int = 8) -> None:
    """Rows of every kind, some of them so long that they are summed in parts."""
    chance, kinds = function.random, [*COMBINATIONS]
    for number in range(count):
        n = chance.choice([5000, 300]) + chance.randint(0, 7) if number % 4 == 3 else sizes(chance, (1, 8, 16))
        outer = tuple(chance.randint(1, 4) for _ in range(chance.randint(0, 2)))
        x, extra = function.tensor((*outer, n)), [function.tensor((*outer, n))] * chance.randint(0, 1)
        kind, body = kinds[(number + number // 4) % len(kinds)], epilogue(chance, 1 + len(extra))
        function.step(
            outer,
            lambda of, out, x=x, e=extra, kind=kind, body=body: ReduceOp(
                kind, of(x), out, [of(v) for v in e], body.clone()
            ),
        )


def loops(function: Function, count: int = 3) -> None:
    """Attention by blocks of rows, whose scores lie in memory of the loop, and rows without such memory."""
    chance, wide = function.random, function.panel
    for _ in range(count):
        heads, blocks, height = chance.randint(1, 3), chance.randint(1, 3), chance.randint(1, 9)
        depth, n, width = sizes(chance, (5, 16)), sizes(chance, (8, 16)), sizes(chance, (8, wide))
        m, slots = blocks * height, chance.randint(1, min(4, heads * blocks))
        keys, columns = (-(-n // wide), depth, wide), (-(-width // wide), n, wide)
        given = [
            function.dense((heads, m, depth)),
            function.dense((heads, *keys)),
            function.dense((heads, m, n)),
            function.dense((heads, *columns)),
        ]
        steps = [(m * depth, height * depth), (math.prod(keys), 0), (m * n, height * n), (math.prod(columns), 0)]
        steps.append((m * width, height * width))
        parts = [(height, depth), keys, (height, n), columns, (height, width), (height, n)]
        body, plain = epilogue(chance, 2), epilogue(chance, 1)

        def attention(
            of: Callable[[int], SSAValue],
            out: SSAValue,
            counts: tuple[int, int] = (heads, blocks),
            given: Sequence[int] = given,
            steps: Sequence[tuple[int, int]] = steps,
            parts: Sequence[tuple[int, ...]] = parts,
            slots: int = slots,
            bodies: tuple[Region, Region] = (body, plain),
        ) -> LoopOp:
            inner = Block(arg_types=[memref(shape) for shape in parts])
            q, k, mask, v, o, scores = inner.args
            inner.add_ops(
                [
                    BrgemmOp(q, k, scores, [mask], bodies[0].clone()),
                    SoftmaxOp(scores, scores),
                    BrgemmOp(scores, v, o, [], bodies[1].clone()),
                ]
            )
            local = BufferOp(memref((slots, *parts[-1])))
            return LoopOp(counts, [of(x) for x in given], [out], [local.result], steps, Region(inner))

        function.step((heads, m, width), attention)
        x = function.dense((m, n))

        def alone(
            of: Callable[[int], SSAValue],
            out: SSAValue,
            x: int = x,
            counts: tuple[int] = (blocks,),
            part: tuple[int, int] = (height, n),
        ) -> LoopOp:
            inner = Block(arg_types=[memref(part)] * 2)
            inner.add_op(SoftmaxOp(*inner.args))
            return LoopOp(counts, [of(x)], [out], [], [(math.prod(part),)] * 2, Region(inner))

        function.step((m, n), alone)


def row_loops(function: Function, count: int = 4) -> None:
    """Images by rows: a product or windows make the rows in between, windows of these a row that a product reads.

    Windows of one row and of several, strides up to the window, rows above and below the image, columns beside it.
    """
    chance, wide = function.random, function.panel
    for number in range(count):
        images, height, width = chance.randint(1, 2), chance.randint(1, 7), chance.randint(1, 9)
        taps = chance.randint(1, 4), chance.randint(1, 3)
        stride, across = chance.randint(1, taps[0]), chance.randint(1, 2)
        above, left, right = chance.randint(0, taps[0] - 1), chance.randint(0, 2), chance.randint(0, 2)
        below = chance.randint(0, taps[0] - 1)
        rows = (height + above + below - taps[0]) // stride + 1
        columns = (width + left + right - taps[1]) // across + 1
        if rows < 1 or columns < 1:
            continue
        c, n, depth = sizes(chance, (4, 16)), sizes(chance, (wide, 8)), sizes(chance, (3, 16))
        slots = chance.randint(1, min(4, images * rows))
        x = function.dense((images, height, width, depth))
        panels, outer = (-(-c // wide), depth, wide), (-(-n // wide), c, wide)
        given = [x, function.dense(panels), function.dense(outer), function.dense((images, rows, columns, n))]
        weights = function.dense((2 * taps[0] - 1, taps[1], c))
        # As the rewrite makes them: rows of weights twice, one after the other.
        data = function.inputs[weights][2].reshape(2 * taps[0] - 1, -1)
        data[taps[0] :] = data[: taps[0] - 1]
        bodies = epilogue(chance, 1), epilogue(chance, 1), epilogue(chance, 2)
        whole = memref((columns, *taps, c), (across * c, (left + width + right) * c, c, 1))

        def by_rows(
            of: Callable[[int], SSAValue],
            out: SSAValue,
            given: Sequence[int] = (*given, weights),
            sizes: Sequence[int] = (images, rows, height, width, columns, depth, c, n, slots),
            window: Sequence[int] = (taps[0], stride, above, height, left),
            parts: Sequence[Sequence[int]] = (panels, outer, (taps[0], taps[1], c)),
            whole: Attribute = whole,
            edge: int = left + width + right,
            bodies: Sequence[Region] = bodies,
            pooled: bool = number % 2 == 1,
        ) -> RowsOp:
            images, rows, height, width, columns, depth, c, n, slots = sizes
            first = Block(arg_types=[memref((width, depth)), memref(parts[0]), memref((width, c))])
            first.add_op(BrgemmOp(*first.args, [], bodies[0].clone()))
            types = [memref(parts[1]), memref((columns, n)), *([] if pooled else [memref(parts[2])])]
            body = Block(arg_types=[*types, whole, memref((columns, n)), memref((columns, c))])
            b, extra, *_, ring, result, local = body.args
            if pooled:
                body.add_op(PoolOp("max", ring, local, [], bodies[1].clone()))
            else:
                body.add_op(DepthwiseOp(ring, body.args[2], local, [], bodies[1].clone()))
            body.add_op(BrgemmOp(local, b, result, [extra], bodies[2].clone()))
            held = [BufferOp(memref((slots, window[0], edge, c))), BufferOp(memref((slots, columns, c)))]
            steps = [
                (height * width * depth, width * depth), (0, 0), (0, 0), (rows * columns * n, columns * n),
                *([] if pooled else [(parts[2][1] * c,)]), (rows * columns * n, columns * n),
            ]  # fmt: skip
            operands = [of(given[0]), of(given[1])], [of(given[2]), of(given[3])], [of(given[4])] * (not pooled), [out]
            border = -math.inf if pooled else 0.0
            ring_, local_ = (buffer.result for buffer in held)
            regions = Region(first), Region(body)
            return RowsOp((images, rows), window, border, operands, ring_, [local_], steps, regions)

        function.step((images, rows, columns, n), by_rows)


WHOLE = (log_ops.FloorOp, log_ops.CeilOp, log_ops.TruncOp, log_ops.RoundEvenOp)
"""What makes whole numbers."""


def special_numbers() -> tuple[FuncOp, np.ndarray]:
    """Bodies on NaN, infinities, zeros and numbers at the ends of the range."""
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
        lambda b, v: b.make(log_ops.LogOp, v),
        lambda b, v: b.make(log_ops.Log1pOp, v),
        lambda b, v: b.make(log_ops.ExpM1Op, v),
        lambda b, v: b.at_least(v, float("nan")),
        lambda b, v: b.at_most(float("nan"), v),
        lambda b, v: b.make(log_ops.PowFOp, v, -2.5),
        lambda b, v: b.make(log_ops.PowFOp, v, 3.0),
        lambda b, v: b.make(log_ops.PowFOp, 2.5, v),
        lambda b, v: b.choose(b.truth("ogt", v, 0.5), v, b.choose(v, 3.0, 4.0)),
        *(lambda b, v, kind=kind: b.make(kind, v) for kind in WHOLE),
        *(
            lambda b, v, name=name: b.select(name, v, 0.0, 1.0, 2.0)
            for name in ("oeq", "one", "une", "olt", "ole", "ogt", "oge")
        ),
    ]
    _add_maps(function, x, bodies)
    return function.build(), special


def whole_range() -> tuple[FuncOp, np.ndarray]:
    """Functions on numbers of the whole range of float32, every magnitude and both signs."""
    step = 65_537 * 3
    given = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    function = Function(0)
    x = function.tensor((given.size,))
    function.inputs[x] = (given.shape, (1,), given)
    kinds = (log_ops.ExpOp, log_ops.ExpM1Op, log_ops.LogOp, log_ops.Log1pOp, log_ops.TanhOp, log_ops.ErfOp)
    bodies: list[Callable[[Body, SSAValue], SSAValue]] = [lambda b, v, kind=kind: b.make(kind, v) for kind in kinds]
    bodies += [lambda b, v: b.sigmoid(v), lambda b, v: b.mul(v, b.sigmoid(v)), lambda b, v: b.make(log_ops.SqrtOp, v)]
    bodies += [lambda b, v, kind=kind: b.make(kind, v) for kind in WHOLE]
    bodies += [lambda b, v, y=y: b.make(log_ops.PowFOp, v, y) for y in (0.3, -0.7, 1.9)]
    _add_maps(function, x, bodies)
    return function.build(), given


def long_sums() -> tuple[FuncOp, list[np.ndarray]]:
    """Products of great depth, in one run, in slices and in taps; numbers are around 0.5, as after a relu."""
    function = Function(0)
    for m, k, n, taps in ((5, 3072, 33, ()), (1, 2000, 64, ()), (6, 700, 32, (3,)), (5, 60, 8, (3, 3))):
        panels = -(-n // function.panel)
        a, b = function.dense((*taps, m, k)), function.dense((*taps, panels, k, function.panel))
        for number in (a, b):
            shape, strides, data = function.inputs[number]
            function.inputs[number] = (shape, strides, data + np.float32(0.5))
        function.step((m, n), lambda of, out, a=a, b=b, t=taps: BrgemmOp(of(a), of(b), out, [], identity(), t))
    return function.build(), [data for _, _, data in function.inputs]


def _add_maps(function: Function, x: int, bodies: Sequence[Callable[[Body, SSAValue], SSAValue]]) -> None:
    """A map of one input for every body."""
    shape = function.inputs[x][0]
    for make in bodies:
        region = body_of(1)
        region.block.add_op(YieldOp(make(Body(region.block, {}), region.block.args[0])))
        function.step(shape, lambda of, out, r=region: MapOp(out, [of(x)], r.clone()))
