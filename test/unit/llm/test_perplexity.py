"""Perplexity of a small Llama's program on both runtimes, against the model without any cache."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etir.diagnostics import EtirError
from etir.llm.perplexity import Result, measure, windows
from etir.tools import et_llm

from etir_testing.llm.small import ALPHABET, write_checkpoint, write_model
from etir_testing.models.static_cache import CACHE, DECODERS, VOCABULARY

TEXT = "The quick brown fox jumps over the lazy dog; 12 wizards, 34 boxes and a jug of vodka. " * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("small")
    write_checkpoint(found)
    (found / "text.txt").write_text(TEXT)
    return found


def eager(ids: Sequence[int], window: int, stride: int) -> float:
    """The algorithm of transformers' guide, every window in one call without a cache."""
    model: Any = DECODERS["llama"].build()
    nats, count, previous = 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + window, len(ids))
        piece = torch.tensor([ids[begin:end]])
        with torch.no_grad():
            logits = model(input_ids=piece, use_cache=False).logits[0]
        losses = torch.nn.functional.cross_entropy(logits[:-1].double(), piece[0, 1:], reduction="none")
        fresh = losses[-(end - previous) :] if previous else losses
        nats, count, previous = nats + float(fresh.sum()), count + len(fresh), end
        if end == len(ids):
            break
    assert count == len(ids) - 1
    return math.exp(nats / count)


def perplexity(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert et_llm.main(["perplexity", *arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("runtime", ["etir", "stock"])
@pytest.mark.parametrize("every", [False, True])
def test_both_runtimes_against_eager(
    folder: Path, capsys: pytest.CaptureFixture[str], runtime: str, every: bool
) -> None:
    model = write_model(folder, every=every, target="executorch" if runtime == "stock" else "etir")
    arguments = ["--text", str(folder / "text.txt"), "--window", "24", "--stride", "10", "--runtime", runtime]
    found = perplexity(capsys, str(model), *arguments)
    ids = [ALPHABET.index(letter) for letter in TEXT]
    assert found["perplexity"] == pytest.approx(eager(ids, 24, 10), rel=1e-4)
    assert found["tokens"] == len(TEXT) - 1
    assert (found["calls"] < found["tokens"]) == every


def test_beside_its_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(folder)
    arguments = [str(model), "--text", str(folder / "text.txt"), "--most", "60", "--threads", "1"]
    found = perplexity(capsys, *arguments, "--reference", str(folder), "--tokenizer", str(folder / "tokenizer.json"))
    ids = [ALPHABET.index(letter) for letter in TEXT[:60]]
    assert found["reference"] == pytest.approx(eager(ids, CACHE, CACHE // 2), rel=1e-5)
    assert found["ratio"] == pytest.approx(1, abs=1e-4)
    assert abs(found["divergence"]) < 1e-6 and found["same_likeliest"] == 1
    assert et_llm.main(["perplexity", *arguments, "--reference", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "one for each token" in out and "the same likeliest token at 100.0%" in out


@pytest.mark.parametrize(
    ("arguments", "id"),
    [
        (("--window", "33"), "E1762"),
        (("--window", "1"), "E1762"),
        (("--window", "8", "--stride", "8"), "E1762"),
        (("--most", "1"), "E1760"),
        (("--stride", "0"), "E0901"),
        (("--reference", "nowhere"), "E1601"),
    ],
)
def test_what_does_not_fit(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], id: str
) -> None:
    model = write_model(folder)
    assert et_llm.main(["perplexity", str(model), "--text", str(folder / "text.txt"), *arguments]) == 1
    assert f"error[{id}]" in capsys.readouterr().err


def test_no_language_model_on_the_stock_runtime(folder: Path) -> None:
    import etir
    from etir.llm.stock import StockDecoder

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    (folder / "double.pte").write_bytes(etir.compile(torch.export.export(Double(), (torch.ones(2),))).buffer)
    for name, id in (("double.pte", "E1721"), ("text.txt", "E1721"), ("nowhere.pte", "E0918")):
        with pytest.raises(EtirError, match=id):
            StockDecoder(str(folder / name))


class Rows:
    """Logits that are given."""

    calls = 0

    def __init__(self, vocabulary_size: int, value: float):
        self.vocabulary_size = vocabulary_size
        self.value = value

    def begin(self) -> None: ...

    def feed(self, ids: Sequence[int]) -> None: ...

    def rows(self, ids: Sequence[int]) -> Any:
        return np.full((len(ids), self.vocabulary_size), self.value, np.float32)


def test_equal_logits_have_the_vocabulary_s_perplexity() -> None:
    report = measure(Rows(VOCABULARY, 3.0), [1, 2, 3, 4], 3)
    assert report.program.perplexity == pytest.approx(VOCABULARY)
    assert report.program.error == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers(value: float) -> None:
    with pytest.raises(EtirError, match="E1723"):
        measure(Rows(4, value), [1, 2, 3], 3)


def test_a_reference_of_another_vocabulary() -> None:
    with pytest.raises(EtirError, match="E1764"):
        measure(Rows(4, 0), [1, 2], 2, reference=Rows(5, 0))


@pytest.mark.parametrize(("count", "window", "stride"), [(2, 2, 1), (10, 4, 3), (10, 100, 50), (9, 4, 1), (12, 4, 2)])
def test_every_token_is_scored_once(count: int, window: int, stride: int) -> None:
    found = list(windows(count, window, stride))
    assert [i for each in found for i in range(each.scored, each.end)] == list(range(1, count))
    assert all(each.begin < each.scored and each.end - each.begin <= window for each in found)
    assert all(each.scored - each.begin >= window - stride for each in found[1:])


def test_the_standard_error() -> None:
    """Nats of 1 and 3: mean 2, deviation sqrt(2), of two: sqrt(2) / sqrt(2) = 1, times the perplexity."""
    assert Result(2, 4.0, 10.0).error == pytest.approx(math.exp(2))
    assert Result(1, 1e9, 1e18).perplexity == Result(1, 1.0, 1.0).error == math.inf


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            et_llm.main(["perplexity", option, "--debug", "--color", "never"])
        assert ended.value.code == 0
        assert "et-llm perplexity" in capsys.readouterr().out


def test_the_model_s_other_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(folder)
    arguments = [str(model), "--text", str(folder / "text.txt"), "--most", "9", "--trust-native-code"]
    found = perplexity(capsys, *arguments, "--chat", str(model.with_suffix(".chat.json")))
    assert found["tokens"] == 8 and found["window"] == CACHE
    assert et_llm.main(["perplexity", *arguments, "--isa", "none"]) == 1
    assert "error[" in capsys.readouterr().err
