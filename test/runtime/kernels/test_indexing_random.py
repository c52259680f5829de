"""Random operators: distributions, ranges and repeatability; Philox against its published numbers; triangles."""

from __future__ import annotations

import ctypes
import math
import subprocess

import pytest
import torch

from etir_testing.runtime.indexing_cases import FLOATS, INTS, KERNELS, refused
from etir_testing.runtime.kernels import BUILD, RUNTIME


def call(name, arguments, *likes):
    results = KERNELS.call(name, arguments, likes)
    return results[0] if len(likes) == 1 else results


def test_philox_known_answers():
    """The vectors for philox4x32-10 that come with Random123."""
    source = BUILD / "philox.cc"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(
        '#include "kernels/util/philox.h"\n'
        'extern "C" void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t* words) {\n'
        "  etir::philox4x32(key, low, high, words);\n}\n"
    )
    library = BUILD / "philox.so"
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{RUNTIME}", source, "-o", library], check=True)
    philox = ctypes.CDLL(str(library)).philox
    full = 0xFFFFFFFFFFFFFFFF
    vectors = [
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (full, full, full, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for key, low, high, expected in vectors:
        words = (ctypes.c_uint32 * 4)()
        philox(ctypes.c_uint64(key), ctypes.c_uint64(low), ctypes.c_uint64(high), words)
        assert " ".join(f"{w:08x}" for w in words) == expected


@pytest.mark.parametrize("dtype", FLOATS)
def test_rand(dtype):
    x = call("aten::rand.out", [[300, 200]], torch.empty(300, 200, dtype=dtype))
    assert x.shape == (300, 200)
    assert float(x.min()) >= 0 and float(x.max()) < 1
    flat = x.double().flatten()
    assert abs(float(flat.mean()) - 0.5) < 0.005
    assert abs(float(flat.var()) - 1 / 12) < 0.002
    counts = torch.histc(flat, 8, 0, 1)
    assert float(((counts - 7500) ** 2 / 7500).sum()) < 30
    assert abs(float(torch.corrcoef(torch.stack([flat[:-1], flat[1:]]))[0, 1])) < 0.02
    torch.testing.assert_close(x, call("aten::rand.out", [[300, 200]], torch.empty(300, 200, dtype=dtype)))
    like = torch.empty(300, 200, dtype=dtype)
    torch.testing.assert_close(x, call("aten::rand_like.out", [torch.zeros(300, 200), None], like))


@pytest.mark.parametrize("dtype", FLOATS)
def test_randn(dtype):
    x = call("aten::randn.out", [[60001]], torch.empty(60001, dtype=dtype)).double()
    assert torch.isfinite(x).all()
    assert abs(float(x.mean())) < 0.02 and abs(float(x.std()) - 1) < 0.02
    assert abs(float((x**3).mean())) < 0.08 and abs(float((x**4).mean()) - 3) < 0.15
    for limit in (0.5, 1.0, 2.0):
        assert abs(float((x.abs() < limit).double().mean()) - math.erf(limit / math.sqrt(2))) < 0.01
    assert abs(float(torch.corrcoef(torch.stack([x[:-1], x[1:]]))[0, 1])) < 0.02
    torch.testing.assert_close(x, call("aten::randn_like.out", [x, None], x.to(dtype)).double())


@pytest.mark.parametrize("dtype", FLOATS)
def test_sizes(dtype):
    for shape in ([], [0], [1], [5], [3, 7]):
        assert call("aten::rand.out", [shape], torch.empty(shape, dtype=dtype)).shape == torch.Size(shape)
        assert call("aten::randn.out", [shape], torch.empty(shape, dtype=dtype)).shape == torch.Size(shape)
    refused("KernelArgument", "aten::rand.out", [[-1]], [torch.empty(1)])
    refused("KernelDtype", "aten::rand.out", [[1]], [torch.empty(1, dtype=torch.int32)])
    refused("KernelResize", "aten::randn.out", [[100]], [torch.empty(1)])


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, torch.bool])
def test_randint(dtype):
    out = torch.empty(20000, dtype=dtype)
    low, high = (0, 2) if dtype is torch.bool else (0, 7) if dtype is torch.uint8 else (-3, 8)
    x = call("aten::randint.low_out", [low, high, [20000]], out).double()
    values, counts = x.unique(return_counts=True)
    assert values.tolist() == list(range(low, high))
    expected = 20000 / (high - low)
    assert float(((counts - expected) ** 2 / expected).sum()) < 40
    if low == 0:
        torch.testing.assert_close(x, call("aten::randint.out", [high, [20000]], out).double())
        torch.testing.assert_close(x, call("aten::randint_like.out", [out, high, None], out).double())
    torch.testing.assert_close(x, call("aten::randint_like.low_dtype_out", [out, low, high, None], out).double())


def test_randint_limits():
    out = torch.empty(4000, dtype=torch.int64)
    x = call("aten::randint.low_out", [-(2**63), 2**63 - 1, [4000]], out)
    assert 0.45 < float((x > 0).double().mean()) < 0.55
    assert 0.45 < float((x % 2 == 0).double().mean()) < 0.55
    assert 0.2 < float((x.abs() > 2**62).double().mean()) < 0.8
    refused("KernelArgument", "aten::randint.low_out", [3, 3, [4]], [out])
    refused("KernelArgument", "aten::randint.low_out", [-1, 3, [4]], [out.to(torch.uint8)])
    refused("KernelArgument", "aten::randint.low_out", [0, 300, [4]], [out.to(torch.uint8)])
    refused("KernelArgument", "aten::randint.out", [3, [4]], [out.to(torch.bool)])


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_randperm(dtype):
    for n in (0, 1, 2, 3, 100):
        x = call("aten::randperm.out", [n], torch.empty(n, dtype=dtype))
        assert sorted(x.tolist()) == list(range(n))
    if dtype is torch.int64:
        x = call("aten::randperm.out", [5000], torch.empty(5000, dtype=dtype)).double()
        assert abs(float(torch.corrcoef(torch.stack([x, torch.arange(5000.0).double()]))[0, 1])) < 0.06
    refused("KernelArgument", "aten::randperm.out", [-1], [torch.empty(4, dtype=dtype)])
    limit = {torch.uint8: 256, torch.int8: 128, torch.float16: 2049, torch.bfloat16: 257}.get(dtype)
    if limit is not None:
        assert call("aten::randperm.out", [limit], torch.empty(limit, dtype=dtype)).shape == (limit,)
        refused("KernelArgument", "aten::randperm.out", [limit + 1], [torch.empty(limit + 1, dtype=dtype)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_native_dropout(dtype, p):
    x = torch.randn(40, 50, 2, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    for like in (x, x.to(memory_format=torch.channels_last)):
        for train in (True, None):
            out, mask = call("aten::native_dropout.out", [x, p, train], like, torch.empty(x.shape, dtype=torch.bool))
            assert abs(float(mask.double().mean()) - (1 - p)) < 0.015
            scale = 0.0 if p == 1 else 1 / (1 - p)
            torch.testing.assert_close(out, (x.float() * mask * scale).to(dtype), rtol=1e-2, atol=1e-3)
        out, mask = call("aten::native_dropout.out", [x, p, False], like, torch.empty(x.shape, dtype=torch.bool))
        torch.testing.assert_close(out, x)
        assert mask.all()
    if p == 0.5:
        pairs = torch.corrcoef(torch.stack([mask.flatten()[:-1], mask.flatten()[1:]]).double() + torch.rand(2, 19999))
        assert abs(float(pairs[0, 1])) < 0.05


def test_native_dropout_refuses():
    x, mask = torch.ones(3), torch.ones(3, dtype=torch.bool)
    for p in (-0.1, 1.1, float("nan")):
        refused("KernelArgument", "aten::native_dropout.out", [x, p, True], [x, mask])
    refused("KernelDtype", "aten::native_dropout.out", [x.int(), 0.5, True], [x.int(), mask])
    refused("KernelDtype", "aten::native_dropout.out", [x, 0.5, True], [x, mask.to(torch.uint8)])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_triangles(name, dtype):
    for row, column in ((3, 3), (4, 7), (7, 4), (0, 3), (3, 0), (1, 1)):
        for offset in (0, 1, -1, 3, -4, 100, -100):
            expected = getattr(torch, name)(row, column, offset, dtype=dtype)
            actual = call(f"aten::{name}.out", [row, column, offset], expected)
            torch.testing.assert_close(actual, expected)
    like = torch.empty(2, 9, dtype=dtype)
    far = call(f"aten::{name}.out", [3, 3, 2**62 if name == "tril_indices" else -(2**62)], like)
    assert far.shape == (2, 9)
    refused("KernelArgument", f"aten::{name}.out", [-1, 3, 0], [like])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_triangles_of_many_rows_without_elements(dtype):
    most = 2**31 - 1
    for name in ("tril_indices", "triu_indices"):
        assert call(f"aten::{name}.out", [most, 0, 0], torch.empty(2, 0, dtype=dtype)).shape == (2, 0)
    few = torch.tensor([[most - 2, most - 1, most - 1], [0, 0, 1]], dtype=dtype)
    torch.testing.assert_close(call("aten::tril_indices.out", [most, 5, 2 - most], few), few)
    few = torch.tensor([[0, 0, 1], [3, 4, 4]], dtype=dtype)
    torch.testing.assert_close(call("aten::triu_indices.out", [most, 5, 3], few), few)


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_complex(dtype):
    """Both parts are drawn, the normal ones with half of the variance each."""
    x = torch.view_as_real(call("aten::randn.out", [[30000]], torch.empty(30000, dtype=dtype))).double()
    assert abs(float((x**2).sum(-1).mean()) - 1) < 0.03
    assert abs(float(torch.corrcoef(x.T)[0, 1])) < 0.03
    y = torch.view_as_real(call("aten::rand.out", [[30000]], torch.empty(30000, dtype=dtype))).double()
    assert float(y.min()) >= 0 and float(y.max()) < 1 and abs(float(y.mean()) - 0.5) < 0.01


GENERATED = [
    ("rand", [[50, 3]], "generator_out", torch.float32),
    ("randn", [[50, 3]], "generator_out", torch.float32),
    ("randint", [9, [50]], "generator_out", torch.int64),
    ("randperm", [50], "generator_out", torch.int64),
]


@pytest.mark.parametrize(("name", "arguments", "overload", "dtype"), GENERATED, ids=[g[0] for g in GENERATED])
def test_without_a_generator(name, arguments, overload, dtype):
    """A generator is None in every program; the numbers are those of the overload that has none."""
    like = torch.empty(arguments[-1], dtype=dtype)
    plain = call(f"aten::{name}.out", arguments, like)
    assert torch.equal(call(f"aten::{name}.{overload}", [*arguments, None], like), plain)
    if name in ("rand", "randn"):
        assert torch.equal(call(f"aten::{name}_like.{overload}", [like, None, None], like), plain)
    if name == "randint":
        assert torch.equal(call("aten::randint.low_generator_out", [0, *arguments, None], like), plain)
        assert torch.equal(call("aten::randint_like.generator_out", [like, 9, None, None], like), plain)
        low = call("aten::randint_like.low_generator_dtype_out", [like, 0, 9, None, None], like)
        assert torch.equal(low, plain)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool, torch.uint8, torch.int64])
def test_bernoulli(dtype):
    like = torch.empty(100, 200, dtype=dtype)
    for p in (0.0, 0.3, 1.0):
        x = call("aten::bernoulli.float_out", [like, p, None], like).double()
        assert ((x == 0) | (x == 1)).all() and abs(float(x.mean()) - p) < 0.02
    refused("KernelArgument", "aten::bernoulli.float_out", [like, 1.5, None], [like])
    refused("KernelArgument", "aten::bernoulli.float_out", [like, float("nan"), None], [like])


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_tensors(dtype):
    p = torch.linspace(0, 1, 5).to(dtype)
    for layout in (torch.arange(2), torch.arange(2).flip(0)):
        many = p.expand(20000, 5).permute(*layout).contiguous().permute(*layout)
        x = call("aten::bernoulli.out", [many, None], many)
        torch.testing.assert_close(x.double().mean(0), p.double(), rtol=0, atol=0.02)
        assert not x[:, 0].any() and x[:, 4].all()
    like = torch.empty(20000, 5, dtype=torch.int32)
    x = call("aten::bernoulli.Tensor_out", [like, p, None], like)
    torch.testing.assert_close(x.double().mean(0), p.double(), rtol=0, atol=0.02)
    refused("KernelArgument", "aten::bernoulli.out", [p + 0.5, None], [p])
    refused("KernelShape", "aten::bernoulli.Tensor_out", [like[0], torch.zeros(2, 5), None], [like[0]])
    refused("KernelDtype", "aten::bernoulli.Tensor_out", [like, like, None], [like])


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_and_uniform(dtype):
    like = torch.empty(40000, dtype=dtype)
    for name, arguments in (("float_float_out", [3.0, 0.5, [40000], None]), ("out", [like, 3.0, 0.5, None])):
        x = call(f"aten::normal.{name}", arguments, like).double()
        assert abs(float(x.mean()) - 3) < 0.02 and abs(float(x.std()) - 0.5) < 0.02
    x = call("aten::uniform.out", [like, -1.0, 3.0, None], like).double()
    assert float(x.min()) >= -1 and float(x.max()) <= 3 and abs(float(x.mean()) - 1) < 0.03
    mean, std = torch.tensor([0.0, 5.0], dtype=dtype), torch.tensor([1.0, 0.25], dtype=dtype)
    wide = mean.expand(20000, 2).contiguous()
    for name, arguments, expected in (
        ("Tensor_Tensor_out", [wide, std, None], (mean, std)),
        ("Tensor_float_out", [wide, 0.5, None], (mean, torch.full((2,), 0.5))),
        ("float_Tensor_out", [2.0, std.expand(20000, 2).contiguous(), None], (torch.full((2,), 2.0), std)),
    ):
        x = call(f"aten::normal.{name}", arguments, wide).double()
        torch.testing.assert_close(x.mean(0), expected[0].double(), rtol=0, atol=0.03)
        torch.testing.assert_close(x.std(0), expected[1].double(), rtol=0, atol=0.03)
    refused("KernelArgument", "aten::normal.float_float_out", [0.0, -1.0, [3], None], [like[:3]])
    refused("KernelArgument", "aten::normal.Tensor_Tensor_out", [mean, -std, None], [mean])
    refused("KernelArgument", "aten::uniform.out", [like, 1.0, 0.0, None], [like])
