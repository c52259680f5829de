"""Templates as machine code of this computer, against what their operations mean: every processor that it can be.

Memory that nothing writes is NaN, and so is what lies around every buffer. The code runs between guard pages, too, and
with ``ETIR_SANITIZED`` in the environment under sanitizers. ``test_processors.py`` has other processors.
"""

from __future__ import annotations

import numpy as np
import pytest

from etir_testing.native.fills import FILLS
from etir_testing.native.images import Code, here, meaning
from etir_testing.native.random_functions import Function, long_sums, special_numbers, whole_range

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FILLS)
def test_templates(kind: str, seed: int) -> None:
    function = Function(seed)
    FILLS[kind](function)
    function.check(2e-6 if kind in ("maps", "rows", "reductions") else 1e-5)


def test_numbers_that_are_none() -> None:
    """NaN and infinities go through bodies as in torch, on every processor."""
    func, special = special_numbers()
    wanted = meaning(func, [special], {})
    for name in here():
        for got, want in zip(Code(func.clone(), name)([special]), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_the_error_of_a_sum_does_not_grow_with_its_depth() -> None:
    """As in eager, whose sums have the same errors (root mean square) at every depth."""
    func, given = long_sums()
    wanted = meaning(func, given, {})
    for name in here():
        for got, want in zip(Code(func.clone(), name)(given), wanted, strict=True):
            off = got.astype(np.float64) - want
            assert np.sqrt((off * off).mean() / (want.astype(np.float64) ** 2).mean()) < 2.5e-7, name


def test_functions_on_the_whole_range() -> None:
    """From float64, three units of the last digit at most, on every processor; sums of 1 and e^x overflow as such."""
    func, given = whole_range()
    wanted = meaning(func, [given], {})
    for name in here():
        for got, want in zip(Code(func.clone(), name)([given]), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=3.6e-7, atol=1e-38)
