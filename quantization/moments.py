"""What layers see: sums of x x^T over all inputs x of a layer, and the mean magnitude of each of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.experts import EXPERT_LINEAR
from etir.quantization.channels import LINEAR
from etir.quantization.layers import collect_inputs, layers_with_rows, weight_of

LONGEST = 2048
"""Numbers whose products are all summed up: 16 MB of them, and seconds of arithmetic for each layer."""


@dataclass
class Moments:
    """``squares`` is ``[groups, parts, k / parts, k / parts]`` for rows of ``k`` numbers of a weight: rows that are too
    long for a whole matrix are seen in equal parts, whose products with each other are left out. ``sizes`` is
    ``[groups, k]``. Groups are those of a convolution, or the matrices of experts.
    """

    squares: np.ndarray
    sizes: np.ndarray
    count: int = 0


def together(moments: Sequence[Moments]) -> Moments | None:
    """What layers of one weight see, all of them; None where none has seen anything."""
    if not moments:
        return None
    first, *others = moments
    squares = sum((m.squares for m in others), first.squares)
    sizes = sum((m.sizes for m in others), first.sizes)
    return Moments(squares, sizes, sum(m.count for m in moments))


def parts_of(k: int, longest: int = LONGEST) -> int:
    """In how many equal parts rows of ``k`` numbers are seen; as many as there are numbers, where nothing divides."""
    return next(parts for parts in range(-(-k // longest), k + 1) if k % parts == 0)


def takes_moments(op: EdgeOp) -> bool:
    """Whether the weight of a layer is a matrix by which vectors of inputs are multiplied."""
    return op.op_name in (LINEAR, EXPERT_LINEAR) or ("transposed" in op.args() and not op.arg("transposed"))


def moments_of(module: ModuleOp, samples: Sequence[Sequence[Any]], method: str = "forward") -> dict[EdgeOp, Moments]:
    """The moments of all marked layers of ``module``, after one run of it on each sample. Layers that no sample has
    reached have none.
    """
    layers = list(layers_with_rows(module))
    found: dict[EdgeOp, Moments] = {}
    numbers: dict[int, np.ndarray] = {}

    def look(index: int, value: np.ndarray) -> None:
        op = layers[index]
        if not takes_moments(op) or not value.size:
            return
        if op.op_name == EXPERT_LINEAR:
            experts = tensor_of(weight_of(op)).get_shape()[0] // cast(int, op.arg("columns"))
            # As many bytes as other layers take, however many matrices there are.
            parts = parts_of(value.shape[1], max(1, int(LONGEST / experts**0.5)))
            seen = found.setdefault(op, _nothing(experts, parts, value.shape[1]))
            for number in np.unique(numbers[index]):
                _add(seen, slice(number, number + 1), value[None, numbers[index] == number])
        else:
            rows = inputs_of(op, value)
            groups, _, k = rows.shape
            _add(found.setdefault(op, _nothing(groups, parts_of(k), k)), slice(None), rows)

    collect_inputs(module, layers_with_rows, samples, look, method, numbers.__setitem__)
    return found


def _nothing(groups: int, parts: int, k: int) -> Moments:
    return Moments(np.zeros((groups, parts, k // parts, k // parts), np.float32), np.zeros((groups, k), np.float64))


def _add(seen: Moments, groups: slice, rows: np.ndarray) -> None:
    """Add inputs ``[groups, vectors, k]`` of some groups."""
    parts = seen.squares.shape[1]
    count, vectors, k = rows.shape
    split = rows.reshape(count, vectors, parts, k // parts)
    seen.squares[groups] += split.transpose(0, 2, 3, 1) @ split.transpose(0, 2, 1, 3)
    seen.sizes[groups] += np.abs(rows).sum(1)
    seen.count += vectors


def inputs_of(op: EdgeOp, value: np.ndarray) -> np.ndarray:
    """The vectors that rows of a layer's weight are multiplied by, ``[groups, vectors, k]``."""
    if op.op_name == LINEAR:
        return value.reshape(1, -1, value.shape[-1])
    kernel = tensor_of(weight_of(op)).get_shape()[2:]
    spatial, groups = len(kernel), cast(int, op.arg("groups"))
    if value.ndim == spatial + 1:
        value = value[None]
    strides, pads, dilations = (
        (list(given) * spatial)[:spatial] for given in (cast("list[int]", op.arg(n)) for n in _NUMBERS)
    )
    padded = np.pad(value, [(0, 0), (0, 0), *((p, p) for p in pads)])
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + spatial)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    windows = windows[(*steps, *(slice(None, None, d) for d in dilations))]
    batch, channels = windows.shape[:2]
    split = windows.reshape(batch, groups, channels // groups, *windows.shape[2:])
    order = (1, 0, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial))
    return np.ascontiguousarray(split.transpose(order)).reshape(groups, -1, channels // groups * int(np.prod(kernel)))


_NUMBERS = ("stride", "padding", "dilation")
