"""The ways through the blocks of a method: which every run takes, which lead back, which end with an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import Block

from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import ReturnOp


def returns(block: Block) -> bool:
    """Whether a method can end well from a block."""
    seen: dict[Block, None] = {}
    waiting = [block]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen[one] = None
        if isinstance(one.last_op, ReturnOp):
            return True
        waiting += _next(one)
    return False


def _next(block: Block) -> Sequence[Block]:
    return () if block.last_op is None else block.last_op.successors


def certain_blocks(method: MethodOp, again: Mapping[Block, None]) -> dict[Block, None]:
    """The blocks that every run that ends well begins with, once each: up to where there are two ways to the end."""
    found: dict[Block, None] = {}
    block: Block | None = method.body.blocks[0]
    while block is not None and block not in again:
        found[block] = None
        ways = [one for one in _next(block) if returns(one)]
        block = ways[0] if len(ways) == 1 else None
    return found


def repeated_blocks(method: MethodOp) -> dict[Block, None]:
    """The blocks from which there is a way back to them."""

    def after(block: Block) -> Iterator[Block]:
        seen: dict[Block, None] = {}
        waiting = list(_next(block))
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen[one] = None
                yield one
                waiting += _next(one)

    return {block: None for block in method.body.blocks if any(one is block for one in after(block))}
