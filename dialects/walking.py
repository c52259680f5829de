"""All operations inside of one, without a generator for each of them: passes walk a module some dozens of times."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation


def walk(op: Operation) -> Iterator[Operation]:
    """What ``op.walk()`` gives. An operation that has been given may be erased or moved, as there."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            nested = block.first_op
            while nested is not None:
                following = nested.next_op
                if nested.regions:
                    yield from walk(nested)
                else:
                    yield nested
                nested = following
