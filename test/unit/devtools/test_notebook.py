"""What a notebook shows of a program, and how far a compilation is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from html import escape
from pathlib import Path

import pytest

import etir
from etir.devtools.progress import Bar
from etir.dialects.text import parse_module
from etir.passes.infra.instrumentation import PassRun

TEXT = """\
func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = aten.relu.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = aten.sigmoid.default(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = aten.add.Tensor(%a, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %c : tensor<4x8xf32>
}
"""

CELLS = [
    f"import etir, sys\nfrom etir.dialects.text import parse_module\nmodule = parse_module('''{TEXT}''')",
    # However slow the machine is, this compilation does not take long.
    "from etir.devtools import progress\nprogress.SHOW_AFTER = 1e9",
    "with etir.devtools.show_progress():\n    program = etir.compile(module)\nassert 'tqdm' not in sys.modules",
    "program",
    "from etir.devtools.progress import _maker\n_maker().__name__",
]


def compiled(**settings: object) -> etir.Program:
    return etir.compile(parse_module(TEXT), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("trace", [False, True])
def test_the_card_says_what_the_program_consists_of(trace: bool) -> None:
    program = compiled(trace=trace)
    shown = program._repr_html_()
    assert "1 method, 3 kernel calls" in shown and "forward (1 input, 1 output)" in shown
    planned = re.search(r"memory 1 of forward, ([\d,]+) bytes", shown)
    assert planned is not None and f"{planned[1]} bytes of planned memory" in shown
    assert shown.count("<svg ") == 1 and "<script" not in shown and "http://www.w3.org/2000/svg" in shown
    assert "compiled in" in shown and "longest" in shown


def test_names_are_escaped() -> None:
    hostile = TEXT.replace("@forward", '@"<img src=x onerror=alert(1)>"')
    shown = etir.compile(parse_module(hostile))._repr_html_()
    assert "<img" not in shown and escape("<img src=x onerror=alert(1)>") in shown


def test_a_notebook_shows_it(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    kernels = tmp_path / "kernels" / "here"
    kernels.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel = {"argv": command, "display_name": "here", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps(kernel))
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
    manager = AsyncKernelManager(kernel_name="here", kernel_spec_manager=specs)
    nbclient.NotebookClient(
        notebook, timeout=120, km=manager, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert [output.output_type for output in outputs] == ["execute_result", "execute_result"], outputs
    html = outputs[0].data["text/html"]
    assert "Program for" in outputs[0].data["text/plain"] and "_notebook_bar" in outputs[1].data["text/plain"]
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed")
    page, profile = tmp_path / "page.html", tmp_path / "profile"
    # The script only measures; the card has none.
    wide = "[...document.querySelectorAll('svg rect')].filter((r) => r.getBoundingClientRect().width > 5).length"
    measure = f"document.title = {wide}"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{html}<script>{measure}</script>")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    title = re.search(r"<title>(\d+)</title>", seen)
    assert title is not None and int(title[1]) >= 3, seen[:2000]


# --- progress --------------------------------------------------------------------------------------------------------


class _Drawn:
    """What a bar was told."""

    def __init__(self, total: int, done: int):
        self.total, self.n, self.said, self.closed = total, done, [], False

    def reset(self, total: int) -> None:
        self.total = total

    def set_description_str(self, text: str) -> None:
        self.said.append((self.n, text))

    def close(self) -> None:
        self.closed = True


def test_a_bar_appears_once_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[_Drawn] = []

    def make(total: int, done: int) -> _Drawn:
        made.append(_Drawn(total, done))
        return made[-1]

    bar = Bar(make)
    module = parse_module(TEXT)
    bar.before_pass(PassRun(0, 3, "cse", "cse"), module)
    assert made == []
    later = time.monotonic() + 10
    monkeypatch.setattr(time, "monotonic", lambda: later)
    bar.before_pass(PassRun(1, 3, "dce", "dce"), module)
    bar.before_pass(PassRun(0, 5, "cse", "cse"), module)
    bar.close()
    (drawn,) = made
    assert drawn.said == [(1, "dce"), (0, "cse")] and drawn.total == 5 and drawn.closed


def test_nothing_is_shown_where_nobody_looks(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etir.devtools.progress.SHOW_AFTER", 0.0)
    with etir.devtools.show_progress():
        compiled()
    assert capfd.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_and_loses_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("etir.devtools.progress.SHOW_AFTER", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with etir.devtools.show_progress():
        compiled()
    text = terminal.getvalue()
    assert "%|" in text and "pass" in text and text.endswith("\r")
