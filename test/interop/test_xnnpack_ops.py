"""Every operator of the table on the stock runtime, alone and in the company in which layouts and ranges matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from etir_testing.interop.xnnpack_runs import compile_and_run, difference


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


def _norm() -> nn.BatchNorm2d:
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
        "batch_norm": (Applied(lambda m, v: m(F.relu(v)), _norm()), (image,)),
        "batch_norm_first": (Applied(lambda m, c, v: c(m(v)), _norm(), nn.Conv2d(8, 4, 1)), (image,)),
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
HALF_LACKS = frozenset({"gelu", "upsample", "upsample_corners", "layer_norm", "prelu"})
"""Cases whose operators XNNPACK has in float32 only."""


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    """Equal to eager, all in one delegate."""
    module, inputs = CASES[name]
    outputs, expected, facts = compile_and_run(module, inputs, delegate="xnnpack{layer-norms=true}")
    assert difference(outputs, expected) < 2e-6
    assert facts.delegate_calls == 1
    assert not facts.kernels


@pytest.mark.parametrize("name", [n for n in CASES if n not in HALF_LACKS and "transposed" not in n])
def test_operator_in_half_precision(name: str) -> None:
    """The same in float16, as exact as its 11 bits allow."""
    module, inputs = CASES[name]
    halves = tuple(v.half() for v in inputs)
    outputs, expected, facts = compile_and_run(module.half(), halves)
    module.float()
    assert difference(outputs, expected) < 1e-2
    assert facts.delegate_calls == 1
    assert not facts.kernels


BF16_LACKS = {
    **{n: "convolution" for n in CASES if n.startswith(("conv", "pad_conv", "batch_norm_first"))},
    **{n: "pool" for n in CASES if n.startswith(("max_pool", "avg_pool"))},
    "global_mean": "mean",
    "global_mean_dropped": "mean",
    "bmm": "bmm",
    "mm": "mm",
    "matmul_transposed": "bmm",
    "attention": "bmm",
    "softmax": "softmax",
}
"""Cases of whose nodes the runtime makes none for bfloat16, by what is then left to a kernel."""
BF16_PARTLY = frozenset({"batch_norm", "prelu"})


@pytest.mark.parametrize("name", [n for n in CASES if n not in HALF_LACKS - {"prelu"}])
def test_operator_in_bfloat16(name: str) -> None:
    """With ``enable-bf16``: as exact as 8 bits allow; what the runtime cannot load stays outside."""
    module, inputs = CASES[name]
    numbers = tuple(v.bfloat16() for v in inputs)
    outputs, expected, facts = compile_and_run(module.bfloat16(), numbers, delegate="xnnpack{enable-bf16=true}")
    module.float()
    assert difference(outputs, expected) < 2e-2
    if name in BF16_LACKS:
        assert any(BF16_LACKS[name] in kernel for kernel in facts.kernels), facts.kernels
    elif name not in BF16_PARTLY:
        assert facts.delegate_calls == 1
        assert not facts.kernels


def test_bfloat16_is_left_without_the_option() -> None:
    _, _, facts = compile_and_run(nn.Linear(8, 4).bfloat16(), (normal(2, 8).bfloat16(),))
    assert facts.delegate_calls == 0


LAYOUTS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], int]] = {
    "image in and out": (Applied(lambda m, v: m(v), nn.Conv2d(8, 4, 1)), (normal(*IMAGE),), 2),
    "residual": (Applied(lambda m, v: F.relu(m(v) + v), nn.Conv2d(8, 8, 3, 1, 1)), (normal(*IMAGE),), 2),
    "to channels last and back": (
        Applied(lambda m, v: m(v.permute(0, 3, 1, 2)).permute(0, 2, 3, 1), nn.Conv2d(8, 4, 1)),
        (normal(2, 9, 10, 8),),
        0,
    ),
    "squeeze and excite": (
        Applied(
            lambda a, b, v: v * torch.sigmoid(b(F.relu(a(F.adaptive_avg_pool2d(v, 1))))),
            nn.Conv2d(8, 4, 1),
            nn.Conv2d(4, 8, 1),
        ),
        (normal(*IMAGE),),
        2,
    ),
    "concatenated with the input": (
        Applied(lambda m, v: torch.cat([m(v), v], 1), nn.Conv2d(8, 4, 1)),
        (normal(*IMAGE),),
        2,
    ),
    "pooled and flattened": (
        Applied(lambda m, n, v: n(F.adaptive_avg_pool2d(m(v), 1).flatten(1)), nn.Conv2d(8, 4, 1), nn.Linear(4, 3)),
        (normal(*IMAGE),),
        1,
    ),
    "sequences": (
        Applied(lambda m, n, v: n(F.relu(m(v))), nn.Conv1d(8, 6, 5), nn.Conv1d(6, 4, 3)),
        (normal(2, 8, 33),),
        2,
    ),
    "batch norm between": (
        Applied(lambda a, m, b, v: b(F.relu(m(F.relu(a(v))))), nn.Conv2d(8, 8, 1), _norm(), nn.Conv2d(8, 4, 1)),
        (normal(*IMAGE),),
        2,
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_transposes(name: str) -> None:
    """A transpose stands where the layout has to change and nowhere else."""
    module, inputs, transposes = LAYOUTS[name]
    outputs, expected, facts = compile_and_run(module.eval(), inputs)
    assert difference(outputs, expected) < 2e-6
    assert facts.nodes["static_transpose"] == transposes


def test_dynamic_batch_and_size() -> None:
    """Sizes below the bounds they were exported with."""
    module = Applied(lambda m, v: F.relu(m(v)).mean((2, 3)), nn.Conv2d(3, 4, 3)).eval()
    batch, height = Dim("batch", min=1, max=4), Dim("height", min=4, max=20)
    shapes = ({0: batch, 2: height},)
    program = torch.export.export(module, (normal(2, 3, 8, 9),), dynamic_shapes=(shapes,))
    for sizes in ((2, 3, 8, 9), (4, 3, 20, 9), (1, 3, 5, 9)):
        outputs, expected, facts = compile_and_run(module, (normal(*sizes),), exported=program)
        assert difference(outputs, expected) < 2e-6
        assert facts.delegate_calls == 1


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_channels_last_tensors_cross_the_boundary_as_they_are(is_dynamic: bool) -> None:
    """An image in dim order (0, 2, 3, 1) is not copied and not transposed, nor is the result."""
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 1)).eval()
    image = normal(2, 3, 8, 9).to(memory_format=torch.channels_last)
    shapes = ({0: Dim("batch", min=1, max=4)},) if is_dynamic else None
    program = torch.export.export(module, (image,), dynamic_shapes=shapes)
    for batch in (2, 1, 4) if is_dynamic else (2,):
        inputs = normal(batch, 3, 8, 9).to(memory_format=torch.channels_last)
        outputs, expected, facts = compile_and_run(module, (inputs,), exported=program)
        assert difference(outputs, expected) < 2e-6
        assert facts.nodes == {"conv2d": 2}
        assert not facts.kernels


def test_masked_attention_is_one_delegate() -> None:
    """What is made of the mask stays outside; rows that it hides are 0."""

    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            x = torch.nn.functional.scaled_dot_product_attention(q, q, q, mask)
            return torch.nn.functional.scaled_dot_product_attention(x, q, q, mask)

    mask = torch.rand(2, 1, 5, 5) > 0.5
    mask[0, 0, 2] = False
    outputs, expected, facts = compile_and_run(Attention(), (torch.randn(2, 3, 5, 8), mask))
    assert not expected[0][0, :, 2].any()
    assert difference(outputs, expected) < 2e-6
    assert facts.delegate_calls == 1
    assert facts.kernels["aten::where.self_out"] == 1
    assert facts.kernels["aten::any.out"] == 1
