"""ExecuTorch's own export of a Llama of a GGUF file, as its wheel has it: 8da4w in groups of 32, XNNPACK, KV cache.

    python benchmarks/language_peers/export_stock.py MODEL.gguf MODEL.pte

The model is the definition of ``executorch.examples.models.llama``, whose order of query and key rows is GGUF's own.
The options are those of its README for a processor: ``qmode 8da4w``, ``embedding_quantize 8,0``,
``use_sdpa_with_kv_cache`` and XNNPACK with ``extended_ops``. Weights are multiplied out and rounded anew, the head too,
which is 4-bit then: what is measured is its speed. SmolLM2-135M takes more than ten minutes of a processor and 3 GB.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, quants

CONTEXT = 2048

_NAMES = {
    "token_embd": "tok_embeddings",
    "output_norm": "norm",
    "output": "output",
    "attn_q": "attention.wq",
    "attn_k": "attention.wk",
    "attn_v": "attention.wv",
    "attn_output": "attention.wo",
    "attn_norm": "attention_norm",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_down": "feed_forward.w2",
    "ffn_up": "feed_forward.w3",
}


def weights(reader: GGUFReader) -> dict[str, torch.Tensor]:
    """The tensors by the names of ExecuTorch's definition, in float32."""
    found: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        block, name = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", tensor.name).groups()  # pyright: ignore[reportOptionalMemberAccess]
        prefix = f"layers.{block}." if block else ""
        values = np.array(quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        found[f"{prefix}{_NAMES[name]}.weight"] = torch.from_numpy(values)
    found.setdefault("output.weight", found["tok_embeddings.weight"].clone())
    return found


def parameters(reader: GGUFReader) -> dict[str, Any]:
    """The sizes of the model as ExecuTorch's definition names them."""

    def value(key: str) -> Any:
        return reader.fields[f"llama.{key}"].contents()

    return {
        "dim": value("embedding_length"),
        "n_layers": value("block_count"),
        "n_heads": value("attention.head_count"),
        "n_kv_heads": value("attention.head_count_kv"),
        "hidden_dim": value("feed_forward_length"),
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].data),
        "norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_theta": value("rope.freq_base"),
        "use_scaled_rope": False,
    }


def main() -> int:
    from executorch.examples.models.llama.export_llama_lib import export_llama
    from executorch.extension.llm.export.config.llm_config import LlmConfig

    source, target = sys.argv[1], Path(sys.argv[2]).resolve()
    reader = GGUFReader(source)
    config = LlmConfig()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(weights(reader), f"{folder}/weights.pth")
        Path(f"{folder}/params.json").write_text(json.dumps(parameters(reader)), encoding="utf-8")
        config.base.checkpoint, config.base.params = f"{folder}/weights.pth", f"{folder}/params.json"
        config.model.use_kv_cache = config.model.use_sdpa_with_kv_cache = True
        config.export.max_seq_length = config.export.max_context_length = CONTEXT
        config.export.output_name = str(target)  # joined to a folder, which an absolute path replaces
        config.quantization.qmode, config.quantization.group_size = "8da4w", 32
        config.quantization.embedding_quantize = "8,0"
        config.quantization.use_hqq = False
        config.backend.xnnpack.enabled = config.backend.xnnpack.extended_ops = True
        export_llama(config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
