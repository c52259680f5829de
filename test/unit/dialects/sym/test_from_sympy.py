"""``from_sympy`` against the values of torch's own sympy functions, and against sizes that ``torch.export`` writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.dialects.sym.expr import SymExpr, bounds, from_sympy, parse, symbol

sympy = pytest.importorskip("sympy")
torch = pytest.importorskip("torch")
F = pytest.importorskip("torch.utils._sympy.functions")

a, b = (sympy.Symbol(name, integer=True, positive=True) for name in ("s0", "s1"))
u = sympy.Symbol("u0", integer=True)
s0, s1, u0 = symbol("s0"), symbol("s1"), symbol("u0")


def sympy_value(expr: Any, point: dict[Any, int]) -> int:
    """What torch computes at a point: its functions fold numbers."""
    value = sympy.sympify(expr).subs(point)
    assert value.is_number, value
    return int(value)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (sympy.Integer(7), "7"),
        (7, "7"),
        (a, "s0"),
        (2 * a * b + a**2 - 3, "s0 * s0 + 2 * s0 * s1 - 3"),
        (F.FloorDiv(a - 1, 2) + 1, "(s0 - 1) floordiv 2 + 1"),
        (F.FloorDiv(a, b), "s0 floordiv s1"),
        (F.CleanDiv(a, 4), "s0 floordiv 4"),
        (F.CeilDiv(a, 4), "(s0 - 1) floordiv 4 + 1"),
        (F.Mod(8 - F.Mod(a, 8), 8), "(-s0) mod 8"),
        (F.PythonMod(-a, 8), "(-s0) mod 8"),
        (F.ModularIndexing(a, 2, 3), "(s0 floordiv 2) mod 3"),
        (F.Max(20, a), "max(s0, 20)"),
        (F.Min(a, b, 4), "min(s0, s1, 4)"),
        (F.Max(1, F.FloorDiv(a, 2)), "max(s0 floordiv 2, 1)"),
        (F.PowByNatural(a, sympy.Integer(3)), "s0 * s0 * s0"),
        (F.RShift(a, sympy.Integer(1)), "s0 floordiv 2"),
        (F.LShift(a, sympy.Integer(3)), "8 * s0"),
        (F.Identity(a + 1), "s0 + 1"),
        (a / 2, "s0 floordiv 2"),
        (a * b / 6 + sympy.Rational(1, 2) * a, "(s0 * s1 + 3 * s0) floordiv 6"),
        (a * (b + 1) / (b + 1), "s0"),
        (2 * a / b, "(2 * s0) floordiv s1"),
        (F.TruncToInt(F.IntTrueDiv(a, 2)), "s0 floordiv 2"),
        (F.TruncToInt(F.IntTrueDiv(6 * a, 3)), "2 * s0"),
        (F.CeilToInt(F.IntTrueDiv(a, 3)), "(s0 - 1) floordiv 3 + 1"),
        (F.FloorToInt(F.IntTrueDiv(a, b) + 1), "s0 floordiv s1 + 1"),
        (F.FloorToInt(F.FloatTrueDiv(F.ToFloat(a), sympy.Float(3.0))), "s0 floordiv 3"),
        (F.TruncToInt(1.5 * F.ToFloat(a)), "s0 + s0 floordiv 2"),
        (F.TruncToInt(0.5 * F.ToFloat(a)), "s0 floordiv 2"),
        (F.CeilToInt(0.5 * F.ToFloat(a)), "(s0 - 1) floordiv 2 + 1"),
        (F.TruncToInt(2.0 * F.ToFloat(a)), "2 * s0"),
        (F.RoundToInt(F.IntTrueDiv(a, 3)), "(2 * s0 - 3) floordiv 6 + 1"),
        (sympy.floor(a / 3), "s0 floordiv 3"),
        (sympy.ceiling(a / 3), "(s0 - 1) floordiv 3 + 1"),
        (sympy.Abs(u), "max(-u0, u0)"),
    ],
    ids=str,
)
def test_canonical_form(expr: Any, text: str) -> None:
    assert from_sympy(expr) == parse(text)
    assert str(from_sympy(expr)) == str(parse(text))


ROUNDED = [
    F.TruncToInt(F.IntTrueDiv(u, 3)),
    F.TruncToInt(0.75 * F.ToFloat(u) - 2.5),
    F.FloorToInt(F.IntTrueDiv(u, -4)),
    F.CeilToInt(F.IntTrueDiv(u, 4) + 3),
    F.RoundToInt(0.25 * F.ToFloat(u)),
    F.RoundToInt(F.IntTrueDiv(u, 6)),
    F.RoundToInt(F.IntTrueDiv(u, 2) + 1),
    F.RoundToInt(1.0 * F.ToFloat(u)),
    F.TruncToInt(F.Max(F.ToFloat(u), 0.5 * F.ToFloat(u) + 4.0)),
]


@pytest.mark.parametrize("expr", ROUNDED, ids=str)
def test_rounding_of_any_sign(expr: Any) -> None:
    converted = from_sympy(expr)
    for value in range(-30, 31):
        assert converted.evaluate({"u0": value}) == sympy_value(expr, {u: value}), value


@pytest.mark.parametrize("factor", [0.3, 0.7, 1.1, 1 / 3, 0.1, 2.6, 600 / 224])
@pytest.mark.parametrize("rounding", [F.TruncToInt, F.FloorToInt, F.CeilToInt, F.RoundToInt])
def test_inexact_factors_are_exact_or_refused(factor: float, rounding: Callable[..., Any]) -> None:
    expr = rounding(factor * F.ToFloat(a))
    python = {"TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil, "RoundToInt": round}
    try:
        converted = from_sympy(expr, {"s0": (8, 256)})
    except EtirError as error:
        assert error.ids == ("E0110",)
        assert factor in (0.7, 1.1, 600 / 224)
        return
    for value in range(8, 257):
        assert converted.evaluate({"s0": value}) == python[rounding.__name__](factor * value), value


def test_inexact_factor_needs_a_range() -> None:
    expr = F.TruncToInt(0.3 * F.ToFloat(a))
    assert str(from_sympy(expr, {"s0": (8, 256)})) == "(3 * s0) floordiv 10"
    for ranges in (None, {"s0": (1, None)}, {"s0": (1, 10**9)}):
        with pytest.raises(EtirError, match=r"factor 0\.3 of 's0'.*\n.*export with an upper bound") as caught:
            from_sympy(expr, ranges)
        assert caught.value.ids == ("E0110",)
    # 0.29 * 100 is 28.999999999999996
    with pytest.raises(EtirError, match="no fraction's"):
        from_sympy(F.TruncToInt(0.29 * F.ToFloat(a)), {"s0": (1, 200)})


@pytest.mark.parametrize(
    ("expr", "names"),
    [
        (F.OpaqueUnaryFn_sqrt(a), "OpaqueUnaryFn_sqrt"),
        (F.TruncToInt(F.OpaqueUnaryFn_sqrt(a)), "OpaqueUnaryFn_sqrt"),
        (sympy.sqrt(a), "exponent '1/2'"),
        (sympy.Integer(2) ** a, "exponent 's0'"),
        (F.PowByNatural(sympy.Integer(2), a), "exponent 's0'"),
        (F.Where(a > 3, a, b), "'Where'"),
        (F.IsNonOverlappingAndDenseIndicator(a, b, b, 1), "IsNonOverlappingAndDenseIndicator"),
        (F.TruncToInt(3.0 * F.IntTrueDiv(a, 7)), "a product of a rounded quotient"),
        (F.TruncToInt(F.IntTrueDiv(a, 7) + F.IntTrueDiv(b, 3)), "a sum of rounded quotients"),
        (F.TruncToInt(0.3 * F.IntTrueDiv(a, 7)), "rounded"),
        (F.ToFloat(a), "is not an integer"),
        (F.IntTrueDiv(a, 2), "is not an integer"),
        (sympy.Rational(1, 2), "is not an integer"),
        (sympy.Float(1.5), "is not an integer"),
        (sympy.oo, "'oo'"),
        (F.int_oo, "'int_oo'"),
        (sympy.nan, "'nan'"),
        (sympy.pi * a, "'pi'"),
        (sympy.true, "'True'"),
        (a > 3, "StrictGreaterThan"),
        (sympy.Symbol("a b", integer=True), "'a b'"),
        (sympy.Symbol("mod", integer=True), "'mod'"),
        (F.FloorDiv(F.ToFloat(a), 0.3 * F.ToFloat(b)), "0.3"),
    ],
    ids=str,
)
def test_what_cannot_be_expressed_is_named(expr: Any, names: str) -> None:
    with pytest.raises(EtirError) as caught:
        from_sympy(expr)
    assert caught.value.ids == ("E0110",)
    assert names in str(caught.value)


sympy_leaves = st.one_of(st.integers(1, 9).map(sympy.Integer), st.sampled_from([a, b]))
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": F.FloorDiv,
    "ceildiv": F.CeilDiv,
    "mod": F.PythonMod,
    "max": F.Max,
    "min": F.Min,
    "trunc": lambda x, y: F.TruncToInt(F.IntTrueDiv(x, y)),
    "ceil": lambda x, y: F.CeilToInt(F.IntTrueDiv(x, y)),
    "scale": lambda x, y: F.FloorToInt(1.25 * F.ToFloat(x)) + y,
}
sympy_trees = st.recursive(
    st.one_of(st.integers(1, 9), st.sampled_from(["s0", "s1"])),
    lambda t: st.tuples(st.sampled_from(sorted(OPERATIONS)), t, t),
    max_leaves=5,
)


def sympy_build(tree: Any, leaves: dict[str, Any]) -> Any:
    if isinstance(tree, tuple):
        return OPERATIONS[tree[0]](*(sympy_build(t, leaves) for t in tree[1:]))
    return sympy.Integer(tree) if isinstance(tree, int) else leaves[tree]


@settings(max_examples=200, deadline=None)
@given(sympy_trees, st.integers(1, 30), st.integers(1, 30))
def test_random_trees_have_the_value_of_torchs_functions(tree: Any, x: int, y: int) -> None:
    """The tree built on numbers is the reference: torch folds each operation on its own."""
    try:
        expected = sympy_build(tree, {"s0": sympy.Integer(x), "s1": sympy.Integer(y)})
        expr = sympy_build(tree, {"s0": a, "s1": b})
    except ZeroDivisionError:
        assume(False)
        return
    assume(sympy.sympify(expected).is_Integer)
    try:
        converted = from_sympy(expr)
    except EtirError as error:
        assert error.ids in (("E0110",), ("E0112",))
        return
    assert converted.evaluate({"s0": x, "s1": y}) == int(expected), (str(expr), str(converted))


def test_sizes_that_export_writes() -> None:
    functional = torch.nn.functional

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> tuple[Any, ...]:
            return (
                functional.conv2d(x, torch.ones(4, 3, 3, 3), stride=2, padding=1),
                functional.conv_transpose2d(x, torch.ones(3, 3, 3, 3), stride=2),
                functional.interpolate(x, scale_factor=1.5),
                functional.interpolate(x, scale_factor=0.3),
                functional.pad(x, (0, (-x.shape[3]) % 8)),
                x.flatten(2),
                x[:, :, ::2],
                x.unfold(2, 4, 3),
                torch.ones(torch.sym_max(x.shape[2], x.shape[3])),
                torch.ones(round(x.shape[2] * 0.25)),
                torch.nonzero(x)[::2],
            )

    dims = {2: torch.export.Dim("h", min=8, max=256), 3: torch.export.Dim("w", min=8, max=256)}
    program = torch.export.export(Model(), (torch.ones(2, 3, 32, 48),), dynamic_shapes=((dims),))
    (x,) = (n for n in program.graph.nodes if n.op == "placeholder" and n.name == "x")
    (output,) = (n for n in program.graph.nodes if n.op == "output")
    symbols = [d.node.expr for d in x.meta["val"].shape[2:]]
    ranges = {str(s): (8, 256) for s in symbols}
    sizes = [d.node.expr for n in output.args[0] for d in n.meta["val"].shape if not isinstance(d, int)]
    assert len(sizes) >= 15
    unbacked: list[SymExpr] = []
    for size in sizes:
        converted = from_sympy(size, ranges)
        assert parse(str(converted)) == converted
        if not set(converted.symbols) <= set(ranges):
            unbacked.append(converted)
            continue
        low, high = bounds(converted, ranges)
        assert low is not None and high is not None
        for point in itertools.product([8, 9, 31, 100, 256], [8, 13, 48, 255]):
            value = sympy_value(size, dict(zip(symbols, point, strict=True)))
            assert converted.evaluate(dict(zip(map(str, symbols), point, strict=True))) == value
            assert low <= value <= high
    (rows,) = unbacked
    (name,) = rows.symbols
    assert rows == (symbol(name) + 1) // 2
