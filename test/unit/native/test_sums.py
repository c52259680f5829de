"""Sums of branches in turn (``sums.py``): who adds to whom, and when a sum stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, StringAttr

import etir
import etir.runtime
from etir.backends.native import savings
from etir.backends.native.dialect import GroupOp
from etir.backends.native.functions import SAVES
from etir.backends.native.passes.verify_native import verify_groups
from etir.backends.native.sums import SUMS, in_turn


class Branches(nn.Module):
    """As many convolutions of an image as are asked for, added up before a function of the sum, and once more read."""

    def __init__(self, count: int, *, is_shared: bool = False) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(4, 8, n, padding=n // 2) for n in (3, 1, 3, 1)[:count])
        self.last, self.is_shared = nn.Conv2d(8, 3, 3, padding=1), is_shared

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = [branch(x) for branch in self.branches]
        total = made[0]
        for one in made[1:]:
            total = total + one
        y = self.last(nn.functional.gelu(total) * 0.5)
        return (y, *(torch.exp(one) for one in made[1:])) if self.is_shared else (y,)


def groups(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The operators of each group of a program's delegate where sums are saved on."""
    found: list[list[str]] = []

    def choose(outlined: savings.Outlined, cpus: Sequence[str]) -> None:
        func = outlined.func
        assert in_turn(func) is func
        func.attributes[SAVES] = ArrayAttr([StringAttr(SUMS)])
        made = in_turn(func)
        verify_groups(made)
        del func.attributes[SAVES]
        if not found:
            found.extend(operators(op) for op in made.body.block.ops if isinstance(op, GroupOp))

    def operators(group: GroupOp) -> list[str]:
        return [op.name.split(".")[2] for op in group.body.block.ops if op.name != "native.yield"]

    monkeypatch.setattr("etir.backends.native.savings.choose_savings", choose)
    exported = torch.export.export(model.eval(), (torch.randn(1, 4, 10, 10),))
    etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 arena=free}"])
    return found


def test_each_branch_adds_to_the_ones_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the sum; the last one has what follows it."""
    one = ["convolution"]
    found = groups(Branches(4), monkeypatch)
    assert found == [one, [*one, "add"], [*one, "add"], [*one, "add", "gelu", "mul"], one]


@pytest.mark.parametrize("model", [Branches(2), Branches(4, is_shared=True)], ids=["two", "shared"])
def test_sums_that_stay(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two branches live as long either way, and what others read has to be there by itself."""
    assert ["convolution", "add"] not in groups(model, monkeypatch)


def test_images_of_any_size() -> None:
    """Sizes that are known at run time are those of the program, in the copy as well."""
    torch.manual_seed(0)
    model, x = Branches(4).eval(), torch.randn(2, 4, 24, 20)
    dims = {0: torch.export.Dim("n", max=3), 2: torch.export.Dim("h", min=8, max=48)}
    exported = torch.export.export(model, (x,), dynamic_shapes={"x": dims})
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    loaded = etir.runtime.load(program)
    for shape in ((1, 4, 8, 20), (3, 4, 48, 20), (2, 4, 25, 20)):
        given = torch.randn(*shape)
        (got,) = loaded.forward(given)
        with torch.no_grad():
            torch.testing.assert_close(torch.as_tensor(got), model(given)[0], rtol=1e-4, atol=1e-5)
