"""Unary elementwise kernels against PyTorch: dtypes, layouts, special values."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.elementwise_oracle import COMPLEX, FLOATS, INTS, REAL, REAL_BOOL, check, kernels, sample
from etir_testing.runtime.kernels import KernelFailure

FLOAT_FUNCTIONS = [
    "exp",
    "expm1",
    "exp2",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
    "erfc",
    "lgamma",
    "deg2rad",
    "rad2deg",
    "sinc",
    "angle",
]
COMPLEX_FUNCTIONS = [
    "exp",
    "log",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "neg",
    "square",
    "sgn",
    "_conj_physical",
]


@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_floating_point_functions(name: str) -> None:
    for dtype in FLOATS:
        check(f"aten::{name}.out", [sample(dtype, 7, 50)], dtype)
    for dtype in [*INTS, torch.bool]:
        check(f"aten::{name}.out", [sample(dtype, 5, 3)], torch.float32)
    check(f"aten::{name}.out", [sample(torch.float32, 40)], torch.float64)
    check(f"aten::{name}.out", [sample(torch.float32, 4, 4, 3, 3).to(memory_format=torch.channels_last)], torch.float32)


@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_functions(name: str, dtype: torch.dtype) -> None:
    check(f"aten::{name}.out", [sample(dtype, 6, 11)], dtype)


@pytest.mark.parametrize("name", ["abs", "angle"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_to_real(name: str, dtype: torch.dtype) -> None:
    check(f"aten::{name}.out", [sample(dtype, 6, 11)], dtype.to_real())
    check(f"aten::{name}.out", [sample(dtype, 6, 11)], torch.float64)


@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "neg",
        "sign",
        "sgn",
        "square",
        "relu",
        "ceil",
        "floor",
        "trunc",
        "round",
        "signbit",
        "isnan",
        "isinf",
        "nan_to_num",
    ],
)
def test_same_dtype(name: str) -> None:
    extra = [None, None, None] if name == "nan_to_num" else []
    for dtype in REAL_BOOL if name in ("sign", "sgn", "isnan", "isinf", "nan_to_num") else REAL:
        out = torch.bool if name in ("signbit", "isnan", "isinf") else dtype
        check(f"aten::{name}.out", [sample(dtype, 9, 60), *extra], out)


def test_integers_wrap_around() -> None:
    for dtype in INTS[1:]:
        edge = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0], dtype=dtype)
        for name in ("abs", "neg", "square"):
            check(f"aten::{name}.out", [edge], dtype)
    found = kernels().call(
        "aten::neg.out", [torch.tensor([-128], dtype=torch.int8)], [torch.empty(1, dtype=torch.int64)]
    )[0]
    assert found.tolist() == [-128]


def test_round_goes_to_even() -> None:
    found = kernels().call("aten::round.out", [torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5])], [torch.empty(5)])[0]
    assert found.tolist() == [0.0, 2.0, 2.0, -0.0, -2.0]


@pytest.mark.parametrize("decimals", [0, 2, -1])
def test_round_decimals(decimals: int) -> None:
    for dtype in (torch.float32, torch.float64):
        check("aten::round.decimals_out", [sample(dtype, 40, special=False) * 10, decimals], dtype)


@pytest.mark.parametrize("name", ["isposinf", "isneginf"])
def test_signed_infinities(name: str) -> None:
    for dtype in [*FLOATS, torch.int32]:
        check(f"aten::{name}.out", [sample(dtype, 20)], torch.bool)


@pytest.mark.parametrize("dtype", REAL_BOOL)
def test_question_answered_in_any_dtype(dtype: torch.dtype) -> None:
    check("aten::logical_not.out", [sample(torch.float32, 20)], dtype)
    check("aten::logical_not.out", [sample(dtype, 20)], torch.bool)


@pytest.mark.parametrize("dtype", [*INTS, torch.bool])
def test_bitwise_not(dtype: torch.dtype) -> None:
    check("aten::bitwise_not.out", [sample(dtype, 30)], dtype)


@pytest.mark.parametrize("eps", [None, 0.0, 0.1])
def test_logit(eps: float | None) -> None:
    for dtype in FLOATS:
        check("aten::logit.out", [torch.rand(50).to(dtype), eps], dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_to_num_numbers(dtype: torch.dtype) -> None:
    check("aten::nan_to_num.out", [sample(dtype, 20), 1.5, 2.0, -3.0], dtype)
    check("aten::frac.out", [sample(dtype, 20, special=False)], dtype)


ACTIVATIONS = [
    ("gelu", ["none"]), ("gelu", ["tanh"]), ("elu", [1, 1, 1]), ("elu", [0.5, 2.0, 1.5]), ("celu", [1.2]),
    ("leaky_relu", [0.01]), ("leaky_relu", [-2]), ("silu", []), ("mish", []), ("hardsigmoid", []), ("hardswish", []),
    ("softplus", [1, 20]), ("softplus", [2.5, 3.0]), ("hardshrink", [0.5]), ("softshrink", [0.7]),
    ("threshold", [0.3, 7]), ("hardtanh", [-1, 1]), ("hardtanh", [0.25, 0.5]),
    ("clamp", [-1, 1]), ("clamp", [None, 0.5]),
    ("clamp", [0.5, None]), ("clamp", [2, -2]), ("clamp_min", [0]), ("clamp_max", [0.5]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), ACTIVATIONS)
def test_activations(name: str, arguments: list[object]) -> None:
    for dtype in FLOATS:
        check(f"aten::{name}.out", [sample(dtype, 11, 70), *arguments], dtype)
    check(f"aten::{name}.out", [sample(torch.float32, 2, 3, 4, 5).to(memory_format=torch.channels_last), *arguments],
          torch.float32, layout=torch.channels_last)  # fmt: skip


def test_activations_of_large_numbers_are_exact() -> None:
    x = torch.tensor([1e4, -1e4, 1e20, -1e20, 88.0, -88.0, 104.0, -104.0])
    for name in ("sigmoid", "tanh", "exp", "silu", "mish", "expm1"):
        check(f"aten::{name}.out", [x], torch.float32)
    for approximate in ("none", "tanh"):
        check("aten::gelu.out", [x, approximate], torch.float32)


@pytest.mark.parametrize("dtype", REAL)
def test_clamp_promotes(dtype: torch.dtype) -> None:
    out = dtype if dtype.is_floating_point else torch.float32
    check("aten::clamp.out", [sample(dtype, 30), -0.5, 20.5], out)
    check("aten::clamp.out", [sample(dtype, 30), 3, 20], dtype)
    check(
        "aten::clamp.Tensor_out", [sample(dtype, 4, 30), sample(dtype, 30, seed=1), sample(dtype, 4, 1, seed=2)], dtype
    )
    check("aten::clamp.Tensor_out", [sample(dtype, 4, 30), None, sample(dtype, 4, 1, seed=2)], dtype)
    check("aten::clamp.Tensor_out", [sample(dtype, 4, 30), sample(dtype, 4, 1, seed=2), None], dtype)


@pytest.mark.parametrize("dtype", [torch.int64])
def test_integer_activations(dtype: torch.dtype) -> None:
    check("aten::hardtanh.out", [sample(dtype, 30), -5, 6], dtype)
    check("aten::threshold.out", [sample(dtype, 30), 3, 9], dtype)
    check("aten::relu.out", [sample(dtype, 30)], dtype)


@pytest.mark.parametrize(("shape", "dim"), [((4, 6), -1), ((4, 6), 0), ((2, 8, 3, 5), 1), ((10,), 0), ((0, 4), 1)])
def test_glu(shape: tuple[int, ...], dim: int) -> None:
    for dtype in FLOATS:
        check("aten::glu.out", [sample(dtype, *shape, special=False), dim], dtype)
    if len(shape) == 4:
        x = sample(torch.float32, *shape).to(memory_format=torch.channels_last)
        check("aten::glu.out", [x, dim], torch.float32, layout=torch.channels_last)
        check("aten::glu.out", [x, dim], torch.float32)


@pytest.mark.parametrize("dtype", FLOATS)
def test_log_sigmoid(dtype: torch.dtype) -> None:
    check("aten::log_sigmoid_forward.output", [sample(dtype, 8, 40)], dtype, dtype)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (300,), (5, 257), (2, 3, 1, 2)])
def test_shapes(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float16, torch.int32):
        check("aten::exp.out", [sample(dtype, *shape)], torch.float32)
        check("aten::neg.out", [sample(dtype, *shape)], dtype)


def test_any_dim_order() -> None:
    x = sample(torch.float32, 3, 4, 5).permute(2, 0, 1)
    found = kernels().call("aten::tanh.out", [x], [torch.empty(5, 3, 4)])[0]
    torch.testing.assert_close(found, x.tanh(), equal_nan=True)
    found = kernels().call("aten::tanh.out", [x.double()], [torch.empty(4, 5, 3).permute(1, 2, 0)])[0]
    torch.testing.assert_close(found, x.double().tanh().float(), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "arguments", "out", "check_name"),
    [
        ("exp", [torch.ones(2)], torch.int32, "KernelDtypeMismatch"),
        ("neg", [torch.ones(2, dtype=torch.bool)], torch.bool, "KernelDtype"),
        ("bitwise_not", [torch.ones(2)], torch.float32, "KernelDtype"),
        ("gelu", [torch.ones(2), "x"], torch.float32, "KernelArgument"),
        ("gelu", [torch.ones(2, dtype=torch.int32), "none"], torch.float32, "KernelDtype"),
        ("clamp", [torch.ones(2), None, None], torch.float32, "KernelArgument"),
        ("glu", [torch.ones(2, 3), 1], torch.float32, "KernelShape"),
        ("glu", [torch.ones(2, 4), 2], torch.float32, "KernelDim"),
        ("floor", [torch.ones(2, dtype=torch.complex64)], torch.complex64, "KernelDtype"),
        ("hardtanh", [torch.ones(2, dtype=torch.uint8), -1, 1], torch.uint8, "KernelOverflow"),
    ],
)
def test_refusals(name: str, arguments: list[object], out: torch.dtype, check_name: str) -> None:
    with pytest.raises(KernelFailure) as caught:
        kernels().call(f"aten::{name}.out", arguments, [torch.empty(2, dtype=out)])
    assert caught.value.check == check_name


@pytest.mark.parametrize("name", ["digamma", "erfinv", "i0"])
def test_special_functions(name: str) -> None:
    for dtype in FLOATS:
        check(f"aten::{name}.out", [sample(dtype, 5, 60)], dtype)
    for dtype in (torch.float32, torch.float64):
        x = (
            torch.linspace(-1, 1, 401, dtype=dtype)
            if name == "erfinv"
            else torch.linspace(-30, 80, 701, dtype=dtype) / 1.1
        )
        check(f"aten::{name}.out", [x], dtype)


@pytest.mark.parametrize(("low", "high", "gelu", "erf"), [(-13.5, -2.0, 1e-7, 6.1e-8), (-2.0, 2.0, 2.5e-7, 1.5e-7)])
def test_tails_of_erf_and_gelu(low: float, high: float, gelu: float, erf: float) -> None:
    """1 + erf cancels below -2, where GELU is off by what erf is off in its last bits; eager by 2.6e-7."""
    x = torch.linspace(low, high, 100_001)
    found = kernels().call("aten::gelu.out", [x, "none"], [torch.empty_like(x)])[0]
    torch.testing.assert_close(found.double(), torch.nn.functional.gelu(x.double()), rtol=0, atol=gelu)
    found = kernels().call("aten::erf.out", [x], [torch.empty_like(x)])[0]
    torch.testing.assert_close(found.double(), torch.erf(x.double()), rtol=0, atol=erf)
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 3.95, 1.0, 1e-40])
    check("aten::erf.out", [special], torch.float32)
