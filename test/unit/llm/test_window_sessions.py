"""Sessions of models whose caches are rings: what is taken back may be gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import etir.runtime
from etir.llm import LanguageModel, Sampling, Session
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import LanguageModelOptions, compile_language_model

from etir_testing.models import checkpoints
from etir_testing.models.static_cache import VOCABULARY

WINDOW, PIECE, CONTEXT = 8, 16, 64
TEXT = [int(token) for token in np.random.default_rng(3).integers(0, 94, 45)]


class Model(NamedTuple):
    """A compiled model, and the one that it was made from."""

    compiled: LanguageModel
    eager: Any


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("phi3")
    eager = checkpoints.write_folder(folder, "phi3", sliding_window=WINDOW)
    how = LanguageModelOptions(context=CONTEXT, max_prefill=PIECE)
    compile_language_model(load_checkpoint(folder), how, target="etir").save(folder / "m.pte")
    return Model(LanguageModel.load(folder / "m.pte", threads=1), eager)


def follow(session: Session, ids: list[int], count: int = 4) -> list[int]:
    return [token.id for token in session.generate(ids, Sampling(temperature=0.0), max_tokens=count)]


def expected(model: Model, ids: list[int]) -> list[int]:
    """What eager chooses, up to the token that ends a text."""
    found = checkpoints.greedy(model.eager, ids, 4)
    end = VOCABULARY - 1
    return found[: found.index(end) + 1] if end in found else found


def test_the_file_says_that_it_has_rings(model: Model) -> None:
    program = etir.runtime.load(model.compiled.path)
    assert (program["sliding_window"]()[0], program["get_max_rewind"]()[0]) == (WINDOW, PIECE)


@pytest.mark.parametrize("back", [1, PIECE, PIECE + 1, 30, len(TEXT)])
def test_tokens_taken_back(model: Model, back: int) -> None:
    session = model.compiled.session()
    session.prefill(TEXT)
    session.rewind(back)
    assert session.tokens == TEXT[: len(TEXT) - back]
    other = [*session.tokens, 7, 9, 11]
    assert follow(session, other) == expected(model, other)


def test_tokens_taken_back_twice(model: Model) -> None:
    """More in all than a ring has room for, though not at once."""
    session = model.compiled.session()
    session.prefill(TEXT)
    session.rewind(PIECE - 1)
    session.prefill([3, 4])
    session.rewind(PIECE - 1)
    other = [*session.tokens, 5]
    assert follow(session, other) == expected(model, other)


def test_a_prompt_with_a_part_of_what_is_held(model: Model) -> None:
    session = model.compiled.session()
    session.prefill(TEXT)
    for other, reused in ((TEXT[:20] + [7, 9, 11], 0), (TEXT[:40] + [7], 20), (TEXT[:39] + [2], 39), (TEXT[:3], 0)):
        answer = session.generate(other, Sampling(temperature=0.0), max_tokens=4)
        assert [token.id for token in answer] == expected(model, other)
        assert answer.statistics.reused_tokens == reused


def test_a_restored_session(model: Model, tmp_path: Path) -> None:
    session = model.compiled.session()
    session.prefill(TEXT)
    session.rewind(2)
    session.save(tmp_path / "saved")
    restored = model.compiled.session()
    restored.restore(tmp_path / "saved")
    longer = [*TEXT[:-2], 5]
    assert follow(restored, longer) == expected(model, longer)
    restored.restore(tmp_path / "saved")
    restored.rewind(PIECE - 1)
    other = [*restored.tokens, 5]
    assert follow(restored, other) == expected(model, other)
