"""Models made at random against eager and float64, as code of every processor that this machine is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native import backend  # noqa: E402

from etir_testing.native.images import here  # noqa: E402
from etir_testing.native.random_models import Model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40)


def off(got: Any, exact: Any) -> float:
    """The largest difference over the largest magnitude."""
    return float((got.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30))


def with_special_numbers(inputs: Sequence[Any], seed: int) -> list[Any]:
    """The inputs, some numbers of which are none, or at the ends of the range."""
    generator = torch.Generator().manual_seed(seed)
    changed = [x.clone() for x in inputs]
    for x in changed:
        count = max(1, x.numel() // 40)
        places = torch.randint(x.numel(), (count,), generator=generator)
        x.view(-1)[places] = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), (count,), generator=generator)]
    return changed


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(5, 400))])
def test_random_models(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are as near to float64 as 1e-5, or as those of eager and of the kernels; those of a second run are the
    first ones to the last bit, and those of special numbers are NaN and infinite where eager's are. Eager's gelu of an
    infinity is NaN in float32 alone, and its fused attention gives 0 for a row of NaN, which its formula does not.
    """
    monkeypatch.setattr(backend, "WORTH", 0)
    model = Model(seed, 3 + seed % 7).eval()
    special = with_special_numbers(model.inputs, seed)
    with torch.no_grad():
        eager, none = model(*model.inputs), model(*special)
        wide = model.double()(*(x.double() for x in model.inputs))
        none_wide = model(*(x.double() for x in special))
        model.float()
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            none_apart = model(*special)
        exported = torch.export.export(model, model.inputs)
    options = f"native{{cpus={here()[seed % len(here())]}}}"
    program = etir.compile(exported, target="etir", delegates=[options])
    assert {warning.id.id for warning in program.warnings} <= {"E1104"}, model.said
    loaded = etir.runtime.load(program, native="trusted")
    first = [x.clone() for x in loaded.forward(*model.inputs)]
    for got, *wants in zip(loaded.forward(*special), none, none_wide, none_apart, strict=True):
        agrees = [(got.isnan() == want.isnan()) & (got.isinf() == want.isinf()) for want in wants]
        assert (agrees[0] | agrees[1] | agrees[2]).all(), model.said
    kernels = etir.runtime.load(program, native="refuse").forward(*model.inputs)
    again = loaded.forward(*model.inputs)
    for got, second, want, other, exact in zip(first, again, eager, kernels, wide, strict=True):
        assert got.shape == want.shape and torch.equal(got, second), model.said
        assert off(got, exact) <= max(1e-5, 4 * off(want, exact), 4 * off(other, exact)), model.said
