"""Random chains of reshapes, slices and permutations give the same numbers as views as they do as copies.

Every chain is interpreted at the edge level, with views, over unplanned buffers, and over planned memory, where a view
that outlives its base would read somebody else's bytes. Reshapes of weights and of the caller's memory are among them.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.interpret.interpreter import Interpreter
from etir.passes.infra.manager import run_pipeline

Step = tuple[str, tuple[int, ...]]
"""The text of an operation after its operand, and the shape of its result."""


@st.composite
def reshape(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """Another shape of as many elements."""
    rest, sizes = math.prod(shape), []
    while rest > 1 and len(sizes) < 3:
        size = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        sizes.append(size)
        rest //= size
    sizes.append(rest)
    return f"view_copy.default({{}}, size = {sizes})", tuple(sizes)


@st.composite
def permute(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """Any order of the dims."""
    dims = draw(st.permutations(range(len(shape))))
    return f"permute_copy.default({{}}, dims = {list(dims)})", tuple(shape[d] for d in dims)


@st.composite
def slice_(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """Part of one dim, from either end, with a step."""
    dim = draw(st.integers(0, len(shape) - 1))
    size = shape[dim]
    start = draw(st.integers(0, size - 1))
    end = draw(st.integers(start + 1, size))
    step = draw(st.integers(1, 3))
    count = len(range(start, end, step))
    first = start - size if draw(st.booleans()) else start
    text = f"slice_copy.Tensor({{}}, dim = {dim}, start = {first}, end = {end}, step = {step})"
    return text, (*shape[:dim], count, *shape[dim + 1 :])


@st.composite
def select(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """One row of one dim."""
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    index = draw(st.integers(-shape[dim], shape[dim] - 1))
    at = dim % len(shape)
    return f"select_copy.int({{}}, dim = {dim}, index = {index})", (*shape[:at], *shape[at + 1 :])


@st.composite
def unsqueeze(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """A dim of size 1 anywhere."""
    dim = draw(st.integers(0, len(shape)))
    return f"unsqueeze_copy.default({{}}, dim = {dim})", (*shape[:dim], 1, *shape[dim:])


def negate(shape: tuple[int, ...]) -> st.SearchStrategy[Step]:
    """An operator that makes a new buffer."""
    return st.just(("neg.default({})", shape))


@st.composite
def chains(draw: st.DrawFn) -> str:
    """A method over an input and a weight; every step works on any earlier value, several values are returned."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    values: list[tuple[str, tuple[int, ...]]] = [("%x", shape), ("%w", shape)]
    lines: list[str] = []
    for index in range(draw(st.integers(1, 8))):
        operand, source = draw(st.sampled_from(values))
        kinds = [reshape, unsqueeze, negate] + ([permute, slice_, select] if source else [])
        text, result = draw(draw(st.sampled_from(kinds))(source))
        name = f"%{index}"
        lines.append(f"  {name} = edge.aten.{text.format(operand)} : ({tensor(source)}) -> {tensor(result)}")
        values.append((name, result))
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3))
    types = ", ".join(tensor(s) for _, s in outputs)
    return "\n".join(
        [
            f"et.weight @w : {tensor(shape)} = #et.synthetic<seed = 1>",
            f"func.func @forward(%x: {tensor(shape)}) -> ({types}) {{",
            f"  %w = et.get_weight @w : {tensor(shape)}",
            *lines,
            f"  func.return {', '.join(n for n, _ in outputs)} : {types}",
            "}",
        ]
    )


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}f32>"


@settings(max_examples=60, deadline=None)
@given(chains(), st.booleans(), st.booleans())
def test_views_mean_what_copies_mean(text: str, plan_inputs: bool, plan_outputs: bool) -> None:
    """Exactly: views move no byte and compute nothing."""
    module = parse_module(text)
    shape = module.body.block.last_op.body.block.args[0].type.get_shape()
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    expected = Interpreter(module.clone(), "numpy").run([x])
    options = f"{{plan-inputs={str(plan_inputs).lower()} plan-outputs={str(plan_outputs).lower()}}}"
    for passes in (
        "verify-edge,canonicalize",
        "elide-views,dce",
        f"to-out-variant{options}",
        "plan-memory,verify-plan",
    ):
        run_pipeline(EtContext(), module, passes)
        for _ in range(2):
            got = Interpreter(module.clone(), "numpy").run([x])
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=f"after {passes}")
