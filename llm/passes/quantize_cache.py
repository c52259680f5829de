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
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp, custom_op
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32, f64, i8, i64
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.llama import CUSTOM_QUANTIZED_SDPA, CUSTOM_SDPA, declare, llama_op
from etir.dialects.quantized import CHOOSE_PER_TOKEN, QUANTIZE_PER_TOKEN
from etir.dialects.quantized import declare as declare_quantized
from etir.dialects.quantized import schema_of as quantized_schema
from etir.llm.passes.kernels import missing_kernel
from etir.lowering.build.builder import Builder
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

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
        refused = _refused(module, missing)
        pattern = QuantizedAttention(refused)
        chosen: dict[str, StateOp] = {}
        for op in list(module.body.block.ops):
            if isinstance(op, StateOp) and refused.get(op.sym_name.data, "") is None:
                chosen[op.sym_name.data] = op
                _quantize_state(module, op)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
            _drop_reads(method, chosen)
        if pattern.made:
            declare(module, [CUSTOM_QUANTIZED_SDPA])
            declare_quantized(module, [CHOOSE_PER_TOKEN, QUANTIZE_PER_TOKEN])


def _refused(module: ModuleOp, missing: str | None) -> dict[str, str | None]:
    """Of each state that attention reads, why it cannot be quantized; None for one that can."""
    states = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, StateOp)}
    pairs: list[tuple[str, str]] = []
    found: dict[str, str | None] = {}
    for method in methods(module):
        for op in method.walk():
            if op.name == CUSTOM_SDPA:
                pair = [state_behind(cast(AtenOp, op).arg(name)) for name in ("key", "value")]
                if pair[0] is None or pair[1] is None:
                    found |= {name: "the cache beside it is no state" for name in pair if name is not None}
                else:
                    pairs.append((pair[0], pair[1]))
    for name in (name for pair in pairs for name in pair):
        if found.get(name) is None:
            found[name] = missing or _reason(module, states[name])
    changed = True
    while changed:
        changed = False
        for first, second in (*pairs, *((b, a) for a, b in pairs)):
            if found[first] is not None and found[second] is None:
                found[second] = f"the cache beside it cannot be: {found[first]}"
                changed = True
    return found


def state_behind(value: SSAValue) -> str | None:
    """The state that a value is, after writes of positions."""
    while isinstance(value.owner, aten.index_copy.default):
        value = value.owner.self_
    return value.owner.symbol.root_reference.data if isinstance(value.owner, ReadStateOp) else None


def _reason(module: ModuleOp, state: StateOp) -> str | None:
    type = state.type
    if not isinstance(type, TensorType) or type.element_type != f32 or type.get_num_dims() != 4:
        return "it is not float32 of four dims"
    value = state.value
    zeros = value is None or (isinstance(value, BlobAttr) and value.data.has_data and not any(bytes(value.data.data)))
    if not zeros:
        return "it does not start as zeros"
    name = state.sym_name.data
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, ReadStateOp) and op.symbol.root_reference.data == name:
                reader = _other_reader(op.result)
                if reader is not None:
                    return f"'{reader.name}' reads it"
            if (
                isinstance(op, WriteStateOp)
                and op.symbol.root_reference.data == name
                and state_behind(op.value) != name
            ):
                return "it is not written by positions only"
    return None


def _other_reader(value: SSAValue) -> Operation | None:
    """What reads a cache, or what it is after writes, and is neither attention nor such a write."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, aten.index_copy.default) and use.index == 0 and op.dim % 4 == 1:
            other = _other_reader(op.result)
            if other is not None:
                return other
        elif op.name != CUSTOM_SDPA and not isinstance(op, WriteStateOp):
            return op
    return None


def _quantize_state(module: ModuleOp, state: StateOp) -> None:
    type = tensor_type(i8, dims_of(cast("TensorType[Attribute]", state.type)))
    vectors = (*dims_of(type)[:-1], 1)
    parts = [(ZERO_POINTS, tensor_type(i8, vectors)), (SCALES, tensor_type(f32, vectors))]
    for suffix, part in parts:
        attributes = dict(state.attributes)
        if isinstance(fqn := attributes.get("fqn"), StringAttr):
            attributes["fqn"] = StringAttr(fqn.data + suffix)
        made = StateOp(state.sym_name.data + suffix, part, _zeros(state, part), attributes)
        made.location = state.location
        module.body.block.insert_op_after(made, state)
    if state.value is not None:
        state.properties["value"] = cast(Attribute, _zeros(state, type))
    state.properties["type"] = type


def _zeros(state: StateOp, type: TensorType[Attribute]) -> Attribute | None:
    if state.value is None:
        return None
    count = 4 if type.element_type == f32 else 1
    for size in type.get_shape():
        count *= size
    return BlobAttr(Blob.of(bytes(count)))


def _drop_reads(method: Any, chosen: Mapping[str, StateOp]) -> None:
    """Erase what is left of the float caches: reads, writes of positions, and the stores of them."""
    for op in reversed(list(method.body.block.ops)):
        if isinstance(op, WriteStateOp) and op.symbol.root_reference.data in chosen:
            if op.value.type != chosen[op.symbol.root_reference.data].type:
                op.detach()
                op.erase()
        elif isinstance(op, ReadStateOp | aten.index_copy.default) and state_behind(op.results[0]) in chosen:
            name = state_behind(op.results[0])
            assert name is not None
            if (
                tensor_of(op.results[0]).element_type == f32
                and not name.endswith(SCALES)
                and not op.results[0].first_use
            ):
                op.detach()
                op.erase()


class QuantizedAttention(Pattern):
    """Attention over caches that are going to be int8."""

    name = "quantize-cache"
    roots = (CUSTOM_SDPA,)

    def __init__(self, refused: Mapping[str, str | None]):
        self.refused = refused
        self.made = 0
        self._caches: dict[SSAValue, tuple[SSAValue, SSAValue, SSAValue]] = {}

    def rewrite(self, op: AtenOp, rewriter: PatternRewriter) -> None:
        """Quantize the query and what the caches get, and read the caches as they are kept."""
        names = [state_behind(op.arg(name)) for name in ("key", "value")]
        for name in names:
            reason = "keys or values are no state" if name is None else self.refused[name]
            if reason is not None:
                return rewriter.notify_match_failure(f"cache '{name}' stays float32: {reason}")
        b = Builder(rewriter)
        query, scales, points = _quantized(b, op.arg("query"))
        given: dict[str, Any] = {"query": query, "q_scales": scales, "q_zero_points": points}
        for argument, letter in (("key", "k"), ("value", "v")):
            cache = self._cache(rewriter, op.arg(argument))
            given |= {argument: cache[0], f"{letter}_scales": cache[1], f"{letter}_zero_points": cache[2]}
        for argument in ("start_pos", "is_causal", "scale", "attn_mask"):
            given[argument] = op.arg(argument)
        made = llama_op(CUSTOM_QUANTIZED_SDPA).make(given, [op.results[0].type])
        b.insert(made)
        self.made += 1
        rewriter.replace_op(op, [made.results[0]])

    def _cache(self, rewriter: PatternRewriter, value: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Integers, scales and zero points of a cache: read, or written at the same positions, and stored."""
        known = self._caches.get(value)
        if known is not None:
            return known
        op = value.owner
        assert isinstance(op, Operation)
        b = Builder(rewriter)
        if isinstance(op, ReadStateOp):
            name = op.symbol.root_reference.data
            dims = dims_of(tensor_of(value))
            vectors = (*dims[:-1], 1)
            reads = [
                rewriter.insert_op(ReadStateOp(name + suffix, tensor_type(type, shape)), before=op).result
                for suffix, type, shape in (("", i8, dims), (SCALES, f32, vectors), (ZERO_POINTS, i8, vectors))
            ]
            found = reads[0], reads[1], reads[2]
        else:
            assert isinstance(op, aten.index_copy.default)
            held = self._cache(rewriter, op.self_)
            new = _quantized(b, op.source)
            written = [
                b(aten.index_copy.default, old, 1, op.index, part, types=[old.type])
                for old, part in zip(held, new, strict=True)
            ]
            found = written[0], written[1], written[2]
        for use in list(value.uses):
            store = use.operation
            if isinstance(store, WriteStateOp):
                name = store.symbol.root_reference.data
                for suffix, part in zip(("", SCALES, ZERO_POINTS), found, strict=True):
                    rewriter.insert_op(WriteStateOp(name + suffix, part), before=store)
        self._caches[value] = found
        return found


def _quantized(b: Builder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """``x`` as int8, with scales f32 and zero points i8 of its vectors."""
    dims = dims_of(tensor_of(x))
    vectors = (*dims[:-1], 1)
    choose, quantize = (custom_op(quantized_schema(name)) for name in (CHOOSE_PER_TOKEN, QUANTIZE_PER_TOKEN))
    scale, point = b.results(choose, x, i8, types=[tensor_type(f64, vectors), tensor_type(i64, vectors)])
    integers = b(quantize, x, scale, point, LOW, HIGH, i8, types=[tensor_type(i8, dims)])
    return integers, b.cast(scale, f32), b.cast(point, i8)
