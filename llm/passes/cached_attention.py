"""Attention over a cache as the passes of this folder look for it: what it reads, and what its mask is proven to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f32
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.llama import CACHED_ATTENTION, CUSTOM_SDPA, llama_op
from etir.llm.passes.attention_forms import Attention, Form, attention_of
from etir.llm.passes.element_values import All, Elements, Floor, Linear, Name
from etir.lowering.build.builder import Builder


@dataclass(frozen=True)
class CacheWrite:
    """A cache ``[1, heads, capacity, width]`` that got ``source`` ``[1, heads, n, width]`` at ``start``, ``start + 1``
    and so on; ``held`` is what it held before.
    """

    held: SSAValue
    source: SSAValue
    start: Name


@dataclass(frozen=True)
class CachedAttention:
    """Query ``d2`` sees the keys up to position ``start + d2``, the last ``window`` of them where that is a number.

    ``key`` and ``value`` are caches ``[1, key heads, capacity, width]`` that hold the new positions; ``start`` is an
    int64 tensor without dims. ``form`` is how the program has it.
    """

    key: SSAValue
    value: SSAValue
    start: SSAValue
    window: int | None
    form: Attention

    @property
    def operator(self) -> str:
        """What computes it: ExecuTorch's operator, or etir's for what that one has not."""
        widths = {dims_of(tensor_of(v))[3] for v in (self.key, self.value)}
        return CUSTOM_SDPA if self.form.is_plain and len(widths) == 1 else CACHED_ATTENTION

    def attend(
        self, b: Builder, key: SSAValue, value: SSAValue, start: SSAValue | int, mask: SSAValue | None
    ) -> SSAValue:
        """The attention, ``[1, heads, n, width of values]``, over ``key`` and ``value`` ``[1, key heads, positions,
        width]``: up to position ``start + d2``, or as ``mask`` says.
        """
        query, key, value = (turned(b, v) for v in (self.form.query, key, value))
        type = tensor_of(query)
        arguments: dict[str, Any] = {"query": query, "key": key, "value": value, "start_pos": start}
        arguments |= {"attn_mask": mask, "is_causal": mask is None, "scale": self.form.scale}
        if self.operator == CACHED_ATTENTION:
            arguments["softcap"] = self.form.softcap
            arguments["sinks"] = None if self.form.sinks is None else b.cast(self.form.sinks, f32)
        result = tensor_type(type.element_type, (*dims_of(type)[:3], dims_of(tensor_of(value))[3]))
        made = llama_op(self.operator).make(arguments, [result])
        b.insert(made)
        return turned(b, made.results[0])


def turned(b: Builder, x: SSAValue) -> SSAValue:
    """``[1, heads, n, width]`` from ``[1, n, heads, width]``, and back."""
    one, first, second, width = dims_of(tensor_of(x))
    types = [tensor_type(tensor_of(x).element_type, (one, second, first, width))]
    return b(aten.transpose.int, x, 1, 2, types=types)


def cached_attention(elements: Elements, op: Form) -> CachedAttention | str | None:
    """What an attention is, or why it is not one over a cache; None where it is no attention."""
    form = attention_of(op)
    if form is None or isinstance(form, str):
        return form
    if form.mask is None:
        return "it has no mask, or dropout"
    key, value = before_repeat(form.key), before_repeat(form.value)
    types = [tensor_of(v) for v in (form.query, key, value)]
    if any(type.get_num_dims() != 4 for type in types):
        return "query, keys or values do not have four dims"
    query_dims, key_dims, value_dims = (dims_of(type) for type in types)
    if query_dims[0] != 1 or key_dims[0] != 1 or key_dims[:3] != value_dims[:3]:
        return "there is a batch, or there are not as many values as keys"
    heads, key_heads, capacity, width = query_dims[1], *key_dims[1:]
    sizes = (heads, key_heads, capacity, width, value_dims[3])
    if not all(isinstance(n, int) and n > 0 for n in sizes) or query_dims[3] != width:
        return "heads, capacity or width of a head are dynamic, or query and keys have different widths"
    assert isinstance(heads, int) and isinstance(key_heads, int)
    if heads % key_heads:
        return f"{key_heads} key heads do not divide {heads} query heads"
    writes = [cache_write(elements, v) for v in (key, value)]
    if writes[0] is None or writes[1] is None:
        return "keys or values are not what a cache holds after a write of successive positions"
    if writes[0].start != writes[1].start:
        return "keys and values are written at different positions"
    if any(dims_of(tensor_of(w.source))[2] != query_dims[2] for w in writes if w is not None):
        return "there are not as many new keys as queries"
    start = writes[0].start
    if dims_of(tensor_of(form.mask))[-2:] != (query_dims[2], capacity):
        return "the mask is broadcast"
    window = visible_positions(elements, form.mask, start, capacity)
    if isinstance(window, str):
        return window
    return CachedAttention(key, value, elements.origin[start], None if window == capacity else window, form)


def visible_positions(elements: Elements, mask: SSAValue, start: Name, capacity: object) -> int | str:
    """How many positions up to ``start + d2`` a mask ``[..., n, capacity]`` lets query ``d2`` see (``capacity``: all
    of them), or why it is no such mask.
    """
    assert isinstance(capacity, int)
    dims = dims_of(tensor_of(mask))
    found = elements.of(mask)
    if not isinstance(found, All):
        return "nothing is known about the mask, whose computation is no comparison of positions"
    queries, keys = len(dims) - 2, len(dims) - 1
    # The coordinate of a dim of size 1 is 0, and is not named.
    query = Linear({start: 1} if dims[queries] == 1 else {start: 1, queries: 1})
    before = query.plus(Linear({keys: 1}), -1)
    causal, window = False, capacity
    for condition in found.at_least_zero:
        # Queries are where the cache is written, and so at one of its positions.
        one = condition.settled(query, 0, capacity - 1)
        if one == before:
            causal = True
        elif one.plus(before) == Linear({}, one.constant) and one.constant >= 0:
            window = min(window, one.constant + 1)
        elif one.factors or one.constant < 0:
            return "the mask hides other keys than those after the query"
    return window if causal else "the mask is not causal"


def cache_write(elements: Elements, value: SSAValue) -> CacheWrite | None:
    """The write whose result a cache is, at successive positions of dim 2."""
    op = value.owner
    if isinstance(op, aten.index_copy.default) and op.dim % 4 == 2:
        write = CacheWrite(op.self_, op.source, ("",))
        index = op.index
    elif isinstance(op, aten.index_put.default) and not op.accumulate:
        given = tuple(op.indices)
        if len(given) != 3 or given[0] is not None or given[1] is not None or given[2] is None:
            return None
        write, index = CacheWrite(op.self_, op.values, ("",)), given[2]
    else:
        return None
    found, dims = elements.of(index), dims_of(tensor_of(index))
    if not isinstance(found, Linear) or found.constant or len(dims) > 1:
        return None
    names = [name for name in found.factors if not isinstance(name, int)]
    counted = {} if dims in ((), (1,)) else {0: 1}
    if len(names) != 1 or isinstance(names[0], Floor) or found != Linear({names[0]: 1, **counted}):
        return None
    shape, source = dims_of(tensor_of(op.result)), dims_of(tensor_of(write.source))
    if len(source) != 4 or (*source[:2], source[3]) != (*shape[:2], shape[3]) or source[2] != (dims or (1,))[0]:
        return None
    return CacheWrite(write.held, write.source, names[0])


def before_repeat(x: SSAValue) -> SSAValue:
    """Key heads ``[1, h, s, w]`` before each was repeated ``n`` times to ``[1, h * n, s, w]``; ``x`` where none was.
    Casts to the dtype that is there already, which models write that compute scores in float32, are left out.
    """
    return without_casts(_before_repeat(without_casts(x)))


def without_casts(x: SSAValue) -> SSAValue:
    """``x`` before casts to the dtype that is there already."""
    while isinstance(x.owner, aten.to.dtype) and x.owner.self_.type == x.type:
        x = x.owner.self_
    return x


def _before_repeat(x: SSAValue) -> SSAValue:
    if not isinstance(x.owner, aten.reshape.default | aten.view.default):
        return x
    expand = x.owner.self_.owner
    if not isinstance(expand, aten.expand.default) or not isinstance(expand.self_.owner, aten.unsqueeze.default):
        return x
    unsqueeze = expand.self_.owner
    source, repeated = unsqueeze.self_, dims_of(tensor_of(expand.result))
    given, merged = dims_of(tensor_of(source)), dims_of(tensor_of(x))
    if len(given) != 4 or len(repeated) != 5 or unsqueeze.dim % 5 != 2 or len(merged) != 4:
        return x
    heads, times = repeated[1], repeated[2]
    if not isinstance(heads, int) or not isinstance(times, int) or merged[1] != heads * times:
        return x
    same = (*repeated[:2], *repeated[3:]) == given and (merged[0], *merged[2:]) == (given[0], *given[2:])
    return source if same else x
