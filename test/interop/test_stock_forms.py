"""A small entry of the zoo in each form that the stock pipeline has for XNNPACK: `test/stock_files.py`, in part."""

from __future__ import annotations

import pytest
import torch

from etir.runtime import is_available

from etir_testing.interop.stock_forms import FORM_NAMES, Found, examine, from_exact
from etir_testing.interop.stock_lowering import FORMS
from etir_testing.models.zoo_entry import Built
from etir_testing.models.zoo_table import ENTRIES

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

EACH_CHANGE = ("portable",)
"""Forms that every change is tested with. Those with XNNPACK's weights take a minute each; what they consist of has
tests of its own (``test_groups.py``, ``test_xnnpack_stock_blobs.py``).
"""


def test_forms_are_named() -> None:
    assert list(FORMS) == list(FORM_NAMES)


def test_which_runtime_is_off_is_said() -> None:
    """Of two results with a difference above the tolerance, that of the model in float64 says which one is wrong."""
    module, x = torch.nn.Linear(8, 4).eval(), torch.randn(2, 8)
    good = module(x).detach()
    found = from_exact(Built(module, (x,)), [[good * 1.01]], [[good]])
    assert found[0] == pytest.approx(0.01, rel=1e-3) and found[1] < 1e-6
    row = Found("linear", "fp32", "done", difference=0.01, noise=0.01, exact=found)
    assert row.failed() and "from float64 1.0e-02 stock, " in row.sentence()


@pytest.mark.parametrize(
    "form", [name if name in EACH_CHANGE else pytest.param(name, marks=pytest.mark.nightly) for name in FORM_NAMES]
)
def test_decoder(form: str) -> None:
    """A decoder with state: both runtimes agree, each integer operator within a step, and text comes back."""
    (found,) = examine(ENTRIES["llama2_decode"], [form], None)
    assert found.stage == "done" and not found.failed(), found.sentence()
    assert (found.nodes > 0) == (form != "portable")
    assert (found.integer_nodes > 0) == (form not in ("portable", "fp32"))
