"""The tokenizer of a GGUF file as a ``tokenizer.json``.

A GGUF file has a vocabulary, merges or scores, and the name of a pre-tokenizer. transformers has tables of them, and
those that it does not know are here; vocabularies of sentencepiece are converted as for the runner. One whose name
nobody knows is an error: text that is cut into other pieces gives other tokens, and a model that is a little worse for
no visible reason.
"""

from __future__ import annotations

import json
from typing import Any

from etir.llm.checkpoint.checkpoint import Chat
from etir.llm.checkpoint.gguf_header import GgufFile
from etir.llm.checkpoint.libraries import import_transformers
from etir.llm.errors import E1606
from etir.llm.vocabularies import WHOLE_WORDS, begins, frame, from_gguf

BYTES = ("default", "gpt-2", "gpt2", "phi-2", "jina-es", "jina-de", "roberta-bpe", "olmo", "mpt")
"""Pre-tokenizers that are GPT-2's own."""
DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Those that cut off every digit first, as llama.cpp's table of regular expressions says."""
COMPOSED = ("qwen2", "qwen35", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez")
"""Those whose publishers compose characters (NFC) first."""
ENDS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<EOT>",
    "<end_of_utterance>",
)
"""Tokens after which no model goes on, in whatever file: llama.cpp's list."""
_CONTROL, _USER = 3, 4
"""Kinds of tokens that are never cut out of text that has them, but whole."""


def gguf_tokenizer(file: GgufFile, architecture: str) -> tuple[str, int, Chat]:
    """The text of ``tokenizer.json``, the number of tokens, and what a chat needs. Raises E1606."""
    import_transformers()
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_PRE_TOKENIZER_SPLITS,
        GGUF_TOKENIZER_MAPPING,
        convert_gguf_tokenizer,
    )

    fields = {k.removeprefix("tokenizer."): v for k, v in file.fields.items() if k.startswith("tokenizer.")}
    tokens = fields.get("ggml.tokens")
    if not isinstance(tokens, list):
        raise E1606.error(f"'{file.path}' has no tokenizer", help="give one: --tokenizer tokenizer.json")
    kind, pre = fields.get("ggml.model"), str(fields.get("ggml.pre", "default"))
    if kind == "gpt2" and pre not in (*BYTES, *DIGITS, *GGUF_PRE_TOKENIZER_SPLITS):
        raise E1606.error(f"'{file.path}' cuts text as '{pre}' does, which is not known")
    given: dict[str, Any] = {
        name: fields[key] for key, name in GGUF_TOKENIZER_MAPPING["tokenizer"].items() if key in fields
    }
    for name in ("token_type", "scores"):
        if isinstance(given.get(name), list) and len(given[name]) != len(tokens):
            raise E1606.error(f"'{file.path}' has {len(tokens)} tokens and {len(given[name])} of {name}")
    try:
        if kind == "gpt2":
            made = _byte_level(given, pre, GGUF_PRE_TOKENIZER_SPLITS.get(pre))
        elif kind == "llama":
            made = _sentencepiece(file)
        else:
            made, _ = convert_gguf_tokenizer(architecture, given)
    except Exception as error:  # The library has no class of its own for a vocabulary that contradicts itself.
        raise E1606.error(f"the tokenizer of '{file.path}' cannot be made: {error}") from error
    made.post_processor = None
    _check(file, made, tokens)
    chat = chat_of(file)
    text = made.to_str()
    if chat.add_bos and chat.bos_id is not None:
        # As tokenizers that are published as tokenizer.json have it: it is added where that is asked for.
        text = json.dumps(json.loads(text) | {"post_processor": frame(tokens, chat.bos_id, -1)}, ensure_ascii=False)
    return text, len(tokens), chat


def _byte_level(given: dict[str, Any], pre: str, split: str | None) -> Any:
    """A tokenizer of merged bytes. transformers' own would add a token that not every vocabulary has."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokens, kinds = given["tokens"], given.get("token_type") or []
    merges = [tuple(merge.split(" ")) for merge in given["merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre in WHOLE_WORDS))
    steps: list[Any]
    if split is not None:
        first = pre_tokenizers.Split(Regex(split), behavior="isolated")
        steps = [first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        steps = [pre_tokenizers.Digits(individual_digits=True)] if pre in DIGITS else []
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    made.decoder = decoders.ByteLevel()
    if pre in COMPOSED:
        made.normalizer = normalizers.NFC()
    added = [
        AddedToken(token, normalized=False, special=kind == _CONTROL)
        for token, kind in zip(tokens, kinds, strict=False)
        if kind in (_CONTROL, _USER)
    ]
    made.add_tokens(added)
    return made


def _sentencepiece(file: GgufFile) -> Any:
    """A tokenizer with the ids of sentencepiece. transformers' own puts no space before a text that begins with one."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(from_gguf(file.fields, str(file.path))))


def _check(file: GgufFile, made: Any, tokens: list[Any]) -> None:
    """Every token has the number that the file gives it."""
    if made.get_vocab_size() > len(tokens):
        raise E1606.error(
            f"the tokenizer of '{file.path}' has {made.get_vocab_size()} tokens, the file lists {len(tokens)}"
        )
    kinds = file.fields.get("tokenizer.ggml.token_type")
    for index, token in enumerate(tokens):
        whole = isinstance(kinds, list) and kinds[index] in (_CONTROL, _USER)
        if whole and made.token_to_id(token) != index:
            raise E1606.error(f"token {index} of '{file.path}', '{token}', would be {made.token_to_id(token)}")


def chat_of(file: GgufFile) -> Chat:
    """What a chat needs of the file's fields. Raises E1606 for a token that the vocabulary does not have."""
    fields = {k.removeprefix("tokenizer."): v for k, v in file.fields.items() if k.startswith("tokenizer.")}
    found = fields.get("ggml.tokens")
    tokens: list[Any] = found if isinstance(found, list) else []

    def token(name: str) -> int | None:
        found = fields.get(f"ggml.{name}_token_id")
        if isinstance(found, int) and not 0 <= found < len(tokens):
            raise E1606.error(f"'{file.path}': {name} is token {found} of {len(tokens)}")
        return found if isinstance(found, int) else None

    bos, eos = token("bos"), token("eos")
    known = {text: index for index, text in enumerate(tokens) if text in ENDS}
    ends = [end for end in (eos, token("eot"), *(known.get(text) for text in ENDS)) if end is not None]
    template = fields.get("chat_template")
    return Chat(
        template=template if isinstance(template, str) else None,
        bos=None if bos is None else tokens[bos],
        eos=None if eos is None else tokens[eos],
        eos_ids=tuple(dict.fromkeys(ends)),
        bos_id=bos,
        add_bos=begins(file.fields) and bos is not None,
    )
