"""llama.cpp as the judge of GGUF files: its logits of the small decoders that tests write, beside transformers'.

    python test/gguf_judge.py             every decoder: the largest difference, relative to the largest logit
    python test/gguf_judge.py gemma2 falcon

It needs llama-cpp-python, which is built from source and which no test asks for. What is compared is whether the files
say what llama.cpp reads in them; that etir reads the same is what ``unit/llm/test_gguf.py`` tests.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from etir.llm.positions import fix_frequencies

from etir_testing.models import checkpoints
from etir_testing.models.checkpoints import write_gguf
from etir_testing.models.gguf_decoders import GGUF_DECODERS

IDS = (5, 17, 42, 8, 77, 3, 90, 11, 60, 22, 31, 54)
"""More tokens than the windows of those that have one."""
CONTEXT = 256
"""The least that llama.cpp has."""
NEEDED = ("</s>", "<unk>", "<s>", "<|endoftext|>")
"""Tokens without which llama.cpp reads no file of Phi-3."""


def logits_of_llama_cpp(path: Path) -> np.ndarray:
    """The logits after all of :data:`IDS`: f32[vocabulary]."""
    import llama_cpp  # pyright: ignore[reportMissingImports]

    # Attention in float32: a cache in float16 would be in the way of the comparison.
    model = llama_cpp.Llama(str(path), n_ctx=CONTEXT, type_k=0, type_v=0, verbose=False, n_threads=1, flash_attn=False)
    model.eval(list(IDS))
    context = model.ctx if hasattr(model, "ctx") else model._ctx.ctx
    found = llama_cpp.llama_get_logits_ith(context, -1)
    return np.array([found[i] for i in range(model.n_vocab())], np.float32)


def as_llama_cpp(name: str) -> dict[str, Any]:
    """Options of a decoder that llama.cpp takes for granted: it rounds the corrections of scaled positions."""
    rope = GGUF_DECODERS[name].options.get("rope_parameters", {})
    return {"rope_parameters": rope | {"truncate": True}} if rope.get("rope_type") == "yarn" else {}


def main() -> int:
    """Print a line for each decoder; 1 when one is further than 1e-3 from transformers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="decoders (default: all)")
    tokens = checkpoints.tokens()
    checkpoints.tokens = lambda: [*NEEDED, *tokens[len(NEEDED) :]]  # type: ignore[assignment]
    worst = 0.0
    for name in parser.parse_args().names or GGUF_DECODERS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.gguf"
            model = write_gguf(path, name, **as_llama_cpp(name))
            fix_frequencies(model, CONTEXT)
            with torch.no_grad():
                expected = model(torch.tensor([IDS]), use_cache=False).logits[0, -1].float().numpy()
            try:
                difference = float(np.abs(logits_of_llama_cpp(path) - expected).max() / np.abs(expected).max())
            except (ValueError, RuntimeError) as error:
                print(f"{name:14} {error}", flush=True)
                difference = np.inf
        print(f"{name:14} {difference:.1e}", flush=True)
        worst = max(worst, difference)
    return int(worst > 1e-3)


if __name__ == "__main__":
    raise SystemExit(main())
