"""Architectures of GGUF files: which configuration of transformers each is, and what llama.cpp changes in its weights.

One row for each architecture. Names of fields are GGUF's without the architecture before them, names of tensors come
from the package ``gguf``. What a converter of llama.cpp does to values is undone by rows of a matrix, which never cuts
a block of integers.

What a row does not say is refused where it could matter: a tensor that belongs to no parameter of the configuration is
an error, so that a variant of an architecture (a norm more, experts that are shared) is never half of what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any, Literal

_COMMON = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "context_length": "max_position_embeddings",
}
_GATED = _COMMON | {
    "feed_forward_length": "intermediate_size",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}

_NORMALIZED = _COMMON | {
    "feed_forward_length": "intermediate_size",
    "attention.head_count_kv": "num_key_value_heads",
}
"""Without the epsilon of a layer norm, which each class calls otherwise."""
_EXPERTS = {"expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size"}

Fields = Mapping[str, Any]
"""A file's fields of its architecture, by their names without it."""


@dataclass(frozen=True)
class Architecture:
    """``config`` is transformers' class, ``fields`` GGUF's names to its keywords; ``more`` are keywords that follow
    from the fields in another way, ``present`` those that say whether tensors of such an end are in the file.
    ``constants`` hold for every file. ``optional`` fields may be left out. ``variants`` are other classes, by
    the field that files of theirs have and others do not (or as 0).

    * ``order``: rows of query and key are ordered for rotary pairs that are neighbors, where transformers has halves
      (``pairs``); joined rows are first all queries, then keys, then values, where transformers has them head after
      head (``heads``), or group after group of queries with one key and one value (``groups``).
    * ``one_based_norms``: norms have a 1 added.
    * ``transposed``: matrices that transformers stores as ``[inputs, outputs]``.
    * ``split``: one tensor that is several in transformers, rows after rows.
    * ``long_texts``: files may have frequencies for long texts and others for short ones.
    * ``gates_in_turns``: transformers has rows of gate and up in turns, and weights of experts transposed.
    """

    config: str
    fields: Mapping[str, str]
    more: Callable[[Fields], dict[str, Any]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    present: Mapping[str, str] = field(default_factory=dict)
    order: Literal["", "pairs", "heads", "groups"] = ""
    one_based_norms: bool = False
    transposed: tuple[str, ...] = ()
    split: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    long_texts: bool = False
    gates_in_turns: bool = False
    optional: tuple[str, ...] = ("attention.head_count_kv",)
    variants: Mapping[str, Architecture] = field(default_factory=dict)


def head_of(fields: Fields) -> int:
    """Numbers of a head, which files leave out where they follow from the width."""
    return int(fields.get("attention.key_length", fields["embedding_length"] // fields["attention.head_count"]))


def _rope(fields: Fields, base: str = "rope.freq_base", otherwise: float = 10000.0) -> dict[str, Any]:
    found: dict[str, Any] = {"rope_type": "default", "rope_theta": float(fields.get(base, otherwise))}
    # Files of before there were several kinds have a factor only.
    factor = fields.get("rope.scaling.factor", fields.get("rope.scale_linear"))
    kind = fields.get("rope.scaling.type", "linear" if "rope.scale_linear" in fields else "none")
    # llama.cpp takes a factor of 0 for none.
    if kind not in ("linear", "yarn") or not factor:
        return found
    found |= {"rope_type": kind, "factor": float(factor)}
    if kind == "yarn":
        found["original_max_position_embeddings"] = fields["rope.scaling.original_context_length"]
        for bound in ("beta_fast", "beta_slow"):
            if f"rope.scaling.yarn_{bound}" in fields:
                found[bound] = float(fields[f"rope.scaling.yarn_{bound}"])
        if "rope.scaling.attn_factor" in fields:
            # What llama.cpp multiplies by beside this factor is all there is in transformers.
            found["attention_factor"] = fields["rope.scaling.attn_factor"] * (1 + 0.1 * log(factor))
    return found


def _rotary(fields: Fields) -> dict[str, Any]:
    return {"rope_parameters": _rope(fields)}


def _with_head(fields: Fields) -> dict[str, Any]:
    return _rotary(fields) | {"head_dim": head_of(fields)}


def _part_of_head(fields: Fields) -> dict[str, Any]:
    """Models whose rotary dims are the first of each head only."""
    share = fields.get("rope.dimension_count", head_of(fields)) / head_of(fields)
    rope = _rope(fields) | {"partial_rotary_factor": share}
    return {"rope_parameters": rope, "partial_rotary_factor": share}


def _part_of_head_dim(fields: Fields) -> dict[str, Any]:
    return _part_of_head(fields) | {"head_dim": head_of(fields)}


def _phi3(fields: Fields) -> dict[str, Any]:
    """Frequencies for short and for long texts are tensors, which the reader puts among the fields."""
    found = _part_of_head(fields) | _window(fields)
    if LONG in fields:
        found["rope_parameters"] |= {
            "rope_type": "longrope",
            "long_factor": fields[LONG],
            "short_factor": fields[SHORT],
            "original_max_position_embeddings": fields["rope.scaling.original_context_length"],
        }
        if "rope.scaling.attn_factor" in fields:
            found["rope_parameters"]["attention_factor"] = float(fields["rope.scaling.attn_factor"])
        found["original_max_position_embeddings"] = fields["rope.scaling.original_context_length"]
    return found


def _smollm3(fields: Fields) -> dict[str, Any]:
    """Every fourth layer has no positions; the file does not say so, llama.cpp knows."""
    return _rotary(fields) | {"no_rope_layers": [int((i + 1) % 4 != 0) for i in range(fields["block_count"])]}


def _kinds(fields: Fields, every: int) -> list[str]:
    """The kinds of attention of layers: every so manieth sees everything. Files may say another number, or each."""
    pattern = fields.get("attention.sliding_window_pattern", every)
    if isinstance(pattern, int):
        pattern = [pattern == 0 or (i + 1) % pattern != 0 for i in range(_layers(fields))]
    return ["sliding_attention" if slides else "full_attention" for slides in pattern]


def _windows(fields: Fields, every: int) -> dict[str, Any]:
    """Every so manieth layer sees everything, the others a window, if there is one."""
    window = fields.get("attention.sliding_window") or None
    kinds = _kinds(fields, every) if window else ["full_attention"] * _layers(fields)
    return {"sliding_window": window, "layer_types": kinds}


def _window(fields: Fields) -> dict[str, Any]:
    """The same window for every layer, if there is one."""
    return {"sliding_window": fields.get("attention.sliding_window") or None}


def _rotary_window(fields: Fields) -> dict[str, Any]:
    return _rotary(fields) | _window(fields)


def _with_head_window(fields: Fields) -> dict[str, Any]:
    return _with_head(fields) | _window(fields)


def _layers(fields: Fields) -> int:
    return int(fields["block_count"])


def _olmo3(fields: Fields) -> dict[str, Any]:
    """Every fourth layer sees everything, and only there positions are scaled."""
    return _rotary(fields) | _windows(fields, 4)


def _gemma2(fields: Fields) -> dict[str, Any]:
    """Of the largest model, scores are scaled by the width of a head on paper."""
    width = fields["embedding_length"] // fields["attention.head_count"] if _layers(fields) == 46 else head_of(fields)
    return _with_head(fields) | {"query_pre_attn_scalar": width}


def _gemma3(fields: Fields) -> dict[str, Any]:
    """Every sixth layer sees everything; of the largest model, scores are scaled by the width of a head on paper."""
    width = fields["embedding_length"] // fields["attention.head_count"] if _layers(fields) == 62 else head_of(fields)
    local = _rope({key: fields[key] for key in ("rope.freq_base_swa",) if key in fields}, "rope.freq_base_swa")
    return {
        "head_dim": head_of(fields),
        "query_pre_attn_scalar": width,
        # Layers that see everything for want of a window still turn positions as the others of their kind do.
        "sliding_window": fields["attention.sliding_window"] or fields["context_length"],
        "layer_types": _kinds(fields, 6),
        "rope_parameters": {"full_attention": _rope(fields, otherwise=1e6), "sliding_attention": local},
    }


def _cohere2(fields: Fields) -> dict[str, Any]:
    return _with_head(fields) | _windows(fields, 4)


def _exaone4(fields: Fields) -> dict[str, Any]:
    return _with_head(fields) | _windows(fields, 4)


def _gpt_oss(fields: Fields) -> dict[str, Any]:
    """Corrections of positions are not rounded, as in the publisher's configuration; llama.cpp rounds them."""
    found = _with_head(fields) | _windows(fields, 2)
    if found["rope_parameters"]["rope_type"] == "yarn":
        found["rope_parameters"] |= {"truncate": False, "beta_fast": 32.0, "beta_slow": 1.0}
    return found


def _gpt2(fields: Fields) -> dict[str, Any]:
    return {"n_inner": fields.get("feed_forward_length", 4 * fields["embedding_length"])}


def _falcon(fields: Fields) -> dict[str, Any]:
    """One key and value for all queries is the first generation, groups of them the second."""
    groups = int(fields.get("attention.head_count_kv", 1))
    return _rotary(fields) | {
        "multi_query": groups == 1,
        "new_decoder_architecture": groups > 1,
        "num_kv_heads": groups,
    }


def _none(fields: Fields) -> dict[str, Any]:
    return {}


LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
"""What frequencies of rotary positions are divided by in long and in short texts: tensors of files of Phi-3."""

_BIAS = {"attention_bias": "attn_q.bias"}
_LLAMA_BIAS = _BIAS | {"mlp_bias": "ffn_up.bias"}
_SCALED = _GATED | {
    "logit_scale": "logits_scaling",
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
}
_LOCAL_EXPERTS = {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
_ROUTED = _GATED | _EXPERTS | {"expert_count": "num_experts"}
_WINDOW = {"attention.sliding_window": "sliding_window"}
_CAPS = {"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping"}
_KV = ("attention.head_count_kv",)

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(
        "LlamaConfig",
        _GATED,
        _with_head,
        present=_LLAMA_BIAS,
        order="pairs",
        variants={
            "expert_count": Architecture("MixtralConfig", _GATED | _LOCAL_EXPERTS, _with_head_window, order="pairs"),
            "attention.sliding_window": Architecture("MistralConfig", _GATED, _with_head_window, order="pairs"),
        },
    ),
    "arcee": Architecture("ArceeConfig", _GATED, _with_head, present=_LLAMA_BIAS, order="pairs"),
    "smollm3": Architecture("SmolLM3Config", _GATED, _smollm3, present=_LLAMA_BIAS, order="pairs"),
    "granite": Architecture("GraniteConfig", _SCALED, _with_head, present=_LLAMA_BIAS, order="pairs"),
    "granitemoe": Architecture("GraniteMoeConfig", _SCALED | _LOCAL_EXPERTS, _with_head, present=_BIAS, order="pairs"),
    "olmo": Architecture(
        "OlmoConfig",
        _NORMALIZED | {"attention.clamp_kqv": "clip_qkv"},
        _rotary,
        order="pairs",
        optional=(*_KV, "attention.clamp_kqv"),
    ),
    "olmo2": Architecture(
        "Olmo2Config",
        _GATED,
        _rotary,
        present=_BIAS,
        variants={"attention.sliding_window": Architecture("Olmo3Config", _GATED, _olmo3, present=_BIAS)},
    ),
    "olmoe": Architecture(
        "OlmoeConfig",
        _GATED | {"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok"},
        _rotary,
        {"norm_topk_prob": False},
    ),
    "qwen2": Architecture("Qwen2Config", _GATED, _rotary, {"use_sliding_window": False}),
    "qwen2moe": Architecture(
        "Qwen2MoeConfig",
        _ROUTED | {"expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
        _rotary,
        {"use_sliding_window": False, "norm_topk_prob": False},
        {"qkv_bias": "attn_q.bias"},
    ),
    "qwen3": Architecture("Qwen3Config", _GATED, _with_head, {"use_sliding_window": False}, _BIAS),
    "qwen3moe": Architecture(
        "Qwen3MoeConfig", _ROUTED, _with_head, {"use_sliding_window": False, "norm_topk_prob": True}, _BIAS
    ),
    "seed_oss": Architecture(
        "SeedOssConfig", _GATED, _with_head, present=_BIAS | {"attention_out_bias": "attn_output.bias"}
    ),
    "hunyuan-dense": Architecture("HunYuanDenseV1Config", _GATED, _with_head, present=_BIAS),
    "ernie4_5": Architecture("Ernie4_5Config", _GATED, _with_head, present={"use_bias": "attn_q.bias"}),
    "exaone4": Architecture("Exaone4Config", _GATED, _exaone4),
    "glm4": Architecture("Glm4Config", _GATED, _part_of_head_dim, present=_BIAS),
    "gemma": Architecture("GemmaConfig", _GATED, _with_head, one_based_norms=True),
    "gemma2": Architecture(
        "Gemma2Config", _GATED | _WINDOW | _CAPS, _gemma2, one_based_norms=True, optional=(*_KV, *_WINDOW, *_CAPS)
    ),
    "gemma3": Architecture(
        "Gemma3TextConfig", _GATED | _WINDOW | _CAPS, _gemma3, one_based_norms=True, optional=(*_KV, *_CAPS)
    ),
    "gpt-oss": Architecture(
        "GptOssConfig",
        _GATED | _LOCAL_EXPERTS | {"expert_feed_forward_length": "intermediate_size"},
        _gpt_oss,
        present=_BIAS,
        gates_in_turns=True,
        optional=(*_KV, "feed_forward_length"),
    ),
    "command-r": Architecture(
        "CohereConfig",
        _NORMALIZED | {"attention.layer_norm_epsilon": "layer_norm_eps", "logit_scale": "logit_scale"},
        _rotary,
        present={"use_qk_norm": "attn_q_norm.weight"} | _BIAS,
    ),
    "cohere2": Architecture(
        "Cohere2Config",
        _NORMALIZED | {"attention.layer_norm_epsilon": "layer_norm_eps", "logit_scale": "logit_scale"},
        _cohere2,
        present=_BIAS,
    ),
    "stablelm": Architecture(
        "StableLmConfig",
        _NORMALIZED
        | {"attention.layer_norm_epsilon": "layer_norm_eps", "use_parallel_residual": "use_parallel_residual"},
        _part_of_head,
        present={"use_qkv_bias": "attn_q.bias", "qk_layernorm": "attn_q_norm.weight"},
        optional=(*_KV, "use_parallel_residual"),
    ),
    "starcoder2": Architecture(
        "Starcoder2Config",
        _NORMALIZED | {"attention.layer_norm_epsilon": "norm_epsilon"},
        _rotary_window,
        present={"use_bias": "attn_q.bias"},
    ),
    "nemotron": Architecture(
        "NemotronConfig",
        _NORMALIZED | {"attention.layer_norm_epsilon": "norm_eps"},
        _part_of_head_dim,
        present=_LLAMA_BIAS,
        one_based_norms=True,
    ),
    "phi3": Architecture("Phi3Config", _GATED, _phi3, long_texts=True),
    "phi2": Architecture(
        "PhiConfig",
        _NORMALIZED | {"attention.layer_norm_epsilon": "layer_norm_eps"},
        _part_of_head,
        split={"attn_qkv": ("attn_q", "attn_k", "attn_v")},
    ),
    "falcon": Architecture(
        "FalconConfig",
        _COMMON | {"feed_forward_length": "ffn_hidden_size", "attention.layer_norm_epsilon": "layer_norm_epsilon"},
        _falcon,
        {"alibi": False, "parallel_attn": True},
        {"bias": "attn_qkv.bias"},
        order="groups",
        optional=(*_KV, "feed_forward_length"),
    ),
    "bloom": Architecture(
        "BloomConfig",
        {
            "block_count": "n_layer",
            "embedding_length": "hidden_size",
            "attention.head_count": "n_head",
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        _none,
        order="heads",
    ),
    "gptneox": Architecture(
        "GPTNeoXConfig",
        _COMMON
        | {
            "feed_forward_length": "intermediate_size",
            "attention.layer_norm_epsilon": "layer_norm_eps",
            "use_parallel_residual": "use_parallel_residual",
        },
        _part_of_head,
        present={"attention_bias": "attn_qkv.bias"},
        order="heads",
        optional=("use_parallel_residual",),
    ),
    "gpt2": Architecture(
        "GPT2Config",
        {
            "block_count": "n_layer",
            "embedding_length": "n_embd",
            "attention.head_count": "n_head",
            "context_length": "n_positions",
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        _gpt2,
        transposed=("attn_qkv", "attn_output", "ffn_up", "ffn_down"),
    ),
}
"""``general.architecture`` to what it is."""
