"""A small entry of the zoo in each form that the stock pipeline has for XNNPACK: `test/stock_files.py`, in part."""

from __future__ import annotations

import pytest

from etir.runtime import is_available

from etir_testing.interop.stock_forms import FORM_NAMES, examine
from etir_testing.interop.stock_lowering import FORMS
from etir_testing.models.zoo_table import ENTRIES

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

EACH_CHANGE = ("portable",)
"""Forms that every change is tested with. Those with XNNPACK's weights take a minute each; what they consist of has
tests of its own (``test_groups.py``, ``test_xnnpack_stock_blobs.py``).
"""


def test_forms_are_named() -> None:
    assert list(FORMS) == list(FORM_NAMES)


@pytest.mark.parametrize(
    "form", [name if name in EACH_CHANGE else pytest.param(name, marks=pytest.mark.nightly) for name in FORM_NAMES]
)
def test_decoder(form: str) -> None:
    """A decoder with state: both runtimes agree, each integer operator within a step, and text comes back."""
    (found,) = examine(ENTRIES["llama2_decode"], [form], None)
    assert found.stage == "done" and not found.failed(), found.sentence()
    assert (found.nodes > 0) == (form != "portable")
    assert (found.integer_nodes > 0) == (form not in ("portable", "fp32"))
