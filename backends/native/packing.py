"""Weights in the order in which code reads them, and back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from etir.backends.native.tile import WeightOp, shape_of
from etir.backends.native.winograd import restored, transformed

if TYPE_CHECKING:
    import numpy as np

    from etir.backends.native.blob import Constant

CHANNELS = 16
"""Channels whose filters are transformed at once: what is made of them stays in a cache and in the same memory."""


def packed(op: WeightOp, given: np.ndarray, precision: str = "float32") -> np.ndarray:
    """The numbers of ``op``, flat. ``given`` is the weight in its own shape: any for one that is read as it lies, else
    a matrix [k, n], or [n, k] where ``op`` says so; or windows, [n, c, h, w] or [c, n, h, w].
    """
    import numpy as np

    if op.spread is not None:
        groups = shape_of(op.result)[0]
        given = given.reshape(-1, groups, *given.shape[1:]).swapaxes(0, 1).reshape(given.shape)
    if op.panel is None:
        return np.ascontiguousarray(given, precision).reshape(-1)
    result = np.empty(shape_of(op.result), precision)
    if op.winograd is not None:
        for start in range(0, given.shape[1], CHANNELS):
            some = slice(start, start + CHANNELS)
            _put(transformed(given[:, some]), result[:, :, some], 1)
    elif result.ndim > 3:
        rows, groups, panels, panel = result.shape[-4], groups_of(op), result.shape[-3], result.shape[-1]
        outer, inner = given.shape[:2]
        # By group: rows of the window, its columns, channels read, channels written.
        by_group = given.reshape(groups, outer // groups, inner, rows, -1)
        windows = by_group.transpose((0, 3, 4, 2, 1) if op.transposed is not None else (0, 3, 4, 1, 2))
        _put(windows, result.reshape(groups, rows, panels, *windows.shape[2:4], panel), 2)
    else:
        given = given.reshape(given.shape[0], -1)
        _put(given.T if op.transposed is not None else given, result, 0)
    return result.reshape(-1)


def _put(matrices: np.ndarray, result: np.ndarray, leading: int) -> None:
    """Write matrices [..., k, n], which have so many leading dims, to panels [..., panels, k, panel]; k may be several
    dims. Elements are copied once: weights are most of what a program is, and it is new memory that takes time.
    """
    import numpy as np

    *dims, n = matrices.shape
    by_panel = np.moveaxis(result, leading, -2)
    whole, rest = divmod(n, result.shape[-1])
    by_panel[..., :whole, :] = matrices[..., : n - rest].reshape(*dims, whole, result.shape[-1])
    if rest:
        by_panel[..., whole, :rest] = matrices[..., n - rest :]
        by_panel[..., whole, rest:] = 0


def unpacked(constant: Constant, data: bytes | memoryview) -> bytes:
    """The bytes of a weight as the module has it, from those that code reads. Filters that were transformed differ from
    the module's by the rounding of that.
    """
    import numpy as np

    if constant.spread:
        plain = unpacked(replace(constant, spread=False), data)
        return np.frombuffer(plain, np.float32).reshape(constant.groups, -1, constant.size).swapaxes(0, 1).tobytes()
    if constant.panel == 0:
        return bytes(data)
    panel, k, n = constant.panel, constant.k, constant.n
    panels = -(-n // panel)
    given = np.frombuffer(data, np.float32).reshape(-1, panels, k, panel)
    matrices = given.transpose(0, 2, 1, 3).reshape(-1, k, panels * panel)[..., :n]
    if constant.winograd:
        return restored(matrices).tobytes()
    if constant.rows:
        by_group = matrices.reshape(constant.groups, constant.rows, constant.columns, -1, n)
        plain = by_group.transpose((0, 4, 3, 1, 2) if constant.transposed else (0, 3, 4, 1, 2))
    else:
        plain = matrices[0].T if constant.transposed else matrices[0]
    return np.ascontiguousarray(plain).tobytes()


def groups_of(op: WeightOp) -> int:
    """Groups of channels of a weight of windows."""
    dims = shape_of(op.result)
    return dims[0] if len(dims) == 5 else 1


def count_of(op: WeightOp) -> int:
    """How many floats a weight is."""
    return math.prod(shape_of(op.result))
