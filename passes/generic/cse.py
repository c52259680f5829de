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
from xdsl.irdl.dominance import DominanceInfo
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, Pure

from etir.dialects.context import EtContext
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
                    merging.visit_region(region, ())
                merging.fuse()


_Table = dict[Hashable, Operation]


@dataclass
class _Merging:
    """Scopes are tuples of tables, innermost last; ``duplicates`` are the erased operations of each survivor."""

    duplicates: dict[Operation, list[Operation]] = field(default_factory=dict[Operation, list[Operation]])

    def visit_region(self, region: Region, outer: tuple[_Table, ...]) -> None:
        """Merge inside a region; blocks see the blocks that dominate them."""
        blocks = list(region.blocks)
        if len(blocks) == 1:
            self.visit_block(blocks[0], (*outer, {}))
            return
        info = DominanceInfo(region)
        tables: dict[Block, _Table] = {block: {} for block in blocks}
        done: dict[Block, None] = {}
        for block in sorted(blocks, key=lambda b: sum(info.strictly_dominates(a, b) for a in blocks)):
            above = [tables[other] for other in done if info.strictly_dominates(other, block)]
            self.visit_block(block, (*outer, *above, tables[block]))
            done[block] = None

    def visit_block(self, block: Block, scopes: tuple[_Table, ...]) -> None:
        """Merge the operations of a block into earlier ones."""
        for op in list(block.ops):
            for region in op.regions:
                self.visit_region(region, () if op.has_trait(IsolatedFromAbove) else scopes)
            if op.regions or not op.results or not op.has_trait(Pure, value_if_unregistered=False):
                continue
            key = _key(op)
            same = next((table[key] for table in reversed(scopes) if key in table), None)
            if same is None:
                scopes[-1][key] = op
                continue
            for old, new in zip(op.results, same.results, strict=True):
                if new.name_hint is None:
                    new.name_hint = old.name_hint
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)
            self.duplicates.setdefault(same, []).append(op)

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
