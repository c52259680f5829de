"""A small Llama with seeded weights as a language model's files: program, tokenizer, description, checkpoint."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

import etir

from etir_testing.models.static_cache import CACHE, DECODERS, VOCABULARY, import_transformers, wrapped

ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:!?'\"()[]{}<>+-*/=_@#$%&|~^`"[
    :VOCABULARY
]
"""Each of the vocabulary's tokens is one of these letters."""


class _Decoder(nn.Module):
    """Token ids i64[1, n] and positions i64[n] to logits f32[1, n, V], or [1, V] of the last."""

    def __init__(self, model: nn.Module, every: bool):
        super().__init__()
        self.decoder = wrapped(model)
        self.every = every

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        logits = self.decoder(input_ids=tokens, cache_position=positions)
        return logits if self.every else logits[:, -1]


@cache
def program(*, every: bool = False, target: str = "etir") -> bytes:
    """The program: up to ``CACHE - 1`` tokens a call, ``CACHE`` positions."""
    model = DECODERS["llama"].build()
    count = Dim("tokens", max=CACHE - 1)
    example = (torch.ones(1, 3, dtype=torch.int64), torch.arange(3))
    with torch.no_grad():
        exported = torch.export.export(_Decoder(model, every), example, dynamic_shapes=({1: count}, {0: count}))
    constants: dict[str, Any] = {
        "get_max_seq_len": CACHE - 1,
        "get_max_context_len": CACHE,
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
        "get_eos_ids": [VOCABULARY - 1],
        "get_vocab_size": VOCABULARY,
        "get_n_layers": 2,
    }
    return bytes(etir.compile(exported, target=target, constant_methods=constants).buffer)


def write_model(folder: Path, *, every: bool = False, target: str = "etir") -> Path:
    """``model.pte`` with what lies beside it."""
    path = folder / "model.pte"
    path.write_bytes(program(every=every, target=target))
    path.with_suffix(".tokenizer.json").write_text(_tokenizer().to_str(), encoding="utf-8")
    template = (
        "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
    )
    description = {
        "chat_template": template,
        "bos_token": None,
        "eos_token": ALPHABET[-1],
        "eos_ids": [VOCABULARY - 1],
        "add_bos": False,
        "context": CACHE,
        "name": "small",
    }
    path.with_suffix(".chat.json").write_text(json.dumps(description), encoding="utf-8")
    return path


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(ALPHABET)}, []))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def write_checkpoint(folder: Path) -> Path:
    """The same model as a Hugging Face folder."""
    import_transformers()
    from transformers import PreTrainedTokenizerFast

    model: Any = DECODERS["llama"].build()
    model.generation_config.cache_implementation = None
    model.generation_config.cache_config = None
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=_tokenizer()).save_pretrained(folder)
    return folder
