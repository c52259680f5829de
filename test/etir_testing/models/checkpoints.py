"""Checkpoints of small decoders: GGUF files and Hugging Face folders, with a tokenizer of a token for each character.

The files are written from transformers' models by the packages that publishers use, and by llama.cpp's own formulas for
what it changes, so that reading them back is compared with what they were made from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from etir_testing.models.gguf_decoders import architecture_of, fields_of, small_model, tensors_of
from etir_testing.models.static_cache import VOCABULARY, import_transformers

END = "<|end|>"
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)
PROMPT = "Once upon a time"


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
    more: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Any:
    """Write a decoder as a GGUF file, matrices in a type of ``gguf``; returns the model that was written.

    ``fields`` are further strings and integers, in place of those of the model; tensors of ``leave_out`` are missing,
    those of ``more`` are there besides.
    """
    import gguf

    model = small_model(name, **options)
    arch = architecture_of(name)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"small {name}")
    for key, value in fields_of(arch, model.config).items():
        _add(writer, f"{arch}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens())
    writer.add_token_types([1] * (VOCABULARY - 1) + [3])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(VOCABULARY - 1)
    writer.add_chat_template(TEMPLATE)
    for key, value in (fields or {}).items():
        _add(writer, key, value)
    type = gguf.GGMLQuantizationType[quantized]
    own = ((tensor, array) for tensor, array in tensors_of(arch, model) if tensor not in leave_out)
    for tensor, array in (*own, *(more or {}).items()):
        if array.ndim > 1 and "norm" not in tensor and type is not gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor, gguf.quants.quantize(array, type), raw_dtype=type)
        else:
            writer.add_tensor(tensor, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _add(writer: Any, key: str, value: Any) -> None:
    """A field of the type that its value has."""
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    kinds.get(type(value), writer.add_array)(key, value)


def greedy(model: Any, ids: Sequence[int], count: int) -> list[int]:
    """The tokens that eager generates after ``ids``, without a cache."""
    found = list(ids)
    with torch.no_grad():
        for _ in range(count):
            found.append(int(model(input_ids=torch.tensor([found]), use_cache=False).logits[0, -1].argmax()))
    return found[len(ids) :]
