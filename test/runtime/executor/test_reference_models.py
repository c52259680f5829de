"""Whole models through the reference delegate: the same bits as without it, with one delegate and with several."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import etir

from etir_testing.exports import exported
from etir_testing.models.registry import MODELS
from etir_testing.runtime.executor import Memory, Method, Program, build_executor

SPLIT = {
    "minilm": "aten.native_layer_norm.default",
    "mobilenet_v2": "aten.add.Tensor",
    "resnet18": "aten.max_pool2d_with_indices.default",
    "gpt_block": "aten._softmax.default",
    "llama_block": "aten.silu.default",
    "two_conds": "aten.mul.Tensor",
    "dynamic_encoder": "aten.native_layer_norm.default",
}
"""An operator that splits each model into several delegates when it is left to the method's own kernels."""


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor()


def outputs(library: Any, name: str, delegates: list[str], **options: Any) -> list[list[torch.Tensor]]:
    case = MODELS[name]
    program = etir.compile(exported(case), target="etir", delegates=delegates, **options)
    memory = program.runtime_memory()["forward"]
    method = Method(Program(library, program.buffer), memory=Memory(memory.method), temp=memory.temp)
    return [method(*case.inputs(step)) for step in range(min(case.steps, 3))]


@pytest.mark.parametrize("name", list(SPLIT))
def test_same_bits(library: Any, name: str) -> None:
    if missing := MODELS[name].missing():
        pytest.skip(f"{', '.join(missing)} is not installed")
    expected = outputs(library, name, [])
    for delegate in ("reference", f"reference{{leave={SPLIT[name]}}}"):
        got = outputs(library, name, [delegate], partition={"own_state": True})
        for ours, theirs in zip(got, expected, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert torch.equal(a, b), delegate
