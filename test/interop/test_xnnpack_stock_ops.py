"""Every operator of the table as ExecuTorch's own pipeline writes it for XNNPACK, on both runtimes and through text.

ExecuTorch's nodes have fields that etir's do not set, and the other way around: what both runtimes make of etir's own
files (``test_xnnpack_ops.py``) does not show that they read these.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from etir.runtime import is_available

from etir_testing.interop.stock_forms import Found, examine
from etir_testing.interop.xnnpack_cases import CASES, Applied, normal
from etir_testing.models.zoo_entry import Built, Entry
from etir_testing.nightly import cases

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

FEW = ("cat_7", "conv_groups", "linear")
"""Operators on integers that a change is tested with; all others in the complete variant."""


def _examined(name: str, form: str) -> Found:
    module, inputs = CASES[name]
    entry = Entry(name, lambda: Built(copy.deepcopy(module), inputs), "xnnpack_cases.py")
    (found,) = examine(entry, [form], None)
    return found


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    """What has nodes in a delegate, or in none, gives the same numbers, and text gives the same file."""
    found = _examined(name, "fp32")
    assert found.stage == "done" and not found.failed(), found.sentence()


@pytest.mark.parametrize("name", cases(CASES, nightly=[name for name in CASES if name not in FEW]))
def test_operator_on_integers(name: str) -> None:
    """The same after XNNPACKQuantizer, where ExecuTorch makes and runs a file: within a step of each result."""
    found = _examined(name, "int8")
    assert not found.failed(), found.sentence()
    assert name not in FEW or (found.stage == "done" and found.integer_nodes)


@pytest.mark.parametrize("form", cases(["dynamic-int8", "int8"], nightly=["int8"]))
def test_a_filter_may_be_transposed(form: str) -> None:
    """A layer whose weights are (inputs, outputs), as GPT-2's are, stays on floats there, with a flag at its node."""
    layer = torch.nn.Linear(24, 8)
    weight, bias = torch.nn.Parameter(normal(8, 24)), torch.nn.Parameter(normal(24))

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias, self.layer = weight, bias, layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(torch.addmm(self.bias, x, self.weight).relu())

    (found,) = examine(Entry("own", lambda: Built(Own().eval(), (normal(3, 8),)), "here"), [form], None)
    assert found.stage == "done" and not found.failed(), found.sentence()


def test_an_average_pool_has_no_dilation() -> None:
    """ExecuTorch writes 0 as the dilation of its node, which nobody reads: also with a window as wide as the image."""

    def pooled(v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        narrow, high = F.avg_pool2d(F.relu(v), (1, 4), 1), F.avg_pool2d(v, (9, 2), 1, (4, 1), False, False)
        return narrow * 2, high + 1

    pools = Applied(pooled)
    image = normal(1, 3, 9, 10)
    entry = Entry("pools", lambda: Built(copy.deepcopy(pools), (image,), more=((image.flip(-1) * torch.pi,),)), "here")
    (found,) = examine(entry, ["fp32"], None)
    assert found.stage == "done" and not found.failed() and found.nodes > 2, found.sentence()
