"""Branches of conditions and bodies of loops: code for them needs no more memory than the kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import etir
import etir.runtime
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.workspace import workspace_of
from etir.memory_bound import bytes_of

NATIVE = "native{cpus=x86-64-v3}"
Tensors = Sequence[torch.Tensor]


class Program(nn.Module):
    """A function of tensors with three layers of 32 by 64, 64 by 32 and 32 by 32."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.plain = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 32)
        self.body = body

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.body(self, *inputs)


def chosen(m: Program, x: torch.Tensor) -> Any:
    """One result."""
    return torch.cond(x.sum() > 0, lambda x: m.hidden(x), lambda x: torch.tanh(m.plain(x)), (x,))


def over_its_input(m: Program, x: torch.Tensor) -> Any:
    """One branch writes its result over the input, and the other one cannot."""
    return torch.cond(x.sum() > 0, lambda x: x + m.hidden(x), lambda x: x * torch.sigmoid(m.plain(x)), (x,))


def three(m: Program, x: torch.Tensor) -> Any:
    """Three results, each made of the one before."""

    def first(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = m.plain(x)
        g = torch.relu(m.plain(h))
        return h, g, (g * h).softmax(-1)

    def second(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = torch.tanh(m.plain(x))
        return h, m.plain(h), x.exp()

    return torch.cond(x.sum() > 0, first, second, (x,))


def nested(m: Program, x: torch.Tensor) -> Any:
    def inside(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(m.plain(x))
        return m.plain(torch.cond(x.mean() > 0.1, lambda x: torch.relu(m.plain(x)), lambda x: m.hidden(x), (x,)))

    return m.plain(torch.cond(x.sum() > 0, inside, lambda x: m.plain(x), (x,)))


def repeated(m: Program, x: torch.Tensor) -> Any:
    start = torch.tensor(0)
    return while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, h + m.hidden(h)), (start, x))[1]


def of_one_product(m: Program, x: torch.Tensor) -> Any:
    """A body that has nothing but its result."""
    return while_loop(lambda h: h.abs().sum() > 20, lambda h: (m.plain(h) * 0.5,), (x,))[0]


def chosen_again(m: Program, x: torch.Tensor) -> Any:
    """A condition in a loop."""

    def step(i: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, torch.cond(h.sum() > 0, lambda h: torch.relu(m.plain(h)), lambda h: m.plain(h), (h,))

    return while_loop(lambda i, h: i < 3, step, (torch.tensor(0), x))[1]


def scanned(m: Program, x: torch.Tensor) -> Any:
    """The slices of a scan are read once."""

    def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(m.plain(h) + x)
        return h, h.clone()

    return m.plain(scan(step, torch.zeros(32), m.plain(x), dim=0)[1])


PROGRAMS = [chosen, over_its_input, three, nested, repeated, of_one_product, chosen_again, scanned]


def exported(body: Callable[..., Any], *, rows: torch.export.Dim | None = None) -> tuple[Program, Any]:
    model = Program(body).eval()
    shapes = None if rows is None else (({0: rows},),)
    return model, torch.export.export(model, (torch.randn(8, 32),), dynamic_shapes=shapes, strict=False)


def outputs(model: Program, x: torch.Tensor) -> Tensors:
    with torch.no_grad():
        found = model(x)
    return found if isinstance(found, tuple) else (found,)


def check(model: Program, source: Any, sizes: Sequence[int]) -> Any:
    """Compile a program with the delegate; compare its memory with that of the kernels, and its numbers with those of
    eager, whether code is run or not.
    """
    program = etir.compile(source, target="etir", delegates=[NATIVE])
    assert not program.warnings
    assert any(isinstance(op, DelegateOp) for op in program.module.walk())
    assert bytes_of(program) <= bytes_of(etir.compile(source, target="etir"))
    for native in ("trusted", "refuse"):
        loaded = etir.runtime.load(program, native=native)
        for number, rows in enumerate((*sizes, *sizes)):
            x = torch.randn(rows, 32) + (1 if number % 2 else -1)
            for got, want in zip(loaded.forward(x), outputs(model, x), strict=True):
                assert (torch.as_tensor(got) - want).abs().max() <= 1e-5 * want.abs().max()
    return program


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", PROGRAMS)
def test_memory_is_at_most_that_of_the_kernels(body: Callable[..., Any]) -> None:
    check(*exported(body), [8])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", [chosen, repeated])
def test_any_number_of_rows(body: Callable[..., Any]) -> None:
    """What a loop carries is written as a whole by the kernel that copies such sizes, and lies in the workspace."""
    check(*exported(body, rows=torch.export.Dim("rows", min=2, max=8)), [8, 3])


@pytest.mark.filterwarnings("ignore")
def test_branches_have_results_at_one_place() -> None:
    """So nothing is copied to the results of the condition."""
    program = check(*exported(three), [8])
    found = [workspace_of(op.compile_specs) for op in program.module.walk() if isinstance(op, DelegateOp)]
    assert len(found) == 2 and found[0] is not None and found[1] is not None
    assert None not in found[0].outputs and found[0].outputs == found[1].outputs
    assert found[0].inputs == found[1].inputs
    assert not [op for op in program.module.walk() if isinstance(op, CallOp) and op.kernel.data == "aten::copy_"]
