"""Pass ``cse``: compute equal things once.

Before::

    %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":3:1)
    %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":7:1)
    %2 = aten.add.Tensor(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

After, ``%1`` is ``%0`` and its location is both: ``loc(fused["m.py":3:1, "m.py":7:1])``.

Two operations are equal when name, operands, properties, attributes and result types are. Only pure operations without
regions are merged, and only into one that dominates: an enclosing region's operations serve the regions inside it, two
branches of a condition do not serve each other. A function that still has in-place or unknown operators is left as it
is (``functionalize`` comes first): there, equal calls may be different storage.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, Pure

from etir.dialects.context import EtContext
from etir.dialects.dominance import DominatorTree
from etir.dialects.walking import ops_of
from etir.passes.analysis.effects import writes_tensors
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import fuse_locations


@register_pass
@dataclass(frozen=True)
class CsePass(Pass):
    """Merge pure operations that compute the same."""

    name = "cse"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Merge in place. Raises nothing."""
        for op in module.body.block.ops:
            if not any(writes_tensors(nested) for nested in op.walk()):
                merging = _Merging()
                for region in op.regions:
                    merging.visit_region(region, {})
                merging.fuse()


_Table = dict[Hashable, Operation]


@dataclass
class _Merging:
    """``duplicates`` are the erased operations of each survivor. A table holds what is visible where the walk is."""

    duplicates: dict[Operation, list[Operation]] = field(default_factory=dict[Operation, list[Operation]])

    def visit_region(self, region: Region, table: _Table) -> None:
        """Merge inside a region; blocks see the blocks that dominate them. The table is the same again afterwards."""
        added: dict[Block, list[Hashable]] = {}
        for block, enters in DominatorTree(region).walk():
            if enters:
                added[block] = self.visit_block(block, table)
                continue
            for key in added.pop(block):
                del table[key]

    def visit_block(self, block: Block, table: _Table) -> list[Hashable]:
        """Merge the operations of a block into earlier ones; returns what it added to the table."""
        added: list[Hashable] = []
        for op in ops_of(block):
            for region in op.regions:
                self.visit_region(region, {} if op.has_trait(IsolatedFromAbove) else table)
            if op.regions or not op.results or not op.has_trait(Pure, value_if_unregistered=False):
                continue
            key = _key(op)
            same = table.get(key)
            if same is None:
                table[key] = op
                added.append(key)
                continue
            for old, new in zip(op.results, same.results, strict=True):
                if new.name_hint is None:
                    new.name_hint = old.name_hint
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)
            self.duplicates.setdefault(same, []).append(op)
        return added

    def fuse(self) -> None:
        """Give every survivor the locations of all that it stands for, each once."""
        for survivor, erased in self.duplicates.items():
            survivor.location = fuse_locations([survivor, *erased])


def _key(op: Operation) -> Hashable:
    return (
        op.name,
        tuple(op.operands),
        tuple(sorted(op.properties.items())),
        tuple(sorted(op.attributes.items())),
        tuple(op.result_types),
    )
