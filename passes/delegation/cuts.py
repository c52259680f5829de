"""Partitions that end before an operation and go on from it, as ``partition{cut=...}`` asks for.

A partition is one call, and all that it reads is there when it begins. Where it does not read some of that for long, as
the embeddings of a decoder that follows an encoder, two calls need less memory than one: the operators that make it,
which no delegate claims, run between them.

A cut raises the level (``delegation/levels.py``) of what comes later in the partition, and of every later partition::

    node      %0  %1  %2  %3  %4           cut before %2, which is at level 0
    level      0   0   0   0   1
    after      0   0   1   1   2

What comes later is what follows in the block's order and what depends on that, so that each level is as convex as it
was: a path from the second part to the first one would have been one out of the whole partition and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from etir.passes.delegation.graph import Contraction


def cut_levels(graph: Contraction, claimed: Sequence[bool], levels: list[int], before: Iterable[int]) -> bool:
    """Raise levels, in place, so that partitions end before the operations with these numbers, where they hold them and
    something before them. Returns whether any did.
    """
    changed = False
    for number in sorted(before):
        node = graph.node_of[number]
        if not claimed[node]:
            continue
        here = levels[node]
        members = [n for n in graph.order if claimed[n] and levels[n] == here]
        later: dict[int, None] = {}
        for n in members:
            if n == node or graph.members[n][0] >= number or any(p in later for p in graph.preds[n]):
                later[n] = None
        if len(later) == len(members):
            continue
        for n, level in enumerate(levels):
            if level > here or n in later:
                levels[n] = level + 1
        changed = True
    return changed
