"""Conditions whose branches give different sizes, layouts or views: eager and both runtimes agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch.export import Dim  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.program_runs import Function, assert_same, eager, f32, fresh, stock, trace  # noqa: E402

A, B = Dim("a", max=9), Dim("b", max=7)


def cond(predicate, then, otherwise, operands):
    """``torch.cond`` in an export; eager takes the branch, since torch would compile a graph of its own for it."""
    if torch.compiler.is_exporting():
        return torch.cond(predicate, then, otherwise, operands)
    return (then if predicate else otherwise)(*operands)


_TWO = ({0: A}, {0: B})


def two(*sizes: tuple[int, int]) -> list[tuple[Any, ...]]:
    """Calls with either sign, which decides the branch."""
    return [(f32(a, 3, seed=a) + s, f32(b, 3, seed=b)) for (a, b) in sizes for s in (9, -9)]


def different_inputs(x, y):
    return cond(x.sum() > 0, lambda x, y: x.clone(), lambda x, y: y.clone(), (x, y)) * 2


def different_results(x, y):
    z = cond(x.sum() > 0, lambda x, y: torch.cat([x, y]), lambda x, y: y * 2, (x, y))
    return z + 1, z.shape[0]


def fed_by_another(x, y):
    z = cond(x.sum() > 0, lambda x, y: x + 1, lambda x, y: y * 2, (x, y))
    return cond(z.sum() > 9, lambda x, z: x - 1, lambda x, z: z * 3, (x, z))


def nested(x, y):
    def outer(x, y):
        return cond(y.sum() > 0, lambda x, y: x + 1, lambda x, y: y + 2, (x, y))

    return cond(x.sum() > 0, outer, lambda x, y: torch.cat([x, y]) * 2, (x, y))


def views(x, y):
    return cond(x.sum() > 0, lambda x, y: (x.t() + 1).reshape(-1), lambda x, y: (y * 2).view(-1), (x, y)).sum()


def views_of_one_shape(x, y):
    return cond(x.sum() > 0, lambda x: (x + 1).view(-1), lambda x: (x * 2).view(-1), (x,))


def transposed(x, y):
    return cond(x.sum() > 0, lambda x: x.t().clone(), lambda x: x.t() * 2, (x,))


CONDS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (different_inputs, different_results, fed_by_another, nested, views, views_of_one_shape, transposed)
}


@pytest.mark.parametrize("name", list(CONDS))
def test_sizes_of_branches(name: str) -> None:
    module = Function(CONDS[name])
    calls = two((4, 5), (9, 7), (3, 2))
    expected = eager(module, calls)
    program = torch.export.export(module, fresh(calls[0]), dynamic_shapes=(_TWO,))
    for target in ("executorch", "etir"):
        data = etir.compile(program, target=target).buffer
        loaded = etir.runtime.load(data)["forward"]
        assert_same(trace(lambda flat: loaded(*flat), calls), expected, f"etir's runtime, {target}", 1e-5)  # noqa: B023
        if target == "executorch":
            assert_same(stock(data, calls), expected, "stock runtime", 1e-5)


def test_layouts_of_branches() -> None:
    """An input in channels-last order that a branch hands out."""
    module = Function(lambda x: cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.clone(), (x,)) + 1)
    calls = [((f32(2, 3, 4, 5) + s).contiguous(memory_format=torch.channels_last),) for s in (9, -9)]
    expected = eager(module, calls)
    program = torch.export.export(module, fresh(calls[0]))
    for target in ("executorch", "etir"):
        data = etir.compile(program, target=target).buffer
        loaded = etir.runtime.load(data)["forward"]
        assert_same(trace(lambda flat: loaded(*flat), calls), expected, f"etir's runtime, {target}", 1e-5)  # noqa: B023
