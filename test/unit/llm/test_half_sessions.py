"""Sessions whose caches have two bytes: what is taken back, shared, saved or drafted gives a fresh session's logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from etir.diagnostics import EtirError
from etir.llm import LanguageModel
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import LanguageModelOptions, compile_language_model
from etir.llm.speculative import PromptLookup, Speculation

from etir_testing.models import checkpoints

CONTEXT, PIECE, WINDOW = 48, 16, 8
PROMPT = [5, 17, 42, 8, 77, 3, 61, 29, 90, 14, 55, 5, 17, 42, 8, 77, 3]
LAYERS, HEADS, WIDTH = 2, 2, 16


def compiled(folder: Path, name: str, recipe: str, cache: str = "auto", **options: object) -> Path:
    checkpoints.write_folder(folder, name, **options)
    how = LanguageModelOptions(recipe, CONTEXT, PIECE, cache=cache, all_logits=True)  # type: ignore[arg-type]
    made = compile_language_model(load_checkpoint(folder), how, target="etir")
    assert not made.remarks  # which say where caches hold something else
    made.save(folder / "m.pte")
    return folder / "m.pte"


@pytest.fixture(
    scope="module",
    params=[
        ("all positions", "float16"),
        ("all positions", "bfloat16"),
        pytest.param(("rings", "float16"), marks=pytest.mark.nightly),
        pytest.param(("rings", "bfloat16"), marks=pytest.mark.nightly),
    ],
    ids=" ".join,
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    positions, cache = request.param
    folder = tmp_path_factory.mktemp("half")
    if positions == "rings":
        path = compiled(folder, "phi3", "8da4w", cache, sliding_window=WINDOW)
    else:
        path = compiled(folder, "llama", "8da4w", cache)
    return LanguageModel.load(path, threads=1)


def fresh(model: LanguageModel, ids: list[int]) -> np.ndarray:
    """Logits float32 ``[len(ids), vocabulary]`` of a session that has not seen anything else."""
    return model.session().logits(ids)


@pytest.fixture
def near(request: pytest.FixtureRequest) -> float:
    """How far logits may be apart, of the largest. Attention adds up in another order where a text comes in other
    pieces, so that an activation may round to the integer beside; beside bfloat16 long pieces are rounded more than
    short ones, too.
    """
    _, cache = request.node.callspec.params["model"]
    return 0.05 if cache == "bfloat16" else 0.02


def assert_same(found: np.ndarray, wanted: np.ndarray, near: float) -> None:
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, wanted, atol=near * float(np.abs(wanted).max()), rtol=0)


def test_text_in_pieces_and_taken_back(model: LanguageModel, near: float) -> None:
    session = model.session()
    rows = np.concatenate([session.logits(PROMPT[a:b]) for a, b in ((0, 1), (1, 9), (9, 10), (10, 17))])
    assert_same(rows, fresh(model, PROMPT), near)
    for back, more in ((3, [9, 2]), (5, [7]), (0, [1, 2, 3, 4])):
        session.rewind(back)
        ids = [*session.tokens, *more]
        assert_same(session.logits(more), fresh(model, ids)[-len(more) :], near)


def test_a_prefix_is_fed_once(model: LanguageModel) -> None:
    session = model.session()
    answer = [token.id for token in session.generate(PROMPT, max_tokens=4)]
    other = [*PROMPT[:-2], 33, 34]
    found = session.generate(other, max_tokens=4)
    assert [t.id for t in found] == [t.id for t in model.session().generate(other, max_tokens=4)]
    assert session.statistics.reused_tokens == len(PROMPT) - 2
    longer = [*PROMPT, *answer, 9]
    found = session.generate(longer, max_tokens=4)
    assert [t.id for t in found] == [t.id for t in model.session().generate(longer, max_tokens=4)]


def test_saved_and_restored(model: LanguageModel, tmp_path: Path) -> None:
    session = model.session()
    session.prefill(PROMPT)
    session.save(tmp_path / "saved")
    wanted = session.logits([11, 12])
    restored = model.session()
    restored.prefill([1, 2, 3])
    restored.restore(tmp_path / "saved")
    assert restored.tokens == PROMPT
    assert np.array_equal(restored.logits([11, 12]), wanted)


def test_sessions_of_one_program_in_turns(model: LanguageModel, near: float) -> None:
    texts = [PROMPT, PROMPT[::-1], [1] * len(PROMPT)]
    sessions = [model.session() for _ in texts]
    rows: list[list[np.ndarray]] = [[] for _ in texts]
    for begin in range(0, len(PROMPT), 5):
        for session, text, found in zip(sessions, texts, rows, strict=True):
            found.append(session.logits(text[begin : begin + 5]))
    for text, found in zip(texts, rows, strict=True):
        assert_same(np.concatenate(found), fresh(model, text), near)


def test_drafts_from_the_text(model: LanguageModel) -> None:
    """Guesses are fed together, and taken back where they are wrong."""
    expected = [token.id for token in model.session().generate(PROMPT, max_tokens=16)]
    speculation = Speculation(model, model.session(), PromptLookup(3, 1), ahead=5)
    assert [token.id for token in speculation.generate(PROMPT, max_tokens=16)] == expected
    assert speculation.counts.drafted > 0


@pytest.mark.nightly  # compiles three models
def test_sessions_are_of_one_dtype(tmp_path: Path) -> None:
    """Half of the memory, and a saved session of one is not read by another, of caches of the same size either."""
    found: dict[str, int] = {}
    for cache in ("float32", "float16", "bfloat16"):
        folder = tmp_path / cache
        folder.mkdir()
        model = LanguageModel.load(compiled(folder, "llama", "fp32", cache), threads=1)
        session = model.session()
        session.prefill(PROMPT)
        session.save(tmp_path / f"saved {cache}")
        found[cache] = model.memory()["session"]
    # What is between the operators differs a little, too.
    assert found["float32"] - found["float16"] == pytest.approx(2 * LAYERS * CONTEXT * HEADS * WIDTH * 2, rel=0.1)
    assert found["bfloat16"] == found["float16"]
    for other in ("float32", "float16"):
        with pytest.raises(EtirError, match="another program"):
            session.restore(tmp_path / f"saved {other}")
