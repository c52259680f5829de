"""Padding. Every mode but the constant one is an index per dimension, clipped, reflected or wrapped around."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from etir.interpret.numpy_ops.dtype import Array, Scalar, to
from etir.interpret.numpy_ops.registry import op


@op("aten.constant_pad_nd.default")
def constant_pad_nd(self: Array, pad: Sequence[int], value: Scalar = 0) -> Array:
    """``pad`` has two numbers per dimension, the last dimension first; negative ones cut away."""
    widths = _widths(self, pad)
    shape = [n + before + after for n, (before, after) in zip(self.shape, widths, strict=True)]
    if min(shape, default=0) < 0:
        raise ValueError(f"padding {list(pad)} leaves less than nothing of {list(self.shape)}")
    result = np.full(shape, to(value, self.dtype))
    source = tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(self.shape, widths, strict=True))
    target = tuple(slice(max(b, 0), n - max(a, 0)) for n, (b, a) in zip(shape, widths, strict=True))
    result[target] = self[source]
    return result


def _widths(x: Array, pad: Sequence[int]) -> list[tuple[int, int]]:
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise ValueError(f"padding {list(pad)} does not fit a tensor of {x.ndim} dimensions")
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def _reflected(index: Array, size: int) -> Array:
    period = max(2 * (size - 1), 1)
    index = np.abs(index) % period
    return np.minimum(index, period - index) if size > 1 else index * 0


def _clipped(index: Array, size: int) -> Array:
    return np.clip(index, 0, size - 1)


def _wrapped(index: Array, size: int) -> Array:
    return index % size


def _pad_by_index(x: Array, pad: Sequence[int], read: Callable[[Array, int], Array], most: int | None) -> Array:
    """Read each padded dimension at the positions that ``read`` makes of those from -before to size + after.

    ``most`` is by how much less than the dimension's size a padding has to stay: 1 for reflection, 0 for wrapping.
    """
    for axis, (before, after) in enumerate(_widths(x, pad)):
        size = x.shape[axis]
        if not before and not after:
            continue
        if most is not None and max(before, after) > size - most:
            raise ValueError(f"padding ({before}, {after}) is too wide for dimension {axis} of size {size}")
        x = np.take(x, read(np.arange(-before, size + after), size), axis)
    return x


@op("aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default")
def reflection_pad(self: Array, padding: Sequence[int]) -> Array:
    return _pad_by_index(self, padding, _reflected, 1)


@op("aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default")
def replication_pad(self: Array, padding: Sequence[int]) -> Array:
    return _pad_by_index(self, padding, _clipped, None)


@op("aten._pad_circular.default")
def pad_circular(self: Array, pad: Sequence[int]) -> Array:
    """Negative widths cut first, so that what wraps around is what is left."""
    return _pad_by_index(constant_pad_nd(self, [min(p, 0) for p in pad]), [max(p, 0) for p in pad], _wrapped, 0)


@op("aten.pad.default")
def pad(self: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    if mode == "constant":
        return constant_pad_nd(self, pad, 0 if value is None else value)
    modes = {"reflect": reflection_pad, "replicate": replication_pad, "circular": pad_circular}
    if mode not in modes:
        raise ValueError(f"mode is {mode!r}; it can be 'constant', {', '.join(map(repr, modes))}")
    return modes[mode](self, pad)
