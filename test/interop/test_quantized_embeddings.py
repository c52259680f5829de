"""Tables of integers: rows are looked up and multiplied out, by kernels where there are such, with torch's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

import etir

from etir_testing.interop.program_runs import Function
from etir_testing.interop.quantized_graphs import q
from etir_testing.interop.xnnpack_runs import facts_of, run_own, run_stock

INDICES = torch.tensor([[3, 0, 99], [7, 7, 64]])


def _torchao(dtype: torch.dtype, granularity: Any, mapping: str = "symmetric") -> nn.Module:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(100, 64)).eval()
    from torchao.quantization.quant_primitives import MappingType

    config = IntxWeightOnlyConfig(
        weight_dtype=dtype, granularity=granularity, mapping_type=MappingType[mapping.upper()]
    )
    quantize_(module, config, filter_fn=lambda m, _: isinstance(m, nn.Embedding))
    return module


def _decomposed(groups: int, points: bool) -> nn.Module:
    torch.manual_seed(0)
    table = torch.randint(-128, 128, (100, 64), dtype=torch.int8)
    scales = torch.rand(100, groups) + 0.1
    zeros = torch.randint(-5, 5, (100, groups)) if points else torch.zeros(100, groups, dtype=torch.int64)

    def function(i: torch.Tensor) -> torch.Tensor:
        if groups == 1:
            bounds = (0, -128, 127, torch.int8)
            rows = q.dequantize_per_channel(table, scales[:, 0].contiguous(), zeros[:, 0].contiguous(), *bounds)
        else:
            args = (-128, 127, torch.int8, 64 // groups, torch.float32)
            rows = q.dequantize_per_channel_group(table, scales, zeros, *args)
        return torch.nn.functional.embedding(i, rows)

    return Function(function)


CASES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "int8": (lambda: _torchao(torch.int8, PerAxis(0)), "embedding_byte"),
    "int8, groups": (lambda: _torchao(torch.int8, PerGroup(32)), "embedding_byte"),
    "int8 with zero points": (lambda: _torchao(torch.int8, PerGroup(32), "asymmetric"), "embedding_byte"),
    "int4": (lambda: _torchao(torch.int4, PerGroup(32)), "embedding_4bit"),
    "int4 with zero points": (lambda: _torchao(torch.int4, PerAxis(0), "asymmetric"), "embedding_4bit"),
    "by groups": (lambda: _decomposed(4, True), "embedding_byte"),
}


@pytest.mark.parametrize("name", CASES)
def test_lookup(name: str) -> None:
    make, kernel = CASES[name]
    module = make()
    with torch.no_grad():
        exported = torch.export.export(module, (INDICES,))
        wanted = module(INDICES)
    own = etir.compile(exported, target="etir").buffer
    stock = etir.compile(exported).buffer
    assert f"quantized_decomposed::{kernel}.out" in facts_of(own).kernels
    assert "aten::embedding.out" in facts_of(stock).kernels
    assert torch.equal(run_own(own, [INDICES])[0], wanted)
    assert torch.equal(run_stock(stock, [INDICES])[0], wanted)
    assert len(own) < (0.35 if "4" in name else 0.7) * 100 * 64 * 2 + 3000
