"""Weights of the reference delegate in files beside the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.dialects.text import parse_module
from etir.emit.ptd.reader import read_ptd
from etir.runtime import RuntimeFailure


class _Net(nn.Module):
    """Two layers, of which the tests leave the function between to the method, and a buffer."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.register_buffer("seen", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += self.second(torch.tanh(self.first(x))).sum(0)
        return self.seen * 2


X = torch.linspace(-1, 1, 16).reshape(2, 8)
FLOATS = 4 * (8 * 16 + 16 + 16 * 8 + 8)
NAMES = 64
"""Bytes that the names of four weights may take in the file."""


def compiled(delegate: str, **options: Any) -> etir.Program:
    exported = torch.export.export(_Net().eval(), (X,))
    return etir.compile(exported, target="etir", delegates=[delegate], **options)


def sizes(program: etir.Program) -> dict[str, dict[str, int]]:
    """The bytes of everything outside, by file and by name."""
    files = {tag: read_ptd(data).named_data for tag, data in program.external.items()}
    return {tag: {name: len(item.data) for name, item in file.items()} for tag, file in files.items()}


@pytest.mark.parametrize("delegate", ["reference", "reference{leave=aten.tanh.default}"])
def test_runs_with_its_weights(delegate: str) -> None:
    inside, program = compiled(delegate), compiled(delegate, external_weights="weights")
    assert sum(sizes(program)["weights"].values()) == FLOATS
    assert len(program.buffer) < len(inside.buffer) - FLOATS + NAMES
    with_data = etir.runtime.load(program.buffer, data=list(program.external.values()))
    expected = etir.runtime.load(inside.buffer)
    for _ in range(2):
        assert torch.equal(with_data.forward(X)[0], expected.forward(X)[0])


def test_by_patterns_and_with_state() -> None:
    """Files by names, and the initial bytes of a buffer that the delegate owns."""
    program = compiled(
        "reference",
        external_weights={"head": "second.*", "rest": "*"},
        external_state="state",
        partition={"own_state": True},
    )
    assert sizes(program) == {
        "head": {"second.weight": 512, "second.bias": 32},
        "rest": {"first.weight": 512, "first.bias": 64},
        "state": {"seen": 32},
    }
    loaded = etir.runtime.load(program.buffer, data=list(program.external.values()))
    model = _Net()
    for _ in range(2):
        torch.testing.assert_close(loaded.forward(X)[0], model(X))


def test_weights_of_one_name() -> None:
    """Two tensors may have one qualified name, as a tool that makes modules may name them: each is found."""
    module = parse_module("""
        et.weight @a : tensor<4xf32> = #et.synthetic<seed = 1> {fqn = "w"}
        et.weight @b : tensor<4xf32> = #et.synthetic<seed = 2> {fqn = "w"}
        func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = et.get_weight @a : tensor<4xf32>
          %b = et.get_weight @b : tensor<4xf32>
          %0 = edge.aten.mul.Tensor(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          %1 = edge.aten.tanh.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
          %2 = edge.aten.sub.Tensor(%1, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          func.return %2 : tensor<4xf32>
        }""")
    delegate = "reference{leave=aten.tanh.default}"
    program = etir.compile(module, target="etir", delegates=[delegate], external_weights="all")
    inside = etir.compile(module, target="etir", delegates=[delegate])
    x = torch.ones(4)
    loaded = etir.runtime.load(program.buffer, data=list(program.external.values()))
    assert torch.equal(loaded.forward(x)[0], etir.runtime.load(inside.buffer).forward(x)[0])


def test_missing_and_other_weights() -> None:
    program = compiled("reference", external_weights="weights")
    with pytest.raises(RuntimeFailure, match=r"E1206\].*delegate 0 has weights outside") as caught:
        etir.runtime.load(program.buffer)["forward"]
    assert caught.value.check == "ExternalDelegate"
    other = etir.compile(
        torch.export.export(nn.ModuleDict({"first": nn.Linear(3, 3)})["first"], (torch.ones(1, 3),)),
        target="etir",
        external_weights="weights",
    )
    with pytest.raises(RuntimeFailure, match="E1206"):
        etir.runtime.load(program.buffer, data=list(other.external.values()))["forward"]
