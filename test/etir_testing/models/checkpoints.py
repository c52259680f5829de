"""Checkpoints of small decoders: GGUF files and Hugging Face folders, with a tokenizer of a token for each character.

The files are written from transformers' models by the packages that publishers use, and by llama.cpp's own formulas for
what it changes, so that reading them back is compared with what they were made from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from etir_testing.models.static_cache import DECODERS, VOCABULARY, import_transformers

END = "<|end|>"
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)
PROMPT = "Once upon a time"
ARCHITECTURES = {"phi": "phi2"}
"""llama.cpp's names of architectures where they are not transformers'."""


def tokens() -> list[str]:
    """A token for each printable character but one, as byte-level vocabularies spell them, one of two characters, and
    one that ends a text.
    """
    return [*("\u0120" if code == 32 else chr(code) for code in range(32, 126)), "th", END]


def tokenizer_json() -> str:
    """The vocabulary as a ``tokenizer.json``."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens())}, [("t", "h")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    assert made.get_vocab_size() == VOCABULARY
    return made.to_str()


def small_model(name: str, **options: Any) -> Any:
    """A decoder of :data:`~etir_testing.models.static_cache.DECODERS` with seeded weights."""
    decoder = DECODERS[name]
    return replace(decoder, options=decoder.options | options).build()


def write_folder(folder: Path, name: str, shards: int = 1, **options: Any) -> Any:
    """Write a Hugging Face folder of a decoder; returns the model."""
    model = small_model(name, **options)
    size = sum(p.numel() * 4 for p in model.parameters())
    model.generation_config = import_transformers().GenerationConfig(eos_token_id=VOCABULARY - 1)
    model.save_pretrained(folder, max_shard_size=size // shards + 4096 if shards > 1 else "5GB")
    (folder / "tokenizer.json").write_text(tokenizer_json())
    settings = {"eos_token": END, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return model


def write_gguf(
    path: Path,
    name: str,
    quantized: str = "F32",
    *,
    fields: Mapping[str, Any] | None = None,
    leave_out: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Write a decoder as a GGUF file, matrices in a type of ``gguf``; returns the model that was written.

    ``fields`` are further strings and integers, in place of those of the model; tensors of ``leave_out`` are missing.
    """
    import gguf

    model = small_model(name, **options)
    config = model.config
    arch = ARCHITECTURES.get(name, name)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"small {name}")
    heads = config.num_attention_heads
    groups = getattr(config, "num_key_value_heads", heads)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(getattr(config, "rms_norm_eps", 1e-6))
    writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or getattr(config, "layer_norm_epsilon", 1e-5))
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_key_length(head)
    rope = getattr(config, "rope_parameters", None) or {}
    writer.add_rope_freq_base((rope.get("full_attention") or rope).get("rope_theta", 10000.0))
    writer.add_rope_dimension_count(int(head * (rope.get("partial_rotary_factor") or 1.0)))
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens())
    writer.add_token_types([1] * (VOCABULARY - 1) + [3])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(VOCABULARY - 1)
    writer.add_chat_template(TEMPLATE)
    for key, value in (fields or {}).items():
        (writer.add_uint32 if isinstance(value, int) else writer.add_string)(key, value)
    names = gguf.get_tensor_name_map(
        next(key for key, known in gguf.MODEL_ARCH_NAMES.items() if known == arch), config.num_hidden_layers
    )
    type = gguf.GGMLQuantizationType[quantized]
    for parameter, value in model.named_parameters():
        base, _, suffix = parameter.rpartition(".")
        known = names.get_name(base) or names.get_name(base.removeprefix("transformer."))
        tensor = f"{known}.{suffix}"
        array = _as_llama_cpp(arch, str(known), suffix, value.detach().numpy(), heads, groups)
        if tensor in leave_out:
            continue
        if array.ndim > 1 and type is not gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor, gguf.quants.quantize(array, type), raw_dtype=type)
        else:
            writer.add_tensor(tensor, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _as_llama_cpp(arch: str, name: str, suffix: str, array: np.ndarray, heads: int, groups: int) -> np.ndarray:
    """A weight as ``convert_hf_to_gguf.py`` of llama.cpp writes it."""
    part = name.rpartition(".")[2]
    if arch in ("llama", "smollm3") and part in ("attn_q", "attn_k"):
        count = heads if part == "attn_q" else groups
        halves = array.reshape(count, 2, array.shape[0] // count // 2, *array.shape[1:])
        array = halves.swapaxes(1, 2).reshape(array.shape)
    if arch == "gemma3" and "norm" in name:
        array = array + 1
    if arch == "gpt2" and array.ndim == 2 and part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down"):
        array = array.T
    return np.ascontiguousarray(array, np.float32)


def greedy(model: Any, ids: Sequence[int], count: int) -> list[int]:
    """The tokens that eager generates after ``ids``, without a cache."""
    found = list(ids)
    with torch.no_grad():
        for _ in range(count):
            found.append(int(model(input_ids=torch.tensor([found]), use_cache=False).logits[0, -1].argmax()))
    return found[len(ids) :]
