"""Lookups in a table of vectors."""

from __future__ import annotations

import numpy as np

from etir.interpret.numpy_ops.dtype import INT64, Array, compute_dtype, to
from etir.interpret.numpy_ops.registry import op


@op("aten.embedding.default")
def embedding(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Array:
    return np.take(weight, indices, 0)


@op("aten.one_hot.default")
def one_hot(self: Array, num_classes: int = -1) -> Array:
    if self.size and self.min() < 0:
        raise ValueError(f"class {self.min()} is negative")
    count = (int(self.max()) + 1 if self.size else 0) if num_classes == -1 else num_classes
    if self.size and self.max() >= count:
        raise ValueError(f"class {self.max()} is not below num_classes {count}")
    return to(self[..., None] == np.arange(count), INT64)


Bags = tuple[Array, Array, Array, Array]


def _bags(
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: int,
    per_sample_weights: Array | None,
    include_last_offset: bool,
    padding_idx: int,
) -> Bags:
    """The sum (mode 0), mean (1) or maximum (2) of the rows in each bag, and three results that gradients need.

    Bag ``b`` is ``indices[offsets[b]:offsets[b + 1]]`` without ``padding_idx``. The other results are what eager's CPU
    path for float32 saves: the bag of every index (empty for sums without padding), the size of every bag (zeros for
    sums) and the row of every maximum.
    """
    starts = offsets[:-1] if include_last_offset else offsets
    ends = np.append(starts[1:], offsets[-1] if include_last_offset else indices.size)
    bags, width = starts.size, weight.shape[1]
    output = np.zeros((bags, width), compute_dtype(weight.dtype))
    sizes = np.zeros(bags, INT64)
    best_rows = np.zeros((bags, width), INT64)
    for bag, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        kept = np.flatnonzero(indices[start:end] != padding_idx) + start
        sizes[bag] = kept.size
        if not kept.size:
            continue
        rows = to(weight[indices[kept]], output.dtype)
        if per_sample_weights is not None:
            rows = rows * to(per_sample_weights[kept], output.dtype)[:, None]
        if mode == 2:
            output[bag], best_rows[bag] = rows.max(0), indices[kept][rows.argmax(0)]
        else:
            output[bag] = rows.mean(0) if mode == 1 else rows.sum(0)
    result = to(output, weight.dtype)
    bag_of_index = to(np.searchsorted(ends, np.arange(indices.size), "right"), indices.dtype)
    if mode == 0:
        return result, bag_of_index[: None if padding_idx >= 0 else 0], sizes * 0, sizes * 0
    return result, bag_of_index, sizes, best_rows if mode == 2 else sizes


@op("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Bags:
    return _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


@op("aten.embedding_bag.default")
def embedding_bag_composite(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
) -> Bags:
    return _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, -1)


@op("aten.embedding_bag.padding_idx")
def embedding_bag_padding(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Array | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Bags:
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding)
