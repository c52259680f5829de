"""Operations inside of one, or of a block, without a generator for each: passes go over them some dozens of times."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation


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


def ops_of(block: Block) -> list[Operation]:
    """The operations of a block as they are now: ``[*block.ops]`` without a generator, which goes over the block twice,
    since a list asks for the length first.
    """
    found: list[Operation] = []
    op = block.first_op
    while op is not None:
        found.append(op)
        op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return found
