"""Decoders that GGUF files are written of: small configurations, and what llama.cpp's converter does to each.

What a file says of a model is in :func:`fields_of`, and what ``convert_hf_to_gguf.py`` changes in its weights in
:func:`tensors_of`, formula by formula. That both are what llama.cpp means is for llama.cpp to judge: ``python
test/gguf_judge.py`` lets it compute the logits of each file, where llama-cpp-python is installed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from etir_testing.models.static_cache import DECODERS, LAYERS, VOCABULARY, Decoder

_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
_GATED = _COMMON | {"intermediate_size": 128, "num_key_value_heads": 2}
_HEAD = _GATED | {"head_dim": 16}
_WINDOW = {"sliding_window": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_TIED = {"tie_word_embeddings": True}
_CAPPED = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
_SIXTH = {
    "num_hidden_layers": 6,
    "query_pre_attn_scalar": 16,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}
_GRANITE = {"logits_scaling": 3.0, "attention_multiplier": 0.2, "embedding_multiplier": 5.0, "residual_multiplier": 0.7}
_GLM_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
_NEOX_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}
_YARN = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 2.0,
        "original_max_position_embeddings": 32,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    }
}
_LONG = {
    "original_max_position_embeddings": 32,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0 + 0.1 * i for i in range(8)],
        "long_factor": [1.5 + 0.5 * i for i in range(8)],
        "original_max_position_embeddings": 32,
    },
}


def _decoder(name: str, classes: str, options: dict[str, Any]) -> Decoder:
    config = "Gemma3TextConfig" if classes == "Gemma3" else f"{classes}Config"
    return Decoder(name, f"{classes}ForCausalLM", config, options)


MORE_DECODERS: dict[str, Decoder] = {
    decoder.name: decoder
    for decoder in (
        _decoder("gemma", "Gemma", _HEAD | _TIED),
        _decoder("gemma2", "Gemma2", _HEAD | _TIED | _WINDOW | _CAPPED | {"query_pre_attn_scalar": 16}),
        _decoder("gemma3", "Gemma3", _HEAD | _TIED | _WINDOW | _SIXTH),
        _decoder("mixtral", "Mixtral", _GATED | _LOCAL_EXPERTS),
        _decoder("qwen2moe", "Qwen2Moe", _GATED | _EXPERTS | {"shared_expert_intermediate_size": 64}),
        _decoder("qwen3moe", "Qwen3Moe", _HEAD | _EXPERTS | {"norm_topk_prob": True}),
        _decoder("olmo", "Olmo", _GATED),
        _decoder("olmo2", "Olmo2", _GATED),
        _decoder("olmo3", "Olmo3", _GATED | _WINDOW | {"num_hidden_layers": 4}),
        _decoder("olmoe", "Olmoe", _GATED | {"num_key_value_heads": 4, "num_experts": 4, "num_experts_per_tok": 2}),
        _decoder("granite", "Granite", _GATED | _GRANITE),
        _decoder("granitemoe", "GraniteMoe", _GATED | _GRANITE | _LOCAL_EXPERTS),
        _decoder("stablelm", "StableLm", _GATED | _NEOX_ROPE | {"use_qkv_bias": True}),
        _decoder("stablelm2", "StableLm", _GATED | _NEOX_ROPE | {"qk_layernorm": True, "use_parallel_residual": True}),
        _decoder("starcoder2", "Starcoder2", _GATED | _TIED),
        _decoder("cohere", "Cohere", _GATED | _TIED | {"logit_scale": 0.25}),
        _decoder("cohere2", "Cohere2", _GATED | _TIED | _WINDOW | {"logit_scale": 0.25, "num_hidden_layers": 4}),
        _decoder("glm4", "Glm4", _HEAD | _GLM_ROPE | {"attention_bias": True}),
        _decoder("ernie4_5", "Ernie4_5", _HEAD | _TIED),
        _decoder("exaone4", "Exaone4", _HEAD | {"sliding_window": None, "layer_types": ["full_attention"] * LAYERS}),
        _decoder("hunyuan", "HunYuanDenseV1", _HEAD),
        _decoder("gpt_oss", "GptOss", _HEAD | _WINDOW | _LOCAL_EXPERTS | _YARN),
        _decoder("phi3long", "Phi3", _GATED | _LONG),
        _decoder("falcon", "Falcon", _COMMON | _TIED | {"new_decoder_architecture": False}),
        _decoder("falcon40b", "Falcon", _COMMON | {"new_decoder_architecture": True, "num_kv_heads": 2}),
        _decoder("bloom", "Bloom", _COMMON | _TIED | {"num_key_value_heads": 4}),
        _decoder("gptneox", "GPTNeoX", _COMMON | _NEOX_ROPE | {"intermediate_size": 128}),
        _decoder("nemotron", "Nemotron", _GATED | _NEOX_ROPE),
        _decoder("seed_oss", "SeedOss", _HEAD),
        _decoder("arcee", "Arcee", _GATED),
    )
}
GGUF_DECODERS = DECODERS | MORE_DECODERS

ARCHITECTURES = {
    "phi": "phi2",
    "mixtral": "llama",
    "stablelm2": "stablelm",
    "olmo3": "olmo2",
    "cohere": "command-r",
    "hunyuan": "hunyuan-dense",
    "phi3long": "phi3",
    "gpt_oss": "gpt-oss",
    "falcon40b": "falcon",
}
"""llama.cpp's names of architectures where they are not the decoder's."""

PERMUTED = ("llama", "smollm3", "granite", "granitemoe", "arcee", "olmo")
"""Converters that order rows of query and key for rotary pairs that are neighbors."""
ONE_MORE = ("gemma", "gemma2", "gemma3", "nemotron")
"""Converters that add 1 to norms."""


def architecture_of(name: str) -> str:
    """llama.cpp's name of a decoder's architecture."""
    return ARCHITECTURES.get(name, name)


def small_model(name: str, **options: Any) -> Any:
    """A decoder of :data:`GGUF_DECODERS` with seeded weights."""
    decoder = GGUF_DECODERS[name]
    return replace(decoder, options=decoder.options | options).build()


def fields_of(arch: str, config: Any) -> dict[str, Any]:
    """What the file says of the model, by GGUF's names without the architecture: integers, numbers, truths, lists."""

    def first(*names: str) -> Any:
        return next((found for name in names if (found := getattr(config, name, None)) is not None), None)

    heads, width = config.num_attention_heads, config.hidden_size
    groups = first("num_key_value_heads", "num_kv_heads") or heads
    if arch == "falcon" and not config.new_decoder_architecture:
        groups = 1 if config.multi_query else heads
    head = first("head_dim") or width // heads
    rope = first("rope_parameters") or {}
    rope = rope.get("full_attention") or rope
    found: dict[str, Any] = {
        "block_count": config.num_hidden_layers,
        "embedding_length": width,
        "feed_forward_length": first("intermediate_size", "ffn_hidden_size") or 4 * width,
        "attention.head_count": heads,
        "attention.head_count_kv": groups,
        "context_length": first("max_position_embeddings") or 64,
        "attention.layer_norm_rms_epsilon": float(first("rms_norm_eps") or 1e-6),
        "attention.layer_norm_epsilon": float(
            first("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon") or 1e-5
        ),
        "attention.key_length": head,
        "rope.freq_base": float(rope.get("rope_theta", 10000.0)),
        "rope.dimension_count": int(head * (rope.get("partial_rotary_factor") or 1.0)),
        "attention.sliding_window": first("sliding_window"),
        "expert_count": first("num_local_experts", "num_experts"),
        "expert_used_count": first("num_experts_per_tok"),
        "expert_feed_forward_length": first("moe_intermediate_size"),
        "expert_shared_feed_forward_length": first("shared_expert_intermediate_size"),
        "attn_logit_softcapping": first("attn_logit_softcapping"),
        "final_logit_softcapping": first("final_logit_softcapping"),
        "logit_scale": first("logit_scale", "logits_scaling"),
        "attention.scale": first("attention_multiplier"),
        "embedding_scale": first("embedding_multiplier"),
        "residual_scale": first("residual_multiplier"),
        "use_parallel_residual": first("use_parallel_residual"),
        "attention.value_length": first("head_dim"),
    }
    if arch == "granitemoe":
        found.pop("expert_feed_forward_length")
    if arch == "gpt-oss":
        found["expert_feed_forward_length"] = config.intermediate_size
    if rope.get("rope_type") == "yarn":
        found["rope.scaling.type"] = "yarn"
        found["rope.scaling.factor"] = float(rope["factor"])
        found["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if rope.get("rope_type") == "longrope":
        original = rope["original_max_position_embeddings"]
        found["rope.scaling.original_context_length"] = original
        found["rope.scaling.attn_factor"] = math.sqrt(
            1 + math.log(config.max_position_embeddings / original) / math.log(original)
        )
    return {key: value for key, value in found.items() if value is not None}


def tensors_of(arch: str, model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of the file by their names, float32, as ``convert_hf_to_gguf.py`` of llama.cpp writes them."""
    import gguf

    config = model.config
    fields = fields_of(arch, config)
    heads, groups = fields["attention.head_count"], fields["attention.head_count_kv"]
    key = next(key for key, known in gguf.MODEL_ARCH_NAMES.items() if known == arch)
    names = gguf.get_tensor_name_map(key, config.num_hidden_layers)
    stacked: dict[str, list[np.ndarray]] = {}
    for parameter, value in model.named_parameters():
        array = value.detach().numpy()
        layer = re.search(r"\.(\d+)\.", parameter)
        block = f"blk.{layer[1]}" if layer else ""
        base, _, suffix = parameter.rpartition(".")
        if ".experts." in parameter:
            for name, part in _experts(arch, suffix, array):
                yield f"{block}.{name}", np.ascontiguousarray(part, np.float32)
            continue
        if suffix == "sinks":
            yield f"{block}.attn_sinks.weight", array
            continue
        if (norms := re.search(r"([qk])_layernorm\.norms\.\d+", base)) is not None:
            stacked.setdefault(f"{block}.attn_{norms[1]}_norm.weight", []).append(array)
            continue
        base = base.replace("block_sparse_moe.router", "block_sparse_moe.router.layer")
        known = names.get_name(base) or names.get_name(base.removeprefix("transformer."))
        assert known is not None, parameter
        yield f"{known}.{suffix}", _converted(arch, known.rpartition(".")[2], suffix, array, heads, groups)
    for name, rows in stacked.items():
        yield name, np.stack(rows)
    rope = getattr(config, "rope_parameters", None) or {}
    for length in ("long", "short"):
        if (factors := rope.get(f"{length}_factor")) is not None:
            yield f"rope_factors_{length}.weight", np.array(factors, np.float32)


def _experts(arch: str, suffix: str, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Weights of all experts: transformers keeps gate and up in one, of gpt-oss transposed and in turns."""
    kind = "bias" if suffix.endswith("_bias") else "weight"
    if arch == "gpt-oss" and kind == "weight":
        array = array.swapaxes(1, 2)
    if suffix.startswith("down"):
        yield f"ffn_down_exps.{kind}", array
        return
    half = array.shape[1] // 2
    gate, up = (array[:, ::2], array[:, 1::2]) if arch == "gpt-oss" else (array[:, :half], array[:, half:])
    yield f"ffn_gate_exps.{kind}", gate
    yield f"ffn_up_exps.{kind}", up


def _converted(arch: str, part: str, suffix: str, array: np.ndarray, heads: int, groups: int) -> np.ndarray:
    if arch in PERMUTED and part in ("attn_q", "attn_k"):
        count = heads if part == "attn_q" else groups
        halves = array.reshape(count, 2, array.shape[0] // count // 2, *array.shape[1:])
        array = halves.swapaxes(1, 2).reshape(array.shape)
    if part == "attn_qkv" and arch in ("bloom", "gptneox"):
        array = array.reshape(heads, 3, -1, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)
    if part == "attn_qkv" and arch == "falcon":
        each = array.reshape(groups, heads // groups + 2, -1, *array.shape[1:])
        parts = (each[:, :-2], each[:, -2:-1], each[:, -1:])
        array = np.concatenate([p.reshape(-1, *array.shape[1:]) for p in parts])
    if arch in ONE_MORE and "norm" in part and suffix == "weight":
        array = array + 1
    if arch == "gpt2" and array.ndim == 2 and part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down"):
        array = array.T
    if part == "ffn_gate_inp_shexp":
        array = array.reshape(-1)
    return np.ascontiguousarray(array, np.float32)
