"""Decoders whose caches or positions are unlike Llama's: what they compute with a static cache, or a refusal."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

import etir
import etir.runtime
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.llm.checkpoint.checkpoint import positions_of
from etir.llm.export import cached_layers, export_decoder
from etir.llm.passes.cache_types import CacheType
from etir.llm.passes.pipeline import language_model_passes
from etir.lowering.import_fx import import_program
from etir.passes.infra.manager import run_pipeline

from etir_testing.models.static_cache import CACHE, LAYERS, PROMPT, VOCABULARY, import_transformers, seed

_OWN: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_COMMON: dict[str, Any] = _OWN | {
    "hidden_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_GPT: dict[str, Any] = _OWN | {"n_embd": 64, "n_layer": LAYERS, "n_head": 4, "n_positions": 64}
_LATENT: dict[str, Any] = {
    "intermediate_size": 128,
    "num_key_value_heads": 4,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
}
_MIXED: dict[str, Any] = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_MIXED |= {"first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
_WINDOW: dict[str, Any] = _COMMON | {"intermediate_size": 128, "num_key_value_heads": 2, "sliding_window": 24}
_OPT: dict[str, Any] = {"ffn_dim": 128, "word_embed_proj_dim": 64}
_LLAMA4: dict[str, Any] = {"intermediate_size": 32, "intermediate_size_mlp": 64, "head_dim": 16, "num_local_experts": 4}
_LLAMA4 |= {"num_key_value_heads": 2, "attention_chunk_size": 4, "no_rope_layers": [1, 0]}
_BART: dict[str, Any] = {"d_model": 64, "encoder_layers": 1, "decoder_layers": LAYERS, "decoder_ffn_dim": 128}
_BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 64}

WORKING: dict[str, tuple[str, str, dict[str, Any]]] = {
    # Keys and values of different sizes, experts.
    "deepseek_v2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", _COMMON | _LATENT | _MIXED),
    # One head of keys and values, which no field of the configuration says.
    "falcon": ("FalconForCausalLM", "FalconConfig", _COMMON | {"multi_query": True, "new_decoder_architecture": False}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", _GPT | {"multi_query": True}),
    # No limit of positions.
    "bloom": ("BloomForCausalLM", "BloomConfig", _OWN | {"hidden_size": 64, "n_layer": LAYERS, "n_head": 4}),
    # Positions that the model counts in a way that cannot be traced.
    "opt": ("OPTForCausalLM", "OPTConfig", _COMMON | _OPT),
    # A mask that it makes for as many tokens as there are.
    "biogpt": ("BioGptForCausalLM", "BioGptConfig", _COMMON | {"intermediate_size": 128}),
    # Sizes whose relation torch does not prove, and layers that see a chunk.
    "llama4": ("Llama4ForCausalLM", "Llama4TextConfig", _COMMON | _LLAMA4),
    # More layers than its other half, whose number the configuration says first.
    "bart": ("BartForCausalLM", "BartConfig", _OWN | _BART),
}
_RING: dict[str, Any] = _WINDOW | {"head_dim": 16, "sliding_window": 7}
_DAILY = ("falcon", "bart")
_BY_POSITION_DAILY = (
    ("gemma2", "float16"),
    ("gemma2", "bfloat16"),
    ("gpt_oss", "float32"),
    ("gpt_oss", "int8"),
    ("biogpt", "float32"),
    ("minicpm3", "float32"),
    ("minicpm3", "int8"),
)
_NEAR: dict[CacheType, float] = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2, "int8": 0.2}
REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    # Takes its mask from the cache's end.
    "gpt_neo": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        _OWN
        | {"hidden_size": 64, "num_layers": LAYERS, "num_heads": 4, "max_position_embeddings": 64, "window_size": 8}
        | {"attention_types": [[["global", "local"], 1]]},
    ),
    # Has no cache, and takes the argument without a word.
    "openai-gpt": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", _GPT),
}


def _model(row: tuple[str, str, dict[str, Any]]) -> Any:
    transformers = import_transformers()
    torch.manual_seed(0)
    model = getattr(transformers, row[0])(getattr(transformers, row[1])(**row[2])).eval()
    seed(model, 3)
    return model


def _logits(model: Any, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy()


@pytest.mark.parametrize(
    "name", [*_DAILY, *(pytest.param(n, marks=pytest.mark.nightly) for n in WORKING if n not in _DAILY)]
)
def test_logits_are_those_without_a_cache(name: str) -> None:
    """A prompt at once, then a token at a time."""
    model = _model(WORKING[name])
    exported = export_decoder(model, CACHE, 8)
    assert cached_layers(exported) == LAYERS
    program = etir.compile(exported, target="etir")
    method = etir.runtime.load(bytes(program.buffer))["forward"]
    ids: list[int] = []
    for part in (list(PROMPT), [11], [60]):
        found = method(torch.tensor([part]), torch.arange(len(ids), len(ids) + len(part)))[0]
        ids += part
        np.testing.assert_allclose(np.asarray(found)[0], _logits(model, ids), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_model_that_a_static_cache_makes_wrong(name: str) -> None:
    with pytest.raises(EtirError, match="computes other logits with a static cache than without one") as error:
        export_decoder(_model(REFUSED[name]), CACHE, 8)
    assert error.value.ids == ("E1611",)


WINDOWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mistral": ("MistralForCausalLM", "MistralConfig", _WINDOW),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", _WINDOW | {"head_dim": 16}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", _WINDOW | {"head_dim": 16, "sliding_window_pattern": 2}),
    "cohere2": ("Cohere2ForCausalLM", "Cohere2Config", _WINDOW),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _WINDOW | {"use_sliding_window": True, "max_window_layers": 1}),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", _WINDOW | {"head_dim": 16, "num_local_experts": 4}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", _WINDOW),
}


@pytest.mark.parametrize(
    "name", ["mistral", *(pytest.param(n, marks=pytest.mark.nightly) for n in WINDOWS if n != "mistral")]
)
def test_what_is_beyond_a_window_is_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of 24 positions, and a model that forgets it with a cache: its first tokens are right. Without that it
    is exported, its windows what they were.
    """
    model = _model(WINDOWS[name])
    export_decoder(model, CACHE, 8)
    assert model.config.sliding_window == 24
    assert all(getattr(m, "sliding_window", None) in (24, None) for m in model.modules())
    kept = type(model).forward
    module: Any = inspect.getmodule(type(model))

    def forgets(self: Any, *arguments: Any, **named: Any) -> Any:
        with monkeypatch.context() as patch:
            if named.get("past_key_values") is not None:
                patch.setattr(module, "create_sliding_window_causal_mask", module.create_causal_mask)
            return kept(self, *arguments, **named)

    monkeypatch.setattr(type(model), "forward", forgets)
    with pytest.raises(EtirError, match="than without one beyond its window") as error:
        export_decoder(model, CACHE, 8)
    assert error.value.ids == ("E1611",)


_OWN_KERNEL = "etir::cached_attention.out"
_STOCK_KERNEL = "llama::custom_sdpa.out"
BY_POSITION: dict[str, tuple[tuple[str, str, dict[str, Any]], dict[str, int]]] = {
    # A soft cap of the scores, far below their size, and a window in the first layer: a ring of 12 positions.
    "gemma2": (
        ("Gemma2ForCausalLM", "Gemma2Config", _RING | {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 1}),
        {_OWN_KERNEL: 2},
    ),
    # Sinks, and the same window.
    "gpt_oss": (("GptOssForCausalLM", "GptOssConfig", _RING | {"num_local_experts": 4}), {_OWN_KERNEL: 2}),
    # A mask that says of every token that it is no padding.
    "biogpt": (WORKING["biogpt"], {_STOCK_KERNEL: 2}),
    # Chunks that are longer than the cache; with shorter ones the layer that sees all.
    "llama4": (
        ("Llama4ForCausalLM", "Llama4TextConfig", _COMMON | _LLAMA4 | {"attention_chunk_size": 64}),
        {_STOCK_KERNEL: 2},
    ),
    "llama4-chunks": (WORKING["llama4"], {_STOCK_KERNEL: 1}),
    # Latents in place of keys and values, which all heads read.
    "deepseek_v2": (WORKING["deepseek_v2"], {_STOCK_KERNEL: 2}),
    "deepseek_v3": (("DeepseekV3ForCausalLM", "DeepseekV3Config", _COMMON | _LATENT | _MIXED), {_STOCK_KERNEL: 2}),
    "minicpm3": (("MiniCPM3ForCausalLM", "MiniCPM3Config", _COMMON | _LATENT), {_STOCK_KERNEL: 2}),
    # The scale after the mask.
    "codegen": (("CodeGenForCausalLM", "CodeGenConfig", _GPT | {"rotary_dim": 8}), {_STOCK_KERNEL: 2}),
    # Products of three dims.
    "gpt_neox_japanese": (
        ("GPTNeoXJapaneseForCausalLM", "GPTNeoXJapaneseConfig", _COMMON | {"intermediate_multiple_size": 2}),
        {_STOCK_KERNEL: 2},
    ),
}


@pytest.mark.parametrize(
    ("name", "cache"),
    [
        pytest.param(name, cache, marks=() if (name, cache) in _BY_POSITION_DAILY else pytest.mark.nightly)
        for name in BY_POSITION
        for cache in _NEAR
    ],
)
def test_attention_that_ends_at_the_last_position(name: str, cache: CacheType) -> None:
    """A prompt in two calls, tokens one at a time, and some of them taken back: the logits are eager's."""
    row, kernels = BY_POSITION[name]
    model = _model(row)
    module = import_program(export_decoder(model, CACHE, 6))
    run_pipeline(EtContext(), module, language_model_passes("etir", cache=cache))
    program = etir.compile(module, target="etir")
    operators = program.report().methods[0].operators
    if cache != "int8":
        assert {kernel: operators.get(kernel, 0) for kernel in kernels} == kernels
    method = etir.runtime.load(bytes(program.buffer))["forward"]
    parts = [(0, [*PROMPT, 61]), (6, [7, 41]), *((8 + i, [(11 * i + 5) % VOCABULARY]) for i in range(8))]
    ids: list[int] = []
    for start, part in (*parts, (12, [60, 3]), (14, [9])):
        ids[start:] = part
        found = method(torch.tensor([part]), torch.arange(start, start + len(part)))[0]
        wanted = _logits(model, ids)
        near = _NEAR[cache] * np.abs(wanted).max()
        np.testing.assert_allclose(np.asarray(found)[0], wanted, rtol=0, atol=near)


def test_how_many_positions_there_are() -> None:
    """Whatever the configuration calls them; None for a model that takes any number."""
    transformers = import_transformers()
    assert positions_of(_model(WORKING["deepseek_v2"])) == 64
    assert positions_of(_model(WORKING["gpt_bigcode"])) == 64
    assert positions_of(_model(WORKING["bloom"])) is None
    mpt = transformers.MptConfig(d_model=64, n_heads=4, n_layers=1, max_seq_len=48, vocab_size=VOCABULARY)
    assert positions_of(transformers.MptForCausalLM(mpt)) == 48
