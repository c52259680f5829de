"""Elementwise kernels on complex numbers, those of halves included, and further dtypes that few operators take."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.elementwise_oracle import COMPLEX, check, kernels, sample
from etir_testing.runtime.kernels import KernelFailure

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]


def parts(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the parts of a complex dtype."""
    return {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}[dtype]


def numbers(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return sample(torch.complex64 if dtype == torch.complex32 else dtype, *shape, seed=seed).to(dtype)


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal dtypes, and values within the tolerances of halves; torch compares no complex32."""
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found.to(torch.complex64), wanted.to(torch.complex64), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ["exp2", "expm1", "log1p", "log2", "silu", "sinc"])
def test_functions(name: str, dtype: torch.dtype) -> None:
    x = numbers(dtype, 5, 7)
    check(f"aten::{name}.out", [x], dtype)
    small = (x * 1e-4).contiguous()
    check(f"aten::{name}.out", [small], dtype)
    check(f"aten::{name}.out", [torch.zeros(2, dtype=dtype)], dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_differences_near_zero_keep_their_digits(dtype: torch.dtype) -> None:
    """e^z - 1 and log(1 + z), of which a plain computation leaves nothing."""
    tiny = torch.finfo(dtype).eps / 8
    z = torch.tensor([complex(tiny, -tiny), complex(-tiny, 2 * tiny)], dtype=dtype)
    for name in ("expm1", "log1p"):
        (found,) = kernels().call(f"aten::{name}.out", [z], [z])
        torch.testing.assert_close(found, z, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_logaddexp(dtype: torch.dtype) -> None:
    infinity = float("inf")
    check("aten::logaddexp.out", [numbers(dtype, 4, 6), numbers(dtype, 6, seed=1)], dtype)
    special = [complex(a, b) for a in (-infinity, 0.0, 2000.0) for b in (0.0, 1.0)]
    a = torch.tensor(special, dtype=dtype)
    check("aten::logaddexp.out", [a, a], dtype)
    check("aten::logaddexp.out", [a, a.flip(0)], dtype)


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_arithmetic_of_complex_halves(name: str) -> None:
    a, b = numbers(torch.complex32, 3, 5), numbers(torch.complex32, 5, seed=1)
    extra = [] if name == "mul" else [1]
    for other in (b, b.real.contiguous()):
        wanted = getattr(torch, name)(a, other)
        (found,) = kernels().call(f"aten::{name}.out", [a, other, *extra], [wanted])
        same(found, wanted)


def test_functions_of_complex_halves() -> None:
    x = numbers(torch.complex32, 3, 5)
    for name, wanted in (("neg", -x), ("_conj_physical", x.conj().resolve_conj()), ("sgn", torch.sgn(x))):
        (found,) = kernels().call(f"aten::{name}.out", [x], [wanted])
        same(found, wanted)
    check("aten::abs.out", [x], torch.float16)
    y = x.clone()
    torch.view_as_real(y)[0, 1, 1] += 1
    for name in ("eq", "ne"):
        check(f"aten::{name}.Tensor_out", [x, y], torch.bool)
    real, imaginary = sample(torch.float16, 4, special=False), sample(torch.float16, 4, seed=1, special=False)
    (found,) = kernels().call("aten::complex.out", [real, imaginary], [torch.empty(4, dtype=torch.complex32)])
    assert torch.equal(torch.view_as_real(found), torch.stack((real, imaginary), -1))


@pytest.mark.parametrize("dtype", [torch.complex32, *COMPLEX])
def test_special_values(dtype: torch.dtype) -> None:
    ends = [0.0, 1.0, float("inf"), -float("inf"), float("nan")]
    x = torch.tensor([complex(a, b) for a in ends for b in ends], dtype=dtype)
    real = torch.view_as_real(x)
    for name, wanted in (("isinf", real.isinf().any(-1)), ("isnan", real.isnan().any(-1))):
        (found,) = kernels().call(f"aten::{name}.out", [x], [wanted])
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_sequences(dtype: torch.dtype) -> None:
    for steps in (0, 1, 7):
        check("aten::linspace.out", [-2.0, 3.5, steps], dtype)
        check("aten::logspace.out", [-2.0, 3.5, steps, 10.0], dtype)
    check("aten::linspace.Tensor_Tensor_out", [torch.tensor(1.5), torch.tensor(4), 5], dtype)
    # Of a negative base only complex numbers have such powers.
    check("aten::logspace.out", [0.0, 1.0, 3, -2.0], dtype)


def test_bools() -> None:
    x = torch.tensor([True, False, True])
    check("aten::square.out", [x], torch.int64)
    check("aten::signbit.out", [x], torch.bool)
    with pytest.raises(KernelFailure, match="KernelDtypeMismatch"):
        kernels().call("aten::square.out", [x], [x])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_neighbor(dtype: torch.dtype) -> None:
    """nextafter of all numbers of 16 bits, in both directions."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    for to in (float("inf"), -float("inf"), 0.0, float("nan")):
        check("aten::nextafter.out", [x, torch.tensor(to, dtype=dtype)], dtype)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_with_floats(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 65535, 7], dtype=torch.int64).to(dtype)
    check("aten::mul.Scalar_out", [x, 1.5], torch.float32)
    check("aten::special_xlog1py.out", [x, torch.tensor([0.5, 1.0, 2.0, 3.0])], torch.float32)
    check("aten::special_xlog1py.out", [torch.tensor([0.5, 1.0, 2.0, 3.0]), x], torch.float32)


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", ["sin", "exp", "lgamma", "digamma", "i0", "sigmoid", "sinc"])
def test_functions_of_unsigned(name: str, dtype: torch.dtype) -> None:
    check(f"aten::{name}.out", [torch.tensor([1, 2, 3, 60], dtype=torch.int64).to(dtype)], torch.float32)
