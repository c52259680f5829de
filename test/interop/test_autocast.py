"""Regions of ``torch.autocast``: which operands are cast, and to what, is as in eager mode, on both runtimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.extension.pybindings import portable_lib
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError

X = torch.linspace(-2, 2, 32).reshape(4, 8)


class Layers(nn.Module):
    """Layers, and a state, for a function of them."""

    total: Tensor

    def __init__(self, function: Callable[[Layers, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.line = nn.Conv1d(4, 4, 3)
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def half(dtype: torch.dtype = torch.bfloat16, enabled: bool = True) -> Any:
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


def one(m: Layers, x: Tensor) -> Any:
    with half():
        return m.first(x)


def lists(m: Layers, x: Tensor) -> Any:
    """Operators that are cast down, those that promote, and those that stay in float32."""
    with half():
        return m.line(x[None]), torch.cat([m.first(x), x]), m.first(x).prod(), torch.softmax(m.first(x), -1)


def nested(m: Layers, x: Tensor) -> Any:
    with half(torch.float16):
        y = m.first(x)
        with half(enabled=False):
            z = m.second(y.float())
        return y, z, z @ z.t()


def branches(m: Layers, x: Tensor) -> Any:
    def inside(x: Tensor) -> Tensor:
        with half():
            return m.first(x).float()

    return torch.cond(x.sum() > 100, inside, inside, (x,))


def states(m: Layers, x: Tensor) -> Any:
    copy = x.clone()
    with half():
        copy[0] = m.first(x)[1]
        m.total.add_(m.second(copy).sum(0))
    return copy, m.total * 1


def of_another_device(m: Layers, x: Tensor) -> Any:
    with torch.autocast("cuda", dtype=torch.float16):
        return m.first(x)


FUNCTIONS = (one, lists, nested, branches, states, of_another_device)


# Types that a strict export notes are those without casts, which is why ``float()`` of one stops torch there.
@pytest.mark.parametrize(
    ("function", "strict"), [(f, s) for f in FUNCTIONS for s in (False, True) if (f, s) != (nested, True)]
)
@pytest.mark.filterwarnings("ignore:User provided device_type")
def test_regions(function: Callable[..., Any], strict: bool) -> None:
    program = torch.export.export(Layers(function), (X.clone(),), strict=strict)
    with torch.no_grad():
        expected = pytree.tree_leaves(Layers(function)(X.clone()))
    ours = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    stock = etir.compile(program, target="executorch").buffer
    for found in (ours(X.clone()), portable_lib._load_for_executorch_from_buffer(stock).run_method("forward", [X])):
        assert [t.dtype for t in found] == [t.dtype for t in expected]
        # bfloat16 has eight bits; a sum in another order may round to the next one.
        torch.testing.assert_close(list(found), expected, rtol=1.6e-2, atol=1e-2)


def test_casts_are_not_dropped() -> None:
    """In float32 the result would be another one."""
    (found,) = etir.runtime.load(etir.compile(torch.export.export(Layers(one), (X,), strict=True), target="etir"))[
        "forward"
    ](X)
    plain = Layers(one).first(X)
    assert torch.as_tensor(found).dtype == torch.bfloat16
    assert not torch.equal(torch.as_tensor(found).float(), plain)


def test_dynamic_sizes() -> None:
    program = torch.export.export(Layers(one), (X,), dynamic_shapes=(({0: Dim("rows", max=16)},),)[0])
    method = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    for rows in (2, 9):
        given = torch.randn(rows, 8)
        torch.testing.assert_close(torch.as_tensor(method(given)[0]), one(Layers(one), given).detach())


def test_what_torch_does_not_carry_out_is_an_error() -> None:
    program = torch.export.export(Layers(nested), (X,), strict=True)
    with pytest.raises(EtirError, match=r"E0410.*'forward' has a region of torch\.autocast"):
        etir.compile(program, target="etir")


def test_an_export_inside_of_a_region_is_refused() -> None:
    """torch notes the casts in the types of results only; its own program computes without them."""
    with half():
        program = torch.export.export(Layers(lambda m, x: m.second(m.first(x))), (X,))
    with pytest.raises(
        EtirError, match=r"E0410.*exported inside of torch\.autocast.*'aten\.linear\.default' of float32"
    ):
        etir.compile(program, target="etir")
