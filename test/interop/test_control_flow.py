"""Conditions and loops: eager, the interpreter at every level and the stock runtime give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch._higher_order_ops.map import map as map_op  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.control_flow import chained, cond, count_up, nested  # noqa: E402
from etir_testing.interop.program_runs import Function, check_program, f32  # noqa: E402

SIGNS = [(f32(2, 3) + 3,), (f32(2, 3) - 3,), (f32(2, 3, seed=1) + 3,)]
"""Inputs whose sum is positive, negative, positive."""
BOTH = [(a[0], b[0]) for a in SIGNS[:2] for b in SIGNS[:2]]
"""The four combinations of signs."""


def two_in_a_row(x, y):
    a = cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))
    b = cond(y.sum() > 0, lambda y: y - 1, lambda y: y * 3, (y,))
    return a, b, a + b


def outer_value(x):
    y = x * 2
    return cond(x.sum() > 0, lambda x, y: y.clone(), lambda x, y: x.clone(), (x, y)), y


def same_value_twice(x):
    def twice(x):
        y = x + 1
        return y, y.clone()

    def two(x):
        return x * 2, x * 3

    return cond(x.sum() > 0, twice, two, (x,))


def a_constant(x):
    return cond(x.sum() > 0, lambda x: torch.ones(2, 3), lambda x: torch.full((2, 3), 7.0), (x,))


def views_of_results(x):
    y = cond(x.sum() > 0, lambda x: (x + 1).reshape(6), lambda x: x.reshape(6) * 2, (x,))
    return y.reshape(2, 3), y.reshape(3, 2) + 1


def several_dtypes(x):
    def then(x):
        return x > 0, x.to(torch.int64), x.sum()

    def otherwise(x):
        return x < 0, x.to(torch.int64) + 1, x.mean()

    return cond(x.sum() > 0, then, otherwise, (x,))


def bool_input_branch(flag, x):
    return cond(flag, lambda x: x.sin(), lambda x: x.cos(), (x,))


CONDS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "two_in_a_row": (two_in_a_row, BOTH),
    "chained": (chained, BOTH),
    "nested": (nested, BOTH),
    "outer_value": (outer_value, SIGNS),
    "same_value_twice": (same_value_twice, SIGNS),
    "a_constant": (a_constant, SIGNS),
    "views_of_results": (views_of_results, SIGNS),
    "several_dtypes": (several_dtypes, SIGNS),
    "bool_tensor": (bool_input_branch, [(torch.tensor(v), f32(4)) for v in (True, False, True)]),
}


@pytest.mark.parametrize("name", list(CONDS))
def test_cond(name: str) -> None:
    """Every combination of branches, on one loaded method, so that a stale handle shows."""
    function, calls = CONDS[name]
    check_program(Function(function), calls)


def until_large(x):
    """The number of iterations depends on the data, down to none."""
    return while_loop(lambda x: x.sum() < 100.0, lambda x: (x * 2,), (x,))


def swap_in_loop(x, y):
    """Each next value reads the other's old one."""

    def body(i, x, y):
        return i + 1, y + 0, x + 1

    return while_loop(lambda i, x, y: i < 3, body, (torch.tensor(0), x, y))


def fibonacci(x, y):
    return while_loop(lambda i, a, b: i < 6, lambda i, a, b: (i + 1, b.clone(), a + b), (torch.tensor(0), x, y))


def loop_with_outer(x, w):
    def body(i, x):
        return i + 1, (x @ w).tanh()

    return while_loop(lambda i, x: i < 4, body, (torch.tensor(0), x))


def loop_in_branch(x):
    def then(x):
        return while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + 1), (x.new_zeros((), dtype=torch.int64), x))[1]

    return cond(x.sum() > 0, then, lambda x: x * 2, (x,))


def branch_in_loop(x):
    def body(i, x):
        return i + 1, cond(x.sum() > 0, lambda x: x - 2, lambda x: x + 5, (x,))

    return while_loop(lambda i, x: i < 4, body, (torch.tensor(0), x))


def view_of_carried(x):
    def body(i, x):
        return i + 1, (x.reshape(3, 2).sum(1, keepdim=True) + x.reshape(3, 2)).reshape(2, 3)

    return while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))


WHILES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "count_up": (count_up, SIGNS),
    "until_large": (until_large, [(torch.full((2, 3), v),) for v in (1.0, 50.0, 3.0)]),
    "swap": (swap_in_loop, BOTH),
    "fibonacci": (fibonacci, BOTH),
    "outer": (loop_with_outer, [(f32(2, 3, seed=s), f32(3, 3, seed=s + 9)) for s in range(2)]),
    "loop_in_branch": (loop_in_branch, SIGNS),
    "branch_in_loop": (branch_in_loop, SIGNS),
    "view_of_carried": (view_of_carried, SIGNS),
}


@pytest.mark.parametrize("name", list(WHILES))
def test_while_loop(name: str) -> None:
    """Repeated calls: a loop starts again from its initial values."""
    function, calls = WHILES[name]
    check_program(Function(function), calls)


def test_map() -> None:
    """Rows one by one; the second call sees no rest of the first."""

    def function(xs, y):
        return map_op(lambda x, y: (x * y).sin() + x.sum(), xs, y)

    check_program(Function(function), [(f32(4, 3, seed=s), f32(3, seed=s + 5)) for s in range(3)])


def test_map_of_several() -> None:
    """Two results for each row."""

    def function(xs):
        return map_op(lambda x: (x + 1, x.sum()), xs)

    check_program(Function(function), [(f32(4, 3, seed=s),) for s in range(2)])


def test_scan() -> None:
    """Carried and stacked results, with an extra tensor from outside."""

    def function(init, xs, w):
        return scan(lambda c, x: (c * 0.5 + x, (c + x) @ w), init, xs)

    calls = [(f32(3, seed=s), f32(5, 3, seed=s + 1), f32(3, 2, seed=s + 2)) for s in range(3)]
    check_program(Function(function), calls)


def test_scan_of_pairs() -> None:
    """Several carried values that swap, several scanned tensors."""

    def combine(carry, x):
        (a, b), (u, v) = carry, x
        return (b + u, a * 1.0), (a + v, b - u)

    def function(a, b, u, v):
        return scan(combine, (a, b), (u, v))

    calls = [tuple(f32(*shape, seed=s + i) for i, shape in enumerate([(3,), (3,), (4, 3), (4, 3)])) for s in (0, 7)]
    check_program(Function(function), calls)


def test_scan_whose_results_change_shape_in_place() -> None:
    """torch records the new shapes inside of the body, too."""

    def function(init, xs):
        last, ys = scan(lambda c, x: (torch.tanh(c) + x, c.sum(1)), init, xs)
        last.transpose_(0, 1).unsqueeze_(0)
        return last, ys.t_()

    check_program(Function(function), [(f32(1, 3), f32(4, 1, 3, seed=1))])


def test_scan_reversed() -> None:
    """torch flips around the loop; the loop itself goes forward."""

    def function(init, xs):
        return scan(lambda c, x: (c + x, c * x), init, xs, reverse=True)

    check_program(Function(function), [(f32(3), f32(4, 3, seed=1))])


def test_map_over_dynamic_rows() -> None:
    """The number of rows is known at run time only."""

    def function(xs):
        return map_op(lambda x: x * 2 + 1, xs)

    rows = torch.export.Dim("rows", min=2, max=9)
    calls = [(f32(n, 3, seed=n),) for n in (4, 9, 2, 5)]
    check_program(Function(function), calls, dynamic_shapes=((({0: rows},)),))


def test_rows_of_dynamic_sizes() -> None:
    """The first row says how large the rows of a call are: the bound, and the call before, may have had larger ones."""

    class Rows(torch.nn.Module):
        def forward(self, rows, x):
            return map_op(lambda row, x: x - row * 0.25, rows, x)

    n = torch.export.Dim("n", min=2, max=7)
    example = (torch.arange(3.0), f32(2, 4))
    program = torch.export.export(Rows(), example, dynamic_shapes=({}, {1: n}))
    loaded = etir.runtime.load(etir.compile(program, target="etir").buffer)
    stock = portable_lib._load_for_executorch_from_buffer(etir.compile(program, target="executorch").buffer)
    for size in (4, 2, 7, 3):
        rows, x = torch.arange(3.0), f32(2, size)
        for (got,) in (loaded.forward(rows, x), stock.forward((rows, x))):
            assert torch.equal(torch.as_tensor(got), torch.stack([x - row * 0.25 for row in rows]))
