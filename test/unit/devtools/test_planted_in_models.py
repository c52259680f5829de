"""Faults that were planted in a model of the zoo are found by the tutorial's commands, and their pages show them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etir_testing import ROOT, TESTS
from etir_testing.devtools.browser import Browser
from etir_testing.devtools.planted_models import SECTIONS, commands

MODEL = ROOT / "test" / "etir_testing" / "models" / "families" / "llama_decoder.py"


def looked_for(folder: Path, *sections: str) -> Path:
    """The folder, after the commands of some sections have run in it."""
    command = [sys.executable, "-m", "etir_testing.devtools.planted_models", str(folder), *sections]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands that take little time have run."""
    return looked_for(tmp_path_factory.mktemp("quick"), "slow", "memory")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where numbers were compared."""
    return looked_for(tmp_path_factory.mktemp("compared"), "wrong")


def said(folder: Path, section: str, tool: str) -> str:
    """What a tool printed."""
    found = json.loads((folder / "said.json").read_text())[section]
    return next(printed for command, printed in found if command.startswith(tool))


def place(text: str) -> str:
    """The line of the model that has a text."""
    (line,) = (i for i, one in enumerate(MODEL.read_text().splitlines(), 1) if text in one)
    return f"llama_decoder.py:{line}"


VISIBLE = """((words) => {
  const all = [...document.querySelectorAll('#overview .entry, #overview .finding')];
  const inside = (box) => box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
  const seen = all.filter((one) => inside(one.getBoundingClientRect())).map((one) => one.textContent);
  return seen.filter((text) => text.includes(words));
})"""
"""Texts of the overview that stand in the window as it opens: nothing is clicked and nothing is scrolled."""


def shown(folder: Path, page: str, words: str) -> list[str]:
    """What a page shows of some words at first sight."""
    with Browser() as browser:
        browser.open(folder / f"{page}.html")
        found = browser.evaluate(f"{VISIBLE}({json.dumps(words)})")
        assert browser.complaints == []
        return found


@pytest.mark.parametrize("section", SECTIONS)
def test_the_tutorial_takes_few_commands(section: str) -> None:
    assert 0 < len(commands(section)) <= 4


def test_a_slow_kernel_is_the_first_line(quick: Path) -> None:
    table = said(quick, "slow", "et-inspect").splitlines()
    assert table[1].split("\t")[0].endswith(place("functional.silu")) and "aten::silu.out" in table[1], table
    first = shown(quick, "slow", "llama_decoder.py:")[0]
    assert place("functional.silu") in first, first


def test_overlapping_buffers_are_found(quick: Path) -> None:
    printed = said(quick, "memory", "et-opt")
    assert "error[E0714]" in printed and "both are live at instruction" in printed, printed
    assert shown(quick, "overlap", "overlap from instruction")


@pytest.mark.nightly
def test_a_wrong_decomposition_is_found_with_its_rewrite(compared: Path) -> None:
    first = said(compared, "wrong", "et-compare").splitlines()[0]
    assert first.startswith("first wrong: ") and place("functional.scaled_dot_product_attention") in first, first
    assert "decompose-aten" in first and "'forgetful' on aten.scaled_dot_product_attention" in first, first
    assert shown(compared, "wrong", "first wrong at core")
