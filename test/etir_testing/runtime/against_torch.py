"""Runs an out-variant kernel and torch's own on the same arguments, and compares every result."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels

TOLERANCE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (2e-6, 1e-5),
    torch.float64: (1e-12, 1e-12),
    torch.complex64: (2e-6, 1e-5),
    torch.complex128: (1e-12, 1e-12),
}
"""Relative and absolute tolerance by dtype of the result."""

LAYOUTS = ("contiguous", "channels_last", "transposed")


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in another memory order: channels_last for rank 4, all dims reversed for ``transposed``."""
    if layout == "channels_last" and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if layout == "transposed" and tensor.dim() > 1:
        order = list(range(tensor.dim()))[::-1]
        return tensor.permute(order).contiguous().permute(order)
    return tensor.contiguous()


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Values that every dtype can hold and tell apart: with ties for integers and without for floats."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=generator).bool()
    if dtype.is_complex:
        part = torch.randn((*shape, 2), generator=generator, dtype=torch.float64)
        return torch.view_as_complex(part).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)
    low = -9 if dtype.is_signed else 0
    return torch.randint(low, 10, tuple(shape), generator=generator).to(dtype)


@functools.cache
def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def by_torch(name: str, args: Sequence[Any], out_dtypes: Sequence[torch.dtype]) -> list[torch.Tensor]:
    """Results of torch's out variant; ``args`` are all inputs in the order of the schema."""
    overload = _overload(name)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    inputs = [a for a in overload._schema.arguments if not (a.is_out and a.kwarg_only)]
    results = [a for a in overload._schema.arguments if a.is_out and a.kwarg_only]
    assert len(inputs) == len(args)
    for argument, value in zip(inputs, args, strict=True):
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    outs = [torch.empty(0, dtype=dtype) for dtype in out_dtypes]
    overload(*positional, **keywords, **dict(zip((r.name for r in results), outs, strict=True)))
    return outs


def check(
    kernels: Kernels,
    name: str,
    args: Sequence[Any],
    *out_dtypes: torch.dtype,
    layout: str = "contiguous",
    tolerance: tuple[float, float] | None = None,
) -> list[torch.Tensor]:
    """Compare the kernel ``aten::<name>`` with torch. The results of rank 4 (or all, transposed) have ``layout``."""
    expected = by_torch(name, args, out_dtypes)
    likes = [laid_out(torch.empty(e.shape, dtype=e.dtype), layout) for e in expected]
    actual = kernels.call(f"aten::{name}", args, likes)
    for got, want in zip(actual, expected, strict=True):
        assert got.shape == want.shape
        rtol, atol = tolerance or TOLERANCE.get(want.dtype, (0, 0))
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
    return actual


def refuses(kernels: Kernels, check_name: str, name: str, args: Sequence[Any], *likes: torch.Tensor) -> None:
    """The kernel must fail with the check of this name."""
    with pytest.raises(KernelFailure) as failure:
        kernels.call(f"aten::{name}", args, likes)
    assert failure.value.check == check_name
