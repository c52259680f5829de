"""`halve-cache`: caches of keys and values hold float16 or bfloat16.

Before (after `sequence-first-cache`)::

    et.state @keys : tensor<1x32x2x16xf32> = #et.blob<...>
    %c = et.read_state @keys : tensor<1x32x2x16xf32>
    %k = aten.index_copy.default(%c, dim = 1, %p, %new) : ... -> tensor<1x32x2x16xf32>
    %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : ...
    et.write_state @keys, %k : tensor<1x32x2x16xf32>

After; the same for values, while queries and results stay float32::

    et.state @keys : tensor<1x32x2x16xf16>
    %n = aten._to_copy.default(%new, dtype = f16) : ...
    %k = aten.index_copy.default(%c, dim = 1, %p, %n) : ... -> tensor<1x32x2x16xf16>
    %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : ...

With ``dtype=bf16`` it is bf16 in place of f16.

Half of the memory of float32, and half of the bytes to read for a token, which is most of what attention takes of a
long text. Everything is computed in float32. float16 rounds numbers to eleven bits, and those above 65,504 would be
infinite; bfloat16 rounds them to eight bits and has the range of float32. llama.cpp keeps its caches as float16 by
default. The stock kernel wants queries of the cache's dtype: this is for etir's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten.base import AtenOp
from etir.dialects.context import EtContext
from etir.dialects.dtypes import bf16, f16, f32
from etir.dialects.llama import CUSTOM_SDPA
from etir.llm.passes.kernels import missing_kernel
from etir.llm.passes.stored_caches import Part, StoredAttention, refused_caches, store_caches
from etir.lowering.build.builder import Builder
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

HalfType = Literal["f16", "bf16"]
_TYPES: dict[HalfType, Attribute] = {"f16": f16, "bf16": bf16}


@register_pass
@dataclass(frozen=True)
class HalveCachePass(Pass):
    """Keep caches of keys and values as float16 or bfloat16.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    ``dtype`` is what caches hold.
    """

    name = "halve-cache"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()
    dtype: HalfType = "f16"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change states, and every method that reads or writes one of them. Raises E0601 for an unknown target."""
        type = _TYPES[self.dtype]
        missing = missing_kernel(CUSTOM_SDPA, f32, self.target, self.libraries, cache=type)
        refused = refused_caches(module, missing)
        store_caches(ctx, module, refused, HalvedAttention(refused, type))


class HalvedAttention(StoredAttention):
    """Attention over caches that are going to be ``type``, one of two bytes."""

    name = "halve-cache"

    def __init__(self, refused: Mapping[str, str | None], type: Attribute):
        super().__init__(refused)
        self.parts = (Part("", type),)

    def store(self, b: Builder, x: SSAValue) -> tuple[SSAValue, ...]:
        """``x``, rounded."""
        return (b.cast(x, self.parts[0].type),)

    def query(self, b: Builder, x: SSAValue) -> tuple[SSAValue, ...]:
        """Queries stay what they are."""
        del b
        return (x,)

    def attend(self, b: Builder, op: AtenOp, given: Mapping[str, tuple[SSAValue, ...]]) -> SSAValue:
        """The same attention, over what is kept."""
        arguments: dict[str, Any] = {a.name: op.arg(a.name) for a in op.SCHEMA.arguments}
        arguments |= {name: parts[0] for name, parts in given.items()}
        made = type(op).make(arguments, [op.results[0].type])
        b.insert(made)
        return made.results[0]
