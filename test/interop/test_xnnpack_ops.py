"""Every operator of the table on the stock runtime, alone and in the company in which layouts and ranges matter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from etir_testing.interop.xnnpack_cases import CASES, IMAGE, Applied, batch_norm, normal
from etir_testing.interop.xnnpack_runs import compile_and_run, difference

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
        Applied(lambda a, m, b, v: b(F.relu(m(F.relu(a(v))))), nn.Conv2d(8, 8, 1), batch_norm(), nn.Conv2d(8, 4, 1)),
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
