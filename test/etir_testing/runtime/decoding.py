"""A model that fails while it runs, and what ``et-translate --decode-error`` has to say about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import etir
from etir.tools.et_translate import main


class Gather(torch.nn.Module):
    """Indices that the compiler cannot check."""

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.index_select(y, 0, rows)  # the line that fails


def gather() -> etir.Program:
    """Needs rows below 3."""
    example = (torch.ones(3, 4), torch.tensor([0, 1]))
    return etir.compile(torch.export.export(Gather(), example), target="etir")


def decoded(record: str, program: etir.Program, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the tool prints, with the debug file of the program."""
    program.save(folder / "m.pte")
    (folder / "m.debug.json").write_text(program.debug_file())
    (folder / "log").write_text(record)
    files = ["--program", f"{folder}/m.pte", "--debug-info", f"{folder}/m.debug.json"]
    capsys.readouterr()
    assert main(["--decode-error", f"{folder}/log", *files]) == 0
    return capsys.readouterr().out


def check_text(text: str, message: str, call: str) -> None:
    """The place is the marked line of this file; the message and the call are as expected."""
    first, second, *_ = text.splitlines()
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+: error\[E1209\]: {re.escape(message)}", first), text
    assert second.strip().endswith("# the line that fails"), text
    assert f"  note: in method 'forward', instruction 1\n  note: {call}" in text, text
