"""Which block dominates which: the dominator tree of a region.

Block a dominates block b when every path from the entry to b goes through a. The immediate dominators form a tree, so
that what is defined above a block in it is visible there. Found by the iteration of Cooper, Harvey and Kennedy ("A
Simple, Fast Dominance Algorithm", 2001): about linear for the flow graphs that programs have, without sets of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Region


class DominatorTree:
    """The tree of one region. Blocks that cannot be reached from the entry have no dominators but themselves."""

    def __init__(self, region: Region):
        self.blocks = list(region.blocks)
        self.above: dict[Block, Block] = {}
        """The immediate dominator of every block but the roots."""
        self.below: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        """The blocks that each immediately dominates, in the order of the text."""
        if len(self.blocks) > 1:
            self._build()

    @property
    def roots(self) -> list[Block]:
        """The entry and the blocks that nothing reaches."""
        return [block for block in self.blocks if block not in self.above]

    def walk(self) -> Iterator[tuple[Block, bool]]:
        """Every block twice: True before the blocks that it dominates, False after them."""
        stack = [(block, True) for block in reversed(self.roots)]
        while stack:
            block, first = stack.pop()
            yield block, first
            if first:
                stack.append((block, False))
                stack.extend((child, True) for child in reversed(self.below[block]))

    def _build(self) -> None:
        order = _reverse_postorder(self.blocks[0])
        number = {block: index for index, block in enumerate(order)}
        predecessors: list[list[int]] = [[] for _ in order]
        for block in order:
            for successor in _successors(block):
                predecessors[number[successor]].append(number[block])
        immediate: list[int | None] = [None] * len(order)
        immediate[0] = 0
        changed = True
        while changed:
            changed = False
            for index in range(1, len(order)):
                found: int | None = None
                for predecessor in predecessors[index]:
                    if immediate[predecessor] is None:
                        continue
                    found = predecessor if found is None else _meet(immediate, predecessor, found)
                changed |= found != immediate[index]
                immediate[index] = found
        for block in self.blocks[1:]:
            above = immediate[number[block]] if block in number else None
            if above is not None:
                self.above[block] = order[above]
                self.below[order[above]].append(block)


def _meet(immediate: list[int | None], first: int, second: int) -> int:
    """The lowest block above both; numbers fall on the way up."""
    while first != second:
        if first < second:
            first, second = second, first
        above = immediate[first]
        assert above is not None, "what was reached has a dominator"
        first = above
    return first


def _successors(block: Block) -> list[Block]:
    """Those in the same region: a branch out of it is another check's business."""
    if block.last_op is None:
        return []
    return [successor for successor in block.last_op.successors if successor.parent is block.parent]


def _reverse_postorder(entry: Block) -> list[Block]:
    done: list[Block] = []
    seen: dict[Block, None] = {entry: None}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, left = stack[-1]
        following = next((successor for successor in left if successor not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen[following] = None
            stack.append((following, iter(_successors(following))))
    return done[::-1]
