"""Every operator that XNNPACK has nodes for, as small modules with inputs.

Alone and in the company in which layouts and ranges matter: etir's own files of them are tested on the stock runtime,
and the stock pipeline's on etir's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Applied(nn.Module):
    """A function of submodules and inputs as a module."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*self.parts, *inputs)


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def positive(*shape: int) -> torch.Tensor:
    return normal(*shape).abs() + 0.1


IMAGE = (2, 8, 9, 10)


def batch_norm() -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(8)
    for tensor in (norm.running_mean, norm.weight.data, norm.bias.data):
        assert tensor is not None
        tensor.normal_()
    assert norm.running_var is not None
    norm.running_var.uniform_(0.5, 1.5)
    return norm


def _cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    x, image = normal(3, 40), normal(*IMAGE)
    pair = (normal(5, 7), normal(5, 7, seed=2))
    unary = {
        **{n: getattr(torch, n) for n in ("abs", "ceil", "cos", "exp", "floor", "neg", "sigmoid", "sin", "tanh")},
        **{n: getattr(F, n) for n in ("hardswish", "gelu", "silu", "relu", "relu6", "hardsigmoid")},
        "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
        "leaky_relu": lambda v: F.leaky_relu(v, 0.2),
        "elu": lambda v: F.elu(v, 1.3),
        "clamp_min": lambda v: torch.clamp(v, min=-0.5),
        "clamp_max": lambda v: torch.clamp(v, max=0.5),
        "square": lambda v: v**2,
        "softmax": lambda v: v.softmax(-1),
        "mean_last": lambda v: v.mean(-1, keepdim=True),
        "mean_last_dropped": lambda v: v.mean(-1),
        "view": lambda v: (v * 2).view(6, 20),
        "slice": lambda v: v[:, 1:33] * 2,
        "split": lambda v: torch.cat(v.split([10, 20, 10], -1)[::-1], -1),
        "chunks": lambda v: [c * 2 for c in v.chunk(4, -1)],
        "select": lambda v: v[:, 1] + v[:, -1],
        "pad": lambda v: F.pad(v, (1, 2, 0, 3), value=0.5),
        "copied": lambda v: (v.clone(), v + 1),
        "squeezed": lambda v: (v * 2).unsqueeze(1).squeeze(1).unsqueeze(0),
    }
    cases: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {n: (Applied(f), (x,)) for n, f in unary.items()}
    for n in ("log", "rsqrt", "sqrt"):
        cases[n] = Applied(getattr(torch, n)), (positive(3, 40),)
    cases["power_half"] = Applied(lambda v: v**0.5), (positive(3, 40),)
    cases |= {
        "broadcast": (Applied(lambda a, b: a + b * 2 - 1), (normal(2, 3, 4, 5), normal(4, 1))),
        "rank_0": (Applied(lambda a, b: a * b), (normal(2, 3), torch.tensor(2.5))),
        "div": (Applied(lambda a, b: a / b), (normal(2, 3), positive(2, 3))),
        "max_min": (Applied(lambda a, b: torch.maximum(a, b) + torch.minimum(a, b * 2)), pair),
        "add_relu": (Applied(lambda a, b: F.relu(a + b)), pair),
        "sub_relu": (Applied(lambda a, b: F.relu(a - b)), pair),
        "mul_relu6": (Applied(lambda a, b: F.relu6(a * b * 9)), pair),
        "div_relu": (Applied(lambda a, b: F.relu(a / b)), (normal(5, 7), positive(5, 7))),
        "cat_7": (Applied(lambda a, b: torch.cat([a, b, a * 2, b + 1, a - 1, b - 2, a * b], 1)), pair),
        "stack": (Applied(lambda a, b: torch.stack([a, b], -1).flatten(-2)), pair),
        "bmm": (Applied(torch.bmm), (normal(4, 5, 6), normal(4, 6, 7))),
        "mm": (Applied(torch.mm), (normal(5, 6), normal(6, 7))),
        "matmul_transposed": (
            Applied(lambda a, b: a @ b.transpose(-1, -2)),
            (normal(2, 3, 5, 6), normal(2, 3, 4, 6)),
        ),
        "attention": (
            Applied(F.scaled_dot_product_attention),
            (normal(1, 2, 6, 8), normal(1, 2, 6, 8, seed=2), normal(1, 2, 6, 8, seed=3)),
        ),
        "linear": (Applied(lambda m, v: m(v), nn.Linear(40, 9)), (x,)),
        "linear_relu": (Applied(lambda m, v: F.relu(m(v)), nn.Linear(40, 9, bias=False)), (x,)),
        "layer_norm": (Applied(lambda m, v: m(v), nn.LayerNorm(40)), (x * 3 + 1,)),
        "conv": (Applied(lambda m, v: m(v), nn.Conv2d(8, 12, 3, 2, 1)), (image,)),
        "conv_groups": (Applied(lambda m, v: F.relu(m(v)), nn.Conv2d(8, 12, 3, 1, (1, 2), groups=4)), (image,)),
        "conv_depthwise": (Applied(lambda m, v: F.hardtanh(m(v)), nn.Conv2d(8, 16, (3, 5), 1, 1, groups=8)), (image,)),
        "conv_dilated": (Applied(lambda m, v: m(v), nn.Conv2d(8, 4, 3, dilation=2, bias=False)), (image,)),
        "conv_transposed": (
            Applied(lambda m, v: m(v), nn.ConvTranspose2d(8, 6, 3, 2, 1, output_padding=1)),
            (image,),
        ),
        "conv_transposed_groups": (Applied(lambda m, v: m(v), nn.ConvTranspose2d(8, 6, 3, 2, 1, groups=2)), (image,)),
        "conv_of_one_channel": (Applied(lambda m, v: m(v), nn.Conv2d(1, 6, 3, 2, 1)), (normal(2, 1, 9, 10),)),
        "conv_1d": (
            Applied(lambda m, n, v: n(F.relu(m(v))), nn.Conv1d(8, 6, 5, 2, 2), nn.Conv1d(6, 6, 3, 1, 1, groups=6)),
            (normal(2, 8, 33),),
        ),
        "conv_transposed_1d": (Applied(lambda m, v: m(v), nn.ConvTranspose1d(8, 6, 4, 2, 1)), (normal(2, 8, 17),)),
        "batch_norm": (Applied(lambda m, v: m(F.relu(v)), batch_norm()), (image,)),
        "batch_norm_first": (Applied(lambda m, c, v: c(m(v)), batch_norm(), nn.Conv2d(8, 4, 1)), (image,)),
        "max_pool": (Applied(lambda v: F.max_pool2d(v, 3, 2, 1)), (image,)),
        "max_pool_ceil": (Applied(lambda v: F.max_pool2d(v, 3, 2, 0, ceil_mode=True)), (normal(2, 8, 10, 10),)),
        "max_pool_dilated": (Applied(lambda v: F.max_pool2d(v, 2, 1, 0, 2)), (image,)),
        "avg_pool": (Applied(lambda v: F.avg_pool2d(v, 2)), (image,)),
        "avg_pool_padded": (Applied(lambda v: F.avg_pool2d(v, 3, 2, 1, count_include_pad=False)), (image,)),
        "global_mean": (Applied(lambda v: F.adaptive_avg_pool2d(v, 1)), (image,)),
        "global_mean_dropped": (Applied(lambda v: v.mean((2, 3))), (image,)),
        "prelu": (Applied(lambda m, v: m(v), nn.PReLU(8, 0.3)), (image,)),
        "upsample": (Applied(lambda v: F.interpolate(v, scale_factor=2, mode="bilinear")), (image,)),
        "upsample_corners": (
            Applied(lambda v: F.interpolate(v, size=(13, 21), mode="bilinear", align_corners=True)),
            (image,),
        ),
        "pad_conv": (Applied(lambda m, v: m(F.pad(v, (0, 1, 0, 1))), nn.Conv2d(8, 4, 3, 2)), (image,)),
    }
    return {name: (module.eval(), inputs) for name, (module, inputs) in cases.items()}


CASES = _cases()
