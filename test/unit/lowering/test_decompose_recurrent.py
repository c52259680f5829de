"""Recurrent layers against torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.rewriter import Rewriter

from etir.diagnostics import EtirError
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.sym.expr import symbol
from etir.dialects.sym.ops import DimOp
from etir.passes.infra.base import methods

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import call, check, compare, decompose, one_op_module

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN, "rnn_relu": nn.RNN}


BATCH, STEPS = 3, 7


def arguments(
    kind: str,
    layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
    bias: bool = True,
    projection: int = 0,
) -> list[Any]:
    torch.manual_seed(0)
    extra = {"proj_size": projection} if kind == "lstm" else {}
    module = KINDS[kind](5, 6, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional, **extra)
    x = torch.randn(BATCH, STEPS, 5) if batch_first else torch.randn(STEPS, BATCH, 5)
    states = layers * (1 + bidirectional)
    hidden = torch.randn(states, BATCH, projection or 6)
    initial = [hidden, torch.randn(states, BATCH, 6)] if kind == "lstm" else hidden
    weights = [w.detach() for w in module._flat_weights]
    return [x, initial, weights, bias, layers, 0.0, False, bidirectional, batch_first]


def with_symbol(module: ModuleOp, size: int) -> None:
    """Make every dim of ``size`` symbolic: torch itself cannot run these operators on symbolic sizes."""
    (method,) = methods(module)
    block = method.body.block
    for value in [*block.args, *block.first_op.results]:  # type: ignore[union-attr]
        sizes = [symbol("s0") if d == size else d for d in dims_of(value.type)]  # type: ignore[arg-type]
        Rewriter.replace_value_with_new_type(value, tensor_type(value.type.element_type, sizes))  # type: ignore[union-attr]
    inputs, outputs = [a.type for a in block.args], [v.type for v in block.last_op.operands]  # type: ignore[union-attr]
    method.function_type = FunctionType.from_lists(inputs, outputs)
    module.body.block.insert_op_before(DimOp("s0", 1, 64), method)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"layers": 2, "bidirectional": True},
    {"batch_first": True},
    {"bias": False},
    {"bidirectional": True, "batch_first": True},
]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_sequences(kind: str, settings: dict[str, Any]) -> None:
    check(f"aten.{kind}.input", *arguments(kind, **settings))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("batch_first", [False, True])
def test_dynamic_batch(kind: str, batch_first: bool) -> None:
    args = arguments(kind, batch_first=batch_first, layers=2)
    module, tensors = one_op_module(f"aten.{kind}.input", args, {})
    with_symbol(module, BATCH)
    decompose(module)
    for got, wanted in zip(evaluate(module, tensors), call(f"aten.{kind}.input", args, {}), strict=True):
        compare(got, wanted, 1e-5)


def test_projection() -> None:
    check("aten.lstm.input", *arguments("lstm", layers=2, projection=3))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind: str, bias: bool) -> None:
    gates = {"lstm": 4, "gru": 3}.get(kind, 1) * 6
    state = torch.randn(2, 6)
    biases = [torch.randn(gates), torch.randn(gates)] if bias else [None, None]
    weights = [torch.randn(gates, 5), torch.randn(gates, 6)]
    check(
        f"aten.{kind}_cell.default",
        torch.randn(2, 5),
        [state, torch.randn(2, 6)] if kind == "lstm" else state,
        *weights,
        *biases,
        tolerance=1e-5,
    )


def test_a_step_is_small() -> None:
    module, _ = one_op_module("aten.lstm.input", arguments("lstm"), {})
    names = Counter(decompose(module, keep=("aten.linear.default",)))
    assert names["aten.linear.default"] == STEPS + 1
    assert names["aten.split_with_sizes.default"] == STEPS
    counted = {n: c for n, c in names.items() if n not in ("aten.unsqueeze.default", "aten.select.int")}
    assert sum(counted.values()) <= 11 * STEPS + 8


def test_unknown_length_is_an_error() -> None:
    module, _ = one_op_module("aten.gru.input", arguments("gru"), {})
    with_symbol(module, STEPS)
    with pytest.raises(EtirError) as caught:
        decompose(module)
    assert caught.value.ids == ("E0422",)
