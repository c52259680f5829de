"""Architectures of GGUF files: which configuration of transformers each is, and what llama.cpp changes in its weights.

One row for each architecture. Names of fields are GGUF's without the architecture before them, names of tensors come
from the package ``gguf``. What a converter of llama.cpp does to values is undone by rows of a matrix, which never cuts
a block of integers.

* ``interleaved``: rows of query and key are ordered for rotary pairs that are neighbors; transformers has halves.
* ``one_based_norms``: norms have a 1 added.
* ``transposed``: matrices that transformers stores as ``[inputs, outputs]``.
* ``split``: one tensor that is several in transformers, rows after rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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

Fields = Mapping[str, Any]
"""A file's fields of its architecture, by their names without it."""


@dataclass(frozen=True)
class Architecture:
    """``config`` is transformers' class, ``fields`` GGUF's names to its keywords; ``more`` are keywords that follow
    from the fields in another way. ``constants`` hold for every file. ``optional`` fields may be left out.
    """

    config: str
    fields: Mapping[str, str]
    more: Callable[[Fields], dict[str, Any]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    interleaved: bool = False
    one_based_norms: bool = False
    transposed: tuple[str, ...] = ()
    split: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: tuple[str, ...] = ("attention.head_count_kv",)


def _head(fields: Fields) -> int:
    """Numbers of a head, which files leave out where they follow from the width."""
    return int(fields.get("attention.key_length", fields["embedding_length"] // fields["attention.head_count"]))


def _rope(fields: Fields, base: str = "rope.freq_base", otherwise: float = 10000.0) -> dict[str, Any]:
    found: dict[str, Any] = {"rope_type": "default", "rope_theta": float(fields.get(base, otherwise))}
    kind = fields.get("rope.scaling.type", "none")
    factor = fields.get("rope.scaling.factor")
    if kind in ("linear", "yarn") and factor is not None:
        found |= {"rope_type": kind, "factor": float(factor)}
    if kind == "yarn":
        found["original_max_position_embeddings"] = fields["rope.scaling.original_context_length"]
    return found


def _rotary(fields: Fields) -> dict[str, Any]:
    return {"rope_parameters": _rope(fields)}


def _with_head(fields: Fields) -> dict[str, Any]:
    return _rotary(fields) | {"head_dim": _head(fields)}


def _part_of_head(fields: Fields) -> dict[str, Any]:
    """Models whose rotary dims are the first of each head only."""
    share = fields.get("rope.dimension_count", _head(fields)) / _head(fields)
    rope = _rope(fields) | {"partial_rotary_factor": share}
    return {"rope_parameters": rope, "partial_rotary_factor": share}


def _smollm3(fields: Fields) -> dict[str, Any]:
    """Every fourth layer has no positions; the file does not say so, llama.cpp knows."""
    return _rotary(fields) | {"no_rope_layers": [int((i + 1) % 4 != 0) for i in range(fields["block_count"])]}


def _gemma3(fields: Fields) -> dict[str, Any]:
    """Every sixth layer sees everything; of the largest model, scores are scaled by the width of a head on paper."""
    layers = fields["block_count"]
    width = fields["embedding_length"] // fields["attention.head_count"] if layers == 62 else _head(fields)
    local = _rope({key: value for key, value in fields.items() if "scaling" not in key}, "rope.freq_base_swa")
    return {
        "head_dim": _head(fields),
        "query_pre_attn_scalar": width,
        "layer_types": ["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(layers)],
        "rope_parameters": {"full_attention": _rope(fields, otherwise=1e6), "sliding_attention": local},
    }


def _gpt2(fields: Fields) -> dict[str, Any]:
    return {"n_inner": fields.get("feed_forward_length", 4 * fields["embedding_length"])}


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("LlamaConfig", _GATED, _with_head, interleaved=True),
    "smollm3": Architecture("SmolLM3Config", _GATED, _smollm3, interleaved=True),
    "qwen2": Architecture("Qwen2Config", _GATED, _rotary, {"use_sliding_window": False}),
    "qwen3": Architecture("Qwen3Config", _GATED, _with_head, {"use_sliding_window": False}),
    "gemma3": Architecture(
        "Gemma3TextConfig", _GATED | {"attention.sliding_window": "sliding_window"}, _gemma3, one_based_norms=True
    ),
    "phi3": Architecture("Phi3Config", _GATED, _rotary),
    "phi2": Architecture(
        "PhiConfig",
        _COMMON
        | {
            "feed_forward_length": "intermediate_size",
            "attention.head_count_kv": "num_key_value_heads",
            "attention.layer_norm_epsilon": "layer_norm_eps",
        },
        _part_of_head,
        split={"attn_qkv": ("attn_q", "attn_k", "attn_v")},
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
