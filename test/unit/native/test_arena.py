"""Memory of native code: what it saves, and that a program needs no more than without it, unless ``arena=free``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, StringAttr

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import compile, savings
from etir.backends.native.blob import read_blob
from etir.backends.native.errors import E1162
from etir.backends.native.functions import SAVES
from etir.backends.native.kernels.brgemm import Brgemm
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of

BOUNDED = ["native{cpus=x86-64 arena=kernels}"]
FREE = ["native{cpus=x86-64 arena=free}"]


class Waits(nn.Module):
    """What the first product makes is needed again after the second one, in a delegate of its own: code keeps it while
    the operators between them run on the kernels, which would make it last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 32), nn.Linear(64, 160), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.tanh(self.first(x))
        wide = torch.logcumsumexp(torch.relu(self.second(x)), 0)
        return self.last(start * torch.logcumsumexp(torch.tanh(wide), 0)[:, :32])


def program(**options: Any) -> tuple[etir.Program, nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, x = Waits().eval(), torch.randn(16, 64)
    return etir.compile(torch.export.export(model, (x,)), target="etir", **options), model, x


def partitions(made: etir.Program) -> list[str]:
    return [p.name for p in made.delegation.backends[0].partitions] if made.delegation is not None else []


def test_a_program_within_the_bound() -> None:
    """With ``arena=free`` it takes more; with ``arena=kernels`` what does not fit is on the kernels, the report says
    which operators and why, others stay code, and results are eager's.
    """
    plain, model, x = program()
    free, *_ = program(delegates=FREE)
    bounded, *_ = program(delegates=BOUNDED)
    assert bytes_of(bounded) <= bytes_of(plain) < bytes_of(free)
    assert free.delegation is not None and bounded.delegation is not None
    assert 0 < bounded.delegation.delegated < free.delegation.delegated
    assert "more memory than without the delegate; native{arena=free} has it" in str(bounded.delegation)
    assert "native{arena=free}" not in str(free.delegation.backends[0].rejected)
    (got,) = etir.runtime.load(bounded).forward(x)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=1e-5, atol=1e-5)


def test_most_of_the_work_stays_code() -> None:
    """By default a program of which much would be left is as with ``arena=free``; the report says how much more it
    needs and how to need no more.
    """
    above, *_ = program(delegates=["native{cpus=x86-64}"])
    assert above.buffer == program(delegates=FREE)[0].buffer
    assert above.delegation is not None
    more = bytes_of(above) - bytes_of(program()[0])
    assert f"{more:,} more than without: native{{arena=kernels}} needs no more" in str(above.delegation)


def test_a_partition_that_is_left() -> None:
    """Partitions keep the names of the report without it, and the reason is in the report."""
    free, *_ = program(delegates=FREE)
    first, *others = partitions(free)
    left, *_ = program(delegates=FREE, partition={"leave": first})
    assert partitions(left) == others
    assert left.delegation is not None
    assert "to be left to others" in str(left.delegation)


def test_code_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was planned with code and then has none takes no more either where that is asked for."""

    def fails(*_: object) -> None:
        raise E1162.error("the compiler fails")

    monkeypatch.setattr(compile, "shared_objects", fails)
    plain, *_ = program()
    bounded, *_ = program(delegates=BOUNDED)
    assert bytes_of(bounded) <= bytes_of(plain)


class Recurrent(nn.Module):
    """States that are read by the next step and joined to one another at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.step = nn.Linear(64, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, states = torch.tanh(self.start(x)), []
        for _ in range(6):
            state = torch.tanh(self.step(state) + 0.5)
            states.append(state)
        return torch.stack(states)


class Transposed(nn.Module):
    """Products with one operand, of more columns than a panel has."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        keys = self.key(y)
        return torch.sigmoid(self.query(x) @ keys.transpose(1, 2)) + x @ keys.transpose(1, 2)


class Both(nn.Module):
    """States of two directions, joined step by step and then to one another, beside wide gates."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead, self.back = nn.Linear(12, 96), nn.Linear(12, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for layer, order in ((self.ahead, range(7)), (self.back, range(6, -1, -1))):
            gates = layer(x)
            found.append(torch.stack([torch.tanh(gates[step, :, :16]) * gates[step, :, 80:] for step in order]))
        return torch.relu(torch.cat(found, -1)) + 1.0


class Gated(nn.Module):
    """One product makes what is read at once and, where that has become wide, its gate."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.wide, self.wider = nn.Linear(16, 64), nn.Linear(32, 96), nn.Linear(96, 128)
        self.narrow = nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.both(x).chunk(2, -1)
        return self.narrow(self.wider(self.wide(left))) * torch.sigmoid(right)


class Cell(nn.Module):
    """A step of a GRU: what is made of two of three gates could be where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(40, 96), nn.Linear(32, 96)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        a, b = self.of_input(x), self.of_state(h)
        reset, update = torch.sigmoid(a[:, :64] + b[:, :64]).chunk(2, -1)
        new = torch.tanh(a[:, 64:] + reset * b[:, 64:])
        return (1 - update) * new + update * h


class Global(nn.Module):
    """Points beside what all of them have in common, joined for a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Conv1d(48, 8, 1)

    def forward(self, x: torch.Tensor, common: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cat([x, common.expand(-1, -1, x.shape[-1])], 1))


class Branches(nn.Module):
    """An image that two maps read: what the last of them makes for its convolution may be where the image is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.narrow, self.wide = nn.Conv2d(3, 64, 1), nn.Conv2d(64, 4, 1), nn.Conv2d(64, 96, 1)
        self.last = nn.Conv2d(96, 4, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.first(x)
        narrow = self.narrow(torch.sigmoid(image)).sum(1, keepdim=True)
        return self.last(self.wide(torch.tanh(image)) + narrow)


class Scales(nn.Module):
    """The head of SegFormer: rows for pixels are images of two scales, the larger of which stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.high, self.low, self.last = nn.Linear(16, 32), nn.Linear(16, 32), nn.Conv2d(64, 8, 1)

    def forward(self, high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        images = [
            rows.permute(0, 2, 1).reshape(1, 32, *shape)
            for rows, shape in ((self.high(high), (6, 8)), (self.low(low), (3, 4)))
        ]
        images = [nn.functional.interpolate(image, size=(6, 8), mode="bilinear") for image in images]
        return self.last(torch.cat(images, 1))


class Weighted(nn.Module):
    """Few values for each key: a panel of them would be mostly empty."""

    def forward(self, p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.softmax(p, -1) @ v)


def saving() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Programs whose code saves memory in one way, by the way; a second word where two of them save in the same way."""
    torch.manual_seed(0)
    images = [
        nn.Conv2d(3, 24, 1),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1, groups=24),
        nn.ReLU(),
        nn.Conv2d(24, 4, 1),
    ]
    normed = [nn.Conv2d(1, 64, 1), nn.BatchNorm2d(64, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2)]
    return {
        "over": (nn.Sequential(*normed), (torch.randn(5, 1, 28, 28),)),
        "over branches": (Branches(), (torch.randn(5, 3, 28, 28),)),
        "rows": (nn.Sequential(*images), (torch.randn(1, 3, 20, 20),)),
        "straight": (Global(), (torch.randn(1, 24, 50), torch.randn(1, 24, 1))),
        "straight pixels": (Scales(), (torch.randn(1, 48, 16), torch.randn(1, 12, 16))),
        "parts": (Recurrent(), (torch.randn(8, 64),)),
        "joins": (Both(), (torch.randn(7, 3, 12),)),
        "inside": (Cell(), (torch.randn(3, 40), torch.randn(3, 32))),
        "pieces": (Gated(), (torch.randn(8, 16),)),
        "dense": (nn.Sequential(nn.Linear(33, 65), nn.Linear(65, 71), nn.Linear(71, 33)), (torch.randn(5, 33),)),
        "panels narrow": (Weighted(), (torch.randn(4, 10, 17), torch.randn(4, 17, 6))),
        "panels": (Transposed(), (torch.randn(4, 10, 16), torch.randn(4, 17, 16))),
    }


@pytest.mark.parametrize("name", list(saving()))
def test_each_saving(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code needs less with it, and computes what eager does; two threads give the same bits as one."""
    module, given = saving()[name]
    exported = torch.export.export(module.eval(), given)
    arenas: list[int] = []
    for names in ((), (name.split()[0],)):

        def choose(outlined: Outlined, _: object, names: tuple[str, ...] = names) -> None:
            outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])

        monkeypatch.setattr(savings, "choose_savings", choose)
        program = etir.compile(exported, target="etir", delegates=FREE)
        assert program.warnings == ()
        arenas += [read_blob(data).arena_bytes for data in blobs_of(program.buffer)]
    assert arenas[1] < arenas[0]
    (got,) = etir.runtime.load(program).forward(*given)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), module(*given), rtol=1e-5, atol=1e-5)
    (two,) = etir.runtime.load(program, threads=2).forward(*given)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(two))


class Residual(nn.Module):
    """Products that are added to what nobody reads afterwards, or gate it."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(24, depth), nn.Linear(depth, depth)
        self.gate = nn.Linear(depth, depth)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = self.first(x)
        start = start + self.second(torch.relu(start))
        return (start + self.gate(torch.abs(start)) * 0.5).view(-1, 2)


@pytest.mark.parametrize(("depth", "is_over"), [(96, True), (256, True), (260, True), (1032, False)])
def test_a_product_over_its_residual(depth: int, is_over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product whose depth no schedule cuts, or need not cut, is written over what is added to it: less memory,
    eager's numbers, the same bits on two threads. A longer one is not, since its sums may rest in the result.
    """
    torch.manual_seed(0)
    module, x = Residual(depth).eval(), torch.randn(70, 24)
    exported = torch.export.export(module, (x,))
    planned: list[str] = []
    real = compile.plan_both
    monkeypatch.setattr(compile, "plan_both", lambda func, *given: (real(func, *given), planned.append(str(func)))[0])
    program = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    assert program.warnings == ()
    assert sum(text.count(") over :") for text in planned) == (2 if is_over else 0)
    (got,) = etir.runtime.load(program).forward(x)
    (two,) = etir.runtime.load(program, threads=2).forward(x)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(two))
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), module(x), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(Brgemm, "in_place_always", lambda *_: ())
    apart = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    arenas = [read_blob(blob).arena_bytes for made in (program, apart) for blob in blobs_of(made.buffer)]
    assert arenas[0] < arenas[1] if is_over else arenas[0] == arenas[1]
