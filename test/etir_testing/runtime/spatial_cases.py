"""Inputs of the spatial kernels: shapes, layouts, tolerances."""

from __future__ import annotations

from typing import Any

import torch

FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
}


def make(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -50, 50, shape, generator=generator).to(dtype)


def relaid(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values, channels last (with a batch dim or without), or as they are."""
    if layout == "plain" or tensor.numel() == 0:
        return tensor.contiguous()
    if layout == "last":
        if tensor.dim() in FORMATS:
            return tensor.contiguous(memory_format=FORMATS[tensor.dim()])
        return tensor.movedim(0, -1).contiguous().movedim(-1, 0) if tensor.dim() == 3 else tensor.contiguous()
    order = list(range(tensor.dim()))[::-1]
    return tensor.permute(order).contiguous().permute(order)


def operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base)
    return getattr(packet, {"vec_out": "vec"}.get(overload, "default"))


LAYOUTS = [("plain", "plain"), ("last", "last"), ("plain", "last"), ("last", "plain"), ("odd", "odd")]
