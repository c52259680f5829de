"""What two sequences of tokens begin with in common: as much of a cache as a prompt can use."""

from __future__ import annotations

from collections.abc import Sequence


def common(held: Sequence[int], ids: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    return next((i for i, (a, b) in enumerate(zip(held, ids, strict=False)) if a != b), min(len(held), len(ids)))
