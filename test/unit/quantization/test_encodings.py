"""Statistics of what is observed, and the scales that are made of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.dialects.quant.ops import Uniform
from etir.quantization.calibration import BINS, Statistics
from etir.quantization.encodings import METHODS, SMALLEST, clipped_share, encoding, uniform
from etir.quantization.report import sqnr
from etir.quantization.weights import quantized_weight


def _seen(*samples: np.ndarray) -> Statistics:
    statistics = Statistics()
    for sample in samples:
        statistics.add(sample.astype(np.float32))
    return statistics


def _stored(numbers: np.ndarray, u: Uniform) -> np.ndarray:
    assert u.scale is not None
    return (np.clip(np.rint(numbers / u.scale) + u.zero_point, -128, 127) - u.zero_point) * u.scale


def test_bins_follow_numbers_that_grow() -> None:
    """However far numbers get, each is counted in a bin around it."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=1000) * size for size in (0.01, 3.0, 0.5, 200.0)]
    seen = _seen(*samples)
    numbers = np.concatenate(samples).astype(np.float32)
    assert (seen.low, seen.high, seen.samples) == (numbers.min(), numbers.max(), 4)
    assert seen.bins.sum() == numbers.size
    assert seen.radius >= np.abs(numbers).max()
    width = 2 * seen.radius / BINS
    for threshold in (-100.0, -1.0, 0.0, 1.0, 100.0):
        counted = seen.bins[seen.centers < threshold].sum()
        assert (numbers < threshold - width).sum() <= counted <= (numbers < threshold + width).sum()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40))
def test_ends_of_the_range_and_zero_are_stored(numbers: list[float]) -> None:
    """The least and the greatest number are half a step away from what is stored, and zero is exact."""
    array = np.array(numbers)
    u = encoding(_seen(array))
    assert u.scale is not None
    assert -128 <= u.zero_point <= 127
    assert np.abs(_stored(array, u) - array).max() <= u.scale * 0.5001 + 1e-30 or u.scale == SMALLEST
    assert _stored(np.zeros(1), u)[0] == 0.0


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.0, 25.5, Uniform(float(np.float32(0.1)), -128)),
        (-25.5, 0.0, Uniform(float(np.float32(0.1)), 127)),
        (1.0, 25.5, Uniform(float(np.float32(0.1)), -128)),
        (-10.0, 15.5, Uniform(float(np.float32(0.1)), -28)),
        (0.0, 0.0, Uniform(SMALLEST, -128)),
    ],
)
def test_uniform(low: float, high: float, wanted: Uniform) -> None:
    assert uniform(low, high) == wanted


def test_methods_on_rare_large_numbers() -> None:
    """One number in a hundred thousand is far out: whoever gives it up stores the others more finely, and `mse` has
    the least squared error of all.
    """
    rng = np.random.default_rng(1)
    numbers = np.concatenate([rng.normal(size=200_000), [12.0, -9.0]]).astype(np.float32)
    seen = _seen(numbers)
    found = {name: encoding(seen, name) for name in METHODS}
    assert found["minmax"].scale == pytest.approx(21 / 255, rel=1e-5)
    assert clipped_share(seen, found["minmax"]) == 0.0
    for name in ("percentile", "mse", "entropy"):
        scale = found[name].scale
        assert scale is not None
        assert scale < 0.9 * 21 / 255, name
        assert clipped_share(seen, found[name]) < 0.01, name
    errors = {name: ((_stored(numbers, u) - numbers) ** 2).mean() for name, u in found.items()}
    assert min(errors, key=lambda name: errors[name]) == "mse"


def test_unknown_method() -> None:
    with pytest.raises(EtirError, match="E1501.*'mse'"):
        encoding(_seen(np.ones(3)), "msee")


def test_numbers_that_are_not_finite() -> None:
    for bad, name in ((np.nan, "nan"), (np.inf, "inf")):
        with pytest.raises(ValueError, match=name):
            _seen(np.array([1.0, bad]))


@pytest.mark.parametrize("axis", [0, 1])
def test_weights(axis: int) -> None:
    """The largest magnitude of each channel is 127; a channel of zeros stays zero."""
    rng = np.random.default_rng(2)
    weight = (rng.normal(size=(6, 4, 3)) * np.logspace(-30, 3, 6)[:, None, None]).astype(np.float32)
    weight[:, 2] = 0 if axis == 1 else weight[:, 2]
    weight[3] = 0 if axis == 0 else weight[3]
    integers, scales = quantized_weight(weight, axis)
    assert integers.dtype == np.int8
    assert scales.shape == (weight.shape[axis],)
    along = scales.reshape([-1 if d == axis else 1 for d in range(3)])
    assert (np.abs(integers * along - weight) <= along * 0.5001).all()
    most = np.abs(integers.astype(int)).max(axis=tuple(d for d in range(3) if d != axis))
    assert set(most.tolist()) <= {0, 127}


def test_sqnr() -> None:
    assert sqnr(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(20.0)
    assert sqnr(np.ones(3), np.ones(3)) == np.inf
