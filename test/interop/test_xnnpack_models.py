"""Whole models through ``delegates=["xnnpack"]`` on the stock runtime, against eager."""

from __future__ import annotations

import pytest

import etir

from etir_testing.exports import exported
from etir_testing.interop.xnnpack_runs import facts_of
from etir_testing.models.registry import MODELS
from stock import run_stock_runtime

MOST: dict[str, tuple[int, int, int]] = {
    "mobilenet_v2": (1, 1, 0),
    "resnet18": (1, 1, 0),
    "gpt_block": (2, 4, 2),
    "llama_block": (3, 5, 15),
    "minilm": (29, 24, 44),
}
"""Delegates, transposes and instructions outside of delegates that a model may have. The stock pipeline's figures for
them are (1, 2, 0) for MobileNetV2, (5, 7, 26) for the GPT block, (7, 7, 43) for the Llama block and (53, 42, 180) for
MiniLM."""


@pytest.mark.parametrize("name", MOST)
def test_model(name: str) -> None:
    """Within the case's tolerance of eager, in no more pieces than expected; the same bytes the second time."""
    case = MODELS[name]
    if case.missing():
        pytest.skip(f"{name} needs {', '.join(case.missing())}")
    data = etir.compile(exported(case), delegates=["xnnpack"]).buffer
    outputs = run_stock_runtime(data, [case.inputs(step) for step in range(case.steps)])
    assert case.check(outputs) <= case.tolerance
    facts = facts_of(data)
    delegates, transposes, kernels = MOST[name]
    assert facts.delegate_calls <= delegates
    assert facts.nodes["static_transpose"] <= transposes
    assert facts.kernels.total() <= kernels


def test_same_bytes() -> None:
    """Compiling twice gives the same file."""
    first, second = (etir.compile(exported(MODELS["gpt_block"]), delegates=["xnnpack"]).buffer for _ in range(2))
    assert first == second
