"""`outline-delegates`: every partition becomes a private function and a call.

Before::

    func.func @forward(%x: tensor<1x8xf32>) -> tensor<1x4xf32> {
      %w = et.get_weight @fc : tensor<4x8xf32>
      %0 = edge.aten.linear.default(%x, %w) {backend.partition = "xnnpack:0"} : ... -> tensor<1x4xf32>
      func.return %0 : tensor<1x4xf32>
    }

After::

    func.func private @forward_xnnpack_0(%x: tensor<1x8xf32>) -> tensor<1x4xf32>
        attributes {backend.delegate = "xnnpack"} {
      %w = et.get_weight @fc : tensor<4x8xf32>
      %0 = edge.aten.linear.default(%x, %w) : ... -> tensor<1x4xf32>
      func.return %0 : tensor<1x4xf32>
    }
    func.func @forward(%x: tensor<1x8xf32>) -> tensor<1x4xf32> {
      %0 = backend.call_delegate @forward_xnnpack_0(%x) on "XnnpackBackend" : ...
      func.return %0 : tensor<1x4xf32>
    }

The function is ordinary IR: it prints, verifies and runs in the interpreter, and with it the whole module. The call
stands where the first operation of the partition stood, or as soon after it as its inputs are there; operations of the
method that then come too early or too late move, everything else keeps its order.

A constant that several partitions read, or a partition and the method, is read by each of them: whether its bytes are
in the file once or several times is the backend's (named data is shared) and `partition`'s report says which constants
these are. ``shared-constants=pass`` hands such constants to the delegate as inputs instead, so that there is one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.interface import Backend
from etir.backends.api.registry import Delegate
from etir.diagnostics import raise_if_errors
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_type
from etir.dialects.et.origin import handed_on, origins_only, standing_for
from etir.dialects.et.program import GetWeightOp, WriteStateOp
from etir.dialects.walking import ops_of
from etir.passes.delegation.attributes import (
    DELEGATE,
    DELEGATES,
    OPTIONS,
    PARTITION,
    delegate_for,
    delegates_of,
    function_name,
)
from etir.passes.delegation.graph import FREE, BlockGraph, Contraction, used_values
from etir.passes.delegation.sizes_inside import compute_inside, told_numbers
from etir.passes.delegation.verify_partitions import PartitionId, check_partitions, partitions_of
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

ToDimOrder: TypeAlias = edge.dim_order_ops._to_dim_order_copy.default


@register_pass
@dataclass(frozen=True)
class OutlineDelegatesPass(Pass):
    """Move every partition into a private function of the module, called with ``backend.call_delegate``.

    ``shared-constants`` says what becomes of constants that others read as well: ``own`` lets every reader have its
    own, ``pass`` makes them inputs of the delegate.
    """

    name = "outline-delegates"
    shared_constants: Literal["own", "pass"] = "own"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises what `verify-partitions` does for partitions that cannot be outlined (E1101, E1105, E1109)."""
        raise_if_errors([d for func in methods(module) for d in check_partitions(func)])
        named = delegates_of(module)
        for func in methods(module):
            _Method(module, func, named, self.shared_constants == "pass").run()
            func.attributes.pop(OPTIONS, None)
        module.attributes.pop(DELEGATES, None)


class _Method:
    def __init__(self, module: ModuleOp, func: FuncOp, named: dict[str, Delegate], pass_shared: bool):
        self.module = module
        self.func = func
        self.named = named
        self.readers = self._readers() if pass_shared else {}
        symbols = (op.properties.get("sym_name") for op in module.body.block.ops)
        self.taken = dict.fromkeys(name.data for name in symbols if isinstance(name, StringAttr))

    def run(self) -> None:
        _share_no_ordered_weights(self.func)
        for op in list(self.func.walk()):
            for region in op.regions:
                for block in list(region.blocks):
                    if partitions_of(block):
                        self.block(block)

    def block(self, block: Block) -> None:
        """Outline the partitions of one block."""
        graph = BlockGraph.of(block, {})
        found = partitions_of(block)
        groups = {p: [graph.index[op] for op in ops if op in graph.index] for p, ops in found.items()}
        places = [p for p, group in groups.items() if group]
        contracted = Contraction(graph, [groups[p] for p in places])
        ops = ops_of(block)
        for op in ops:
            op.detach()
        placed: dict[Operation, None] = {}

        def place(op: Operation) -> None:
            if op not in placed:
                placed[op] = None
                block.add_op(op)

        for node in contracted.order:
            members = [graph.ops[i] for i in contracted.members[node]]
            if node < len(places):
                stores = [op for op in found[places[node]] if isinstance(op, WriteStateOp)]
                placed.update(dict.fromkeys([*members, *stores]))
                self._outline(block, places[node], members, stores, place)
                continue
            for value in used_values(members[0]):
                if isinstance(value.owner, FREE) and value.owner.parent is None:
                    place(value.owner)
            place(members[0])
        for op in ops:
            if op not in placed and (not isinstance(op, FREE) or any(r.first_use is not None for r in op.results)):
                place(op)
            elif op not in placed:
                op.erase()

    def _readers(self) -> dict[str, dict[object, None]]:
        """Who reads each weight: the partition attribute of its users or of what is around them, None: the method."""
        readers: dict[str, dict[object, None]] = {}
        for op in self.func.walk():
            for value in op.operands:
                if isinstance(value.owner, GetWeightOp):
                    name = value.owner.symbol.root_reference.data
                    readers.setdefault(name, {})[_partition_around(op)] = None
        return readers

    def _outline(
        self,
        block: Block,
        place: PartitionId,
        members: list[Operation],
        stores: Sequence[Operation],
        put: Callable[[Operation], None],
    ) -> None:
        """Make one function and its call; ``put`` adds an operation of the block that has no place yet."""
        delegate = delegate_for(self.func, place, self.named)
        inside = dict.fromkeys([*members, *stores])
        outputs = [
            r for op in members for r in op.results if any(not _is_inside(use.operation, inside) for use in r.uses)
        ]
        inputs: list[SSAValue] = []
        body = Block()
        copies: dict[SSAValue, SSAValue] = {}
        numbers = {op: told_numbers(op, inside) for op in members} if delegate.backend.sizes_inside else {}
        for value in dict.fromkeys(v for op in inside for v in used_values(op) if v not in numbers.get(op, ())):
            owner = value.owner
            if _is_inside(owner, inside):
                continue
            if isinstance(owner, FREE) and not self._passed(owner):
                copy = owner.clone()
                copy.location = owner.location
                body.add_op(copy)
                copies[value] = copy.results[0]
                copies[value].name_hint = value.name_hint
                continue
            if isinstance(owner, FREE) and owner.parent is None:
                put(owner)
            inputs.append(value)
        given = self._enter(delegate.backend, block, body, inputs, copies, members[0])
        for op in [*members, *stores]:
            op.attributes.pop(PARTITION, None)
            for inner in op.walk():
                inner.operands = [copies.get(v, v) for v in inner.operands]
            if numbers.get(op):
                compute_inside(op, numbers[op], inside, partial(_added, body, inside))
            body.add_op(op)
        types = [_boundary_type(delegate.backend, r) for r in outputs]
        name = self._name(place)
        call = CallDelegateOp(name, delegate.runtime_id, given, types)
        call.location = standing_for(members[0].location, members, outputs)
        block.add_op(call)
        returned = [self._leave(block, body, old, new, inside) for old, new in zip(outputs, call.outputs, strict=True)]
        last = ReturnOp(*returned)
        last.location = handed_on(members[-1].location)
        body.add_op(last)
        func = FuncOp(name, ([a.type for a in body.args], types), Region(body), visibility="private")
        func.attributes[DELEGATE] = StringAttr(delegate.text)
        func.location = self.func.location
        self.module.body.block.insert_op_before(func, self.func)

    def _passed(self, owner: Operation) -> bool:
        return isinstance(owner, GetWeightOp) and len(self.readers.get(owner.symbol.root_reference.data, {})) > 1

    def _enter(
        self,
        backend: Backend,
        block: Block,
        body: Block,
        inputs: list[SSAValue],
        copies: dict[SSAValue, SSAValue],
        first: Operation,
    ) -> list[SSAValue]:
        """Make the function's arguments; returns what the call is given. Dim orders that cannot cross are converted."""
        given: list[SSAValue] = []
        for value in inputs:
            type = _boundary_type(backend, value)
            passed: SSAValue = value
            if type != value.type:
                passed = _to_order(value, type, block, first)
            argument = body.insert_arg(type, len(body.args), origins_only(value))
            argument.name_hint = value.name_hint
            copies[value] = argument if type == value.type else _to_order(argument, value.type, body, first)
            given.append(passed)
        return given

    def _leave(
        self, block: Block, body: Block, old: SSAValue, new: SSAValue, inside: dict[Operation, None]
    ) -> SSAValue:
        """Let the users outside read the call's result; returns what the function gives out."""
        owner = old.owner
        assert isinstance(owner, Operation)
        new.name_hint = old.name_hint
        outer = new if new.type == old.type else _to_order(new, old.type, block, owner)
        for use in [u for u in old.uses if not _is_inside(u.operation, inside)]:
            use.operation.operands[use.index] = outer
        return old if new.type == old.type else _to_order(old, new.type, body, owner)

    def _name(self, place: PartitionId) -> str:
        name = function_name(self.func.sym_name.data, place)
        while name in self.taken:
            name += "_"
        self.taken[name] = None
        return name


def _added(block: Block, inside: dict[Operation, None], op: Operation) -> Operation:
    # It is one of those inside, or it would read a result of the call that it is a part of.
    inside[op] = None
    block.add_op(op)
    return op


def _share_no_ordered_weights(func: FuncOp) -> None:
    """Who reads a copy of a constant in another dim order has one of its own in its partition, as of the constant: what
    one delegate computes for the other is no constant any more.
    """
    for op in list(func.walk()):
        for index, value in enumerate(op.operands):
            copy = value.owner
            if not isinstance(copy, ToDimOrder) or not isinstance(copy.self_.owner, FREE):
                continue
            place, partition = _partition_around(op), op.attributes.get(PARTITION)
            if _partition_around(copy) == place or (place is not None and partition is None):
                continue
            own = copy.clone()
            own.location = copy.location
            own.attributes.pop(PARTITION, None)
            if partition is not None:
                own.attributes[PARTITION] = partition
            Rewriter.insert_op(own, InsertPoint.before(op))
            own.results[0].name_hint = value.name_hint
            op.operands[index] = own.results[0]
            if copy.results[0].first_use is None:
                Rewriter.erase_op(copy)


def _partition_around(op: Operation) -> Attribute | None:
    current: Operation | None = op
    while current is not None and PARTITION not in current.attributes:
        current = current.parent_op()
    return None if current is None else current.attributes[PARTITION]


def _is_inside(place: Operation | Block, members: dict[Operation, None]) -> bool:
    """Whether an operation or block is one of ``members`` or nested in one."""
    current = place if isinstance(place, Operation) else place.parent_op()
    while current is not None and current not in members:
        current = current.parent_op()
    return current is not None


def _boundary_type(backend: Backend, value: SSAValue) -> Attribute:
    type = value.type
    if not backend.contiguous_boundary or not isinstance(type, TensorType) or is_contiguous(type):
        return type
    return tensor_type(type.element_type, dims_of(type))


def _to_order(value: SSAValue, type: Attribute, block: Block, source: Operation) -> SSAValue:
    assert isinstance(type, TensorType)
    place = handed_on(source.location)
    copy = ToDimOrder.make({"self": value, "dim_order": list(order_of(type))}, [type], location=place)
    block.add_op(copy)
    copy.results[0].name_hint = value.name_hint
    return copy.results[0]
