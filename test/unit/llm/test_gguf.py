"""GGUF files of every architecture, read back as the models that they were written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etir.llm.checkpoint.architectures import ARCHITECTURES
from etir.llm.checkpoint.blocks import KEPT, blocks_of
from etir.llm.checkpoint.load import load_checkpoint

from etir_testing.models import checkpoints
from etir_testing.models.gguf_decoders import GGUF_DECODERS, architecture_of
from etir_testing.models.static_cache import VOCABULARY

NAMES = tuple(GGUF_DECODERS)
IDS = torch.tensor([[5, 17, 42, 8, 77, 3, 90, 11, 60, 22]])


def test_the_table_is_tested() -> None:
    assert set(ARCHITECTURES) == {architecture_of(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_model_that_was_written(name: str, tmp_path: Path) -> None:
    written = checkpoints.write_gguf(tmp_path / "m.gguf", name)
    found = load_checkpoint(tmp_path / "m.gguf")
    with torch.no_grad():
        expected, logits = written(IDS).logits, found.model(IDS).logits
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    assert found.blocks == {}
    assert found.name == f"small {name}"
    assert found.chat.eos_ids == (VOCABULARY - 1,)
    assert found.chat.template == checkpoints.TEMPLATE
    assert found.vocabulary == VOCABULARY


@pytest.mark.parametrize(
    ("name", "own", "fields"),
    [
        ("phi3", {"sliding_window": 4}, {}),
        ("starcoder2", {"sliding_window": 4}, {}),
        ("gemma3", {"final_logit_softcapping": 0.5}, {}),
        ("gemma3", {"layer_types": ["full_attention", "sliding_attention"] * 3}, {"layers": [False, True] * 3}),
        ("cohere2", {"layer_types": ["sliding_attention", "full_attention"] * 2}, {"layers": 2}),
    ],
)
def test_windows_and_caps_are_those_of_the_fields(
    name: str, own: dict[str, Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    """Ten tokens, which go beyond the windows."""
    more = {f"{architecture_of(name)}.attention.sliding_window_pattern": value for value in fields.values()}
    written = checkpoints.write_gguf(tmp_path / "m.gguf", name, fields=more, **own)
    with torch.no_grad():
        torch.testing.assert_close(load_checkpoint(tmp_path / "m.gguf").model(IDS).logits, written(IDS).logits)


def test_a_llama_with_a_window_is_a_mistral(tmp_path: Path) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    written = checkpoints.write_gguf(tmp_path / "m.gguf", "llama", fields={"llama.attention.sliding_window": 4})
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    same = {name: getattr(written.config, name) for name in (*names, "vocab_size", "rms_norm_eps")}
    wanted = MistralForCausalLM(MistralConfig(**same, sliding_window=4)).eval()
    wanted.load_state_dict(written.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(load_checkpoint(tmp_path / "m.gguf").model(IDS).logits, wanted(IDS).logits)


def test_a_number_for_each_layer_that_is_the_same(tmp_path: Path) -> None:
    fields = {"llama.attention.head_count_kv": [2, 2], "llama.feed_forward_length": [128, 128]}
    written = checkpoints.write_gguf(tmp_path / "m.gguf", "llama", fields=fields)
    with torch.no_grad():
        torch.testing.assert_close(load_checkpoint(tmp_path / "m.gguf").model(IDS).logits, written(IDS).logits)


@pytest.mark.parametrize("type", list(KEPT))
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_blocks_are_the_numbers_of_the_package(name: str, type: str, tmp_path: Path) -> None:
    """Rows of queries and keys go back to where transformers has them, with their blocks."""
    import gguf

    written = checkpoints.write_gguf(tmp_path / "m.gguf", name, type)
    found = load_checkpoint(tmp_path / "m.gguf")
    kind = gguf.GGMLQuantizationType[type]
    weights = dict(written.named_parameters())
    assert found.blocks and all(bits.bits == KEPT[type] for bits in found.blocks.values())
    for parameter, blocks in found.blocks.items():
        array = weights[parameter].detach().numpy()
        if name == "gpt2" and ".h." in parameter:
            array = array.T
        stored = gguf.quants.dequantize(gguf.quants.quantize(np.ascontiguousarray(array), kind), kind)
        np.testing.assert_allclose(blocks.multiplied_out(), stored, rtol=0, atol=3e-7)
        low, high = blocks.bounds
        assert low <= blocks.integers.min() and blocks.integers.max() <= high
        assert np.array_equal(blocks.scales, blocks.scales.astype(np.float16).astype(np.float32))


def test_minimums_are_told_exactly_by_zero_points() -> None:
    """Also of blocks of one number, and of zeros, whose scale is 0."""
    import gguf

    generator = np.random.default_rng(3)
    rows = generator.standard_normal((6, 96)).astype(np.float32)
    rows[1, :32], rows[2, 32:64] = 0.0, -1.5
    raw = gguf.quants.quantize(rows, gguf.GGMLQuantizationType.Q4_1)
    blocks = blocks_of("Q4_1", raw)
    assert blocks.zeros is not None
    parts = raw.reshape(6, 3, 20)
    minimum = parts[..., 2:4].copy().view(np.float16)[..., 0]
    told = (-blocks.zeros * blocks.scales).astype(np.float16)
    assert np.array_equal(told, minimum)
    assert np.array_equal(blocks.multiplied_out()[2, 32:64], np.full(32, -1.5, np.float32))


def test_other_types_are_multiplied_out_with_a_remark(tmp_path: Path) -> None:
    checkpoints.write_gguf(tmp_path / "m.gguf", "llama", "Q5_0")
    found = load_checkpoint(tmp_path / "m.gguf")
    assert found.blocks == {}
    assert found.remarks == ("16 tensors are not kept as they are in the file (16 of Q5_0)",)


def test_tied_heads_are_one_weight(tmp_path: Path) -> None:
    checkpoints.write_gguf(tmp_path / "m.gguf", "llama", "Q8_0", tie_word_embeddings=True)
    model = load_checkpoint(tmp_path / "m.gguf").model
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({}, False),
        ({"tokenizer.ggml.add_bos_token": True}, True),
        ({"tokenizer.ggml.pre": "llama-bpe"}, True),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, False),
    ],
)
def test_what_texts_begin_with(fields: dict[str, Any], begins: bool, tmp_path: Path) -> None:
    """A token that the file asks for, or that llama.cpp takes for its kind: before texts, and before conversations of a
    template that does not write it.
    """
    from etir.llm.chat_description import ChatDescription
    from etir.llm.template import compile_template, render, render_segments
    from etir.llm.tokenizer import Tokenizer

    first = {"tokenizer.ggml.bos_token_id": VOCABULARY - 1}
    checkpoints.write_gguf(tmp_path / "m.gguf", "llama", fields=fields | first)
    found = load_checkpoint(tmp_path / "m.gguf")
    tokenizer = Tokenizer.from_json(found.tokenizer)
    plain = tokenizer.encode("the end")
    expected = [VOCABULARY - 1] if begins else []
    assert tokenizer.encode("the end", add_special_tokens=True) == expected + plain
    chat = ChatDescription.from_data(found.chat.as_dict("m", 64), "m")
    rows = [{"role": "user", "content": "Hi"}]
    assert render(chat, rows) == (checkpoints.END if begins else "") + "<user>Hi>"
    assert render_segments(compile_template(chat), rows) == render(chat, rows)
