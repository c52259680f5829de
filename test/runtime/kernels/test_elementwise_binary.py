"""Binary and ternary elementwise kernels against PyTorch: promotion, broadcasting, conventions of integers and NaN."""

from __future__ import annotations

import itertools

import pytest
import torch

from etir_testing.runtime.elementwise_oracle import COMPLEX, FLOATS, INTS, REAL, REAL_BOOL, check, kernels, sample
from etir_testing.runtime.kernels import KernelFailure

PAIRS = list(itertools.product(REAL_BOOL, REAL_BOOL))
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def promoted(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return torch.promote_types(a, b)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2"])
def test_promotion(name: str) -> None:
    for a, b in PAIRS:
        out = promoted(a, b)
        if name in ("div", "atan2") and not out.is_floating_point:
            out = torch.float32
        if name == "sub" and torch.bool in (a, b):
            continue
        extra = [1] if name in ("add", "sub") else []
        check(f"aten::{name}.out", [sample(a, 3, 20), sample(b, 3, 20, seed=3), *extra], out)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str) -> None:
    for a, b in PAIRS:
        check(f"aten::{name}.Tensor_out", [sample(a, 3, 20), sample(b, 3, 20, seed=3)], torch.bool)
    for dtype in REAL_BOOL:
        check(f"aten::{name}.Tensor_out", [sample(torch.float32, 20), sample(torch.float32, 20, seed=1)], dtype)
        check(f"aten::{name}.Scalar_out", [sample(dtype, 4, 20), 1], torch.bool)
        check(f"aten::{name}.Scalar_out", [sample(dtype, 4, 20), 0.1], torch.bool)
        check(f"aten::{name}.Scalar_out", [torch.full((3,), 0.1).to(dtype), 0.1], torch.bool)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical(name: str) -> None:
    for a, b in PAIRS:
        check(f"aten::{name}.out", [sample(a, 3, 20), sample(b, 3, 20, seed=3)], torch.bool)
    check(f"aten::{name}.out", [sample(torch.float32, 20), sample(torch.bool, 20)], torch.int16)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise(name: str) -> None:
    for a, b in itertools.product([*INTS, torch.bool], repeat=2):
        check(f"aten::{name}.Tensor_out", [sample(a, 3, 20), sample(b, 20, seed=3)], promoted(a, b))
    for a in INTS:
        check(f"aten::{name}.Scalar_out", [sample(a, 30), 5], a)
        check(f"aten::{name}.Scalar_Tensor_out", [5, sample(a, 30)], a)
    check(f"aten::{name}.Scalar_out", [sample(torch.bool, 30), True], torch.bool)


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts(name: str) -> None:
    for dtype in INTS:
        bits = torch.iinfo(dtype).bits
        by = torch.tensor([0, 1, 3, bits - 1, bits, bits + 1, 100] * 3).to(dtype)
        check(f"aten::{name}.Tensor_out", [sample(dtype, 21), by], dtype)
        check(f"aten::{name}.Tensor_Scalar_out", [sample(dtype, 21), 2], dtype)
        if dtype != torch.uint8:
            check(f"aten::{name}.Tensor_out", [sample(dtype, 3), torch.tensor([-1, -2, -100], dtype=dtype)], dtype)


@pytest.mark.parametrize("name", ["add", "sub", "rsub", "mul", "div"])
@pytest.mark.parametrize("number", [2, -3, 0.3, True])
def test_numbers(name: str, number: float) -> None:
    for dtype in REAL_BOOL:
        out = torch.result_type(torch.empty(1, dtype=dtype), number)
        if name == "div" and not out.is_floating_point:
            out = torch.float32
        if name in ("sub", "rsub") and (out == torch.bool or isinstance(number, bool) or dtype == torch.bool):
            continue
        extra = [1] if name in ("add", "sub", "rsub") else []
        tolerances = {"rtol": 2e-2, "atol": 2e-2} if dtype in FLOATS[:2] else {}  # differences of numbers close by
        check(f"aten::{name}.Scalar_out", [sample(dtype, 3, 90), number, *extra], out, **tolerances)


@pytest.mark.parametrize("alpha", [2, -1, 0])
def test_alpha(alpha: int) -> None:
    for dtype in REAL:
        check("aten::add.out", [sample(dtype, 40), sample(dtype, 40, seed=1), alpha], dtype)
        check("aten::sub.out", [sample(dtype, 40), sample(dtype, 40, seed=1), alpha], dtype)
    check("aten::sub.out", [sample(torch.float32, 40), sample(torch.int32, 40, seed=1), 0.3], torch.float32)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_complex(name: str) -> None:
    extra = [1] if name in ("add", "sub") else []
    for a, b in itertools.product([*COMPLEX, torch.float32, torch.int32], repeat=2):
        if a.is_complex or b.is_complex:
            check(
                f"aten::{name}.out",
                [sample(a, 20), sample(b, 20, seed=2, special=False, nonzero=True), *extra],
                promoted(a, b),
            )
    check("aten::eq.Tensor_out", [sample(torch.complex64, 20), sample(torch.complex64, 20)], torch.bool)


def test_results_pass_through_the_common_dtype() -> None:
    a = torch.tensor([100, 127, -128], dtype=torch.int8)
    check("aten::add.out", [a, a, 1], torch.int64)
    check("aten::mul.out", [a, a], torch.float32)
    half = torch.tensor([60000.0, 2049.0]).half()
    check("aten::add.out", [half, half, 1], torch.float32)
    check("aten::add.out", [torch.tensor([True, True]), torch.tensor([True, False]), 1], torch.int32)
    check("aten::eq.Tensor_out", [torch.tensor([2049]), torch.tensor([2048.0]).half()], torch.bool)


SHAPES = [
    ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3, 4)), ((3, 4), ()), ((2, 1, 5), (3, 1)), ((0, 4), (1, 4)), ((0,), (1,)),
    ((600,), (1,)), ((3, 300), (3, 1)), ((2, 3, 4, 5), (3, 1, 1)), ((1,), (1, 1, 1)), ((), ()),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float16, torch.int32, torch.float64):
        for x, y in ((a, b), (b, a)):
            check("aten::mul.out", [sample(dtype, *x), sample(dtype, *y, seed=1)], dtype)
    check(
        "aten::add.out",
        [sample(torch.int8, *a), sample(torch.float64, *b), 2],
        torch.result_type(sample(torch.int8, *a), sample(torch.float64, *b)),
    )
    check("aten::lt.Tensor_out", [sample(torch.int8, *a), sample(torch.float16, *b)], torch.bool)


def test_layouts() -> None:
    x, y = sample(torch.float32, 2, 3, 4, 5), sample(torch.float32, 2, 3, 4, 5, seed=1)
    last = torch.channels_last
    check("aten::add.out", [x.to(memory_format=last), y, 1], torch.float32, layout=last)
    check("aten::add.out", [x.to(memory_format=last), y.to(memory_format=last), 1], torch.float32, layout=last)
    check("aten::add.out", [x.to(memory_format=last), y[:1, :, :1, :1].contiguous(), 1], torch.float32, layout=last)
    check("aten::mul.out", [x.to(memory_format=last), y.half()], torch.float32)
    check("aten::mul.out", [x, y.to(memory_format=last)], torch.float64, layout=last)


@pytest.mark.parametrize(
    "name", ["floor_divide.out", "fmod.Tensor_out", "remainder.Tensor_out", "div.out_mode:floor", "div.out_mode:trunc"]
)
def test_division(name: str) -> None:
    name, _, mode = name.partition(":")
    extra = [mode] if mode else []
    for dtype in REAL:
        arguments = [sample(dtype, 7, 40), sample(dtype, 7, 40, seed=5, nonzero=True), *extra]
        check(f"aten::{name}", arguments, dtype)
        check(
            f"aten::{name}",
            [sample(torch.int16, 30), sample(dtype, 30, seed=5, nonzero=True), *extra],
            promoted(torch.int16, dtype),
        )


@pytest.mark.parametrize(
    "name", ["floor_divide", "fmod", "remainder", "div.Scalar_mode_out:floor", "div.Scalar_mode_out:trunc"]
)
def test_division_by_numbers(name: str) -> None:
    full, _, mode = (name if "." in name else f"{name}.Scalar_out").partition(":")
    for dtype in REAL:
        for number in (3, -7, 2.5):
            if dtype == torch.uint8 and number == -7:
                continue
            out = torch.result_type(torch.empty(1, dtype=dtype), number)
            check(f"aten::{full}", [sample(dtype, 50), number, *([mode] if mode else [])], out)


def test_smallest_integer_divided_by_minus_one() -> None:
    edge = torch.tensor([torch.iinfo(torch.int64).min])
    minus_one = torch.tensor([-1])
    for name, wanted in (("floor_divide.out", edge), ("remainder.Tensor_out", edge * 0), ("fmod.Tensor_out", edge * 0)):
        assert kernels().call(f"aten::{name}", [edge, minus_one], [edge])[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("name", ["floor_divide.out", "fmod.Tensor_out", "remainder.Tensor_out"])
def test_integer_division_by_zero(name: str) -> None:
    with pytest.raises(KernelFailure) as caught:
        kernels().call(
            f"aten::{name}", [torch.tensor([1, 2]), torch.tensor([1, 0])], [torch.empty(2, dtype=torch.int64)]
        )
    assert caught.value.check == "KernelDivisionByZero"


def test_power() -> None:
    for dtype in REAL:
        exponents = torch.tensor([0, 1, 2, 3, 4, 5, 7]).to(dtype)
        check("aten::pow.Tensor_Tensor_out", [sample(dtype, 9, 7), exponents], dtype)
        for number in (0, 1, 2, 3, 5):
            check("aten::pow.Tensor_Scalar_out", [sample(dtype, 30), number], dtype)
        check("aten::pow.Scalar_out", [3, (sample(dtype, 30) / 10).to(dtype)], dtype)
        for number in (0.5, -0.5, -1.0, -2.0, 2.0, 1.7):
            out = dtype if dtype.is_floating_point else torch.float32
            check("aten::pow.Tensor_Scalar_out", [sample(dtype, 30), number], out)
    check(
        "aten::pow.Tensor_Tensor_out", [torch.tensor([1, -1, -1, 2, 0]), torch.tensor([-3, -3, -2, -1, 5])], torch.int64
    )
    check(
        "aten::pow.Tensor_Tensor_out",
        [sample(torch.complex64, 20), sample(torch.complex64, 20, seed=1)],
        torch.complex64,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["hypot", "logaddexp", "logaddexp2", "copysign", "special_xlog1py"])
def test_further_functions(name: str, dtype: torch.dtype) -> None:
    check(f"aten::{name}.out", [sample(dtype, 5, 30), sample(dtype, 5, 30, seed=4)], dtype)


def test_xlogy_heaviside_nextafter() -> None:
    a, b = sample(torch.float32, 60), sample(torch.float32, 60, seed=4)
    check("aten::xlogy.OutTensor", [a, b], torch.float32)
    check("aten::xlogy.OutScalar_Self", [2.5, b], torch.float32)
    check("aten::xlogy.OutScalar_Other", [a, 3], torch.float32)
    check("aten::heaviside.out", [a, b], torch.float32)
    check("aten::nextafter.out", [a, b], torch.float32, rtol=0, atol=0)
    for dtype in INTS:
        x, y = sample(dtype, 50), sample(dtype, 50, seed=2)
        check("aten::gcd.out", [x, y], dtype)
        check("aten::lcm.out", [x.long(), y.long()], torch.int64)


def test_where() -> None:
    mask = sample(torch.bool, 3, 40)
    for a, b in PAIRS:
        check("aten::where.self_out", [mask, sample(a, 40), sample(b, 3, 1, seed=1)], promoted(a, b))
    for dtype in COMPLEX:
        check("aten::where.self_out", [mask, sample(dtype, 40), sample(dtype, 3, 40, seed=1)], dtype)
    check("aten::where.self_out", [mask, sample(torch.float32, 40), sample(torch.float64)], torch.float32)


def test_masked_fill() -> None:
    for dtype in REAL_BOOL:
        check("aten::masked_fill.Scalar_out", [sample(dtype, 4, 1, 30), sample(torch.bool, 3, 1), 7], dtype)
        check(
            "aten::masked_fill.Tensor_out",
            [sample(dtype, 4, 30), sample(torch.bool, 4, 30), torch.tensor(1).to(dtype)],
            dtype,
        )
    check(
        "aten::masked_fill.Scalar_out", [sample(torch.float16, 9), sample(torch.bool, 9), -float("inf")], torch.float16
    )


def test_ternary() -> None:
    for dtype in REAL:
        a, b, c = sample(dtype, 4, 30), sample(dtype, 30, seed=1), sample(dtype, 4, 1, seed=2)
        check("aten::addcmul.out", [a, b, c, 2], dtype)
        if dtype.is_floating_point:
            tolerances = {"rtol": 2e-2, "atol": 1e-2} if dtype in FLOATS[:2] else {}
            check("aten::addcmul.out", [a, b, c, 0.3], dtype, **tolerances)
            check("aten::addcdiv.out", [a, b, c, 0.3], dtype, **tolerances)
            check("aten::lerp.Scalar_out", [a, b, 0.3], dtype, **tolerances)
            check("aten::lerp.Tensor_out", [a, b, c], dtype, **tolerances)


@pytest.mark.parametrize(
    ("name", "arguments", "out", "check_name"),
    [
        ("add.out", [torch.ones(2), torch.ones(3), 1], torch.float32, "KernelShape"),
        ("add.out", [torch.ones(2), torch.ones(2), 1], torch.int32, "KernelDtypeMismatch"),
        ("add.out", [torch.ones(2, dtype=torch.int32)] * 2 + [0.5], torch.int32, "KernelArgument"),
        ("sub.out", [torch.ones(2, dtype=torch.bool)] * 2 + [1], torch.bool, "KernelArgument"),
        ("add.out", [torch.ones(2, 2), torch.ones(2), 1], torch.float32, "KernelResizeRank"),
        ("add.out", [torch.ones(9), torch.ones(9), 1], torch.float32, "KernelResize"),
        ("bitwise_and.Tensor_out", [torch.ones(2), torch.ones(2)], torch.float32, "KernelDtype"),
        ("eq.Scalar_out", [torch.ones(2, dtype=torch.int8), 300], torch.bool, "KernelOverflow"),
        ("pow.Tensor_Scalar_out", [torch.ones(2, dtype=torch.int8), -1], torch.int8, "KernelArgument"),
        ("masked_fill.Scalar_out", [torch.ones(2).char(), torch.ones(2).bool(), 300], torch.int8, "KernelOverflow"),
        ("where.self_out", [torch.ones(2), torch.ones(2), torch.ones(2)], torch.float32, "KernelDtype"),
    ],
)  # fmt: skip
def test_refusals(name: str, arguments: list[object], out: torch.dtype, check_name: str) -> None:
    with pytest.raises(KernelFailure) as caught:
        kernels().call(f"aten::{name}", arguments, [torch.empty(2, dtype=out)])
    assert caught.value.check == check_name


def test_float_power() -> None:
    for dtype in (torch.int32, torch.float16, torch.float64):
        check("aten::float_power.Tensor_Tensor_out", [sample(dtype, 30), sample(torch.int8, 30, seed=1)], torch.float64)
        check("aten::float_power.Tensor_Scalar_out", [sample(dtype, 30), -1.5], torch.float64)
        check("aten::float_power.Scalar_out", [2, sample(dtype, 30)], torch.float64)


@pytest.mark.parametrize("name", ["complex", "polar"])
def test_complex_from_real(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        a, b = sample(dtype, 4, 30, special=False), sample(dtype, 30, seed=1, special=False)
        check(f"aten::{name}.out", [a, b], dtype.to_complex())
    with pytest.raises(KernelFailure, match="KernelDtypeMismatch"):
        kernels().call(f"aten::{name}.out", [torch.ones(2), torch.ones(2)], [torch.empty(2)])


def test_numbers_without_dims_do_not_promote() -> None:
    check(
        "aten::add.out",
        [sample(torch.float16, 40, special=False), torch.tensor(0.1, dtype=torch.float64), 1],
        torch.float16,
        rtol=1e-3,
        atol=1e-3,
    )
    check("aten::mul.out", [sample(torch.int8, 40), torch.tensor(300)], torch.int8)
    check("aten::maximum.out", [sample(torch.int32, 40), torch.tensor(0.5, dtype=torch.float64)], torch.float64)
