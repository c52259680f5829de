"""`ring-cache`: a sliding window keeps the positions that it can still see, and no more.

Before, a layer of Gemma 3 with a window of 8 in a cache of 32 positions, called with up to 4 tokens::

    et.state @keys : tensor<1x2x32x16xf32> = #et.blob<...>
    %k = aten.index_copy.default(%c, dim = 2, %p, %new) : ... -> tensor<1x2x32x16xf32>
    %y = aten.scaled_dot_product_attention.default(%q, %h, %i, %mask, scale = 0.25) : ...

After: 8 + 4 - 1 positions, each at its remainder by 11::

    et.state @keys : tensor<1x2x11x16xf32> = #et.blob<...>
    %r = aten.remainder.Scalar(%p, 11) : ...  // 11, which is no slot, where %p is negative
    %k = aten.index_copy.default(%c, dim = 2, %r, %new) : ... -> tensor<1x2x11x16xf32>
    %y = llama.custom_sdpa.default(%0, %1, %2, start_pos = 0, %window, scale = 0.25) : ...

The new mask (`%window`) says which position each slot holds after the write, and whether a query sees it; layers with
the same window share it. A ring is as long as the window and the largest number of new tokens together, less one:
then no new token takes the place of a key that a query of the same call still needs. So a program has rings when it
takes its prompt in pieces shorter than ``capacity - window``; else the pass leaves it alone, and says so.

What has to be true is proven as in `attend-by-position`. A position past the old capacity, which was an error before,
is one as long as any layer keeps a whole cache; a program of windows only goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import i1, i64
from etir.dialects.et.layout import Dim, dims_of, tensor_of, tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.llama import declare
from etir.dialects.sym.bounds import bounds
from etir.llm.passes.attention_forms import Form
from etir.llm.passes.cached_attention import CachedAttention, CacheWrite, cache_write, cached_attention
from etir.llm.passes.element_values import Elements
from etir.llm.passes.kernels import missing_kernel
from etir.llm.passes.state_uses import other_use, retype, starts_as_zeros, state_read
from etir.lowering.build.builder import Builder, declared_ranges, element
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily


@register_pass
@dataclass(frozen=True)
class RingCachePass(Pass):
    """Keep the caches of sliding windows as rings of a window's length.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "ring-cache"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change states, and every method that reads or writes one of them. Raises E0601 for an unknown target."""
        plan = _Plan(module, Elements(ConstantStore(module)), self.target, self.libraries)
        for name, length in plan.lengths.items():
            _shorten(plan.states[name], length)
        made: dict[str, None] = {}
        for method in methods(module):
            pattern = WindowAttention(plan)
            apply_patterns_greedily(ctx, method, [pattern])
            _drop_reads(method, plan)
            made |= pattern.made
        declare(module, made)


@dataclass(frozen=True)
class _Window:
    """Attention with a window over two states, and the writes before it."""

    found: CachedAttention
    writes: tuple[CacheWrite, CacheWrite]
    states: tuple[str, str]
    needed: int
    """Positions that a ring has to have for it."""


@dataclass
class _Plan:
    """Which states become rings, and of how many positions."""

    module: ModuleOp
    elements: Elements
    target: str
    libraries: tuple[str, ...]
    states: dict[str, StateOp] = field(init=False)
    windows: dict[Form, _Window] = field(init=False, default_factory=dict["Form", "_Window"])
    reasons: dict[Form, str] = field(init=False, default_factory=dict["Form", str])
    lengths: dict[str, int] = field(init=False, default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.states = {op.sym_name.data: op for op in self.module.body.block.ops if isinstance(op, StateOp)}
        for method in methods(self.module):
            for op in method.walk():
                if isinstance(op, Form):
                    seen = self._window(op)
                    if seen is None:
                        continue
                    if isinstance(seen, str):
                        self.reasons[op] = seen
                    else:
                        self.windows[op] = seen
        changed = True
        while changed:
            changed = self._refuse_one()
        for window in self.windows.values():
            for name in window.states:
                self.lengths[name] = max(self.lengths.get(name, 0), window.needed)

    def _window(self, op: Form) -> _Window | str | None:
        found = cached_attention(self.elements, op)
        if found is None or isinstance(found, str):
            return found
        if found.window is None:
            return "the mask is no window"
        missing = missing_kernel(found.operator, element(found.form.query), self.target, self.libraries)
        if missing is not None:
            return missing
        if not found.form.has_own_steps(op):
            return "its scores or weights are read by something else, too"
        key, value = (cache_write(self.elements, v) for v in (found.key, found.value))
        assert key is not None and value is not None
        tokens = _largest(op, dims_of(tensor_of(found.form.query))[2])
        capacity = dims_of(tensor_of(found.key))[2]
        assert isinstance(capacity, int)
        if tokens is None or found.window + tokens - 1 >= capacity:
            return (
                f"a window of {found.window} and {'any number of' if tokens is None else tokens} new tokens need "
                f"the {capacity} positions that there are"
            )
        names = [state_read(write.held) for write in (key, value)]
        if names[0] is None or names[1] is None or names[0] == names[1]:
            return "keys or values are no state of their own"
        for name in names:
            if not starts_as_zeros(self.states[str(name)]):
                return f"'{name}' does not start as zeros"
        return _Window(found, (key, value), (names[0], names[1]), found.window + tokens - 1)

    def _refuse_one(self) -> bool:
        """Refuse an attention whose states something else uses, or whose neighbor was refused."""
        for op, window in self.windows.items():
            reason = next((r for name in window.states if (r := self._other_use(name)) is not None), None)
            if reason is not None:
                self.reasons[op] = reason
                del self.windows[op]
                return True
        return False

    def _other_use(self, name: str) -> str | None:
        chosen = {v: None for w in self.windows.values() for v in (w.found.key, w.found.value)}
        widths = {w.found.window for w in self.windows.values() if name in w.states}
        if len(widths) > 1:
            return f"'{name}' is seen through different windows"
        inside = {*self.windows, *(step for w in self.windows.values() for step in w.found.form.steps)}
        return other_use(self.module, name, chosen, inside, _PASSED_ON)


_PASSED_ON = (aten.unsqueeze.default, aten.expand.default, aten.reshape.default, aten.view.default)
_PASSED_ON += (aten.transpose.int, aten.to.dtype)
"""What repeats heads, and turns keys for products that are written out."""


def _largest(op: Operation, dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else bounds(dim, declared_ranges(op))[1]


def _type_of_ring(type: TensorType[Attribute], length: int) -> TensorType[Attribute]:
    one, heads, _, width = dims_of(type)
    return tensor_type(type.element_type, (one, heads, length, width))


def _shorten(state: StateOp, length: int) -> None:
    assert isinstance(state.type, TensorType)
    retype(state, _type_of_ring(state.type, length))


def _drop_reads(method: FuncOp, plan: _Plan) -> None:
    """Erase what is left of the long caches: their reads, and the stores of them."""
    for op in reversed(list(method.body.block.ops)):
        name = op.symbol.root_reference.data if isinstance(op, ReadStateOp | WriteStateOp) else None
        if name not in plan.lengths:
            continue
        value = op.result if isinstance(op, ReadStateOp) else op.operands[0]
        if value.type != plan.states[name].type and (isinstance(op, WriteStateOp) or not value.first_use):
            op.detach()
            op.erase()
            source = value.owner
            while isinstance(source, aten.index_copy.default | aten.index_put.default) and not source.result.first_use:
                before = source.self_.owner
                source.detach()
                source.erase()
                source = before


class WindowAttention(Pattern):
    """Attention with a window over caches that become rings."""

    name = "ring-cache"

    def __init__(self, plan: _Plan):
        self.plan = plan
        self.made: dict[str, None] = {}
        self._masks: dict[object, SSAValue] = {}
        self._slots: dict[object, SSAValue] = {}

    def rewrite(
        self, op: aten.scaled_dot_product_attention.default | aten.matmul.default, rewriter: PatternRewriter
    ) -> None:
        window = self.plan.windows.get(op)
        if window is None and isinstance(op, aten.matmul.default) and op not in self.plan.reasons:
            return
        if window is None:
            return rewriter.notify_match_failure(self.plan.reasons.get(op, "it is no attention over a cache"))
        b = Builder(rewriter)
        # Sizes are those of the queries: weights that are written out, which the root reads, are not kept for them.
        b.pool.sources.insert(0, window.found.form.query)
        length = max(self.plan.lengths[name] for name in window.states)
        key, value = (self._written(b, window, part) for part in (0, 1))
        mask = b.cast(self._mask(b, window, length), element(window.found.form.query))
        self.made[window.found.operator] = None
        rewriter.replace_op(op, [window.found.attend(b, key, value, 0, mask)])
        window.found.form.erase_dropout(rewriter)

    def _written(self, b: Builder, window: _Window, part: int) -> SSAValue:
        """The ring with the new positions, stored where the long cache was."""
        write, name = window.writes[part], window.states[part]
        length = self.plan.lengths[name]
        type = _type_of_ring(tensor_of(write.held), length)
        held = b.insert(ReadStateOp(name, type)).results[0]
        held.name_hint = write.held.name_hint
        new = b(aten.index_copy.default, held, 2, self._slot(b, window, length), write.source, types=[type])
        old = (window.found.key, window.found.value)[part]
        for use in list(old.uses):
            if isinstance(use.operation, WriteStateOp):
                b.rewriter.insert_op(WriteStateOp(name, new), before=use.operation)
        return new

    def _positions(self, b: Builder, window: _Window) -> SSAValue:
        """Of each new token, its position: i64[n]."""
        count = b.size(window.writes[0].source, 2)
        return b.add(b.arange(count), window.found.start)

    def _slot(self, b: Builder, window: _Window, length: int) -> SSAValue:
        """Of each new token, where in a ring it goes: i64[n]; past the end for positions that there are not."""
        key = (window.found.start, length, dims_of(tensor_of(window.writes[0].source))[2])
        if key not in self._slots:
            position = self._positions(b, window)
            slot = b(aten.remainder.Scalar, position, length)
            # No slot is that of a negative position: writing there fails, as it did without a ring.
            self._slots[key] = b.where(b.ge(position, 0), slot, b.as_tensor(length, i64))
        return self._slots[key]

    def _mask(self, b: Builder, window: _Window, length: int) -> SSAValue:
        """0 where a query sees what a slot of the ring holds, minus infinity elsewhere: [n, length]."""
        found = window.found
        assert found.window is not None
        tokens = dims_of(tensor_of(found.form.query))[2]
        key = (found.start, length, found.window, tokens, element(found.form.query))
        if key in self._masks:
            return self._masks[key]
        query = b.unsqueeze(self._positions(b, window), 1)
        # The last new position is in the slot of its remainder, those before it in the slots before.
        count = b.size(window.writes[0].source, 2)
        last = b.add(b.add(found.start, b.scalar(count)), -1)
        slots = b.unsqueeze(b.arange(length), 0)
        holds = b.sub(last, b(aten.remainder.Scalar, b.sub(last, slots), length))
        seen = b.logical_and(b.le(holds, query), b.gt(holds, b.add(query, -found.window)))
        seen = b.logical_and(seen, b.ge(holds, 0))
        assert element(seen) == i1 and element(holds) == i64
        mask = b.where(
            seen, b.as_tensor(0.0, element(found.form.query)), b.as_tensor(float("-inf"), element(found.form.query))
        )
        self._masks[key] = mask
        return mask
