"""`sequence-first-cache`: caches that are read with the positions first are kept that way.

Before::

    et.state @keys : tensor<1x2x32x16xf32> = #et.blob<...>
    %c = et.read_state @keys : tensor<1x2x32x16xf32>
    %k = aten.index_copy.default(%c, dim = 2, %p, %new) : ... -> tensor<1x2x32x16xf32>
    %0 = aten.transpose.int(%k, dim0 = 1, dim1 = 2) : ... -> tensor<1x32x2x16xf32>
    et.write_state @keys, %k : tensor<1x2x32x16xf32>

After; the bytes that the state begins with are turned, too::

    et.state @keys : tensor<1x32x2x16xf32> = #et.blob<...>
    %c = et.read_state @keys : tensor<1x32x2x16xf32>
    %n = aten.transpose.int(%new, dim0 = 1, dim1 = 2) : ...
    %0 = aten.index_copy.default(%c, dim = 1, %p, %n) : ... -> tensor<1x32x2x16xf32>
    et.write_state @keys, %0 : tensor<1x32x2x16xf32>

One step writes all heads of a position at one place then, which is the layout that ``llama::custom_sdpa`` reads. A
state is turned when it is read that way somewhere; whatever else reads it, in any method, gets it turned back. Methods
that share a state keep sharing it, since all of them are changed together. Files of state that were saved without this
pass do not fit a program with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import dims_of, is_contiguous, is_static, tensor_of, tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.llm.passes.cached_attention import turned
from etir.lowering.build.builder import Builder
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily


@register_pass
@dataclass(frozen=True)
class SequenceFirstCachePass(Pass):
    """Keep caches with the positions before the heads, where attention reads them so."""

    name = "sequence-first-cache"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change states, and every method that reads or writes one of them."""
        wanted = dict.fromkeys(name for method in methods(module) for name in _turned_states(method))
        chosen = {s.sym_name.data: s for s in _states(module) if s.sym_name.data in wanted and _can_turn(s)}
        for state in chosen.values():
            _turn(state)
        patterns = [TurnedRead(chosen), TurnedWrite(chosen), WriteTurned(), TurnTwice()]
        for method in methods(module):
            apply_patterns_greedily(ctx, method, patterns)


def _states(module: ModuleOp) -> list[StateOp]:
    return [op for op in module.body.block.ops if isinstance(op, StateOp)]


def _turned_states(method: FuncOp) -> list[str]:
    """The states that a method reads with the positions first, after writes of positions."""
    found: list[str] = []
    for op in method.walk():
        if not isinstance(op, aten.transpose.int) or not _exchanges_middle(op):
            continue
        value = op.self_
        while isinstance(value.owner, aten.index_copy.default | aten.index_put.default):
            value = value.owner.self_
        if isinstance(value.owner, ReadStateOp):
            found.append(value.owner.symbol.root_reference.data)
    return found


def _exchanges_middle(op: aten.transpose.int) -> bool:
    return len(dims_of(tensor_of(op.self_))) == 4 and sorted((op.dim0 % 4, op.dim1 % 4)) == [1, 2]


def _tensor_of_state(state: StateOp) -> TensorType[Attribute]:
    assert isinstance(state.type, TensorType)
    return state.type


def _can_turn(state: StateOp) -> bool:
    """Whether the bytes of a state are known, or there are none."""
    type = _tensor_of_state(state)
    if not is_static(type) or not is_contiguous(type) or dtype_of(type.element_type).numpy_name is None:
        return False
    value = state.value
    return value is None or (isinstance(value, BlobAttr) and value.data.has_data)


def _turn(state: StateOp) -> None:
    """Exchange the middle dims of the initial value."""
    import numpy as np

    type = _tensor_of_state(state)
    one, first, second, width = type.get_shape()
    if isinstance(state.value, BlobAttr):
        before = np.frombuffer(state.value.data.data, np.uint8).reshape(one, first, second, -1)
        state.properties["value"] = BlobAttr(Blob.of(np.ascontiguousarray(before.swapaxes(1, 2)).tobytes()))
    state.properties["type"] = tensor_type(type.element_type, (one, second, first, width))


class TurnedRead(Pattern):
    """A read of a turned state, and its value turned back."""

    name = "turned-read"

    def __init__(self, states: dict[str, StateOp]):
        self.states = states

    def rewrite(self, op: ReadStateOp, rewriter: PatternRewriter) -> None:
        state = self.states.get(op.symbol.root_reference.data)
        if state is None or op.result.type == state.type:
            return
        b = Builder(rewriter)
        read = b.insert(ReadStateOp(op.symbol.root_reference.data, state.type)).results[0]
        read.name_hint = op.result.name_hint
        rewriter.replace_op(op, [turned(b, read)])


class TurnedWrite(Pattern):
    """A write of a turned state."""

    name = "turned-write"

    def __init__(self, states: dict[str, StateOp]):
        self.states = states

    def rewrite(self, op: WriteStateOp, rewriter: PatternRewriter) -> None:
        state = self.states.get(op.symbol.root_reference.data)
        if state is None or op.value.type == state.type:
            return
        value = turned(Builder(rewriter), op.value)
        rewriter.replace_op(op, WriteStateOp(op.symbol.root_reference.data, value))


class WriteTurned(Pattern):
    """Positions written into a turned cache: into the cache as it is kept."""

    name = "write-turned"

    def rewrite(self, op: aten.index_copy.default | aten.index_put.default, rewriter: PatternRewriter) -> None:
        held = _before_turn(op.self_)
        if held is None:
            return
        b = Builder(rewriter)
        if isinstance(op, aten.index_copy.default):
            if op.dim % 4 != 2:
                return rewriter.notify_match_failure("the dim is not that of the positions")
            source, index = op.source, op.index
        else:
            given = tuple(op.indices)
            if op.accumulate or len(given) != 3 or given[:2] != (None, None) or given[2] is None:
                return rewriter.notify_match_failure("it is no write of positions")
            source, index = op.values, given[2]
            whole = dims_of(tensor_of(op.result))
            if dims_of(tensor_of(source)) != (*whole[:2], *dims_of(tensor_of(index)), whole[3]):
                return rewriter.notify_match_failure("what is written is broadcast")
        new = b(aten.index_copy.default, held, 1, index, turned(b, source), types=[held.type])
        rewriter.replace_op(op, [turned(b, new)])


class TurnTwice(Pattern):
    """What is turned and turned back is what it was."""

    name = "turn-twice"

    def rewrite(self, op: aten.transpose.int, rewriter: PatternRewriter) -> None:
        if not _exchanges_middle(op):
            return
        source = _before_turn(op.self_)
        if source is not None and source.type == op.result.type:
            rewriter.replace_op(op, [source])


def _before_turn(value: SSAValue) -> SSAValue | None:
    op = value.owner
    return op.self_ if isinstance(op, aten.transpose.int) and _exchanges_middle(op) else None
