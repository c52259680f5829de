"""Compares elementwise kernels with PyTorch's out variants of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from etir_testing.runtime.against_torch import by_torch
from etir_testing.runtime.kernels import build_kernels

INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REAL = INTS + FLOATS
REAL_BOOL = [*REAL, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3e-5,
    12.0,
    -60.0,
    float("inf"),
    -float("inf"),
    float("nan"),
]


def kernels() -> Any:
    """The elementwise kernels, compiled."""
    return build_kernels("elementwise", "copy", "special")


def sample(dtype: torch.dtype, *shape: int, seed: int = 0, special: bool = True, nonzero: bool = False) -> torch.Tensor:
    """Numbers of all signs and sizes; ``special`` puts zeros, infinities and NaN first."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype in INTS:
        low = 0 if dtype == torch.uint8 else -100
        values = torch.randint(low, 101, shape, generator=generator)
        return torch.where(values == 0, 7, values).to(dtype) if nonzero else values.to(dtype)
    if dtype.is_complex:
        return (torch.randn(shape or (1,), generator=generator, dtype=dtype) * 2).reshape(shape)
    values = (torch.randn(shape or (1,), generator=generator, dtype=torch.float64) * 3).reshape(shape)
    if special and values.numel() > 2:
        count = min(values.numel(), len(SPECIAL))
        values.view(-1)[:count] = torch.tensor(SPECIAL, dtype=torch.float64).roll(seed)[:count]
    return values.to(dtype)


def check(name: str, arguments: Sequence[Any], *dtypes: torch.dtype, layout: Any = None, **tolerances: float) -> None:
    """Run the kernel and compare; ``layout`` is a memory format for the results."""
    wanted = by_torch(name.removeprefix("aten::"), arguments, dtypes)
    if layout is not None:
        wanted = [w.to(memory_format=layout) for w in wanted]
    found = kernels().call(name, arguments, wanted)
    for w, f in zip(wanted, found, strict=True):
        assert f.dtype == w.dtype and f.stride() == w.stride()
        torch.testing.assert_close(f, w, equal_nan=True, **tolerances)
