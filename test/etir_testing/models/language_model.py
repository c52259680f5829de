"""A small decoder as a file of the contract of text runners, with a tokenizer: what tests of sessions run.

Both conventions of it: positions of all tokens and logits of each (transformers'), and the position of the first and
the logits of the last (ExecuTorch's own).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from etir_testing import ROOT
from etir_testing.models.static_cache import CACHE, DECODERS, exported, wrapped

VOCABULARY = 320
EOS = 1


@dataclass(frozen=True)
class SmallModel:
    """The files, and the model that they were made from."""

    path: Path
    eager: nn.Module

    def greedy(self, ids: list[int], count: int) -> list[int]:
        """Tokens that eager chooses without a cache, up to one that ends an answer."""
        found: list[int] = []
        with torch.no_grad():
            while len(found) < count and EOS not in found:
                logits = self.eager(input_ids=torch.tensor([[*ids, *found]]), use_cache=False).logits
                found.append(int(logits[0, -1].argmax()))
        return found

    def logits(self, ids: list[int]) -> Any:
        """Logits of all positions, as NumPy float32 ``[len(ids), vocabulary]``."""
        with torch.no_grad():
            return self.eager(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


class _LastOnly(nn.Module):
    """Token ids i64[1, n] and the first position i64[1] → logits f32[1, vocabulary] of the last."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.decoder = wrapped(model)

    def forward(self, tokens: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        positions = start + torch.arange(tokens.shape[1])
        return self.decoder(input_ids=tokens, cache_position=positions)[:, -1]


def train_tokenizer(size: int = VOCABULARY, *, ascii: bool = False) -> Any:
    """A byte-level BPE of ``tokenizers``, trained on a page of the documents. ``ascii``: its tokens are characters."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True) for text in ("<|start|>", "<|end|>")]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,  # type: ignore[arg-type]
        initial_alphabet=[] if ascii else pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    tokenizer.train_from_iterator([text.encode("ascii", "ignore").decode()], trainer)
    return tokenizer


def write_small_model(
    folder: Path, *, last_only: bool = False, target: str = "etir", constants: dict[str, object] | None = None
) -> SmallModel:
    """Export and compile into a folder: ``model.pte``, ``model.tokenizer.json``."""
    import etir

    decoder = DECODERS["llama"]
    model = replace(decoder, options=decoder.options | {"vocab_size": VOCABULARY}).build()
    if last_only:
        count = Dim("tokens", max=CACHE - 1)
        sizes = {"tokens": {1: count}, "start": None}
        sample = (torch.ones(1, 3, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
        with torch.no_grad():
            program = torch.export.export(_LastOnly(model), sample, dynamic_shapes=sizes)
    else:
        program = exported(model, tokens=3, dynamic=True)
    numbers: dict[str, object] = {
        "get_max_seq_len": CACHE,
        "get_max_context_len": CACHE,
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
        "get_eos_ids": [EOS],
        "get_bos_id": 0,
        "get_vocab_size": VOCABULARY,
        "get_n_layers": 2,
    }
    compiled = etir.compile(program, target=target, constant_methods=numbers | (constants or {}))
    path = folder / "model.pte"
    path.write_bytes(compiled.buffer)
    train_tokenizer().save(str(path.with_suffix(".tokenizer.json")))
    return SmallModel(path, model)
