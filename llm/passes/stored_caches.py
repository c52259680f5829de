"""Caches of keys and values that attention reads: which can be kept in another form, and how a program is changed.

What the passes share that keep caches in fewer bytes. A cache is a state ``[1, capacity, key heads, width]`` of float32
(after `sequence-first-cache`). One is kept as one or several states, the parts: the pass says of which types they are,
and how vectors of float32 become them. A cache is changed when in all methods it is written by positions and read by
attention only, starts as zeros, and the cache beside it can be, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of, f32
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.llama import CACHED_ATTENTION, CUSTOM_SDPA
from etir.lowering.build.builder import Builder
from etir.passes.infra.base import methods
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

_ATTENTION = (CUSTOM_SDPA, CACHED_ATTENTION)


@dataclass(frozen=True)
class Part:
    """One of the states that a cache becomes: ``name`` is appended to the cache's. ``is_vector`` has the width of the
    cache; the others have one number for each vector.
    """

    name: str
    type: Attribute
    is_vector: bool = True

    def of(self, cache: TensorType[Attribute]) -> TensorType[Attribute]:
        """Its type, ``[1, capacity, key heads, width or 1]``, for a cache of float32."""
        dims = dims_of(cache)
        return tensor_type(self.type, dims if self.is_vector else (*dims[:-1], 1))


class StoredAttention(Pattern, ABC):
    """Attention over caches that are kept as :attr:`parts`, of which the first has the cache's name."""

    roots = _ATTENTION
    parts: Sequence[Part]

    def __init__(self, refused: Mapping[str, str | None]):
        self.refused = refused
        self.made = 0
        self._caches: dict[SSAValue, tuple[SSAValue, ...]] = {}

    @abstractmethod
    def store(self, b: Builder, x: SSAValue) -> tuple[SSAValue, ...]:
        """What the parts hold of ``x`` ``[1, n, key heads, width]``, float32."""

    @abstractmethod
    def query(self, b: Builder, x: SSAValue) -> tuple[SSAValue, ...]:
        """What attention is given of the queries ``[1, n, heads, width]``, float32."""

    @abstractmethod
    def attend(self, b: Builder, op: AtenOp, given: Mapping[str, tuple[SSAValue, ...]]) -> SSAValue:
        """Attention in place of ``op``: ``query``, and the parts of ``key`` and ``value``."""

    def rewrite(self, op: AtenOp, rewriter: PatternRewriter) -> None:
        """Read the caches as they are kept, and store what they get."""
        if tensor_of(op.arg("key")).element_type != f32:
            return rewriter.notify_match_failure("its caches are not float32")
        for name in (state_behind(op.arg(name)) for name in ("key", "value")):
            reason = "keys or values are no state" if name is None else self.refused[name]
            if reason is not None:
                return rewriter.notify_match_failure(f"cache '{name}' stays float32: {reason}")
        b = Builder(rewriter)
        given = {"query": self.query(b, op.arg("query"))}
        given |= {name: self._cache(rewriter, op.arg(name)) for name in ("key", "value")}
        made = self.attend(b, op, given)
        self.made += 1
        rewriter.replace_op(op, [made])

    def _cache(self, rewriter: PatternRewriter, value: SSAValue) -> tuple[SSAValue, ...]:
        """The parts of a cache: read, or written at the same positions, and stored."""
        known = self._caches.get(value)
        if known is not None:
            return known
        op = value.owner
        assert isinstance(op, Operation)
        b = Builder(rewriter)
        if isinstance(op, ReadStateOp):
            name, type = op.symbol.root_reference.data, tensor_of(value)
            reads = [ReadStateOp(name + part.name, part.of(type)) for part in self.parts]
            found = tuple(rewriter.insert_op(read, before=op).result for read in reads)
        else:
            assert isinstance(op, aten.index_copy.default)
            held = self._cache(rewriter, op.self_)
            new = self.store(b, op.source)
            found = tuple(
                b(aten.index_copy.default, old, 1, op.index, part, types=[old.type])
                for old, part in zip(held, new, strict=True)
            )
        for use in list(value.uses):
            store = use.operation
            if isinstance(store, WriteStateOp):
                name = store.symbol.root_reference.data
                for part, stored in zip(self.parts, found, strict=True):
                    rewriter.insert_op(WriteStateOp(name + part.name, stored), before=store)
        self._caches[value] = found
        return found


def store_caches(ctx: EtContext, module: ModuleOp, refused: Mapping[str, str | None], pattern: StoredAttention) -> None:
    """Change the states that are not ``refused``, and every method that reads or writes one of them."""
    chosen: dict[str, StateOp] = {}
    for op in list(module.body.block.ops):
        if isinstance(op, StateOp) and refused.get(op.sym_name.data, "") is None:
            chosen[op.sym_name.data] = op
            _change_state(module, op, pattern.parts)
    for method in methods(module):
        apply_patterns_greedily(ctx, method, [pattern])
        _drop_reads(method, chosen)


def refused_caches(module: ModuleOp, missing: str | None) -> dict[str, str | None]:
    """Of each state that attention reads, why it stays as it is; None for one that can be changed.

    ``missing`` is why none can be.
    """
    states = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, StateOp)}
    pairs: list[tuple[str, str]] = []
    found: dict[str, str | None] = {}
    for method in methods(module):
        for op in method.walk():
            if op.name in _ATTENTION:
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
        elif op.name not in _ATTENTION and not isinstance(op, WriteStateOp):
            return op
    return None


def _change_state(module: ModuleOp, state: StateOp, parts: Sequence[Part]) -> None:
    cache = cast("TensorType[Attribute]", state.type)
    for part in reversed(parts[1:]):
        type = part.of(cache)
        attributes = dict(state.attributes)
        if isinstance(fqn := attributes.get("fqn"), StringAttr):
            attributes["fqn"] = StringAttr(fqn.data + part.name)
        made = StateOp(state.sym_name.data + part.name, type, _zeros(state, type), attributes)
        made.location = state.location
        module.body.block.insert_op_after(made, state)
    type = parts[0].of(cache)
    if state.value is not None:
        state.properties["value"] = cast(Attribute, _zeros(state, type))
    state.properties["type"] = type


def _zeros(state: StateOp, type: TensorType[Attribute]) -> Attribute | None:
    if state.value is None:
        return None
    count = dtype_of(type.element_type).itemsize
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
        elif (
            isinstance(op, ReadStateOp | aten.index_copy.default)
            and state_behind(op.results[0]) in chosen
            and tensor_of(op.results[0]).element_type == f32
            and not op.results[0].first_use
        ):
            op.detach()
            op.erase()
