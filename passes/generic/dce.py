"""Pass ``dce``: erase what nothing uses.

Before::

    et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = et.get_weight @w : tensor<4xf32>
      %y = aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %x : tensor<4xf32>
    }

After, ``%y`` is gone, then ``%w``, then ``@w``. Operations with an effect stay (in-place and random operators, writes
of state, assertions), and so does every ``et.state``: a buffer that a method does not read is part of the program's
interface. One walk from the end of each block to its start sees users before what they use, so that chains go at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from etir.dialects.context import EtContext
from etir.dialects.et.program import WeightOp
from etir.dialects.walking import ops_of
from etir.passes.analysis.effects import is_pure
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class DcePass(Pass):
    """Erase pure operations without users, then weights that nothing reads."""

    name = "dce"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Erase in place. Raises nothing."""
        for op in module.body.block.ops:
            for region in op.regions:
                _erase_in_region(region)
        _erase_unread_weights(module)


def _erase_in_region(region: Region) -> bool:
    """Whether anything was erased. Blocks may stand in any order, so that several are walked until nothing changes."""
    blocks = list(reversed(region.blocks))
    changed = False
    while any([_erase_in_block(block) for block in blocks]):
        changed = True
        if len(blocks) == 1:
            break
    return changed


def _erase_in_block(block: Block) -> bool:
    changed = False
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if _is_unused(op):
            Rewriter.erase_op(op)
            changed = True
        else:
            for region in op.regions:
                changed |= _erase_in_region(region)
        op = before
    return changed


def _is_unused(op: Operation) -> bool:
    return (
        all(result.first_use is None for result in op.results)
        and not op.has_trait(IsTerminator, value_if_unregistered=True)
        and is_pure(op)
    )


def _erase_unread_weights(module: ModuleOp) -> None:
    read: dict[str, None] = {}
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            _collect_symbols(attribute, read)
    for op in ops_of(module.body.block):
        if isinstance(op, WeightOp) and op.sym_name.data not in read:
            Rewriter.erase_op(op)


def _collect_symbols(attribute: Attribute, into: dict[str, None]) -> None:
    if type(attribute) is SymbolRefAttr:
        into[attribute.root_reference.data] = None
    elif type(attribute) is ArrayAttr:
        for item in attribute.data:
            _collect_symbols(item, into)
    elif type(attribute) is DictionaryAttr:
        for item in attribute.data.values():
            _collect_symbols(item, into)
