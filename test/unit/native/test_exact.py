"""What operations of ``tile`` mean in float64, and how ``test/native_sanitizers.py`` judges code by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from native_sanitizers import NUDGES, difference, far_from_exact, moved_by_other_digits  # noqa: E402
from torch import nn  # noqa: E402

from etir.backends.native import savings  # noqa: E402
from etir.backends.native.lowering import winograd  # noqa: E402

from etir_testing.native.functions import Tiled, functions_of  # noqa: E402
from etir_testing.native.images import meaning  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """Windows by tiles of the result, pools, windows of each channel, products, probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.windows, self.each = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.last = nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        y = torch.max_pool2d(torch.relu(self.windows(x)), 2)
        y = self.each(y).flatten(2).transpose(1, 2)
        return torch.softmax(self.last(y @ y.transpose(1, 2) @ y), -1)


class Sharp(nn.Module):
    """Probabilities of scores of thousands, whose differences are few digits."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        y = self.rows(x)
        return torch.softmax((y + 1000.0) * 10.0, -1)


def function_of(module: nn.Module, x: Any) -> Tiled:
    (tiled,) = functions_of(torch.export.export(module.eval(), (x,)))
    return tiled


def test_meanings_in_float64_are_those_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    monkeypatch.setattr(winograd, "GAIN", 1e9)
    torch.manual_seed(0)
    module, x = Net(), torch.randn(1, 32, 16, 16)
    tiled = function_of(module, x)
    assert "winograd" in str(tiled.func), "there are tiles"
    (exact,) = meaning(tiled.func, [x.numpy()], tiled.weights, "float64")
    with torch.no_grad():
        wanted = module.double()(x.double()).numpy()
    assert exact.dtype == np.float64 and difference(exact, wanted) < 1e-12
    (rounded,) = meaning(tiled.func, [x.numpy()], tiled.weights)
    assert rounded.dtype == np.float32 and 1e-9 < difference(rounded, wanted) < 1e-5


@pytest.mark.parametrize(("make", "rows", "is_sharp"), [(nn.Linear(16, 16), 6, False), (Sharp(), 6, True)])
def test_a_result_may_be_off_by_what_last_digits_make(make: nn.Module, rows: int, is_sharp: bool) -> None:
    """1e-5, or four times what other last digits of the inputs and weights make: no more than that."""
    torch.manual_seed(0)
    x = torch.randn(rows, 16)
    tiled, given = function_of(make, x), [x.numpy()]
    exact = meaning(tiled.func, given, tiled.weights, "float64")
    (moved,) = moved_by_other_digits(tiled, given, exact)
    assert (moved > 1e-5) == is_sharp
    bar = max(1e-5, NUDGES * moved)
    largest = float(np.abs(exact[0]).max())
    for off, is_found in ((0.0, False), (0.9 * bar, False), (1.1 * bar, True)):
        found = [*far_from_exact(tiled, given, {"code": [exact[0] + off * largest]})]
        assert bool(found) == is_found and all(text.startswith("code is off by") for text in found)
    spoilt = exact[0].copy()
    spoilt[0, 0] = np.nan
    assert [*far_from_exact(tiled, given, {"code": [spoilt]})]
