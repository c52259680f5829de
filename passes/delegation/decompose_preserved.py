"""`decompose-preserved`: decompose what was preserved for a backend that does not claim it.

`decompose-aten{delegates=...}` preserves an operator where a backend would claim it. The backend may still not get
it: a condition fails only at the edge level, its partition is too small, its cost model declines. Before
``decompose-preserved{target=executorch}``::

    %0 = edge.aten.hardswish.default(%x) : (tensor<4xf64>) -> tensor<4xf64>

After, since the target has no kernel for it and no partition holds it, it is what `decompose-aten` and `aten-to-edge`
make of it::

    %0 = edge.aten.add.Scalar(%x, other = 3) : ...
    %1 = edge.aten.clamp.default(%0, min = 0, max = 6) : ...
    ...

With ``backend`` the pass runs before `partition`, and decomposes what none of these backends claims; without, it runs
after it, and decomposes what is in no partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.registry import Delegate, parse_delegate
from etir.dialects.aten.base import op_class
from etir.dialects.aten.table import load_table
from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_type
from etir.dialects.et.origin import handed_on
from etir.lowering.aten_to_edge import AtenToEdgePass
from etir.lowering.decompose_aten.driver import DecomposeAtenPass
from etir.lowering.decompose_aten.legality import is_legal, is_legal_name
from etir.lowering.decompose_aten.preserved import SPELLED_OUT, PreservedOps, is_layers_input, is_layers_weight
from etir.passes.delegation.attributes import PARTITION
from etir.passes.generic.canonicalize import CanonicalizePass
from etir.passes.generic.cse import CsePass
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

ToDimOrder: TypeAlias = edge.dim_order_ops._to_dim_order_copy.default


@register_pass
@dataclass(frozen=True)
class DecomposePreservedPass(Pass):
    """Decompose operators that were preserved for a backend and are not in a partition.

    ``target``, ``keep`` and ``libraries`` are those of `decompose-aten`; ``backend`` names backends that partitions are
    made for next. ``fused`` says that `fuse-quantized` has run: pairs of integers that are left are of no use,
    and layers that read integers are calls already.
    """

    name = "decompose-preserved"
    target: str | None = "executorch"
    keep: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    fused: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises what `decompose-aten` and `aten-to-edge` do for operators that cannot be decomposed."""
        preserved = PreservedOps(self.target, self.keep, libraries=self.libraries)
        # What a backend does not claim as it is it may claim decomposed.
        preserved.reads_integers &= not self.backend and not self.fused
        preserved.fuses_pairs &= not self.fused
        delegates = [parse_delegate(text) for text in self.backend]
        released = 0
        for method in methods(module):
            found = [op for op in method.walk() if isinstance(op, EdgeOp) and _is_preserved(op, preserved)]
            proposed = _proposed(module, found, delegates)
            for op in found:
                if op not in proposed and not any(_is_taken(op, delegate) for delegate in delegates):
                    _to_aten(op)
                    released += 1
        if released:
            libraries = () if self.fused else self.libraries
            DecomposeAtenPass(target=self.target, keep=self.keep, libraries=libraries).run(ctx, module)
            AtenToEdgePass().run(ctx, module)
            CanonicalizePass().run(ctx, module)
            CsePass().run(ctx, module)


def _proposed(module: ModuleOp, ops: list[EdgeOp], delegates: list[Delegate]) -> dict[Operation, None]:
    """What of the blocks that hold ``ops`` the backends with partitioners of their own would claim."""
    found: dict[Operation, None] = {}
    for block in dict.fromkeys(op.parent for op in ops if op.parent is not None):
        for delegate in delegates:
            proposal = delegate.backend.propose(module, block, delegate.options)
            if proposal is not None:
                found.update((op, None) for partition in proposal.partitions for op in partition)
    return found


def _is_preserved(op: EdgeOp, preserved: PreservedOps) -> bool:
    """Whether an operator is whole for the sake of a backend, and in no partition."""
    name = op.SCHEMA.op_name
    spelled_out = name.startswith(SPELLED_OUT)
    if (not spelled_out and (is_legal_name(name) or name not in load_table())) or PARTITION in op.attributes:
        return False
    asked = op_class(op.SCHEMA).make(op.given_args(), [r.type for r in op.results])
    legal = preserved.preserves(asked) if spelled_out else is_legal(asked, preserved)
    asked.erase()
    # What is asked for has no readers.
    return not legal and not (preserved.reads_integers and (is_layers_weight(op) or is_layers_input(op)))


def _is_taken(op: EdgeOp, delegate: Delegate) -> bool:
    table = delegate.table
    inside = any(op.SCHEMA.op_name in row.operators[1:] for row in table.rows)
    return inside or isinstance(table.match(op), tuple)


def _to_aten(op: EdgeOp) -> None:
    """Replace an edge operator by the ATen one; decompositions work on contiguous tensors."""
    changes = {
        name: _in_default_order(value, op) if isinstance(value, SSAValue) else value
        for name, value in op.given_args().items()
    }
    new = op_class(op.SCHEMA).make(changes, [_default(r.type) for r in op.results], location=op.location)
    Rewriter.insert_op(new, InsertPoint.before(op))
    for old, value in zip(op.results, new.results, strict=True):
        result: SSAValue = value
        if old.type != value.type:
            assert isinstance(old.type, TensorType)
            copy = ToDimOrder.make({"self": value, "dim_order": list(order_of(old.type))}, [old.type])
            copy.location = op.location
            Rewriter.insert_op(copy, InsertPoint.before(op))
            result = copy.results[0]
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    Rewriter.erase_op(op)


def _default(type: Attribute) -> Attribute:
    if not isinstance(type, TensorType) or is_contiguous(type):
        return type
    return tensor_type(type.element_type, dims_of(type))


def _in_default_order(value: SSAValue, op: EdgeOp) -> SSAValue:
    wanted = _default(value.type)
    if wanted == value.type:
        return value
    assert isinstance(wanted, TensorType)
    copy = ToDimOrder.make(
        {"self": value, "dim_order": list(order_of(wanted))}, [wanted], location=handed_on(op.location)
    )
    Rewriter.insert_op(copy, InsertPoint.before(op))
    return copy.results[0]
