"""Other formats of tokenizers as ``tokenizer.json``: GGUF's vocabulary, sentencepiece models, tiktoken files.

Each is converted to the parts of Hugging Face's format that mean the same, as transformers converts them; ids do not
change. The readers take nothing on trust: what is damaged is E1701, what has no equal there E1702.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from etir.llm.errors import E1701, E1702

Data = dict[str, Any]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# As tiktoken has it, without the possessive forms, which match the same there.
CL100K = "|".join(
    (
        r"(?i:'[sdmt]|'ll|'ve|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s",
    )
)

PATTERNS: dict[str, tuple[bool, str]] = {
    "gpt-2": (False, GPT2),
    "smollm": (True, GPT2),
    "starcoder": (True, GPT2),
    "refact": (True, GPT2),
    "codeshell": (True, GPT2),
    "llama-bpe": (False, LLAMA3),
    "llama3": (False, LLAMA3),
    "falcon3": (False, LLAMA3),
    "dbrx": (False, LLAMA3),
    "smaug-bpe": (False, LLAMA3),
    "qwen2": (False, QWEN2),
    "deepseek-r1-qwen": (False, QWEN2),
    "stablelm2": (False, QWEN2),
    "gpt-4o": (False, O200K),
    "llama4": (False, O200K),
}
"""``tokenizer.ggml.pre`` of GGUF: whether digits stand alone, and the pattern of words."""

WHOLE_WORDS = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
"""Of these, those that take a word that is a token as it is, whatever its merges would make of it."""
BEGUN = (*WHOLE_WORDS, "chameleon")
"""Those whose texts begin with a token where the file does not say whether."""

TIKTOKEN = {"cl100k_base": CL100K, "o200k_base": O200K, "gpt2": GPT2, "r50k_base": GPT2, "p50k_base": GPT2}
"""The pattern by the name of the file; others are taken for Llama 3's."""


def read_tokenizer(path: Path) -> bytes:
    """The contents of a ``tokenizer.json`` that says what a file says. Raises EtirError (E1701, E1702)."""
    if path.is_dir():
        path = path / "tokenizer.json"
    try:
        if path.suffix == ".gguf":
            return _text(from_gguf(gguf_metadata(path), str(path)))
        data = path.read_bytes()
    except OSError as error:
        raise E1701.error(f"'{path}' cannot be read: {error.strerror}") from None
    if path.suffix == ".model" and not data.lstrip().startswith(b"{"):
        if _is_tiktoken(data):
            return _text(from_tiktoken(data, str(path), LLAMA3))
        return _text(from_sentencepiece(data, str(path)))
    if path.suffix == ".tiktoken":
        return _text(from_tiktoken(data, str(path), TIKTOKEN.get(path.stem, LLAMA3)))
    return data


def _text(data: Data) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


def _tokenizer(model: Data, added: Iterable[tuple[int, str, bool]], **parts: Any) -> Data:
    rows = [
        {
            "id": id,
            "content": content,
            "special": special,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for id, content, special in added
        if content
    ]
    empty = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return {"version": "1.0", "added_tokens": rows} | empty | parts | {"model": model}


def _words(pattern: str, digits: bool) -> Data:
    steps: list[Data] = [{"type": "Digits", "individual_digits": True}] if digits else []
    steps.append({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False})
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}


BYTE_LEVEL: Data = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


# --- GGUF -----------------------------------------------------------------------------------------------------------

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class _Reader:
    """Values of a GGUF header, one after the other."""

    def __init__(self, data: bytes, name: str):
        self.data, self.name, self.at = data, name, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise E1701.error(f"'{self.name}' ends in the middle of its metadata")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise E1701.error(f"'{self.name}' has a value of kind {kind}, which GGUF does not have")
        of, count = self.number("I"), self.number("Q")
        if of in _SCALARS:
            code = _SCALARS[of]
            return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(code))))
        if of != _STRING or count > len(self.data) // 8:
            raise E1701.error(f"'{self.name}' has a list of kind {of}, or one that is longer than the file")
        return [self.string() for _ in range(count)]


def gguf_metadata(path: Path) -> Data:
    """The key-value pairs of a GGUF file (versions 2 and 3). Raises EtirError (E1701), and OSError."""
    import mmap

    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 24:
            raise E1701.error(f"'{path}' is no GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            head = _Reader(data[: min(size, 64 << 20)], str(path))
    if head.take(4) != b"GGUF" or head.number("I") not in (2, 3):
        raise E1701.error(f"'{path}' is no GGUF file of version 2 or 3")
    head.number("Q")
    return {head.string(): head.value(head.number("I")) for _ in range(head.number("Q"))}


def begins(metadata: Mapping[str, Any]) -> bool:
    """Whether a text begins with the token for that: what the file says, else what llama.cpp takes for its kind."""
    default = metadata.get("tokenizer.ggml.model") == "llama" or metadata.get("tokenizer.ggml.pre") in BEGUN
    return bool(metadata.get("tokenizer.ggml.add_bos_token", default))


def from_gguf(metadata: Mapping[str, Any], name: str) -> Data:
    """The vocabulary of a GGUF file. Raises EtirError: E1701, E1702 for kinds other than ``gpt2`` and ``llama``."""

    def get(key: str, kind: type, otherwise: Any) -> Any:
        value = metadata.get(f"tokenizer.ggml.{key}", otherwise)
        if not isinstance(value, kind):
            raise E1701.error(f"'{name}': tokenizer.ggml.{key} is {type(value).__name__}")
        return value

    tokens: list[str] = get("tokens", list, [])
    kinds: list[int] = get("token_type", list, [1] * len(tokens))
    if not tokens or not all(isinstance(token, str) for token in tokens) or len(kinds) != len(tokens):
        raise E1701.error(f"'{name}' has no vocabulary")
    control, user_defined = 3, 4
    added = [
        (i, t, k == control) for i, (t, k) in enumerate(zip(tokens, kinds, strict=True)) if k in (control, user_defined)
    ]
    ends = frame(
        tokens,
        get("bos_token_id", int, -1) if begins(metadata) else -1,
        get("eos_token_id", int, -1) if get("add_eos_token", bool, False) else -1,
    )
    match get("model", str, ""):
        case "gpt2":
            pre = get("pre", str, "gpt-2")
            if pre not in PATTERNS:
                known = ", ".join(PATTERNS)
                raise E1702.error(f"'{name}': the pre-tokenizer '{pre}' of GGUF is not known; there are {known}")
            digits, pattern = PATTERNS[pre]
            merges = [merge.split(" ", 1) for merge in get("merges", list, []) if isinstance(merge, str)]
            if any(len(merge) != 2 for merge in merges):
                raise E1701.error(f"'{name}' has a merge that is not two tokens")
            model = _bpe(_ids(tokens), merges, ignore_merges=pre in WHOLE_WORDS)
            return _tokenizer(
                model, added, pre_tokenizer=_words(pattern, digits), decoder=BYTE_LEVEL, post_processor=ends
            )
        case "llama":
            scores: list[float] = get("scores", list, [])
            if len(scores) != len(tokens) or not all(isinstance(score, float) for score in scores):
                raise E1701.error(f"'{name}' has no scores for its tokens")
            prefix = get("add_space_prefix", bool, True)
            return _sentencepiece_bpe(tokens, scores, added, prefix, get("unknown_token_id", int, 0), None, ends)
        case kind:
            raise E1702.error(f"'{name}': the tokenizer '{kind}' of GGUF is not known; there are gpt2 and llama")


def _ids(tokens: Iterable[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for id, token in enumerate(tokens):
        ids.setdefault(token, id)
    return ids


def _bpe(vocabulary: Mapping[str, int], merges: list[list[str]], **options: Any) -> Data:
    empty = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    flags = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE"} | empty | flags | options | {"vocab": dict(vocabulary), "merges": merges}


def frame(tokens: list[str], bos: int, eos: int) -> Data | None:
    """What puts a token before and after each text; -1: none."""
    if not 0 <= bos < len(tokens) and not 0 <= eos < len(tokens):
        return None
    single: list[Data] = [{"Sequence": {"id": "A", "type_id": 0}}]
    special: Data = {}
    for id, place in ((bos, 0), (eos, 2)):
        if not 0 <= id < len(tokens):
            continue
        text = tokens[id]
        single.insert(place, {"SpecialToken": {"id": text, "type_id": 0}})
        special[text] = {"id": text, "ids": [id], "tokens": [text]}
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": special}


# --- sentencepiece ----------------------------------------------------------------------------------------------------


def _fields(data: bytes, name: str) -> Iterator[tuple[int, Any]]:
    """The fields of a message of Protocol Buffers: varints as int, the rest as bytes. Raises EtirError (E1701)."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise E1701.error(f"'{name}' is no sentencepiece model, or is damaged at byte {at}")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        sizes = {1: 8, 5: 4}
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if key & 7 == 2 else sizes.get(key & 7, -1)
        if size < 0 or at + size > len(data):
            raise E1701.error(f"'{name}' is no sentencepiece model, or is damaged at byte {at}")
        yield key >> 3, data[at : at + size]
        at += size


def from_sentencepiece(data: bytes, name: str) -> Data:
    """A sentencepiece model of BPE or Unigram. Raises EtirError (E1701, E1702)."""
    pieces: list[tuple[str, float, int]] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data, name):
        if number == 1 and isinstance(value, bytes):
            piece = dict(_fields(value, name))
            text, score, kind = piece.get(1, b""), piece.get(2, b"\0\0\0\0"), piece.get(3, 1)
            if (
                not isinstance(text, bytes)
                or not isinstance(score, bytes)
                or len(score) != 4
                or isinstance(kind, bytes)
            ):
                raise E1701.error(f"'{name}': piece {len(pieces)} is damaged")
            pieces.append((text.decode("utf-8", "replace"), struct.unpack("<f", score)[0], kind))
        elif number == 2 and isinstance(value, bytes):
            trainer = dict(_fields(value, name))
        elif number == 3 and isinstance(value, bytes):
            normalizer = dict(_fields(value, name))
    numbers = (trainer.get(3, 0), trainer.get(35, 0), normalizer.get(3, 0), normalizer.get(4, 0))
    chars = normalizer.get(2, b"")
    if any(isinstance(number, bytes) for number in numbers) or not isinstance(chars, bytes):
        raise E1701.error(f"'{name}' has a setting of another type: it is no sentencepiece model")
    if not pieces or not trainer:
        raise E1701.error(
            f"'{name}' has no pieces or does not say of which kind they are: it is no sentencepiece model"
        )
    unigram, bpe, unknown_kind, control, user_defined = 1, 2, 2, 3, 4
    tokens = [text for text, _, _ in pieces]
    scores = [score for _, score, _ in pieces]
    added = [
        (i, text, kind != user_defined)
        for i, (text, _, kind) in enumerate(pieces)
        if kind in (control, unknown_kind, user_defined)
    ]
    unknown = next((i for i, piece in enumerate(pieces) if piece[2] == unknown_kind), 0)
    prefix = bool(normalizer.get(3, 1))
    squeeze = bool(normalizer.get(4, 1))
    steps: list[Data] = []
    if chars:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(chars).decode()})
    if squeeze:
        # Spaces alone: a line that begins the text stays.
        steps.append({"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    kind = int(trainer.get(3, unigram))
    fallback = bool(trainer.get(35, 0))
    if kind == bpe:
        return _sentencepiece_bpe(tokens, scores, added, prefix, unknown, steps, None, fallback)
    if kind != unigram:
        raise E1702.error(f"'{name}': sentencepiece models of kind {kind} are not known; there are Unigram and BPE")
    model = {
        "type": "Unigram",
        "unk_id": unknown,
        "vocab": [[text, score] for text, score, _ in pieces],
        "byte_fallback": fallback,
    }
    spaces: Data = {"type": "Sequence", "normalizers": [*steps, *_space_normalizers(prefix)]}
    return _tokenizer(model, added, normalizer=spaces, decoder=_space_decoder(prefix))


def _space_normalizers(prefix: bool) -> list[Data]:
    spaces: list[Data] = [{"type": "Prepend", "prepend": "▁"}] if prefix else []
    return [*spaces, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]


def _space_decoder(prefix: bool) -> Data:
    steps: list[Data] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def _sentencepiece_bpe(
    tokens: list[str],
    scores: list[float],
    added: list[tuple[int, str, bool]],
    prefix: bool,
    unknown: int,
    steps: list[Data] | None,
    frame: Data | None,
    fallback: bool = True,
) -> Data:
    """sentencepiece's BPE has no merges: of two neighbors whose text is a token, those with the best score go first."""
    ids = _ids(tokens)
    if not 0 <= unknown < len(tokens):
        raise E1701.error(f"the unknown token {unknown} is none of {len(tokens)}")
    aside = {id for id, _, _ in added}
    order = sorted((id for id in ids.values() if id not in aside), key=lambda id: (-scores[id], id))
    merges: list[list[str]] = []
    for id in order:
        token = tokens[id]
        parts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        found = [part for part in parts if part[0] in ids and part[1] in ids]
        merges += [list(part) for part in sorted(found, key=lambda part: (ids[part[0]], ids[part[1]]))]
    model = _bpe(ids, merges, unk_token=tokens[unknown], fuse_unk=True, byte_fallback=fallback)
    normalizer = {"type": "Sequence", "normalizers": [*(steps or []), *_space_normalizers(prefix)]}
    return _tokenizer(model, added, normalizer=normalizer, decoder=_space_decoder(prefix), post_processor=frame)


# --- tiktoken ---------------------------------------------------------------------------------------------------------


def _is_tiktoken(data: bytes) -> bool:
    line = data[:200].split(b"\n", 1)[0].split()
    return len(line) == 2 and line[1].isdigit()


def from_tiktoken(data: bytes, name: str, pattern: str) -> Data:
    """Lines of a token in base 64 and its rank, which is its id. Raises EtirError (E1701).

    tiktoken has no merges: of two neighbors whose bytes are a token, those with the lowest rank go first.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            text, rank = line.split()
            ranks[base64.b64decode(text, validate=True)] = int(rank)
        except ValueError:
            raise E1701.error(f"'{name}', line {number}: a token in base 64 and its rank are expected") from None
    if not ranks:
        raise E1701.error(f"'{name}' has no tokens")
    letters = _byte_letters()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges: list[list[str]] = []
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        found = [part for part in parts if part[0] in ranks and part[1] in ranks]
        merges += [
            [spelled(a), spelled(b)] for a, b in sorted(found, key=lambda part: (ranks[part[0]], ranks[part[1]]))
        ]
    vocabulary = {spelled(token): rank for token, rank in ranks.items()}
    model = _bpe(vocabulary, merges, ignore_merges=True)
    return _tokenizer(model, (), pre_tokenizer=_words(pattern, False), decoder=BYTE_LEVEL)


def _byte_letters() -> list[str]:
    """GPT-2's characters for bytes: printable ones are themselves, the others come from 256 on."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
