"""Outputs over inputs: what text says beside a payload is checked against it, for every kind of delegate."""

from __future__ import annotations

import re
from copy import deepcopy

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, StringAttr, i64

import etir
from etir.backends.native.over import OVER as PAIRS
from etir.backends.native.over import pairs_of
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.workspace import OVER, WORKSPACE, over_of, workspace_of
from etir.dialects.text import parse_module
from etir.passes.infra.manager import run_pipeline


class Steps(nn.Module):
    """Two states: the new contents of ``a`` are made of the old ones, those of ``b`` of ``a``'s new ones."""

    def __init__(self, depth: int = 32) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(depth, depth), nn.Linear(depth, depth)
        self.register_buffer("a", torch.zeros(4, depth))
        self.register_buffer("b", torch.zeros(4, depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.tanh(self.one(x) + self.a)
        b = torch.relu(self.two(a)) + self.b
        self.a.copy_(a)
        self.b.copy_(b)
        return torch.sigmoid(self.one(b))


class Layers(nn.Module):
    """No states, three products."""

    def __init__(self, depth: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(depth, depth), nn.ReLU(), nn.Linear(depth, 2 * depth), nn.ReLU())
        self.last = nn.Linear(2 * depth, depth)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x))


@pytest.fixture(scope="module")
def steps() -> ModuleOp:
    """At the executable level."""
    torch.manual_seed(0)
    exported = torch.export.export(Steps().eval(), (torch.randn(4, 32),))
    return etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"]).module


def refused(module: ModuleOp) -> str:
    """The message of the error of a module, which has a place and a next step."""
    with pytest.raises(EtirError) as found:
        run_pipeline(EtContext(), module, "verify-plan{target=etir}")
    assert set(found.value.ids) == {"E1113"}
    assert "help" in str(found.value)
    return str(found.value)


def parts(module: ModuleOp) -> tuple[DelegateOp, DelegateCallOp]:
    """The only delegate and its call."""
    (delegate,) = (op for op in module.walk() if isinstance(op, DelegateOp))
    (call,) = (op for op in module.walk() if isinstance(op, DelegateCallOp))
    return delegate, call


def edited(delegate: DelegateOp, key: str, text: str | None) -> None:
    """Change a compile spec, or take it out, or put it in."""
    specs = [(k, data) for k, data in delegate.compile_specs if k != key]
    if text is not None:
        specs.append((key, text.encode()))
    rows = [ArrayAttr([StringAttr(k), StringAttr(data.hex())]) for k, data in specs]
    delegate.specs = ArrayAttr(rows) if rows else None


def test_what_is_written_is_accepted(steps: ModuleOp) -> None:
    delegate, call = parts(steps)
    pairs = over_of(delegate.compile_specs)
    workspace = workspace_of(delegate.compile_specs)
    assert len(pairs) == 2 and workspace is not None
    for given, made in pairs:
        assert call.arguments[given] is call.arguments[len(workspace.inputs) + made]
    run_pipeline(EtContext(), steps.clone(), "verify-plan{target=etir}")


@pytest.mark.parametrize("text", [None, "0:0", "0:0,1:1,2:2", "1:0,0:1,2:2", "99:7", "nothing"])
def test_pairs_written_by_hand(steps: ModuleOp, text: str | None) -> None:
    """Others than the payload was made for, or none for calls that have some."""
    module = steps.clone()
    edited(parts(module)[0], OVER, text)
    refused(module)


@pytest.mark.parametrize("what", ["input", "output", "kept", "smaller", "away"])
def test_places_written_by_hand(steps: ModuleOp, what: str) -> None:
    """Places in the workspace at which the payload did not plan its arguments."""
    module = steps.clone()
    delegate, _ = parts(module)
    workspace = workspace_of(delegate.compile_specs)
    assert workspace is not None
    said = dict(delegate.compile_specs)[WORKSPACE].decode()
    edits = {
        "input": re.sub("inputs=(-,)?", lambda m: "inputs=64," if m[1] else "inputs=-,", said),
        "output": said.replace("outputs=", "outputs=16,"),
        "kept": said + " kept=0+512",
        "smaller": said.replace(f"bytes={workspace.size}", f"bytes={workspace.size - 16}"),
        "away": None,
    }
    edited(delegate, WORKSPACE, edits[what])
    refused(module)


def test_calls_written_by_hand(steps: ModuleOp) -> None:
    """Outputs over other inputs, over one another, over parts, and the workspace as an argument."""
    delegate, call = parts(steps)
    workspace = workspace_of(delegate.compile_specs)
    assert workspace is not None
    inputs, outputs = len(workspace.inputs), len(workspace.outputs)
    pairs = over_of(delegate.compile_specs)
    apart = [(i, o) for i in range(inputs) for o in range(outputs) if (i, o) not in pairs]
    tried = 0
    for one, other in [*((i, inputs + o) for i, o in apart), *((inputs, inputs + o) for o in range(1, outputs))]:
        module = steps.clone()
        changed = parts(module)[1]
        changed.operands[other] = changed.arguments[one]
        assert "in common" in refused(module)
        tried += 1
    assert tried >= 6
    module = steps.clone()
    changed = parts(module)[1]
    changed.operands[0] = changed.arguments[-1]
    assert "the workspace" in refused(module)


@pytest.mark.parametrize("delegate", ["native{cpus=x86-64}", "reference", "xnnpack"])
def test_delegates_of_every_kind(delegate: str) -> None:
    """A result where an operand is: the layer after it, or the delegate itself, would read what has been overwritten.
    The compile specs of native's own do not help others.
    """
    torch.manual_seed(0)
    exported = torch.export.export(Layers().eval(), (torch.randn(4, 32),))
    target = "executorch" if delegate == "xnnpack" else "etir"
    made = etir.compile(exported, target=target, delegates=[delegate]).module
    for pair in (False, True):
        module = made.clone()
        op, call = parts(module)
        given = call.arguments[0]
        assert isinstance(given.owner, BufferOp)
        call.operands[1] = given
        if pair:
            edited(op, OVER, "0:0")
        with pytest.raises(EtirError) as found:
            run_pipeline(EtContext(), module, f"verify-plan{{target={target}}}")
        assert set(found.value.ids) == {"E1113"}
    module = made.clone()
    edited(parts(module)[0], OVER, "0:0")
    with pytest.raises(EtirError, match="E1113"):
        run_pipeline(EtContext(), module, f"verify-plan{{target={target}}}")


def test_pairs_of_an_outlined_function() -> None:
    """What is no input and output of one type is an error of its own."""
    (func,) = parse_module(
        "func.func private @f(%x: tensor<4xf32>, %z: tensor<5xf32>) -> tensor<4xf32> "
        "attributes {native.over = [array<i64: PAIR>]} { func.return %x : tensor<4xf32> }".replace("PAIR", "0, 0")
    ).body.block.ops
    assert pairs_of(func) == [(0, 0)]
    for pair in ((1, 0), (2, 0), (0, 1), (-1, 0)):
        other = deepcopy(func)
        other.attributes[PAIRS] = ArrayAttr([DenseArrayBase.from_list(i64, pair)])
        with pytest.raises(EtirError, match="E1165"):
            pairs_of(other)
