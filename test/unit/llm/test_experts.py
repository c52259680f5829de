"""Mixtures of experts on integers: prompts and tokens after them, bytes of files, and what chooses experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import etir.runtime  # noqa: E402
from etir.emit.pte.reader import read_pte  # noqa: E402
from etir.llm.checkpoint.load import load_checkpoint  # noqa: E402
from etir.llm.compile import LanguageModelOptions, compile_language_model  # noqa: E402

from etir_testing.models import checkpoints  # noqa: E402
from etir_testing.models.rounded_weights import round_weights  # noqa: E402

EIGHT: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 8},
    "qwen3moe": {"num_experts": 8, "moe_intermediate_size": 120},
    "granitemoe": {"num_local_experts": 8},
}
"""More experts, so that what chooses them is no tiny layer; rows of 120 numbers have no blocks of 4 bits."""
TOKENS = [7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77, 84]


@pytest.mark.parametrize(
    ("name", "recipe", "kernels"),
    [
        ("mixtral", "int4", ["int4_group_expert_linear"]),
        ("mixtral", "8da4w", ["int4_group_dynamic_expert_linear"]),
        ("qwen3moe", "8da4w", ["int4_group_dynamic_expert_linear", "int8_group_dynamic_expert_linear"]),
        ("granitemoe", "int8", ["int8_group_expert_linear"]),
    ],
)
def test_prompts_and_tokens(name: str, recipe: str, kernels: list[str], tmp_path: Path) -> None:
    """A prompt in one call, then token by token: the logits of eager on what the integers stand for, threads or not."""
    model = checkpoints.write_folder(tmp_path, name, **EIGHT[name])
    compiled = compile_language_model(load_checkpoint(tmp_path), LanguageModelOptions(recipe, 32, 16), target="etir")
    (plan,) = [plan for plan in read_pte(compiled.program.buffer).execution_plan if plan.name == "forward"]
    found = [op.full_name for op in plan.operators]
    assert sorted(name for name in found if "expert" in name) == [f"etir::{kernel}.out" for kernel in kernels]
    assert compiled.remarks == ()
    experts = sum(p.numel() for n, p in model.named_parameters() if ".experts." in n)
    others = sum(p.numel() for p in model.parameters()) - experts
    bits = 8 if recipe == "int8" or len(kernels) > 1 else 4.5
    assert len(compiled.program.buffer) < experts * bits / 8 * 1.13 + others * 2 + 60_000
    if recipe != "8da4w":
        round_weights(model, 8 if recipe == "int8" else 4)
    with torch.no_grad():
        wanted = model(torch.tensor([TOKENS])).logits[0].numpy()
    programs = [etir.runtime.load(bytes(compiled.program.buffer), threads=threads) for threads in (1, 2)]
    for start, end in ((0, 9), *((i, i + 1) for i in range(9, len(TOKENS)))):
        call = torch.tensor([TOKENS[start:end]]), torch.arange(start, end)
        logits, again = (np.asarray(program["forward"](*call)[0])[0] for program in programs)
        np.testing.assert_array_equal(logits, again)
        if recipe == "8da4w":
            assert np.corrcoef(logits, wanted[end - 1])[0, 1] > 0.8
        else:
            np.testing.assert_allclose(logits, wanted[end - 1], rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def test_hqq_rounds_experts(tmp_path: Path) -> None:
    checkpoints.write_folder(tmp_path, "mixtral")
    how = LanguageModelOptions("int4", 32, 16, round_weights="hqq")
    compiled = compile_language_model(load_checkpoint(tmp_path), how, target="etir")
    rows = [layer for layer in compiled.reports[0].layers if layer.operator == "etir.expert_linear.default"]
    assert [layer.stored for layer in rows] == ["int4 weights"] * 4
    assert all(layer.weight_sqnr is not None and layer.weight_sqnr > 18 for layer in rows)
