"""What the search for savings leaves for whoever makes code, and when that is taken; how long it searches."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from xdsl.dialects.builtin import StringAttr

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import compile, savings
from etir.backends.native.blob import read_blob
from etir.backends.native.cpu import Cpu
from etir.backends.native.made import Made, take_made

from etir_testing.native.blobs import blobs_of


class Branches(nn.Module):
    """Convolutions with borders and what is joined, which needs more than the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Conv2d(32, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.one(x))
        y = functional.max_pool2d(torch.relu(self.two(x)), 3, 1, 1)
        return self.last(torch.cat([x, y], 1))


@pytest.fixture(scope="module")
def exported() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(Branches().eval(), (torch.randn(1, 3, 24, 24),))


def compiled(exported: torch.export.ExportedProgram) -> bytes:
    return bytes(etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 arena=free}"]).buffer)


def test_the_file_is_the_same(exported: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Made | None] = []

    def take(outlined: Outlined, target: Cpu) -> Made | None:
        taken.append(take_made(outlined, target))
        return taken[-1]

    monkeypatch.setattr(compile, "take_made", take)
    first = compiled(exported)
    assert taken and all(made is not None for made in taken)
    monkeypatch.setattr(compile, "take_made", lambda *_: None)
    assert compiled(exported) == first


def test_what_was_changed_is_made_anew(exported: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Made | None] = []

    def take(outlined: Outlined, target: Cpu) -> Made | None:
        outlined.func.attributes["native.note"] = StringAttr("edited")
        taken.append(take_made(outlined, target))
        return taken[-1]

    monkeypatch.setattr(compile, "take_made", take)
    assert blobs_of(compiled(exported)) and taken == [None] * len(taken)


def test_a_search_ends(exported: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so much work nothing more is tried: code needs more, and computes the same."""
    (data,) = blobs_of(compiled(exported))
    monkeypatch.setattr(savings, "MOST_WORK", 0)
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 arena=free}"])
    (other,) = blobs_of(program.buffer)
    assert read_blob(other).arena_bytes > read_blob(data).arena_bytes
    (x,) = exported.example_inputs[0]
    (got,) = etir.runtime.load(program).forward(x)
    torch.testing.assert_close(torch.as_tensor(got), exported.module()(x), rtol=1e-5, atol=1e-5)


def test_a_function_without_activations_is_planned_anew() -> None:
    """The search has planned its inputs and outputs together; a single layer has them in the caller's memory."""
    layer = torch.export.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    programs = [etir.compile(layer, target="etir", delegates=["native"], fallback=how) for how in ("allow", "refuse")]
    assert not any(program.warnings for program in programs)
    assert all(read_blob(data).variants for program in programs for data in blobs_of(program.buffer))
    assert all(blobs_of(program.buffer) for program in programs)
