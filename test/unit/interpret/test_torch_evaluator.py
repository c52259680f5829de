"""What the torch evaluator computes in its own way has the bits of torch's definition."""

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed

from etir.dialects import llama
from etir.dialects.quantized import schema_of
from etir.interpret.evaluators import get_evaluator

PER_CHANNEL = "quantized_decomposed.dequantize_per_channel.default"


def _call(**arguments: Any) -> torch.Tensor:
    found = get_evaluator("torch").call(schema_of(PER_CHANNEL), arguments)
    assert isinstance(found, torch.Tensor)
    return found


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32], ids=str)
@pytest.mark.parametrize("zeros", ["none", "zero", "others"])
@pytest.mark.parametrize("axis", [0, 1, 3])
@pytest.mark.parametrize("out_dtype", [None, torch.float16], ids=str)
def test_dequantized_weights(dtype: torch.dtype, zeros: str, axis: int, out_dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    limits = torch.iinfo(dtype)
    numbers = torch.randint(limits.min, limits.max, (4, 6, 3, 5), dtype=dtype)
    count = numbers.shape[axis]
    points = {"none": None, "zero": torch.zeros(count, dtype=torch.int64), "others": torch.arange(count) - 1}[zeros]
    scales = torch.rand(count) / 7
    given = (numbers, scales, points, axis, limits.min, limits.max, dtype)
    names = ("input", "scales", "zero_points", "axis", "quant_min", "quant_max", "dtype")
    wanted = torch.ops.quantized_decomposed.dequantize_per_channel.default(*given, out_dtype=out_dtype)
    found = _call(**dict(zip(names, given, strict=True)), out_dtype=out_dtype)
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("cache", [torch.float16, torch.bfloat16], ids=str)
def test_attention_over_caches_of_two_bytes(cache: torch.dtype) -> None:
    """torch's operator wants one dtype, and is given that of the query."""
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 3, 4, 16), *(torch.randn(1, 9, 2, 16).to(cache) for _ in range(2))
    given = {"key": key, "value": value, "start_pos": 5, "attn_mask": None, "drpout_p": 0.0, "is_causal": True}
    found = get_evaluator("torch").call(llama.schema_of(llama.CUSTOM_SDPA), {"query": query, **given, "scale": None})
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32
    heads = [x[:, :8].float().transpose(1, 2) for x in (key, value)]
    mask = torch.ones(3, 8, dtype=torch.bool).tril(5)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(1, 2), *heads, attn_mask=mask, enable_gqa=True
    )
    torch.testing.assert_close(found, wanted.transpose(1, 2), rtol=1e-5, atol=1e-6)


def test_another_dtype_than_said_is_an_error() -> None:
    with pytest.raises(AssertionError):
        _call(
            input=torch.zeros(2, 3, dtype=torch.int8),
            scales=torch.ones(2),
            zero_points=None,
            axis=0,
            quant_min=0,
            quant_max=255,
            dtype=torch.uint8,
        )
