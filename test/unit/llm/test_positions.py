"""Rotary positions whose frequencies depend on the length of a text: what a program of a context computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

import etir
import etir.runtime
from etir.llm.export import export_decoder
from etir.llm.positions import fix_frequencies

from etir_testing.models.gguf_decoders import MORE_DECODERS, small_model
from etir_testing.models.static_cache import CACHE, PROMPT

IDS = [*PROMPT, 11, 60, 3, 90, 22, 31, 54, 2, 19, 44, 71]
DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}}


def _long(original: int) -> dict[str, Any]:
    rope = MORE_DECODERS["phi3long"].options["rope_parameters"] | {"original_max_position_embeddings": original}
    return {"original_max_position_embeddings": original, "rope_parameters": rope}


def _differences(model: Any, eager: Any) -> list[float]:
    """A prompt at once, then token by token: distances from the logits of ``eager`` without a cache, in its largest."""
    program = etir.compile(export_decoder(model, CACHE, 8), target="etir")
    method = etir.runtime.load(bytes(program.buffer))["forward"]
    found: list[float] = []
    for part in (IDS[:5], *([token] for token in IDS[5:])):
        at = 5 if len(part) == 5 else 5 + len(found)
        logits = np.asarray(method(torch.tensor([part]), torch.arange(at - len(part), at))[0])[0]
        with torch.no_grad():
            wanted = eager(torch.tensor([IDS[:at]]), use_cache=False).logits[0, -1].numpy()
        found.append(float(np.abs(logits - wanted).max() / np.abs(wanted).max()))
    return found


def test_a_context_for_short_texts_is_what_transformers_computes() -> None:
    assert max(_differences(small_model("phi3long", **_long(CACHE)), small_model("phi3long", **_long(CACHE)))) < 1e-5


def test_a_longer_context_takes_the_frequencies_of_long_texts_from_the_first_token() -> None:
    """transformers takes them from the eighth token on: then the logits are its own, however many are in the cache."""
    found = _differences(small_model("phi3long", **_long(7)), small_model("phi3long", **_long(7)))
    assert max(found[3:]) < 1e-5
    assert found[0] > 1e-3


def test_frequencies_are_chosen_once() -> None:
    model = small_model("phi3long", **_long(7))
    assert fix_frequencies(model, CACHE) == 7
    assert fix_frequencies(model, 7) is None, "they are chosen already"
    assert fix_frequencies(small_model("phi3long", **_long(7)), 7) is None
    assert fix_frequencies(small_model("llama"), CACHE) is None


def test_frequencies_that_are_computed_from_the_length() -> None:
    """Up to as many tokens as the model has positions they are the plain ones."""
    assert max(_differences(small_model("llama", **DYNAMIC), small_model("llama", **DYNAMIC))) < 1e-5
