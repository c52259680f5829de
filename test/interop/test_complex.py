"""Complex tensors on both runtimes against eager: the stock one has kernels for few operators and few shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.program_runs import Function, assert_same, eager, f32, stock, trace  # noqa: E402


def c64(*shape: int, seed: int = 0) -> Any:
    """Complex numbers with standard-normal parts, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.complex64, generator=generator)


def written(x: Any) -> Any:
    y = x.clone()
    y[1:3] = 0
    y[0] += x[3]
    z = torch.zeros(2, *x.shape, dtype=torch.complex64)
    z[1] = y
    return y, z.index_put((torch.tensor([0]),), x), x.flip(0), F.pad(x.reshape(2, 2), (1, 2))


def gated(x: Any, w: Any) -> Any:
    """A global filter: spectrum, a product with learned numbers, and back."""
    return torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(w), s=(8, 6), norm="ortho")


def rotated(x: Any, angles: Any) -> Any:
    pairs = torch.view_as_complex(x.reshape(2, 3, 4, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(2)


SIZES = [((4,), ()), ((), (4,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (1, 4)), ((), ()), ((3, 4), (3, 4))]

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"arithmetic {a} {b}": (lambda x, y: (x + y, x - y, x * y, x / y), (c64(*a), c64(*b, seed=1)))
        for a, b in SIZES
    },
    "numbers": (lambda x: (x * (1 + 2j) / 3, 2 / x, 2 - x, x + 1j, x * 0.5), (c64(4),)),
    "real and complex": (lambda x, y: (x + y, y * x, y / x, y - x, torch.where(y > 0, x, y)), (c64(3, 4), f32(3, 4))),
    "products": (
        lambda x, y, z: (x @ y, x @ y[:, 0], x[0].outer(x[1]), torch.addmm(z, x, y, beta=2, alpha=0.5), x.mH @ x),
        (c64(3, 4), c64(4, 5), c64(5)),
    ),
    "batched products": (
        lambda x, y, z: (torch.bmm(x, y), torch.baddbmm(z, x, y), torch.einsum("bij,bkj->bik", x, x)),
        (c64(2, 3, 4), c64(2, 4, 5), c64(2, 3, 5)),
    ),
    "spectral convolution": (
        lambda x, w: torch.einsum("bixy,ioxy->boxy", x, w), (c64(2, 3, 4, 5), c64(3, 6, 4, 5, seed=1)),
    ),
    "layers": (
        lambda x, w, b: (F.linear(x, w, b), F.conv1d(x.mT[None], w[:, :, None].expand(5, 4, 2), b)),
        (c64(3, 4), c64(5, 4), c64(5)),
    ),
    "two dims": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (c64(1, 2, 7, 8), c64(3, 2, 3, 3))),
    "reductions": (
        lambda x: (x.sum(), x.sum(1), x.mean(), x.mean(-1, keepdim=True), x.cumsum(1), x.var(), x.var(0), x.norm()),
        (c64(3, 5),),
    ),
    "running products": (lambda x: (x.prod(), x.prod(1), x.prod(0, keepdim=True), x[:, :0].prod(1)), (c64(3, 5),)),
    "to bool": (lambda x: (x.to(torch.bool), (x * 1j).imag.to(torch.bool)), (torch.tensor([0, 1j, 1, -1 - 2j]),)),
    "wide": (lambda x: (x.sum(0, dtype=torch.complex128), x.to(torch.complex128) * 2, x.prod(1)), (c64(3, 4),)),
    "powers": (lambda x: (x**2, x**3, x**-1, x**-2, x**0.5, x**-0.5, x**2.5, x**0, x.square(), x.rsqrt()), (c64(6),)),
    "roots": (lambda x: x.sqrt(), (torch.tensor([0j, -4 + 0j, 4 + 0j, 2j, -2j, -3 - 1e-4j, 1e30 + 1e30j]),)),
    "functions": (lambda x: (x.exp(), x.log(), x.sin(), x.cos(), x.tan(), x.sigmoid(), F.silu(x)), (c64(6),)),
    "hyperbolic": (lambda x: (x.sinh(), x.cosh(), x.tanh()), (c64(6),)),
    "far from zero": (lambda x: (x.tanh(), x.reciprocal()), (torch.tensor([90 + 1j, -90 + 1j, 3e30 - 3e30j]),)),
    "parts": (lambda x: (x.abs(), x.angle(), x.sgn(), x.conj() + 0, x.real, x.imag + 1), (c64(6),)),
    "truth": (lambda x, y: (x == y, x != y, x == 0, x.isnan(), x.isinf(), x.isfinite()), (c64(4), c64(4))),
    "no numbers": (lambda x: (x.isnan(), x.isinf()), (torch.tensor([complex("nan+1j"), complex("1+infj"), 1j]),)),
    "choices": (
        lambda x: (x[torch.tensor([0, 2])], x.masked_fill(x.real > 0, 0), x[x.abs().argsort()], x.roll(1), x.triu()),
        (c64(4, 4),),
    ),
    "gathering": (
        lambda x, i: (x.gather(1, i), x.scatter(1, i, x), x.scatter(1, i, 2.0), x.scatter_add(1, i, x)),
        (c64(3, 4), torch.tensor([[0, 1, 3], [3, 2, 0], [1, 1, 2]])),
    ),
    "numbers that kernels do not take": (
        lambda x, i: (torch.full_like(x, 1j) + x, x.new_full((3,), 2 - 1j) * x[0, 0], x.masked_fill(x.real > 0, 0.5j),
                      x.scatter(1, i, 0.5j), torch.add(x, x, alpha=1j), torch.sub(x, x, alpha=2j)),
        (c64(3, 4), torch.tensor([[0, 1, 3]])),
    ),
    "splits": (lambda x: (*x.split(2), *x.split([1, 3], 1), *x.tensor_split(2, 1), *x.unbind(0)), (c64(3, 4),)),
    "written": (written, (c64(4),)),
    "transforms": (
        lambda x: (torch.fft.fft(x), torch.fft.ifft(x), torch.fft.fft(x, dim=0), torch.fft.fft2(x, norm="ortho")),
        (c64(7, 8),),
    ),
    "short transforms": (
        lambda x: [torch.fft.fft(x[:, :n]) for n in range(1, 5)] + [torch.fft.ifft(x[:, :n]) for n in range(1, 5)],
        (c64(2, 4),),
    ),
    "transforms of real numbers": (
        lambda x: (torch.fft.fft(x), torch.fft.fft2(x).real, torch.fft.fftn(x, dim=(1, 2), norm="forward"),
                   torch.fft.rfft2(x, norm="ortho"), torch.fft.ihfft(x), torch.fft.fftshift(torch.fft.fft(x))),
        (f32(2, 7, 6),),
    ),
    "transforms to real numbers": (
        lambda x: (torch.fft.irfft2(x, s=(8, 6)), torch.fft.irfft(x, n=7), torch.fft.hfft(x), torch.fft.irfftn(x)),
        (c64(2, 8, 4),),
    ),
    "global filter": (gated, (f32(2, 8, 6), f32(8, 4, 2, seed=1))),
    "rotary positions": (rotated, (f32(2, 3, 8), f32(3, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_complex(name: str) -> None:
    function, inputs = PROGRAMS[name]
    module, calls = Function(function), [inputs]
    expected = eager(module, calls)
    exported = torch.export.export(module, inputs)
    assert_same(stock(etir.compile(exported).buffer, calls), expected, "stock runtime", 2e-5)
    own = etir.runtime.load(etir.compile(exported, target="etir").buffer)
    assert_same(trace(lambda flat: own.forward(*flat), calls), expected, "etir's runtime", 2e-5)
