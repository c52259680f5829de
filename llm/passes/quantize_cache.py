"""`quantize-cache`: caches of keys and values hold int8, with a scale and a zero point for each vector.

Before (after `sequence-first-cache`)::

    et.state @keys : tensor<1x32x2x16xf32> = #et.blob<...>
    %c = et.read_state @keys : tensor<1x32x2x16xf32>
    %k = aten.index_copy.default(%c, dim = 1, %p, %new) : ... -> tensor<1x32x2x16xf32>
    %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : ...
    et.write_state @keys, %k : tensor<1x32x2x16xf32>

After; the same for values, and queries are quantized where they are read::

    et.state @keys : tensor<1x32x2x16xi8>
    et.state @keys.scales : tensor<1x32x2x1xf32>
    et.state @keys.zero_points : tensor<1x32x2x1xi8>
    %s, %z = quantized_decomposed.choose_qparams_per_token_asymmetric.default(%new, dtype = i8) : ...
    %n = quantized_decomposed.quantize_per_token.default(%new, %s, %z, -128, 127, i8) : ...
    %k = aten.index_copy.default(%c, dim = 1, %p, %n) : ... -> tensor<1x32x2x16xi8>
    %y = llama.custom_quantized_sdpa.default(%q8, %k, %v, start_pos = %s, is_causal = true, ...) : ...

A bit more than a quarter of the memory of float32, and as many fewer bytes to read for a token. Numbers change: this is
an option of who compiles. The parameters are asymmetric and for one token and head, as in ExecuTorch's
``QuantizedKVCache``, whose kernel this is. A cache is quantized when in all methods it is written by positions and read
by attention only, starts as zeros, and the cache beside it can be, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.aten.base import AtenOp, custom_op
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32, f64, i8, i64
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.llama import CACHED_ATTENTION, CUSTOM_QUANTIZED_SDPA, declare, llama_op, schema_of
from etir.dialects.quantized import CHOOSE_PER_TOKEN, QUANTIZE_PER_TOKEN
from etir.dialects.quantized import declare as declare_quantized
from etir.dialects.quantized import schema_of as quantized_schema
from etir.llm.passes.kernels import missing_kernel
from etir.llm.passes.stored_caches import Part, StoredAttention, refused_caches, store_caches
from etir.lowering.build.builder import Builder
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

LOW, HIGH = -128, 127
SCALES, ZERO_POINTS = ".scales", ".zero_points"


@register_pass
@dataclass(frozen=True)
class QuantizeCachePass(Pass):
    """Keep caches of keys and values as int8.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "quantize-cache"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change states, and every method that reads or writes one of them. Raises E0601 for an unknown target."""
        missing = missing_kernel(CUSTOM_QUANTIZED_SDPA, i8, self.target, self.libraries)
        refused = refused_caches(module, missing)
        pattern = QuantizedAttention(refused)
        store_caches(ctx, module, refused, pattern)
        if pattern.made:
            declare(module, pattern.operators)
            declare_quantized(module, [CHOOSE_PER_TOKEN, QUANTIZE_PER_TOKEN])


class QuantizedAttention(StoredAttention):
    """Attention over caches that are going to be int8."""

    name = "quantize-cache"
    parts = (Part("", i8), Part(SCALES, f32, is_vector=False), Part(ZERO_POINTS, i8, is_vector=False))

    def __init__(self, refused: Mapping[str, str | None]):
        super().__init__(refused)
        self.operators: dict[str, None] = {}

    def store(self, b: Builder, x: SSAValue) -> tuple[SSAValue, ...]:
        """``x`` as int8, with scales f32 and zero points i8 of its vectors."""
        dims = dims_of(tensor_of(x))
        vectors = (*dims[:-1], 1)
        choose, quantize = (custom_op(quantized_schema(name)) for name in (CHOOSE_PER_TOKEN, QUANTIZE_PER_TOKEN))
        scale, point = b.results(choose, x, i8, types=[tensor_type(f64, vectors), tensor_type(i64, vectors)])
        integers = b(quantize, x, scale, point, LOW, HIGH, i8, types=[tensor_type(i8, dims)])
        return integers, b.cast(scale, f32), b.cast(point, i8)

    def query(self, b: Builder, x: SSAValue) -> tuple[SSAValue, ...]:
        """Queries are integers, too."""
        return self.store(b, x)

    def attend(self, b: Builder, op: AtenOp, given: Mapping[str, tuple[SSAValue, ...]]) -> SSAValue:
        """Attention of integers."""
        # etir's own operator is the same for integers.
        name = CACHED_ATTENTION if op.name == CACHED_ATTENTION else CUSTOM_QUANTIZED_SDPA
        names = [a.name for a in schema_of(name).arguments]
        arguments: dict[str, Any] = {a.name: op.arg(a.name) for a in op.SCHEMA.arguments if a.name in names}
        for who, parts in given.items():
            letter = who[0]
            arguments |= {who: parts[0], f"{letter}_scales": parts[1], f"{letter}_zero_points": parts[2]}
        self.operators[name] = None
        made = llama_op(name).make(arguments, [op.results[0].type])
        b.insert(made)
        return made.results[0]
