"""`absorb-latents`: attention over latents reads them as they are cached (multi-head latent attention).

DeepSeek's attention caches a latent for each position in place of keys and values, and beside it the part of a key that
is turned by the position. transformers multiplies the whole cache out for every token, whatever the position is (here 4
heads of 16 + 8 and 12 numbers, latents of 16, and a cache of 32 positions)::

    et.state @latents : tensor<1x1x32x16xf32>
    et.state @turned : tensor<1x1x32x8xf32>
    %c = aten.index_copy.default(%latents, dim = 2, %p, %new) : ... -> tensor<1x1x32x16xf32>
    %r = aten.index_copy.default(%turned, dim = 2, %p, %also) : ... -> tensor<1x1x32x8xf32>
    %m = aten.linear.default(%c, %weight) : ... -> tensor<1x1x32x112xf32>
    ... %k, %v, each head's 16 and 12 of the 28 numbers of %m; %keys, %k beside %r
    %y = aten.scaled_dot_product_attention.default(%q, %keys, %v, %mask, scale = 0.2) : ... -> tensor<1x4x?x12xf32>

After, the weight of the keys is multiplied with the queries, and that of the values with what attention gives, so that
all heads read one cache, up to the last position::

    et.state @latents : tensor<1x1x32x24xf32>
    %c = aten.index_copy.default(%latents, dim = 2, %p, %joined) : ... -> tensor<1x1x32x24xf32>
    %0 = aten.bmm.default(%q_of_latents, %weight_of_keys) : ... -> tensor<4x?x16xf32>
    %s = llama.custom_sdpa.default(%q, %c, %c, %start, is_causal = true, scale = 0.2) : ... -> tensor<1x?x4x24xf32>
    %y = aten.bmm.default(%s_of_latents, %weight_of_values) : ... -> tensor<4x?x12xf32>

This is the absorption of DeepSeek-V2 (https://arxiv.org/abs/2405.04434, 2.1.2): sums in another order, hence other last
bits. Both states become one, so that keys and values are one tensor, and the numbers of a value past the latent are
left out. What has to be true is proven as in `attend-by-position`, of which this is a case; caches that are read or
written in any other way, by any method, stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.llama import declare
from etir.llm.passes.attention_forms import Attention, Form, attention_of
from etir.llm.passes.cached_attention import CachedAttention, CacheWrite, cache_write, visible_positions, without_casts
from etir.llm.passes.element_values import Elements
from etir.llm.passes.kernels import missing_kernel
from etir.llm.passes.state_uses import other_use, retype, starts_as_zeros, state_read, stores
from etir.lowering.build.builder import Builder, element
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily


@register_pass
@dataclass(frozen=True)
class AbsorbLatentsPass(Pass):
    """Let attention over latents read one cache, up to the last position.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "absorb-latents"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change states, and every method that reads or writes one of them. Raises E0601 for an unknown target."""
        plan = _Plan(module, Elements(ConstantStore(module)), self.target, self.libraries)
        joined = {latent.states: None for latent in plan.latents.values()}
        for states in joined:
            _join_states(plan.states, states)
        made: dict[str, None] = {}
        for method in methods(module):
            pattern = LatentAttention(plan)
            apply_patterns_greedily(ctx, method, [pattern])
            _drop_reads(method, plan.states, joined)
            made |= pattern.made
        declare(module, made)


@dataclass(frozen=True)
class _Expanded:
    """Keys and values that are made of a cache of latents ``[1, 1, capacity, rank]``: ``linear(latents, weight)`` has
    ``heads`` times ``plain`` numbers of a key and ``width`` of a value, and a key has those of ``turned``
    ``[1, 1, capacity, beside]`` after them, the same for all heads.
    """

    latents: SSAValue
    turned: SSAValue
    weight: SSAValue
    heads: int
    plain: int
    width: int
    rank: int
    beside: int


@dataclass(frozen=True)
class _Latent:
    """Attention over latents, the writes of latents and of what is beside them, and the states that these are."""

    form: Attention
    given: _Expanded
    start: SSAValue
    writes: tuple[CacheWrite, CacheWrite]
    states: tuple[str, str]


@dataclass
class _Plan:
    """Which attention reads latents, and why another one does not."""

    module: ModuleOp
    elements: Elements
    target: str
    libraries: tuple[str, ...]
    states: dict[str, StateOp] = field(init=False)
    latents: dict[Form, _Latent] = field(init=False, default_factory=dict["Form", "_Latent"])
    reasons: dict[Form, str] = field(init=False, default_factory=dict["Form", str])

    def __post_init__(self) -> None:
        self.states = {op.sym_name.data: op for op in self.module.body.block.ops if isinstance(op, StateOp)}
        for method in methods(self.module):
            for op in method.walk():
                if isinstance(op, Form):
                    seen = self._latent(op)
                    if isinstance(seen, str):
                        self.reasons[op] = seen
                    elif seen is not None:
                        self.latents[op] = seen
        while (refused := self._refused()) is not None:
            op, reason = refused
            self.reasons[op] = reason
            del self.latents[op]

    def _latent(self, op: Form) -> _Latent | str | None:
        form = attention_of(op)
        if form is None or isinstance(form, str):
            return form
        given = _expanded(form)
        if given is None:
            return "keys and values are not made of latents"
        if form.mask is None:
            return "it has no mask"
        writes = [cache_write(self.elements, v) for v in (given.latents, given.turned)]
        if writes[0] is None or writes[1] is None:
            return "latents are not what a cache holds after a write of successive positions"
        start = writes[0].start
        if writes[1].start != start:
            return "latents and what is beside them are written at different positions"
        tokens, capacity = dims_of(tensor_of(form.query))[2], dims_of(tensor_of(given.latents))[2]
        if any(dims_of(tensor_of(write.source))[2] != tokens for write in writes if write is not None):
            return "there are not as many new latents as queries"
        if dims_of(tensor_of(form.mask))[-2:] != (tokens, capacity):
            return "the mask is broadcast"
        window = visible_positions(self.elements, form.mask, start, capacity)
        if window != capacity:
            return window if isinstance(window, str) else f"the mask is a window of {window} positions"
        key = given.latents
        attention = CachedAttention(key, key, self.elements.origin[start], None, form)
        missing = missing_kernel(attention.operator, element(form.query), self.target, self.libraries)
        if missing is not None:
            return missing
        if not form.has_own_steps(op):
            return "its scores or weights are read by something else, too"
        names = [state_read(write.held) for write in writes if write is not None]
        if names[0] is None or names[1] is None or names[0] == names[1]:
            return "latents or what is beside them are no state of their own"
        for name in names:
            if not starts_as_zeros(self.states[str(name)]):
                return f"'{name}' does not start as zeros"
        return _Latent(form, given, attention.start, (writes[0], writes[1]), (names[0], names[1]))

    def _refused(self) -> tuple[Form, str] | None:
        """An attention whose states something else uses, and why."""
        for op, latent in self.latents.items():
            for name in latent.states:
                reason = self._other_use(name, latent.states)
                if reason is not None:
                    return op, reason
            for method in methods(self.module):
                first, second = (sum(stores(each, name) for each in method.walk()) for name in latent.states)
                if first != second:
                    return op, "a method stores one of latents and what is beside them, and not the other"
        return None

    def _other_use(self, name: str, states: tuple[str, str]) -> str | None:
        part = states.index(name)
        same = [latent for latent in self.latents.values() if latent.states == states]
        chosen = [(latent.given.latents, latent.given.turned)[part] for latent in same]
        if any(name in latent.states for latent in self.latents.values() if latent.states != states):
            return f"'{name}' is read beside different states"
        inside = {*self.latents, *(step for latent in self.latents.values() for step in latent.form.steps)}
        reason = other_use(self.module, name, chosen, inside, _PASSED_ON)
        if reason is not None:
            return reason
        for method in methods(self.module):
            reads = sum(state_read(value) == name for op in method.walk() for value in op.results)
            if reads > 1 or sum(_is_in(value, method) for value in chosen) != reads:
                return f"'{name}' is read more than once"
        return None


_VIEWS = aten.view.default | aten.reshape.default
_PASSED_ON = (aten.view.default, aten.reshape.default, aten.linear.default, aten.transpose.int, aten.to.dtype)
_PASSED_ON += (aten.split_with_sizes.default, aten.expand.default, aten.slice_scatter.default, aten.cat.default)
_PASSED_ON += (aten.new_empty.default,)
"""What makes keys and values of latents."""


def _is_in(value: SSAValue, method: FuncOp) -> bool:
    parent = value.owner.parent_op() if isinstance(value.owner, Operation) else None
    while parent is not None and parent is not method:
        parent = parent.parent_op()
    return parent is method


def _expanded(form: Attention) -> _Expanded | None:
    """What keys and values are made of; None where it is something else."""
    parts = _joined(without_casts(form.key))
    value = without_casts(form.value)
    if parts is None:
        return None
    plain, turned = (without_casts(part) for part in parts)
    split, wide = plain.owner, turned.owner
    if not isinstance(split, aten.split_with_sizes.default) or value.owner is not split or len(split.results) != 2:
        return None
    by_heads = split.self_.owner
    if (plain, value) != tuple(split.results) or split.dim % 4 != 3 or not isinstance(by_heads, aten.transpose.int):
        return None
    view = by_heads.self_.owner
    if {by_heads.dim0 % 4, by_heads.dim1 % 4} != {1, 2} or not isinstance(view, _VIEWS):
        return None
    linear = view.self_.owner
    if not isinstance(linear, aten.linear.default) or linear.bias is not None:
        return None
    if not isinstance(wide, aten.expand.default):
        return None
    latents, turned = linear.input, wide.self_
    values = (latents, turned, plain, value, form.query)
    if len({tensor_of(v).element_type for v in (*values, linear.weight)}) != 1:
        return None
    shapes = [dims_of(tensor_of(v)) for v in values]
    if any(len(shape) != 4 or shape[0] != 1 for shape in shapes):
        return None
    (_, one, capacity, rank), (_, also, same, beside), (_, heads, _, of_key), (_, _, _, of_value), query = shapes
    sizes = [size for size in (capacity, rank, beside, heads, of_key, of_value) if isinstance(size, int) and size > 0]
    if len(sizes) != 6 or not one == also == 1 or capacity != same:
        return None
    _, rank, beside, heads, of_key, of_value = sizes
    by_head = (1, capacity, heads, of_key + of_value), (heads * (of_key + of_value), rank)
    if (dims_of(tensor_of(view.result)), dims_of(tensor_of(linear.weight))) != by_head:
        return None
    if query[1] != heads or query[3] != of_key + beside:
        return None
    return _Expanded(latents, turned, linear.weight, heads, of_key, of_value, rank, beside)


def _joined(x: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """The two tensors that are joined along the last of four dims, as `cat` or written into parts of a new one."""
    op = x.owner
    if isinstance(op, aten.cat.default):
        parts = list(op.tensors)
        return (parts[0], parts[1]) if len(parts) == 2 and op.dim % 4 == 3 else None
    if not isinstance(op, aten.slice_scatter.default):
        return None
    before = op.self_.owner
    if not isinstance(before, aten.slice_scatter.default):
        return None
    parts = before.src, op.src
    if any(o.dim % 4 != 3 or o.step != 1 for o in (before, op)):
        return None
    first, second, whole = (dims_of(tensor_of(v))[-1] for v in (*parts, x))
    if not isinstance(first, int) or not isinstance(second, int) or first + second != whole:
        return None
    return parts if before.start in (None, 0) and before.end == op.start == first else None


def _join_states(states: Mapping[str, StateOp], names: tuple[str, str]) -> None:
    """Make one state of two, with the name of the first; the other one goes."""
    first, second = (states[name] for name in names)
    retype(first, _type_of_both(_tensor_of(first), _tensor_of(second)))
    second.detach()
    second.erase()


def _tensor_of(state: StateOp) -> TensorType[Attribute]:
    assert isinstance(state.type, TensorType)
    return state.type


def _type_of_both(first: TensorType[Attribute], second: TensorType[Attribute]) -> TensorType[Attribute]:
    dims = dims_of(first)
    width, other = dims[3], dims_of(second)[3]
    assert isinstance(width, int) and isinstance(other, int)
    return tensor_type(first.element_type, (*dims[:3], width + other))


def _drop_reads(method: FuncOp, states: Mapping[str, StateOp], joined: Mapping[tuple[str, str], None]) -> None:
    """Erase the reads of what was two states, which nothing uses any more."""
    both = {name: names[0] for names in joined for name in names}
    for op in list(method.walk()):
        name = op.symbol.root_reference.data if isinstance(op, ReadStateOp) else None
        if name in both and (name != both[name] or op.results[0].type != states[name].type):
            op.detach()
            op.erase()


class LatentAttention(Pattern):
    """Attention over latents, whose states have become one."""

    name = "absorb-latents"

    def __init__(self, plan: _Plan):
        self.plan = plan
        self.made: dict[str, None] = {}

    def rewrite(
        self, op: aten.scaled_dot_product_attention.default | aten.matmul.default, rewriter: PatternRewriter
    ) -> None:
        latent = self.plan.latents.get(op)
        if latent is None and isinstance(op, aten.matmul.default) and op not in self.plan.reasons:
            return
        if latent is None:
            return rewriter.notify_match_failure(self.plan.reasons.get(op, "it is no attention over latents"))
        b = Builder(rewriter)
        # Sizes are those of the queries: what is written out, which the root reads, is not kept for them.
        b.pool.sources.insert(0, latent.form.query)
        form, given = latent.form, latent.given
        cache = self._written(b, latent)
        query = self._query(b, latent)
        scale = 1.0 / math.sqrt(given.plain + given.beside) if form.scale is None else form.scale
        start = b(aten.item.default, latent.start, types=[i64])
        attention = CachedAttention(cache, cache, latent.start, None, replace(form, query=query, scale=scale))
        self.made[attention.operator] = None
        seen = attention.attend(b, cache, cache, start, None)
        _, of_values = self._weights(b, given)
        latents = b.slice(b.squeeze(seen, 0), 2, 0, given.rank)
        rewriter.replace_op(op, [b.unsqueeze(b.bmm(latents, b.transpose(of_values, 1, 2)), 0)])
        form.erase_dropout(rewriter)

    def _written(self, b: Builder, latent: _Latent) -> SSAValue:
        """The one cache with the new positions, stored where the two were."""
        first, second = latent.writes
        type = _type_of_both(tensor_of(first.held), tensor_of(second.held))
        held = b.insert(ReadStateOp(latent.states[0], type)).results[0]
        held.name_hint = first.held.name_hint
        new = b.cat([first.source, second.source], 3)
        index = _index_of(latent.given.latents)
        cache = b(aten.index_copy.default, held, 2, index, new, types=[type])
        for value, is_first in ((latent.given.latents, True), (latent.given.turned, False)):
            for use in list(value.uses):
                store = use.operation
                if isinstance(store, WriteStateOp):
                    if is_first:
                        b.rewriter.insert_op(WriteStateOp(latent.states[0], cache), before=store)
                    b.rewriter.erase_op(store)
        return cache

    def _query(self, b: Builder, latent: _Latent) -> SSAValue:
        """Queries of latents and of what is beside them: ``[1, heads, n, rank + turned]``."""
        given, query = latent.given, latent.form.query
        of_keys, _ = self._weights(b, given)
        parts = _joined(query)
        if parts is None or dims_of(tensor_of(parts[0]))[3] != given.plain:
            parts = b.slice(query, 3, 0, given.plain), b.slice(query, 3, given.plain, None)
        absorbed = b.unsqueeze(b.bmm(b.squeeze(parts[0], 0), of_keys), 0)
        return b.cat([absorbed, parts[1]], 3)

    def _weights(self, b: Builder, given: _Expanded) -> tuple[SSAValue, SSAValue]:
        """The weight of keys ``[heads, plain, rank]`` and that of values ``[heads, width, rank]``."""
        both = b.view(given.weight, [given.heads, given.plain + given.width, given.rank])
        return b.slice(both, 1, 0, given.plain), b.slice(both, 1, given.plain, None)


def _index_of(cache: SSAValue) -> SSAValue:
    """The positions at which a cache is written."""
    op = cache.owner
    if isinstance(op, aten.index_copy.default):
        return op.index
    assert isinstance(op, aten.index_put.default)
    (index,) = (given for given in op.indices if given is not None)
    return index
