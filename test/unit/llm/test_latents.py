"""Attention over latents (DeepSeek's and its kin): one cache for keys and values, whose weights are integers, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

import etir.runtime
from etir.dialects.context import EtContext
from etir.llm import LanguageModel
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import CompiledLanguageModel, LanguageModelOptions, compile_language_model
from etir.llm.export import export_decoder
from etir.llm.passes.pipeline import language_model_passes
from etir.lowering.import_fx import import_program
from etir.passes.infra.manager import run_pipeline

from etir_testing.models import checkpoints
from etir_testing.models.static_cache import LAYERS, VOCABULARY, import_transformers, seed

PROMPT = (3, 17, 40, 9, 22)
HEADS, PLAIN, TURNED, WIDTH, RANK = 4, 32, 16, 48, 64
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "max_position_embeddings": 64,
    "qk_nope_head_dim": PLAIN,
    "qk_rope_head_dim": TURNED,
    "v_head_dim": WIDTH,
    "kv_lora_rank": RANK,
    "q_lora_rank": 32,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def _model() -> Any:
    transformers = import_transformers()
    model = transformers.MiniCPM3ForCausalLM(transformers.MiniCPM3Config(**_SIZES)).eval()
    seed(model, 3)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("latents")
    _model().save_pretrained(folder)
    (folder / "tokenizer.json").write_text(checkpoints.tokenizer_json())
    settings = {"eos_token": checkpoints.END, "chat_template": checkpoints.TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = _model()(torch.tensor([PROMPT])).logits[0, -1].numpy()
    return found


def _compiled(folder: Path, recipe: str, target: str = "etir", cache: Any = "auto") -> CompiledLanguageModel:
    how = LanguageModelOptions(recipe, context=32, max_prefill=8, cache=cache)
    return compile_language_model(load_checkpoint(folder), how, target=target)


def _error(compiled: CompiledLanguageModel, expected: np.ndarray) -> float:
    """Of the logits of a prompt in two calls and a token, as a part of the largest magnitude."""
    method = etir.runtime.load(bytes(compiled.program.buffer))["forward"]
    for first, last in ((0, 2), (2, 4), (4, 5)):
        found = method(torch.tensor([PROMPT[first:last]]), torch.arange(first, last))[0]
    return float(np.abs(np.asarray(found)[0] - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(("recipe", "most"), [("int8", 0.02), ("int4", 0.1), ("8da4w", 0.1)])
def test_weights_of_heads_are_integers(folder: Path, expected: np.ndarray, recipe: str, most: float) -> None:
    compiled = _compiled(folder, recipe, cache="int8" if recipe == "int4" else "auto")
    assert not compiled.remarks
    assert _error(compiled, expected) < most
    operators = compiled.program.report().methods[0].operators
    assert sum(count for name, count in operators.items() if "sdpa" in name) == LAYERS
    assert "aten::bmm.out" not in operators
    experts = sum(count for name, count in operators.items() if "expert_linear" in name)
    assert experts == 2 * LAYERS


def test_a_target_without_such_kernels_keeps_them(folder: Path, expected: np.ndarray) -> None:
    compiled = _compiled(folder, "int8", "executorch")
    assert len(compiled.remarks) == 1 and "kv_b_proj" in compiled.remarks[0]
    operators = compiled.program.report().methods[0].operators
    assert operators["llama::custom_sdpa.out"] == LAYERS and operators["aten::bmm.out"] == 2 * LAYERS


def test_one_state_holds_what_keys_and_values_are_made_of() -> None:
    """Numbers for a position: those of the latent and of what is turned, whatever the heads are."""
    module = import_program(export_decoder(_model(), 32, 8))
    run_pipeline(EtContext(), module, language_model_passes("etir"))
    text = str(module).splitlines()
    caches = [line for line in text if "et.state" in line and f"tensor<1x32x1x{RANK + TURNED}xf32>" in line]
    assert len(caches) == LAYERS == sum("aten.index_copy.default" in line for line in text)


def test_what_a_session_takes_back_and_saves(folder: Path, tmp_path: Path) -> None:
    """A text in pieces, with some of it taken back, and in another session: the logits of the text at once."""
    how = LanguageModelOptions("fp32", context=32, max_prefill=8, all_logits=True)
    compile_language_model(load_checkpoint(folder), how, target="etir").save(tmp_path / "m.pte")
    model = LanguageModel.load(tmp_path / "m.pte", threads=1)
    ids = [*PROMPT, 8, 61, 30, 4]
    wanted = model.session().logits(ids)
    session = model.session()
    found = [session.logits(ids[:1]), session.logits([*ids[1:5], 60, 2])[:4]]
    session.rewind(2)
    session.save(tmp_path / "session")
    other = model.session()
    other.restore(tmp_path / "session")
    found.append(other.logits(ids[5:]))
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-4, atol=1e-5 * float(np.abs(wanted).max()))
