"""Programs of few operators for a token have the bits of those with all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

import etir.llm.compile
import etir.runtime
from etir.emit.pte.model import KernelCall
from etir.emit.pte.reader import read_pte
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import LanguageModelOptions, compile_language_model
from etir.options import CompileOptions

from etir_testing.models import checkpoints
from etir_testing.models.static_cache import PROMPT

FUSED = ("etir::rms_norm.out", "etir::rotary.out")
JOINED = ("etir::int4_group_dynamic_linear_triple.out", "etir::int4_group_dynamic_linear_gated.out")


def _compiled(folder: Path, recipe: str) -> bytes:
    how = LanguageModelOptions(recipe, context=32, max_prefill=8)
    return bytes(compile_language_model(load_checkpoint(folder), how, target="etir").program.buffer)


def _logits(data: bytes) -> list[np.ndarray]:
    """Of a prompt and of four tokens after it."""
    method = etir.runtime.load(data)["forward"]
    found = [method(torch.tensor([list(PROMPT)]), torch.arange(len(PROMPT)))[0]]
    for i in range(4):
        found.append(method(torch.tensor([[3 + i]]), torch.tensor([len(PROMPT) + i]))[0])
    return [np.asarray(one).copy() for one in found]


def _kernels(data: bytes) -> Counter[str]:
    """Instructions of ``forward`` by kernel."""
    plan = next(plan for plan in read_pte(data).execution_plan if plan.name == "forward")
    calls = [call for chain in plan.chains for call in chain.instructions if isinstance(call, KernelCall)]
    return Counter(plan.operators[call.op_index].full_name for call in calls)


def _as_it_is(module: ModuleOp, options: CompileOptions) -> ModuleOp:
    return module


@pytest.mark.parametrize("recipe", ["fp32", "8da4w"])
def test_fused_programs_have_the_same_bits(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.write_folder(tmp_path, "llama")
    fused = _compiled(tmp_path, recipe)
    monkeypatch.setattr(etir.llm.compile, "_fused", _as_it_is)
    plain = _compiled(tmp_path, recipe)
    few, many = _kernels(fused), _kernels(plain)
    assert all(few[kernel] for kernel in FUSED) and not any(many[kernel] for kernel in FUSED)
    assert all(bool(few[kernel]) == (recipe == "8da4w") for kernel in JOINED)
    assert not few["aten::rsqrt.out"] and many["aten::rsqrt.out"]
    assert sum(few.values()) < 0.6 * sum(many.values())
    for found, wanted in zip(_logits(fused), _logits(plain), strict=True):
        np.testing.assert_array_equal(found, wanted)
