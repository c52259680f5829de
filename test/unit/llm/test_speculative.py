"""Speculative decoding: the same tokens greedily, the same distribution when sampling, fewer calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etir.diagnostics import EtirError
from etir.llm import LanguageModel, Sampling
from etir.llm.speculative import DraftModel, Guess, PromptLookup, Speculation, distribution, sampled_size

from etir_testing.llm.small import write_model
from etir_testing.models.static_cache import VOCABULARY

PROMPTS = ("abcabcabc", "The quick", "a", "xyz xyz xyz xy")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return LanguageModel.load(write_model(tmp_path_factory.mktemp("every"), every=True), threads=1)


class Fixed:
    """A draft that always guesses the same."""

    def __init__(self, *tokens: int):
        self.tokens = list(tokens)

    def guess(self, history: Sequence[int], answer: Sequence[int], count: int) -> Guess:
        return Guess(self.tokens[:count])


class Right:
    """A draft that knows the answer, and is wrong every third time."""

    def __init__(self, whole: list[int]):
        self.whole = whole

    def guess(self, history: Sequence[int], answer: Sequence[int], count: int) -> Guess:
        guess = self.whole[len(answer) : len(answer) + count]
        return Guess([(id + 1) % VOCABULARY if i % 3 == 2 else id for i, id in enumerate(guess)])


def drafts(model: LanguageModel, sampling: Sampling) -> dict[str, Any]:
    return {
        "prompt": PromptLookup(3, 1),
        "model": DraftModel(model, sampling),
        "wrong": Fixed(1, 2, 3),
        "nothing": Fixed(),
    }


@pytest.mark.parametrize("name", ["prompt", "model", "wrong", "nothing"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedily_the_same_tokens(model: LanguageModel, name: str, prompt: str) -> None:
    ids = model.tokenizer.encode(prompt)
    for sampling in (Sampling(), Sampling(repetition_penalty=1.3, repetition_window=4)):
        expected = list(model.session().generate(ids, sampling))
        speculation = Speculation(model, model.session(), drafts(model, sampling)[name], ahead=5)
        found = list(speculation.generate(ids, sampling))
        assert [(t.id, t.finish) for t in found] == [(t.id, t.finish) for t in expected]
        assert "".join(t.text for t in found) == "".join(t.text for t in expected)


def test_right_guesses_save_calls(model: LanguageModel) -> None:
    ids = model.tokenizer.encode("abc")
    expected = [token.id for token in model.session().generate(ids, max_tokens=16)]
    session = model.session()
    speculation = Speculation(model, session, Right(expected), ahead=8)
    assert [token.id for token in speculation.generate(ids, max_tokens=16)] == expected
    counts = speculation.counts
    # Two of three guesses are right, and the third token comes with the check: three tokens a call.
    assert counts.generated == 16 and counts.calls == 6 and counts.accepted == 10
    assert session.tokens == [*ids, *expected[:-1]]
    again = [token.id for token in speculation.generate([*ids, *expected, 5], max_tokens=2)]
    assert again == [token.id for token in model.session().generate([*ids, *expected, 5], max_tokens=2)]


def test_ends(model: LanguageModel) -> None:
    ids = model.tokenizer.encode("abc")
    expected = list(model.session().generate(ids))
    text = "".join(token.text for token in expected)
    for stop in ((text[3:5],), (text[4:6], "never there"), ()):
        for most in (None, 1, 7):
            theirs = list(model.session().generate(ids, None, most, stop))
            mine = list(Speculation(model, model.session(), Fixed(1, 2)).generate(ids, None, most, stop))
            assert [(t.id, t.finish) for t in mine] == [(t.id, t.finish) for t in theirs]
            assert "".join(t.text for t in mine) == "".join(t.text for t in theirs)


SETTINGS = (
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, top_k=5),
    Sampling(temperature=1.5, top_p=0.6),
    Sampling(temperature=1.0, min_p=0.2),
    Sampling(temperature=2.0, top_k=20, top_p=0.9, min_p=0.05),
)


@pytest.mark.parametrize("sampling", SETTINGS)
def test_the_distribution_is_the_sampler_s(model: LanguageModel, sampling: Sampling) -> None:
    """1,500 first tokens of the runner against the probabilities."""
    ids = model.tokenizer.encode("The")
    session = model.session()
    p = distribution(model.session().logits(ids)[-1][: sampled_size(model)], sampling, [])
    counts = Counter(
        next(iter(session.generate(ids, Sampling(**{**vars(sampling), "seed": seed})))).id for seed in range(1500)
    )
    assert_drawn_from(counts, p)


def assert_drawn_from(counts: Counter[int], p: Any) -> None:
    """Pearson's chi-squared test: at most as far from its mean as chance goes in one of 10^6 cases."""
    total = counts.total()
    assert all(p[id] > 0 for id in counts)
    common = np.flatnonzero(p * total >= 5)
    expected = np.append(p[common] * total, (1 - p[common].sum()) * total)
    seen = np.array([counts[int(i)] for i in common] + [total - sum(counts[int(i)] for i in common)])
    used = expected > 1e-6
    assert seen[~used].sum() == 0
    statistic = float((((seen - expected) ** 2)[used] / expected[used]).sum())
    freedom = max(int(used.sum()) - 1, 1)
    # Wilson and Hilferty: the cube root of chi-squared over its freedom is almost normal.
    limit = freedom * (1 - 2 / (9 * freedom) + 4.9 * (2 / (9 * freedom)) ** 0.5) ** 3
    assert statistic < limit, (statistic, limit)


@pytest.mark.parametrize("name", ["prompt", "model", "wrong"])
def test_sampling_has_the_same_distribution(model: LanguageModel, name: str) -> None:
    """The second token of many answers, summed over the first: exactly from the logits, and as it is drawn."""
    sampling = Sampling(temperature=1.0, top_k=4)
    ids = model.tokenizer.encode("abab")
    session = model.session()
    size = sampled_size(model)
    first = distribution(session.logits(ids)[-1][:size], sampling, [])
    second = np.zeros(size)
    for id in np.flatnonzero(first):
        second += first[id] * distribution(session.logits([int(id)])[-1][:size], sampling, [int(id)])
        session.rewind(1)
    # Sure to be possible, so that guesses are kept now and then.
    likely = Fixed(int(first.argmax()), int(second.argmax()), 3)
    counts = Counter[int]()
    own = model.session()
    for seed in range(1200):
        chosen = Sampling(temperature=1.0, top_k=4, seed=seed)
        draft: Any = {"prompt": PromptLookup(2, 1), "wrong": likely}.get(name)
        draft = draft or DraftModel(model, Sampling(temperature=2.0, top_k=8, seed=seed))
        tokens = list(Speculation(model, own, draft, ahead=3).generate(ids, chosen, 3))
        counts[tokens[1].id] += 1
    assert_drawn_from(counts, second)


def test_prompt_lookup() -> None:
    draft = PromptLookup(3, 2)
    assert draft.guess([1, 2, 3, 4, 9, 2, 3], [], 2).tokens == [4, 9]
    assert draft.guess([1, 2, 3, 7, 2, 3, 8, 1, 2, 3], [], 9).tokens == [7, 2, 3, 8, 1, 2, 3]
    assert draft.guess([5, 5, 5, 5], [], 3).tokens == [5]
    assert draft.guess([1, 2, 3], [], 3).tokens == draft.guess([1], [], 3).tokens == []


def test_files_that_do_not_fit(model: LanguageModel, tmp_path: Path) -> None:
    last = LanguageModel.load(write_model(tmp_path), threads=1)
    with pytest.raises(EtirError, match="E1770"):
        Speculation(last, last.session(), PromptLookup())
    draft = DraftModel(model, Sampling())
    draft.vocabulary_size += 1
    with pytest.raises(EtirError, match="E1771"):
        Speculation(model, model.session(), draft)
    with pytest.raises(EtirError, match="E1722"):
        next(Speculation(model, model.session(), PromptLookup()).generate([1] * 100))


@pytest.mark.parametrize(("value", "id"), [(np.nan, "E1723"), (np.inf, "E1723"), (-np.inf, "E1728")])
@pytest.mark.parametrize("where", ["program", "draft"])
def test_logits_that_no_token_can_be_chosen_of(
    model: LanguageModel, where: str, value: float, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the errors that they are without drafts, of the draft's program as well."""
    session, own = model.session(), model.session()
    draft = PromptLookup() if where == "program" else DraftModel(model, Sampling(temperature=1.0), own)
    broken = session if where == "program" else own
    logits = broken.logits
    monkeypatch.setattr(broken, "logits", lambda ids: logits(ids) * 0 + np.float32(value))
    with pytest.raises(EtirError, match="at position 3") as error:
        next(Speculation(model, session, draft).generate(model.tokenizer.encode("abc"), Sampling(temperature=1.0)))
    assert error.value.ids == (id,)
