"""Attention: the kernels built for each variant of their inner loops, and cases in double."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import etir
from etir.dialects.context import EtContext
from etir.llm.passes.pipeline import language_model_passes
from etir.lowering.import_fx import import_program
from etir.passes.infra.manager import run_pipeline
from etir.program import Program

from etir_testing.runtime import builds
from etir_testing.runtime.kernels import Kernels, manifest

VARIANTS = {
    "avx2": ("avx2", "-march=x86-64-v3 -DETIR_TILES=0 -DETIR_WIDE=0"),
    "avx512": ("avx512dq", "-march=x86-64-v3 -DETIR_TILES=0"),
    "amx": ("amx_bf16", "-march=x86-64-v3"),
}
"""What the processor has to have, and the flags of the compiler."""


def attention_kernels(variant: str) -> Kernels:
    """The kernels of family ``llm``. Skips the test where the processor has no such instructions."""
    feature, flags = VARIANTS[variant]
    if feature not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"the processor has no {feature}")
    names = [name for name, row in manifest().items() if row["family"] == "llm"]
    defines = {"ETIR_ONLY_OPS": builds.selection(names), "ETIR_ISAS": "", "CMAKE_CXX_FLAGS": flags}
    folder = builds.build(builds.preset_of_tests(), "etir_kernel_test", defines=defines)
    (found,) = (folder / "runtime" / "testing").glob("libetir_kernel_test.*")
    return Kernels(found)


class Case:
    """Inputs of an attention that ends at the last query's position, and what comes out of it in double.

    ``cache`` is the dtype of keys and values, where it is not the queries'.
    """

    def __init__(
        self,
        queries: int,
        heads: int,
        key_heads: int,
        dim: int,
        start: int,
        *,
        batch: int = 1,
        causal: bool = True,
        scale: float | None = None,
        factors: tuple[float, float, float] = (1, 1, 1),
        seed: int = 0,
        cache: torch.dtype | None = None,
    ):
        random = torch.Generator().manual_seed(seed)
        keys = start + queries
        self.query = torch.randn(batch, queries, heads, dim, generator=random) * factors[0]
        self.key = torch.randn(batch, keys, key_heads, dim, generator=random) * factors[1]
        self.value = torch.randn(batch, keys, key_heads, dim, generator=random) * factors[2]
        self.start, self.causal, self.scale, self.cache = start, causal, scale, cache
        if cache is not None:
            self.key, self.value = (t.to(cache).to(t.dtype) for t in (self.key, self.value))

    def run(self, kernels: Kernels, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        query, key, value = self.query.to(dtype), *(t.to(self.cache or dtype) for t in (self.key, self.value))
        arguments = [query, key, value, self.start, None, 0.0, self.causal, self.scale]
        found: torch.Tensor = kernels.call("llama::custom_sdpa.out", arguments, [query])[0]
        return found

    def wanted(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        q, k, v = (t.to(dtype).double().transpose(1, 2) for t in (self.query, self.key, self.value))
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(self.start) if self.causal else None
        result = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return result.transpose(1, 2)

    def error(self, kernels: Kernels) -> float:
        """The largest difference, over the largest magnitude."""
        wanted = self.wanted()
        return float((self.run(kernels) - wanted).abs().max() / wanted.abs().max())


class Layer(nn.Module):
    """Attention with a cache of 256 positions: 6 heads of queries share 2 of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 256, 32))
        self.register_buffer("values", torch.zeros(1, 2, 256, 32))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        at = torch.arange(n) + position[0]
        heads = x.view(1, n, 10, 32).transpose(1, 2)
        self.keys.index_copy_(2, at, heads[:, 6:8])
        self.values.index_copy_(2, at, heads[:, 8:])
        mask = torch.arange(256)[None, :] <= at[:, None]
        y = functional.scaled_dot_product_attention(
            heads[:, :6], self.keys, self.values, attn_mask=mask, enable_gqa=True
        )
        return y.transpose(1, 2).reshape(1, n, 192)


def compile_layer(x: torch.Tensor) -> Program:
    """A program of :class:`Layer` for inputs like ``x [1, n, 320]`` and positions ``[n]``, which follow each other."""
    program = torch.export.export(Layer(), (x, torch.arange(x.shape[1])))
    module = import_program(program)
    run_pipeline(EtContext(), module, language_model_passes("etir", last_logits=False))
    return etir.compile(module, target="etir")
