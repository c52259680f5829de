"""Decoders of transformers generate the same tokens as eager, compiled for both runtimes.

Here the decoders that differ most, each exported in another way; ``python test/static_cache.py`` runs every
decoder in every way, and with ``--dtype`` in half precision.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import etir

from etir_testing.models.static_cache import (
    DECODERS,
    RUNTIMES,
    Generated,
    Wrapper,
    exported,
    generate,
    without_cache,
    wrapped,
)


@cache
def expected(name: str) -> Generated:
    """What eager generates without a cache."""
    return without_cache(DECODERS[name].build())


@pytest.mark.parametrize("name", list(DECODERS))
def test_reference_is_far_from_ties_and_varied(name: str) -> None:
    assert len(set(expected(name).tokens)) >= 8
    assert expected(name).margin > 0.01


def check(name: str, program: torch.export.ExportedProgram, *, prefill: bool = False) -> None:
    """Compile for both runtimes, generate on both."""
    for target, load in RUNTIMES.items():
        step = load(etir.compile(program, target=target).buffer)
        found = generate(step, prefill=step if prefill else None)
        assert found.tokens == expected(name).tokens, target
        assert found.difference(expected(name)) < 1e-5, target


@pytest.mark.parametrize(
    ("name", "wrapper", "strict"),
    [
        ("phi", "static", False),  # the caches are constants that the program changes
        ("gemma3", "decoder-only", False),  # sliding window
        ("gpt2", "function", True),  # the caches are buffers; learned positions, tied weights
    ],
)
def test_same_tokens_as_eager(name: str, wrapper: Wrapper, strict: bool) -> None:
    check(name, exported(DECODERS[name].build(), wrapper=wrapper, strict=strict))


def test_prompt_of_any_length() -> None:
    """One method takes the prompt at once and then token by token."""
    check("llama", exported(DECODERS["llama"].build(), tokens=3, dynamic=True), prefill=True)


def test_half_precision() -> None:
    """Step by step the logits of the module itself, which sees the same tokens, within the dtype's own noise."""
    model = DECODERS["qwen3"].build(torch.bfloat16)
    program = exported(model)
    reference = wrapped(DECODERS["qwen3"].build(torch.bfloat16))
    tolerance = 8 * torch.finfo(torch.bfloat16).eps
    steps = {target: load(etir.compile(program, target=target).buffer) for target, load in RUNTIMES.items()}
    for position, token in enumerate(expected("qwen3").tokens):
        ids, at = torch.tensor([[token]]), torch.tensor([position])
        with torch.no_grad():
            wanted = reference(input_ids=ids, cache_position=at)
        for target, step in steps.items():
            got = step(ids, at)
            assert got.dtype == torch.bfloat16
            assert (got.float() - wanted.float()).abs().max() < tolerance * wanted.abs().max(), (target, position)
