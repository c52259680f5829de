"""Weights in the order in which code reads them, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from etir.backends.native.tile import WeightOp, shape_of

if TYPE_CHECKING:
    import numpy as np


def packed(op: WeightOp, given: np.ndarray) -> np.ndarray:
    """The floats of ``op``, flat. ``given`` is the weight in its own shape: any for one that is read as it lies, else
    a matrix [k, n], or [n, k] where ``op`` says so.
    """
    import numpy as np

    if op.panel is None:
        return np.ascontiguousarray(given, np.float32).reshape(-1)
    panels, k, panel = shape_of(op.result)
    matrix = given.T if op.transposed is not None else given
    whole = np.zeros((k, panels * panel), np.float32)
    whole[:, : matrix.shape[1]] = matrix
    return np.ascontiguousarray(whole.reshape(k, panels, panel).transpose(1, 0, 2)).reshape(-1)


def count_of(op: WeightOp) -> int:
    """How many floats a weight is."""
    return math.prod(shape_of(op.result))
