"""Sessions that draft, in the command lines and in the server: the texts of sessions that do not."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from etir.diagnostics import EtirError
from etir.llm import LanguageModel, Sampling
from etir.llm.drafting import Drafting, SpeculativeGeneration
from etir.llm.serve.jobs import Done, Event, Job, Piece
from etir.llm.serve.requests import Request
from etir.llm.serve.service import Service
from etir.tools.et_llm import main

from etir_testing.llm.small import write_model

PROMPT = "abcabcabc"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("every"), every=True)


@pytest.fixture(scope="module")
def last_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("last"))


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return LanguageModel.load(path, threads=1)


def test_answers_are_those_of_a_session(model: LanguageModel, last_only: Path, tmp_path: Path) -> None:
    ids = model.tokenizer.encode(PROMPT)
    expected = list(model.session().generate(ids, max_tokens=12))
    # A draft may give the last position's logits only: it is asked for one token at a time.
    for drafting in (Drafting(model), Drafting(model, LanguageModel.load(last_only, threads=1), ahead=3)):
        session = drafting.session()
        assert list(session.generate(ids, max_tokens=12)) == expected
        statistics, counts = session.statistics, session.counts
        assert (statistics.prompt_tokens, statistics.reused_tokens, statistics.generated_tokens) == (len(ids), 0, 12)
        assert counts is not None and counts.generated == 12
        if drafting.draft is not None:  # The same weights: every guess is right, and a call gives four tokens.
            assert counts.accepted == counts.drafted and counts.calls == 3
        session.save(tmp_path / "saved")
        longer = [*ids, *(token.id for token in expected), 1, 2]
        after = list(model.session().generate(longer, max_tokens=4))
        assert list(session.generate(longer, max_tokens=4)) == after
        assert session.statistics.reused_tokens == len(ids) + 11
        session.rewind(len(session.tokens))
        session.restore(tmp_path / "saved")
        assert list(session.generate(longer, max_tokens=4)) == after
        assert session.statistics.reused_tokens == len(ids) + 11


def test_what_is_made_without_drafts(model: LanguageModel) -> None:
    """A grammar and a look at the logits decide about each token before the next one is computed."""
    ids, session = model.tokenizer.encode(PROMPT), Drafting(model).session()
    seen: list[int] = []
    found = list(session.generate(ids, None, 5, on_logits=lambda logits: seen.append(len(logits))))
    assert found == list(model.session().generate(ids, None, 5)) and len(seen) == 5 and session.counts is None
    text = session.generate(ids, Sampling(), 20, grammar="json").text()
    assert text == model.session().generate(ids, Sampling(), 20, grammar="json").text()
    assert list(session.generate(ids, max_tokens=0)) == []


def test_an_answer_that_ends_early(model: LanguageModel) -> None:
    ids, session = model.tokenizer.encode(PROMPT), Drafting(model).session()
    first = session.generate(ids, max_tokens=9)
    token = next(first)
    assert isinstance(first, SpeculativeGeneration)
    session.prefill([1])
    with pytest.raises(EtirError, match="E1729"):
        next(first)
    again = session.generate(ids, max_tokens=9)
    assert next(again) == token
    again.close()
    assert list(again) == []
    with pytest.raises(EtirError, match="E1724"):
        session.generate(ids, Sampling(temperature=-1))
    with pytest.raises(EtirError, match="E1727"):
        session.generate([])


def test_the_server_s_answers_are_the_same(model: LanguageModel) -> None:
    prompts = [PROMPT, "The quick", "xyz xyz xyz xy"]
    service = Service(model, None, Drafting(model).session)
    service.start()
    told: list[list[Event]] = [[] for _ in prompts]
    ended = [threading.Event() for _ in prompts]

    def tell(i: int, event: Event) -> None:
        told[i].append(event)
        if not isinstance(event, Piece):
            ended[i].set()

    for i, prompt in enumerate(prompts):
        request = Request(False, "m", Sampling(), max_tokens=10)
        service.submit(Job(request, model.tokenizer.encode(prompt), lambda event, i=i: tell(i, event)))
    for i, prompt in enumerate(prompts):
        assert ended[i].wait(30)
        wanted = model.session().generate(model.tokenizer.encode(prompt), max_tokens=10).text()
        assert "".join(event.text for event in told[i] if isinstance(event, Piece)) == wanted
        assert isinstance(told[i][-1], Done)
    service.stop()
    service.join()


def test_commands(path: Path, last_only: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat = ["chat", str(path), "--prompt", PROMPT, "--raw", "--max-tokens", "12", "--threads", "1"]
    assert main(chat) == 0
    expected = capsys.readouterr().out
    for more in (["--lookup"], ["--draft", str(last_only), "--ahead", "3"]):
        assert main([*chat, *more, "--stats"]) == 0
        out, err = capsys.readouterr()
        assert out == expected and "guesses right" in err
    text = tmp_path / "text.txt"
    text.write_text(PROMPT * 2)
    bench = ["bench", str(path), "--prefill", "9", "--decode", "12", "--repeat", "1", "--text", str(text), "--lookup"]
    assert main([*bench, "--json"]) == 0
    drafts = json.loads(capsys.readouterr().out)["runs"][0]["lengths"][0]["drafts"]
    assert drafts["generated"] == 12 and drafts["decode_tokens_per_second"] > 0
    assert drafts["accepted"] <= drafts["drafted"] and drafts["decode_tokens_per_second_without"] > 0
    assert main(bench) == 0
    assert "tokens/s with drafts" in capsys.readouterr().out
    text.write_text("ab")
    assert main(bench) == 1
    assert "the text has 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lookup",), "error[E1770]"),
        (("--lookup", "--ahead", "0"), "error[E0901]: --ahead has to be 1 or more"),
        (("--draft", "nowhere.pte"), "error[E1733]"),
    ],
)
@pytest.mark.parametrize("command", ["chat", "bench", "serve"])
def test_what_is_wrong(
    last_only: Path, capsys: pytest.CaptureFixture[str], command: str, options: tuple[str, ...], words: str
) -> None:
    more = {"chat": ["--prompt", "a"], "bench": ["--prefill", "4", "--decode", "2"], "serve": ["--port", "0"]}
    assert main([command, str(last_only), *more[command], *options]) == 1
    assert words in capsys.readouterr().err
