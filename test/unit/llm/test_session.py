"""Sessions against eager torch and against the stock runner."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import etir.runtime
from etir.diagnostics import EtirError
from etir.llm import LanguageModel, Sampling
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import LanguageModelOptions, compile_language_model

from etir_testing.models.checkpoints import write_gguf
from etir_testing.models.language_model import EOS, VOCABULARY, SmallModel, train_tokenizer, write_small_model
from etir_testing.models.static_cache import CACHE

CAPACITY = 1 << 16
PROMPT = [5, 17, 42, 8, 77, 200, 310]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    return write_small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def last_only(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    return write_small_model(tmp_path_factory.mktemp("last"), last_only=True)


@pytest.fixture
def model(small: SmallModel) -> LanguageModel:
    return LanguageModel.load(small.path, threads=1)


def ids_of(generation: Any) -> list[int]:
    return [token.id for token in generation]


def raised(id: str, call: Any) -> str:
    with pytest.raises(EtirError) as error:
        call()
    assert error.value.ids == (id,)
    return str(error.value)


def test_what_the_file_says(model: LanguageModel) -> None:
    assert (model.context, model.vocabulary_size, model.eos_ids) == (CACHE, VOCABULARY, (EOS,))
    assert model.piece == CACHE - 1  # the bound of the export
    session = model.session()
    memory = model.memory()
    assert memory["file"] == model.path.stat().st_size
    # Two layers of keys and values: f32[1, 2, CACHE, 16] each.
    assert memory["session"] >= 4 * 2 * CACHE * 16 * 4
    assert session.tokens == []


def test_greedy_tokens_are_eager_s(small: SmallModel, last_only: SmallModel) -> None:
    for files in (small, last_only):
        session = LanguageModel.load(files.path, threads=1).session()
        expected = files.greedy(PROMPT, 20)
        assert ids_of(session.generate(PROMPT, max_tokens=20)) == expected
        # What was generated is held but for the last token, which was not fed.
        assert session.tokens == [*PROMPT, *expected[:-1]]


def test_logits_of_every_token_are_eager_s(small: SmallModel, last_only: SmallModel) -> None:
    expected = small.logits(PROMPT)
    for files in (small, last_only):
        session = LanguageModel.load(files.path, threads=1).session()
        rows = np.concatenate([session.logits(PROMPT[:3]), session.logits(PROMPT[3:])])
        assert rows.dtype == np.float32 and rows.shape == expected.shape
        np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-4)
        assert session.tokens == PROMPT


def test_the_stock_runner_gives_the_same_tokens(tmp_path: Path) -> None:
    runner = pytest.importorskip("executorch.extension.llm.runner")
    stock = write_small_model(tmp_path, target="executorch", last_only=True)
    tokenizer = stock.path.with_suffix(".tokenizer.json")
    # The stock runner hands halves of characters to Python, which cannot take them.
    train_tokenizer(ascii=True).save(str(tokenizer))
    text = "the kernel of an operator"
    said: list[str] = []
    runner.TextLLMRunner(str(stock.path), str(tokenizer)).generate(
        text, runner.GenerationConfig(max_new_tokens=8, temperature=0.0, echo=False), token_callback=said.append
    )
    loaded = LanguageModel.load(stock.path, threads=1)
    ids = loaded.tokenizer.encode(text)
    found = list(loaded.session().generate(ids, max_tokens=8))
    assert "".join(token.text for token in found) == "".join(said) != ""
    assert [token.id for token in found] == stock.greedy(ids, 8)


def test_a_prefix_is_fed_once(small: SmallModel, model: LanguageModel) -> None:
    session = model.session()
    first = ids_of(session.generate(PROMPT, max_tokens=4))
    held = session.tokens
    # The conversation goes on.
    longer = [*PROMPT, *first, 9, 10]
    assert ids_of(session.generate(longer, max_tokens=3)) == small.greedy(longer, 3)
    assert session.statistics.reused_tokens == len(held)
    # It went another way from token 3 on.
    other = [*PROMPT[:3], 11, 12]
    assert ids_of(session.generate(other, max_tokens=5)) == small.greedy(other, 5)
    assert session.statistics.reused_tokens == 3 and session.statistics.prompt_tokens == 5
    # The same again: the last token has to be fed all the same.
    assert ids_of(session.generate(other, max_tokens=5)) == small.greedy(other, 5)
    assert session.statistics.reused_tokens == 4


def test_rewinding(small: SmallModel, model: LanguageModel) -> None:
    session = model.session()
    session.prefill(PROMPT)
    session.rewind(4)
    assert session.tokens == PROMPT[:3]
    ids = [*PROMPT[:3], 30, 31]
    np.testing.assert_allclose(session.logits([30, 31]), small.logits(ids)[3:], rtol=1e-4, atol=1e-4)
    assert "6 tokens cannot be taken back: the session has 5" in raised("E1726", lambda: session.rewind(6))
    raised("E1726", lambda: session.rewind(-1))


def test_saving_and_restoring(small: SmallModel, last_only: SmallModel, model: LanguageModel, tmp_path: Path) -> None:
    session = model.session()
    generation = session.generate(PROMPT, max_tokens=20)
    first = [next(generation).id for _ in range(6)]
    generation.close()
    session.save(tmp_path / "saved")
    restored = LanguageModel.load(small.path, threads=1).session()
    restored.prefill([1, 2, 3])
    restored.restore(tmp_path / "saved")
    assert restored.tokens == session.tokens
    prompt = [*PROMPT, *first]
    assert ids_of(restored.generate(prompt, max_tokens=8)) == small.greedy(prompt, 8)
    assert restored.statistics.reused_tokens == len(prompt) - 1

    other = LanguageModel.load(last_only.path, threads=1).session()
    assert "another program" in raised("E1725", lambda: other.restore(tmp_path / "saved"))
    raised("E1725", lambda: session.restore(tmp_path / "none"))
    raised("E1725", lambda: session.save(tmp_path / "none" / "none"))
    data = (tmp_path / "saved").read_bytes()
    held = restored.tokens
    for at in [*range(0, 60, 7), *range(60, len(data), len(data) // 40)]:
        (tmp_path / "bad").write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        raised("E1725", lambda: restored.restore(tmp_path / "bad"))
        (tmp_path / "bad").write_bytes(data[:at])
        raised("E1725", lambda: restored.restore(tmp_path / "bad"))
    (tmp_path / "bad").write_bytes(data + b"more")
    raised("E1725", lambda: restored.restore(tmp_path / "bad"))
    assert restored.tokens == held
    assert ids_of(restored.generate(prompt, max_tokens=8)) == small.greedy(prompt, 8)


def anonymous_bytes() -> int:
    """Bytes of this process that no file backs."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon:"))


@pytest.mark.nightly  # compiles a model with a large cache
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="Linux says what memory is in use")
def test_restoring_takes_memory_for_the_positions_in_use_only(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "llama", "Q8_0", max_position_embeddings=CAPACITY)
    options = LanguageModelOptions("int8", context=CAPACITY)
    compile_language_model(load_checkpoint(tmp_path / "m.gguf"), options, target="etir").save(tmp_path / "m.pte")
    session = LanguageModel.load(tmp_path / "m.pte", threads=1).session()
    session.prefill(PROMPT[:5])
    session.save(tmp_path / "saved")
    model = LanguageModel.load(tmp_path / "m.pte", threads=1)
    restored = model.session()
    restored.prefill([1, 2, 3])
    before = anonymous_bytes()
    restored.restore(tmp_path / "saved")
    assert model.memory()["session"] > 16 << 20
    assert anonymous_bytes() - before < 4 << 20
    assert restored.tokens == session.tokens


def test_bits_do_not_depend_on_threads(tmp_path: Path) -> None:
    """Attention shares out the keys of one token; where, their number says, and not that of the threads."""
    write_gguf(tmp_path / "m.gguf", "llama", "Q4_0", max_position_embeddings=256)
    options = LanguageModelOptions("8da4w", context=256, max_prefill=250)
    compile_language_model(load_checkpoint(tmp_path / "m.gguf"), options, target="etir").save(tmp_path / "m.pte")
    prompt = [1 + i * 7 % 95 for i in range(250)]
    found: list[Any] = []
    for threads in (1, 2, 3):
        method = etir.runtime.load(str(tmp_path / "m.pte"), threads=threads)["forward"]
        logits = []
        for begin, end in ((0, 94), (94, 95), (95, 96), (96, 249), (249, 250)):
            tokens, positions = np.array([prompt[begin:end]]), np.arange(begin, end)
            logits.append(np.array(method(tokens, positions)[0]))
        found.append(np.stack(logits))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_how_answers_end(model: LanguageModel) -> None:
    session = model.session()
    answer = list(session.generate(PROMPT, max_tokens=3))
    assert [token.finish for token in answer] == [None, None, "length"]
    assert ids_of(session.generate(PROMPT, max_tokens=0)) == []

    def wanted(logits: Any) -> None:
        logits[EOS] = 1e9

    answer = list(session.generate(PROMPT, on_logits=wanted))
    assert [(token.id, token.text, token.finish) for token in answer] == [(EOS, "", "stop")]

    def unwanted(logits: Any) -> None:
        logits[EOS] = -np.inf

    answer = list(session.generate(PROMPT, on_logits=unwanted))
    assert answer[-1].finish == "context" and len(session.tokens) == CACHE
    assert len(answer) == CACHE - len(PROMPT) + 1
    full = [3] * CACHE
    assert [token.finish for token in session.generate(full)] == ["context"]
    assert "33 tokens, the context 32" in raised("E1722", lambda: session.generate([3] * (CACHE + 1)))
    raised("E1722", lambda: session.prefill([3]))
    assert session.tokens == full


def test_stop_strings(model: LanguageModel) -> None:
    """Across tokens, and held back until it is certain."""
    tokenizer = model.tokenizer
    text = "abc def ghi"
    spelled = tokenizer.encode(text)
    assert len(spelled) >= 6

    def answer(stop: tuple[str, ...], max_tokens: int | None = None) -> tuple[str, str | None]:
        left = list(spelled)

        def force(logits: Any) -> None:
            logits[:] = -np.inf
            logits[left.pop(0) if left else EOS] = 0

        session = model.session()
        pieces = list(session.generate(PROMPT, on_logits=force, stop=stop, max_tokens=max_tokens))
        return "".join(piece.text for piece in pieces), pieces[-1].finish

    assert answer(()) == (text, "stop")
    assert answer(("f g",)) == ("abc de", "stop_string")
    assert answer(("c d", "b")) == ("a", "stop_string")
    assert answer(("ghij",)) == (text, "stop")  # held back, then not it
    assert answer(("hij",), len(spelled)) == (text, "length")
    assert answer(("",)) == (text, "stop")


def test_sampling(model: LanguageModel) -> None:
    session = model.session()

    def answer(**settings: Any) -> list[int]:
        return ids_of(session.generate(PROMPT, Sampling(**settings), max_tokens=12))

    assert answer(temperature=1.0, seed=7) == answer(temperature=1.0, seed=7)
    assert len({tuple(answer(temperature=1.0, seed=seed)) for seed in range(6)}) > 1
    greedy = answer()
    assert answer(temperature=1.0, top_k=1, seed=3) == greedy
    assert answer(temperature=1.0, top_p=1e-9, seed=3) == greedy
    assert answer(temperature=1.0, min_p=1.0, seed=3) == greedy
    for setting in ("temperature", "top_k", "min_p", "repetition_window"):
        assert setting in raised("E1724", lambda setting=setting: answer(**{setting: -1}))
    raised("E1724", lambda: answer(top_p=0.0))
    raised("E1724", lambda: answer(repetition_penalty=0.0))
    raised("E1724", lambda: answer(temperature=float("nan")))
    raised("E1724", lambda: answer(top_k=2**40))
    raised("E1724", lambda: session.generate(PROMPT, max_tokens=-2))
    raised("E1724", lambda: session.generate(PROMPT, stop=["\udcff"]))


def test_frequencies_are_the_probabilities(model: LanguageModel) -> None:
    """What top-k, top-p and min-p leave, drawn as often as the softmax says."""
    weights = np.full(VOCABULARY, -np.inf, np.float32)
    weights[[10, 20, 30, 40]] = np.log([0.5, 0.25, 0.15, 0.1])
    session = model.session()

    def frequencies(**settings: Any) -> dict[int, float]:
        counts: dict[int, int] = {}
        for seed in range(400):
            sampling = Sampling(seed=seed, **settings)
            drawn = session.generate([3], sampling, 1, on_logits=lambda row: np.copyto(row, weights))
            token = next(drawn).id
            counts[token] = counts.get(token, 0) + 1
        return {token: count / 400 for token, count in sorted(counts.items())}

    # Three standard deviations of 400 draws at a half are 0.075.
    expected = {10: 0.5, 20: 0.25, 30: 0.15, 40: 0.1}
    assert frequencies(temperature=1.0) == pytest.approx(expected, abs=0.08)
    squares = {10: 0.7246, 20: 0.1812, 30: 0.0652, 40: 0.029}
    assert frequencies(temperature=0.5) == pytest.approx(squares, abs=0.08)
    assert frequencies(temperature=1.0, top_k=2) == pytest.approx({10: 0.667, 20: 0.333}, abs=0.08)
    assert frequencies(temperature=1.0, top_p=0.8) == pytest.approx({10: 0.556, 20: 0.278, 30: 0.167}, abs=0.08)
    assert frequencies(temperature=1.0, min_p=0.4) == pytest.approx({10: 0.667, 20: 0.333}, abs=0.08)


def test_a_repeated_token_counts_once_and_only_in_the_window(model: LanguageModel) -> None:
    session = model.session()

    def answer(window: int) -> list[int]:
        def level(logits: Any) -> None:
            logits[:] = -10
            logits[[10, 20, 30]] = [4.0, 3.0, 2.0]

        sampling = Sampling(repetition_penalty=1.5, repetition_window=window)
        return ids_of(session.generate([10, 20, 30], sampling, 6, on_logits=level))

    # 4, then 4/1.5 = 2.67 < 3: 20, then 2.67 > 2.0: 10 again and for ever, as it counts once however often it is there.
    assert answer(64) == [10, 20, 10, 10, 10, 10]
    assert answer(1) == [10, 20, 10, 20, 10, 20]
    assert answer(0) == [10] * 6


def test_logits_that_are_no_numbers(model: LanguageModel) -> None:
    session = model.session()

    def spoil(value: float) -> Any:
        def change(logits: Any) -> None:
            logits[33] = value

        return lambda: next(session.generate(PROMPT, on_logits=change))

    assert "the logit of token 33 is not a number at position 7" in raised("E1723", spoil(float("nan")))
    assert "infinite" in raised("E1723", spoil(float("inf")))
    raised("E1728", lambda: next(session.generate(PROMPT, on_logits=lambda logits: logits.fill(-np.inf))))


def test_json(model: LanguageModel) -> None:
    """Whatever the model would say, and however it is drawn, the answer is an object if it ends."""
    ended = 0
    for seed in range(30):
        session = model.session()
        rng = np.random.default_rng(seed)

        def noise(logits: Any, rng: Any = rng) -> None:
            logits[:] = rng.normal(size=VOCABULARY)
            for text, weight in (("}", 6), ('"', 5), (":", 4), ("]", 4)):
                logits[model.tokenizer.token_id(text)] += weight

        pieces = list(session.generate([3], Sampling(temperature=1.0, seed=seed), on_logits=noise, grammar="json"))
        text = "".join(piece.text for piece in pieces)
        assert text.lstrip().startswith("{")
        if pieces[-1].finish == "stop":
            ended += 1
            assert isinstance(json.loads(text), dict), text
    assert ended > 10


def test_tokens_that_are_none(model: LanguageModel) -> None:
    session = model.session()
    for ids in ([VOCABULARY], [-1], [2**40]):
        raised("E1727", lambda ids=ids: session.prefill(ids))
        raised("E1727", lambda ids=ids: session.generate(ids))
    raised("E1727", lambda: session.generate([]))


def test_an_answer_ends_when_the_session_is_used_for_another(model: LanguageModel) -> None:
    session = model.session()
    answer = session.generate(PROMPT)
    next(answer)
    session.rewind(1)
    raised("E1729", lambda: next(answer))
    answer = session.generate(PROMPT)
    next(answer)
    answer.close()
    assert list(answer) == []


def test_sessions_side_by_side(small: SmallModel, model: LanguageModel) -> None:
    prompts = [[7 * n + 1, 9, n + 2] for n in range(6)]
    expected = [small.greedy(prompt, 10) for prompt in prompts]
    found: list[list[int]] = [[] for _ in prompts]

    def work(index: int) -> None:
        found[index] = ids_of(model.session().generate(prompts[index], max_tokens=10))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
    # And in turns, token by token.
    generations = [model.session().generate(prompt, max_tokens=10) for prompt in prompts]
    for turn in range(10):
        for index, generation in enumerate(generations):
            token = next(generation, None)
            assert (None if token is None else token.id) == dict(enumerate(expected[index])).get(turn)


def test_files_that_are_no_language_models(small: SmallModel, tmp_path: Path) -> None:
    import torch

    import etir

    raised("E1733", lambda: LanguageModel.load(tmp_path / "none.pte"))
    (tmp_path / "bad.pte").write_bytes(small.path.read_bytes()[:1000])
    raised("E1733", lambda: LanguageModel.load(tmp_path / "bad.pte"))
    raised("E1733", lambda: LanguageModel.load(small.path, threads=0))
    program = torch.export.export(torch.nn.Linear(3, 4), (torch.ones(2, 3),))
    (tmp_path / "linear.pte").write_bytes(etir.compile(program, target="etir").buffer)
    assert "forward" in raised("E1721", lambda: LanguageModel.load(tmp_path / "linear.pte"))


def test_a_tokenizer_of_another_model(small: SmallModel, tmp_path: Path) -> None:
    train_tokenizer(VOCABULARY + 40).save(str(tmp_path / "large.json"))
    said = raised("E1731", lambda: LanguageModel.load(small.path, tokenizer=tmp_path / "large.json"))
    assert f"{VOCABULARY + 40} tokens, the model {VOCABULARY}" in said
    os.symlink(small.path, tmp_path / "alone.pte")
    alone = LanguageModel.load(tmp_path / "alone.pte", threads=1)
    raised("E1701", lambda: alone.tokenizer)
    raised("E1712", lambda: alone.render([{"role": "user", "content": "Hello"}]))
    # It works with ids alone.
    assert ids_of(alone.session().generate(PROMPT, max_tokens=4)) == small.greedy(PROMPT, 4)
