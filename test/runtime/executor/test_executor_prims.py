"""The primitive operators: Python's answers, the kinds of results, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from etir.emit.pte.model import Bool, Double, Int, IntList, String

from etir_testing.runtime.executor import ExecutorError, Method, Program, build_executor
from etir_testing.runtime.programs import BOUND, Builder

BIG = 2**63 - 1
INTS = (0, 1, -1, 7, -7, 3, -3, BIG, -BIG - 1, 2**40)
DOUBLES = (0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.25, 1e300, -1e18, math.inf, -math.inf, math.nan)


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor("prim", "copy")


def literal(value: Any) -> Any:
    return Bool(value) if isinstance(value, bool) else Int(value) if isinstance(value, int) else Double(value)


def run(library: Any, name: str, cases: list[tuple[Any, ...]], kind: type) -> list[Any]:
    """Results of one operator for many arguments, in one method."""
    b = Builder()
    for case in cases:
        out = b.value(literal(kind()))
        b.call(name, *(b.value(literal(v)) for v in case), out)
        b.outputs.append(out)
    return Method(Program(library, b.pte(check=False)))()


def wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add.Scalar": lambda a, b: a + b,
    "sub.Scalar": lambda a, b: a - b,
    "mul.Scalar": lambda a, b: a * b,
    "sym_max.Scalar": max,
    "sym_min.Scalar": min,
    "floordiv.Scalar": lambda a, b: a // b,
    "floordiv.int": truncated,
    "mod.int": lambda a, b: a - truncated(a, b) * b,
    "mod.Scalar": lambda a, b: a - truncated(a, b) * b,
}


@pytest.mark.parametrize("name", BINARY)
def test_ints(library: Any, name: str) -> None:
    divides = name.startswith(("floordiv", "mod"))
    cases = [(a, b) for a in INTS for b in INTS if b != 0 or not divides]
    got = run(library, f"executorch_prim::{name}", cases, int)
    for case, value in zip(cases, got, strict=True):
        assert value == wrap(BINARY[name](*case)), case


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv"])
def test_doubles(library: Any, name: str) -> None:
    def expected(a: float, b: float) -> float:
        x, y = torch.tensor(float(a), dtype=torch.float64), torch.tensor(float(b), dtype=torch.float64)
        result = {"add": x + y, "sub": x - y, "mul": x * y, "truediv": x / y, "floordiv": torch.floor(x / y)}[name]
        return result.item()

    cases = [(a, b) for a in DOUBLES for b in DOUBLES] + [(3, 0.5), (0.5, 3), (-7, 2.0)]
    cases += [(True, 0.5)] if name.endswith("div") else []
    for case, value in zip(cases, run(library, f"executorch_prim::{name}.Scalar", cases, float), strict=True):
        assert same(value, expected(*case)), case


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.parametrize("case", [(True, 0.5), (2, False), (True, True)])
def test_bools_are_no_numbers(library: Any, name: str, case: tuple[Any, Any]) -> None:
    """As in ExecuTorch's runtime, on which programs end so when what they assert does not hold."""
    with pytest.raises(ExecutorError, match="KernelArgument"):
        run(library, f"executorch_prim::{name}.Scalar", [case], float)


def test_division_of_ints_into_doubles(library: Any) -> None:
    cases = [(a, b) for a in INTS for b in INTS if b != 0]
    for case, value in zip(cases, run(library, "executorch_prim::truediv.Scalar", cases, float), strict=True):
        assert value == float(case[0]) / float(case[1])


@pytest.mark.parametrize("name", ["eq", "gt", "lt", "ge", "le"])
def test_comparisons(library: Any, name: str) -> None:
    compare = {"eq": "__eq__", "gt": "__gt__", "lt": "__lt__", "ge": "__ge__", "le": "__le__"}[name]
    groups = (INTS, DOUBLES, (True, False))
    cases = [(a, b) for group in groups for a in group for b in group] + [(1, 1.0), (2, 1.5), (0.5, 1)]
    for (a, b), value in zip(cases, run(library, f"executorch_prim::{name}.Scalar", cases, bool), strict=True):
        expected = getattr(float(a), compare)(float(b)) if isinstance(a, float) or isinstance(b, float) else getattr(
            int(a), compare)(int(b))  # fmt: skip
        assert value is expected, (a, b)


def test_one_argument(library: Any) -> None:
    finite = [v for v in DOUBLES if math.isfinite(v) and abs(v) < 9e18]
    for name, function in (("ceil", math.ceil), ("round", round), ("trunc", math.trunc), ("sym_int", int)):
        got = run(library, f"executorch_prim::{name}.Scalar", [(v,) for v in finite], int)
        assert got == [function(v) for v in finite]
        for bad in (math.nan, math.inf, 1e300, 2.0**63):
            with pytest.raises(ExecutorError, match="KernelOverflow"):
                run(library, f"executorch_prim::{name}.Scalar", [(bad,)], int)
    assert run(library, "executorch_prim::neg.Scalar", [(v,) for v in INTS], int) == [wrap(-v) for v in INTS]
    assert run(library, "executorch_prim::neg.Scalar", [(1.5,)], float) == [-1.5]
    assert run(library, "executorch_prim::sym_float.Scalar", [(3,), (2.5,)], float) == [3.0, 2.5]
    assert run(library, "executorch_prim::sym_int.Scalar", [(3,)], int) == [3]
    assert run(library, "executorch_prim::sym_not.Scalar", [(True,), (False,)], bool) == [False, True]
    assert run(library, "executorch_prim::sym_ite.Scalar", [(True, 1, 2), (False, 1, 2)], int) == [1, 2]


@pytest.mark.parametrize("name", ["floordiv.Scalar", "floordiv.int", "mod.int", "mod.Scalar", "truediv.Scalar"])
def test_division_by_zero(library: Any, name: str) -> None:
    with pytest.raises(ExecutorError, match="KernelDivisionByZero"):
        run(library, f"executorch_prim::{name}", [(1, 0)], float if name.startswith("truediv") else int)


def test_results_have_the_kind_that_the_program_says(library: Any) -> None:
    for case, kind, found in (((1, 2), float, 2), ((1.0, 2), int, 4)):
        with pytest.raises(ExecutorError, match="PrimResult") as caught:
            run(library, "executorch_prim::add.Scalar", [case], kind)
        assert caught.value.a == found


def test_sizes(library: Any) -> None:
    b = Builder()
    x = b.input(b.tensor(4, 3, dynamism=BOUND))
    for dim in (0, 1, -1, -2):
        b.outputs.append(b.int(0))
        b.call("aten::sym_size.int", x, b.int(dim), b.outputs[-1])
    b.outputs.append(b.int(0))
    b.call("aten::sym_numel", x, b.outputs[-1])
    method = Method(Program(library, b.pte()))
    assert method(torch.zeros(2, 3)) == [2, 3, 3, 2, 6]
    assert method(torch.zeros(0, 3)) == [0, 3, 3, 0, 0]
    for dim in (2, -3, 2**40):
        b = Builder()
        x = b.input(b.tensor(4, 3))
        b.call("aten::sym_size.int", x, b.int(dim), b.int(0))
        with pytest.raises(ExecutorError, match="KernelDim") as caught:
            Method(Program(library, b.pte()))(torch.zeros(4, 3))
        assert (caught.value.a, caught.value.b) == (dim, 2)


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
     torch.float64, torch.bool],
)  # fmt: skip
def test_the_element_of_a_tensor(library: Any, dtype: torch.dtype) -> None:
    names = {"UINT8": "BYTE", "INT8": "CHAR", "INT16": "SHORT", "INT32": "INT", "INT64": "LONG", "FLOAT16": "HALF",
             "FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}  # fmt: skip
    name = str(dtype).removeprefix("torch.").upper()
    value = torch.tensor(True if dtype is torch.bool else 3, dtype=dtype)
    b = Builder()
    x = b.input(b.tensor(dtype=names.get(name, name)))
    out = b.value(literal(type(value.item())()))
    b.call("aten::_local_scalar_dense", x, out)
    b.outputs.append(out)
    assert same(Method(Program(library, b.pte()))(value)[0], value.item())


@pytest.mark.parametrize(
    ("sizes", "check"),
    [((6,), None), ((3, 2), None), ((-1,), None), ((2, -1), None), ((1, 6, 1), None), ((4,), "KernelShape"),
     ((-1, 4), "KernelShape"), ((-1, -1), "KernelArgument"), ((-2, -3), "KernelArgument"),
     ((2**40, 2**40), "KernelArgument"), ((1,) * 17, "KernelRank"), ((0, -1), "KernelShape")],
)  # fmt: skip
def test_views(library: Any, sizes: tuple[int, ...], check: str | None) -> None:
    b = Builder()
    x = b.input(b.tensor(2, 3))
    shape = torch.arange(6.0).reshape(sizes).shape if check is None else (6,)
    out = b.tensor(*shape, planned=False, dynamism=BOUND)
    b.call("executorch_prim::et_view.default", x, b.value(IntList(tuple(b.int(s) for s in sizes))), out)
    b.outputs.append(out)
    method = Method(Program(library, b.pte()))
    value = torch.arange(6.0).reshape(2, 3)
    if check is None:
        assert torch.equal(method(value)[0], value.reshape(sizes))
        return
    with pytest.raises(ExecutorError, match=check):
        method(value)


@pytest.mark.parametrize(("index", "check"), [(0, None), (2, None), (3, "KernelResize"), (-1, "KernelIndex"),
                                              (2**31, "KernelIndex")])  # fmt: skip
def test_rows(library: Any, index: int, check: str | None) -> None:
    b = Builder()
    x, y = b.input(b.tensor(2)), b.tensor(3, 2, dynamism=BOUND)
    b.call("executorch_prim::et_copy_index.tensor", y, x, b.int(index))
    b.outputs.append(y)
    method = Method(Program(library, b.pte()))
    value = torch.tensor([5.0, 6.0])
    if check is None:
        (got,) = method(value)
        assert list(got.shape) == [index + 1, 2] and torch.equal(got[index], value)
        return
    with pytest.raises(ExecutorError, match=check):
        method(value)


# --- what a program requires of its inputs ---


@pytest.mark.parametrize(("size", "fits"), [(3, True), (5, True), (7, True), (4, False), (2, False), (8, False)])
def test_check_size(library: Any, size: int, fits: bool) -> None:
    b = Builder()
    x = b.input(b.tensor(2, 8, dynamism=BOUND))
    b.call("etir::check_size", x, b.int(1), b.int(3), b.int(7), b.int(2), b.value(String("input x, dim 1")))
    b.outputs.append(x)
    method = Method(Program(library, b.pte()))
    if fits:
        assert method(torch.ones(2, size))[0].shape == (2, size)
        return
    with pytest.raises(ExecutorError, match="InputSizes"):
        method(torch.ones(2, size))


@pytest.mark.parametrize(
    ("number", "fits"), [(-4, True), (2, True), (-5, False), (0, False), (BIG, False), (-BIG - 1, False)]
)
def test_check_number(library: Any, number: int, fits: bool) -> None:
    b = Builder()
    given = b.int(number)
    b.call("etir::check_number", given, b.int(-4), b.int(2), b.int(3), b.value(String("input n")))
    b.outputs.append(given)
    method = Method(Program(library, b.pte(check=False)))
    if fits:
        assert method()[0] == number
        return
    with pytest.raises(ExecutorError, match="InputNumbers"):
        method()
