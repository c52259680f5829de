"""What a tensor's sizes and dim order have to satisfy in any file that the runtime loads."""

from __future__ import annotations

import math

from etir.emit.formats.scalar_type import ITEM_BYTES, ScalarType

MAX_RANK = 16
_MAX_SIZE = (1 << 31) - 1
_MAX_BYTES = (1 << 63) - 1
_IDENTITIES = [tuple(range(rank)) for rank in range(MAX_RANK + 1)]


def tensor_bytes(scalar_type: ScalarType, sizes: tuple[int, ...]) -> int:
    """Bytes of a densely stored tensor."""
    return math.prod(sizes) * ITEM_BYTES[scalar_type]


def shape_error(scalar_type: ScalarType, sizes: tuple[int, ...], dim_order: tuple[int, ...]) -> str | None:
    """What is impossible about this shape, ``None`` when nothing is.

    The byte count is bounded with zero sizes left out: the runtime multiplies in order, and must not overflow before
    it gets to the zero.
    """
    rank = len(sizes)
    if rank > MAX_RANK:
        return f"rank {rank} is more than {MAX_RANK}"
    if len(dim_order) != rank:
        return f"the dim order has {len(dim_order)} entries for {rank} dims"
    if dim_order != _IDENTITIES[rank] and tuple(sorted(dim_order)) != _IDENTITIES[rank]:
        return f"dim order {list(dim_order)} is not a permutation"
    for dim, size in enumerate(sizes):
        if not 0 <= size <= _MAX_SIZE:
            return f"size {size} of dim {dim} is not between 0 and {_MAX_SIZE}"
    if tensor_bytes(scalar_type, tuple(filter(None, sizes))) > _MAX_BYTES:
        return f"sizes {list(sizes)} of {scalar_type.name} make more than 2^63 bytes"
    return None
