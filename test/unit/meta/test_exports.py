"""The files of :mod:`etir_testing.exports`: made once whoever asks, made anew when what they are made from changes."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import torch

import etir

from etir_testing import exports
from etir_testing.models.registry import MODELS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(exports, "FOLDER", tmp_path / "exports")
    return tmp_path / "exports"


def names(folder: Path) -> list[str]:
    """The files but for locks."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_made_once_and_again_for_another_key(folder: Path) -> None:
    made: list[str] = []

    def make(text: str) -> bytes:
        made.append(text)
        return text.encode()

    assert exports.artifact("a.pt2", ["1"], lambda: make("one")) == b"one"
    assert exports.artifact("a.pt2", ["1"], lambda: make("two")) == b"one"
    first = names(folder)
    assert exports.artifact("a-b.pt2", ["1"], lambda: make("other")) == b"other"
    assert exports.artifact("a.pt2", ["2"], lambda: make("three")) == b"three"
    assert made == ["one", "other", "three"]
    assert len(names(folder)) == 2 and not set(first) & set(names(folder))


def test_what_fails_leaves_nothing(folder: Path) -> None:
    def fail() -> bytes:
        raise ValueError("no export")

    with pytest.raises(ValueError, match="no export"):
        exports.artifact("a.pt2", ["1"], fail)
    assert names(folder) == []
    assert exports.artifact("a.pt2", ["1"], lambda: b"later") == b"later"


def _ask(folder: Path, log: Path, number: int) -> bytes:
    exports.FOLDER = folder

    def make() -> bytes:
        with log.open("a") as file:
            file.write(f"{number}\n")
        return b"x" * 1_000_000

    return exports.artifact("a.pt2", ["1"], make)


def test_processes_share_one(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        results = pool.starmap(_ask, [(folder, log, number) for number in range(8)])
    assert results == [b"x" * 1_000_000] * 8
    assert len(log.read_text().splitlines()) == 1
    assert len(names(folder)) == 1


@pytest.mark.parametrize("name", ["two_conds", "dynamic_encoder", "llama_block"])
def test_a_program_of_its_own_that_compiles_to_the_same_bytes(name: str) -> None:
    case = MODELS[name]
    first, second = exports.exported(case), exports.exported(case)
    assert first is not second
    expected = etir.compile(case.export()).buffer
    for weight in first.state_dict.values():
        weight.data.zero_()
    assert etir.compile(second).buffer == expected
    assert etir.compile(exports.exported(case)).buffer == expected


def test_the_key_follows_sources_and_versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = MODELS["two_conds"]
    before = exports._digest(case)
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert exports._digest(case) == before, "it is the installed package that counts"
    monkeypatch.setattr(exports, "version", lambda package: "0.0")
    assert exports._digest(case) != before
    monkeypatch.undo()
    for path in exports._MODELS.rglob("*.py"):
        copy = tmp_path / "models" / path.relative_to(exports._MODELS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(exports, "_MODELS", tmp_path / "models")
    exports._sources.cache_clear()
    try:
        moved = exports._sources()
        (tmp_path / "models" / "families" / "vision.py").write_text("# another")
        exports._sources.cache_clear()
        assert exports._sources() != moved
    finally:
        exports._sources.cache_clear()
