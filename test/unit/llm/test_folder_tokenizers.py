"""Tokenizers of Hugging Face folders that have no tokenizer.json."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from etir.llm import Tokenizer
from etir.llm.checkpoint.folder import tokenizer_text

TEXTS = ("the kernel of an operator", "  two  spaces", "ﬁne ½ Ａ", "naïve\t日本 😀", "\nthe", "the ")


def _write(folder: Path, settings: dict[str, Any], **options: Any) -> Any:
    """A folder with a sentencepiece model; returns what the package makes of it."""
    sentencepiece: Any = pytest.importorskip("sentencepiece")
    lines = ["the kernel of an operator reads a tensor", "a tensor is naïve", "日本 and ½ are letters"] * 20
    model = io.BytesIO()
    trained = {"vocab_size": 340, "byte_fallback": True, "user_defined_symbols": ["<|im_end|>"], "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, hard_vocab_limit=False, **trained, **options
    )
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    found = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = found.get_piece_size()
    settings = settings | {
        "tokenizer_class": "LlamaTokenizer",
        "add_bos_token": True,
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "added_tokens_decoder": {str(count): {"content": "<more>", "special": True}},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return found


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
@pytest.mark.parametrize("legacy", [True, False])
def test_text_is_cut_as_the_sentencepiece_model_cuts_it(kind: str, rule: str, legacy: bool, tmp_path: Path) -> None:
    """Characters that it replaces, spaces at the begin and none that it puts there: transformers' conversion loses
    these. Whether there is a space after a special token is for the settings to say, whose tokens are there besides.
    """
    options: dict[str, Any] = {"model_type": kind, "normalization_rule_name": rule, "add_dummy_prefix": kind == "bpe"}
    reference = _write(tmp_path, {"legacy": legacy}, **options)
    text, vocabulary, _ = tokenizer_text(tmp_path)
    made = Tokenizer.from_json(text)
    for each in TEXTS:
        if legacy or kind == "unigram" or not each[0].isspace():  # There a space is put before texts without one.
            assert made.encode(each) == reference.encode(each), each
            assert made.decode(reference.encode(each)) == reference.decode(reference.encode(each)), each
    prefixed = legacy and kind == "bpe"
    end = reference.piece_to_id("<|im_end|>")
    found = made.encode("a<|im_end|>the")
    assert end in found and (made.token(found[found.index(end) + 1]).startswith("▁")) == prefixed
    more = reference.get_piece_size()
    assert vocabulary == more + 1
    assert made.encode("the<more>")[-1] == more
    assert made.encode("the", add_special_tokens=True)[0] == reference.bos_id()
    assert made.is_special(end)
