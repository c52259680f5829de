"""Scales from what was seen: by the least and greatest number, or by giving up the rarest numbers for a finer step.

``minmax`` clips nothing. ``percentile`` clips one number in ten thousand. ``mse`` tries forty shorter ranges and takes
the one with the least squared error, of which a step's rounding is a twelfth of its square; ``entropy`` the one whose
distribution is least apart from the one that was seen (Kullback-Leibler, as in Migacz, *8-bit inference with
TensorRT*, GTC 2017).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from etir.diagnostics import did_you_mean
from etir.dialects.quant.ops import HIGH, LOW, Uniform
from etir.quantization.calibration import Statistics
from etir.quantization.errors import E1501

STEPS = HIGH - LOW
SMALLEST = 2.0**-40
"""The scale of a value that is zero throughout."""
LEAST = 2.0**-100
"""The least scale of numbers: its reciprocal, and its product with that of a weight, are numbers in float32."""
PERCENTILE = 0.9999
_TRIED = 40


def uniform(low: float, high: float) -> Uniform:
    """The scale and zero point for numbers from ``low`` to ``high``, and 0, which is always exact."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32(max((high - low) / STEPS, LEAST) if high > low else SMALLEST))
    return Uniform(scale, int(np.clip(LOW - round(low / scale), LOW, HIGH)))


def _shorter(seen: Statistics) -> list[tuple[float, float]]:
    return [(seen.low * part, seen.high * part) for part in (1 - i / (_TRIED + 8) for i in range(_TRIED))]


def _percentile(seen: Statistics) -> tuple[float, float]:
    share = np.cumsum(seen.bins) / max(int(seen.bins.sum()), 1)
    width = seen.radius * 2 / len(seen.bins)
    left, right = np.searchsorted(share, [1 - PERCENTILE, PERCENTILE])
    low, high = left * width - seen.radius, (right + 1) * width - seen.radius
    return max(seen.low, float(low)), min(seen.high, float(high))


def _mse(seen: Statistics) -> tuple[float, float]:
    def error(bounds: tuple[float, float]) -> float:
        u = uniform(*bounds)
        assert u.scale is not None
        low, high = (LOW - u.zero_point) * u.scale, (HIGH - u.zero_point) * u.scale
        outside = np.maximum(seen.centers - high, 0) + np.maximum(low - seen.centers, 0)
        return float((seen.bins * np.where(outside > 0, outside**2, u.scale**2 / 12)).sum())

    return min(_shorter(seen), key=error)


def _entropy(seen: Statistics) -> tuple[float, float]:
    share = seen.bins / max(int(seen.bins.sum()), 1)

    def divergence(bounds: tuple[float, float]) -> float:
        u = uniform(*bounds)
        assert u.scale is not None
        steps = np.clip(np.rint(seen.centers / u.scale) + u.zero_point, LOW, HIGH).astype(int) - LOW
        inside = (seen.centers >= bounds[0]) & (seen.centers <= bounds[1])
        masses = np.bincount(steps, np.where(inside, share, 0), STEPS + 1)
        filled = np.bincount(steps, inside & (share > 0), STEPS + 1)
        spread = np.where(inside & (share > 0), masses[steps] / np.maximum(filled[steps], 1), 0)
        clipped = np.bincount(steps, share, STEPS + 1)
        known = np.where(inside & (share > 0), share + (clipped - masses)[steps] / np.maximum(filled[steps], 1), 0)
        valid = (known > 0) & (spread > 0)
        total = spread[valid].sum()
        lost = 1 - known[valid].sum()
        return float((known[valid] * np.log(known[valid] * total / spread[valid])).sum() + max(lost, 0.0) * 50)

    return min(_shorter(seen), key=divergence)


METHODS: dict[str, Callable[[Statistics], tuple[float, float]]] = {
    "minmax": lambda seen: (seen.low, seen.high),
    "percentile": _percentile,
    "mse": _mse,
    "entropy": lambda seen: _entropy(seen) if seen.bins.sum() >= len(seen.bins) else (seen.low, seen.high),
}
"""The range that is stored, by the name of how it is chosen."""


def encoding(seen: Statistics, method: str = "minmax") -> Uniform:
    """The scale and zero point of a value. Raises E1501 for an unknown method."""
    if method not in METHODS:
        raise E1501.error(f"method '{method}'{did_you_mean(method, METHODS)}; there are {', '.join(METHODS)}")
    return uniform(*METHODS[method](seen))


def clipped_share(seen: Statistics, u: Uniform) -> float:
    """The share of numbers that are outside of what is stored, to the width of a bin."""
    if u.scale is None or not seen.bins.sum():
        return 0.0
    low, high = (LOW - 0.5 - u.zero_point) * u.scale, (HIGH + 0.5 - u.zero_point) * u.scale
    width = seen.radius / len(seen.bins)
    outside = (seen.centers + width < low) | (seen.centers - width > high)
    return float(seen.bins[outside].sum() / seen.bins.sum())
