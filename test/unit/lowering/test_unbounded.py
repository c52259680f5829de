"""Tensors without an upper bound: allocated at run time on target `etir`, refused elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.utils import _pytree as pytree

import etir
import etir.runtime
from etir.diagnostics import EtirError
from etir.interpret import run_module


class Nonzero(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.nonzero(x)
        return places, x[x > 0] * 2


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bincount(x) + 1


class Turned(nn.Module):
    """A copy that lies as its operand does; in which order that is, depends on a number that is given."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        n: Any = count.item()
        torch._check(n >= 1)
        torch._check(n <= 9)
        return x.narrow(1, 0, n).transpose(1, 2).clone().relu()


class Rows(nn.Module):
    """Views, a product and a join of an input of any length."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(x @ w)
        return torch.cat([y, x @ w], 0).view(-1, 2), y.sum(0), y.reshape(-1)


class Absurd(nn.Module):
    """Every dim has a bound, and their product has none that a memory holds."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x[:, None, None] * y[None, :, None] * x[None, None, :]).sum()


def _compiled(model: nn.Module, inputs: tuple[torch.Tensor, ...], shapes: object = None) -> etir.Program:
    return etir.compile(export(model, inputs, dynamic_shapes=shapes), target="etir", unbounded="allocate")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_sizes_from_data(seed: int) -> None:
    torch.manual_seed(seed)
    inputs = (torch.randn(5, 7).round(),)
    program = _compiled(Nonzero(), inputs, {"x": {0: Dim("rows")}})
    runtime = etir.runtime.load(program)
    for x in (inputs[0], torch.zeros(5, 7), torch.ones(3, 7), torch.randn(1000, 7)):
        expected = Nonzero()(x)
        for got in (runtime.forward(x), run_module(program.module, (x,))):
            assert all(torch.equal(torch.as_tensor(a), b) for a, b in zip(got, expected, strict=True))


def test_counts() -> None:
    program = _compiled(Counts(), (torch.tensor([1, 4, 2]),))
    runtime = etir.runtime.load(program)
    for x in (torch.tensor([1, 4, 2]), torch.tensor([0, 0, 0]), torch.tensor([1000, 4, 99_999])):
        assert torch.equal(runtime.forward(x)[0], torch.bincount(x) + 1)


def test_inputs_of_any_length() -> None:
    rows = Dim("rows", min=2)
    program = _compiled(Rows(), (torch.randn(3, 4), torch.randn(4, 2)), {"x": {0: rows}, "w": {}})
    runtime = etir.runtime.load(program)
    for count in (2, 5000, 3, 70_000):
        inputs = (torch.randn(count, 4), torch.randn(4, 2))
        for got, expected in zip(runtime.forward(*inputs), Rows()(*inputs), strict=True):
            assert torch.allclose(got, expected, 1e-4, 1e-2)


def test_the_report_says_what_is_planned_and_what_is_not() -> None:
    program = _compiled(Counts(), (torch.tensor([1, 4, 2]),))
    (method,) = program.report().methods
    assert [text.split(", ")[1] for text in method.allocated] == ["i64 of rank 1"] * 2
    assert f"besides {sum(method.pools.values()):,} planned bytes" in str(program.report())
    assert str(program.module).count("et.buffer dynamic unbound") == 2


def test_absurd_bounds_have_the_same_choice() -> None:
    n, m = Dim("n", max=1 << 20), Dim("m", max=1 << 20)
    program = export(Absurd(), (torch.randn(3), torch.randn(4)), dynamic_shapes={"x": {0: n}, "y": {0: m}})
    with pytest.raises(EtirError) as raised:
        etir.compile(program, target="etir")
    assert "E0419" in raised.value.ids
    runtime = etir.runtime.load(etir.compile(program, target="etir", unbounded="allocate"))
    inputs = (torch.randn(9), torch.randn(5))
    assert torch.allclose(runtime.forward(*inputs)[0], Absurd()(*inputs), 1e-4, 1e-4)


def test_other_targets_say_what_to_write_in_the_model() -> None:
    program = export(Counts(), (torch.tensor([1, 4, 2]),))
    with pytest.raises(EtirError) as raised:
        etir.compile(program, unbounded="allocate")
    assert set(raised.value.ids) == {"E0606"}
    with pytest.raises(EtirError) as raised:
        etir.compile(program)
    assert "E0416" in raised.value.ids and "torch._check(size <= " in str(raised.value)


def test_the_tool_has_the_option(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    from pathlib import Path

    from etir.tools.et_compile import main

    folder = Path(str(tmp_path))
    source = folder / "x.mlir"
    source.write_text(
        "sym.dim @n in [0, inf] \n"
        "func.func @forward(%x: tensor<?xf32, #et.layout<dims = [n]>>) -> tensor<?xf32, #et.layout<dims = [n]>> {\n"
        "  %y = edge.aten.relu.default(%x) : (tensor<?xf32, #et.layout<dims = [n]>>) -> "
        "tensor<?xf32, #et.layout<dims = [n]>>\n"
        "  func.return %y : tensor<?xf32, #et.layout<dims = [n]>>\n}\n"
    )
    options = [str(source), "-o", str(folder / "x.pte"), "--target=etir"]
    assert main(options) == 1
    assert main([*options, "--unbounded=allocate", "--report"]) == 0
    assert "allocated at run time" in capsys.readouterr().out
    x = torch.randn(1000)
    assert torch.equal(etir.runtime.load(folder / "x.pte").forward(x)[0], torch.relu(x))


class Chain(nn.Module):
    """Operators on results without a bound, and a choice among them."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        chosen = x[x > 0]
        rows = (chosen.reshape(-1, 1) @ torch.ones(1, 3)).sort(0).values
        joined = torch.cat([rows, rows * 2], 0).view(-1)[::2].cumsum(0)
        far = chosen[chosen > 0.5]
        either = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v.flip(0) + 1, (chosen,))
        return joined, (chosen[:, None] - chosen[None, :]).abs().sum(1), far, torch.nonzero(far > 1), either


class Repeated(nn.Module):
    """A loop that carries what has no bound."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        start = (torch.tensor(0), x[x > 0])
        return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2 + v.sum()), start)[1]


@pytest.mark.parametrize("model", [Chain(), Repeated()])
def test_chains_and_control_flow(model: nn.Module) -> None:
    inputs = (torch.randn(5, 7),)
    exported = export(model, inputs, dynamic_shapes={"x": {0: Dim("rows")}})
    runtime = etir.runtime.load(etir.compile(exported, target="etir", unbounded="allocate"))
    for x in (*inputs, torch.randn(300, 7) + 1, torch.randn(9, 7) - 1, torch.zeros(2, 7), *inputs):
        for got, expected in zip(runtime.forward(x), pytree.tree_leaves(exported.module()(x)), strict=True):
            torch.testing.assert_close(torch.as_tensor(got), expected, rtol=1e-4, atol=1e-3)


def test_memory_is_freed() -> None:
    """A thousand runs take no more memory than the first ones; each allocates 400 kB for its results alone."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    program = _compiled(Rows(), (torch.randn(3, 4), torch.randn(4, 2)), {"x": {0: Dim("rows", min=2)}, "w": {}})
    runtime = etir.runtime.load(program)
    inputs = (torch.randn(10_000, 4), torch.randn(4, 2))
    for _ in range(20):
        runtime.forward(*inputs)
    before = resident()
    for _ in range(1000):
        runtime.forward(*inputs)
    assert resident() - before < 20_000_000


def test_another_size_is_a_bound() -> None:
    class Count(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            count = n.item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[0])
            return x[:count] * 2

    inputs = (torch.randn(5, 2), torch.tensor(3))
    exported = export(Count(), inputs, dynamic_shapes={"x": {0: Dim("rows", max=9)}, "n": None})
    for target in ("etir", "executorch"):
        runtime = etir.runtime.load(etir.compile(exported, target=target))
        assert torch.equal(runtime.forward(*inputs)[0], inputs[0][:3] * 2)


def test_an_order_that_data_decides() -> None:
    """Whether a tensor of four dims lies with its channels last is not asked where only the data says it."""
    x, module = torch.randn(2, 9, 4, 3), Turned()
    loaded = etir.runtime.load(etir.compile(export(module, (x, torch.tensor(5))), target="etir"))
    for count in (1, 5, 9):
        (got,) = loaded.forward(x, torch.tensor(count))
        assert torch.equal(torch.as_tensor(got), module(x, torch.tensor(count)))
