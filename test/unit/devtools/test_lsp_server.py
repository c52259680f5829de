"""The language server as an editor sees it: a client over its pipes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import etir
from etir.tools import et_lsp

pytest.importorskip("pygls")

from lsprotocol import types as lsp

from etir_testing import ROOT
from etir_testing.devtools.editor import Editor
from etir_testing.devtools.programs import exported
from etir_testing.devtools.texts import chain

TEXT = """\
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = et.get_weight @w : tensor<4xf32>
  %y = aten.add.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("head"("model.py":3:0))
  %z = aten.relu.default(%y) : (tensor<4xf32>) -> tensor<4xf32> loc("head"("model.py":3:0))
  func.return %z : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled program: text of two levels, trace, profile; and the Python program of another one."""
    root = tmp_path_factory.mktemp("lsp")
    program, inputs = exported("image")
    compiled = etir.compile(program, target="etir", trace=True)
    trace = compiled.trace
    assert trace is not None
    trace.save(root / "net.trace")
    etir.runtime.load(compiled)["forward"].profile(*inputs, repeat=3).save(root / "net.etdp")
    for level in ("edge", "et"):
        (root / f"net-{level}.mlir").write_text(trace.text(level))
    (root / "model.py").write_text("import torch\n\nx + w\n")
    return root


@pytest.fixture(scope="module")
def editor(folder: Path) -> Iterator[Editor]:
    with Editor(folder) as running:
        yield running
        assert not [message for message in running.log if "E1430" in message]


def column(text: str, line: int, word: str) -> int:
    return text.split("\n")[line].index(word)


def test_diagnostics_have_id_place_and_next_step(editor: Editor) -> None:
    text = TEXT.replace("%y = aten.add.Tensor", "%y = aten.add.Tnsor").replace("return %z", "return %q")
    found = editor.open("a.mlir", text)
    assert [(d.code, d.range.start.line, d.source) for d in found] == [("E0102", 3, "etir"), ("E0302", 5, "etir")]
    assert "did you mean 'aten.add.Tensor'" in found[0].message and "\nhelp: " in found[0].message
    assert editor.edit("a.mlir", 3, 17, 17, "e") == found[1:]
    assert editor.change("a.mlir", lsp.TextDocumentContentChangeWholeDocument(TEXT)) == []
    assert editor.close("a.mlir") == []


def test_hover_definition_references_outline_completion(editor: Editor, folder: Path) -> None:
    assert editor.open("b.mlir", TEXT) == []
    add = column(TEXT, 3, "aten.add")
    shown = editor.hover("b.mlir", 3, add + 2)
    assert "aten::add.Tensor(Tensor self, Tensor other" in shown and "kernel of etir: `aten::add.out`" in shown
    assert "REALHBBF16" in shown and "`model.py:3` in `head`" in shown and "`%y`: `tensor<4xf32>`, 16 bytes" in shown
    assert "2 uses" not in editor.hover("b.mlir", 3, 3) and "1 use" in editor.hover("b.mlir", 3, 3)
    assert "tensor<4xf32>" in editor.hover("b.mlir", 1, column(TEXT, 1, "%x"))
    assert editor.hover("b.mlir", 6, 0) == "" and editor.hover("b.mlir", 99, 99) == ""
    # Values, symbols, and the line of the Python program.
    assert editor.definition("b.mlir", 4, column(TEXT, 4, "(%y") + 2) == ("b.mlir", 3, 2)
    assert editor.definition("b.mlir", 2, column(TEXT, 2, "@w") + 1) == ("b.mlir", 0, column(TEXT, 0, "@w"))
    assert editor.definition("b.mlir", 3, add + 2) == ("model.py", 2, 0)
    assert editor.definition("b.mlir", 3, column(TEXT, 3, "model.py")) == ("model.py", 2, 0)
    assert editor.references("b.mlir", 3, 3) == [("b.mlir", 3, 2), ("b.mlir", 4, column(TEXT, 4, "%y"))]
    assert len(editor.references("b.mlir", 3, 3, declaration=False)) == 1
    of_line = [("b.mlir", 3, add), ("b.mlir", 4, column(TEXT, 4, "aten.relu"))]
    assert editor.references("b.mlir", 3, add + 2) == of_line
    editor.open("model.py", "import torch\n\nx + w\n", language="python")
    assert editor.references("model.py", 2, 0) == of_line and editor.references("model.py", 1, 0) == []
    # Texts that nobody has open are looked through as well, in the order of their names.
    (folder / "deeper").mkdir()
    (folder / "deeper" / "c.mlir").write_text(TEXT)
    (folder / "other.mlir").write_text(TEXT.replace("model.py", "another.py"))
    everywhere = editor.references("model.py", 2, 0)
    assert everywhere[: len(of_line)] == of_line
    assert [(name, *rest) for name, *rest in everywhere[len(of_line) :]] == [("c.mlir", *rest) for _, *rest in of_line]
    assert "2 operations in open files" in editor.hover("model.py", 2, 1)
    assert [(s.name, s.kind.name) for s in editor.outline("b.mlir")] == [("w", "Constant"), ("f", "Function")]
    editor.edit("b.mlir", 4, column(TEXT, 4, "aten.relu"), len(TEXT.split("\n")[4]), "aten.leaky_re")
    labels = [item.label for item in editor.complete("b.mlir", 4, column(TEXT, 4, "aten.relu") + 13)]
    assert labels == ["aten.leaky_relu.default", "aten.leaky_relu_backward.default"]
    editor.edit("b.mlir", 4, column(TEXT, 4, "aten.relu"), column(TEXT, 4, "aten.relu") + 13, "aten.softmax.int(%")
    assert [i.label for i in editor.complete("b.mlir", 4, 25)] == ["%y", "%w", "%x"]
    editor.edit("b.mlir", 4, 24, 25, "%y, d")
    assert [i.label for i in editor.complete("b.mlir", 4, 29)] == ["dim", "dtype"]
    editor.close("b.mlir")


def test_time_and_memory_come_from_what_lies_beside(editor: Editor, folder: Path) -> None:
    for level, name in (("edge", "edge.aten.convolution.default"), ("et", "et.call")):
        text = (folder / f"net-{level}.mlir").read_text()
        assert editor.open(f"net-{level}.mlir", text) == []
        line = next(i for i, one in enumerate(text.split("\n")) if name in one)
        shown = editor.hover(f"net-{level}.mlir", line, column(text, line, name) + 1)
        assert re.search(r"time: \d+\.\d{3} ms, \d+\.\d % of a run", shown), shown
        assert re.search(r"[\d,]+ bytes in pool 1 at [\d,]+", shown), shown
        assert "programs.py:" in shown
        # Copied into another folder, where no trace lies, the text keeps what it says itself.
        explained = editor.command("etir.explain", editor.uri(f"net-{level}.mlir"), line)
        assert "aten.conv2d.default" in explained["text"] and "instruction" in explained["text"]
        editor.close(f"net-{level}.mlir")


def test_actions(editor: Editor, folder: Path) -> None:
    wrong = TEXT.replace("%z : tensor<4xf32>\n}", "%q : tensor<4xf32>\n}")
    (problem,) = editor.open("c.mlir", wrong)
    found = editor.actions("c.mlir", 5)
    action = found["Expect error E0302 here"]
    assert isinstance(action, lsp.CodeAction)
    assert list(action.diagnostics or ()) == [problem] and action.edit is not None and action.edit.changes is not None
    ((edit,),) = action.edit.changes.values()
    lines = wrong.split("\n")
    lines.insert(edit.range.start.line, edit.new_text.rstrip("\n"))
    (folder / "expected.mlir").write_text("\n".join(lines))
    command = [sys.executable, "-m", "etir.tools.et_opt", "--verify-diagnostics", str(folder / "expected.mlir")]
    assert subprocess.run(command, check=False).returncode == 0
    # Passes run on the text as it is in the editor; what is wrong with it is said instead of a result.
    uri = editor.uri("c.mlir")
    assert "E0302" in editor.command("etir.runPasses", uri, 1, "cse")["diagnostics"]
    editor.change("c.mlir", lsp.TextDocumentContentChangeWholeDocument(TEXT))
    assert "Run passes here..." in editor.actions("c.mlir", 3)
    assert "Run compile-to=edge here" in editor.actions("c.mlir", 3)
    lowered = editor.command("etir.runPasses", uri, 3, "compile-to=edge")
    assert "edge.aten.add.Tensor" in lowered["text"] and lowered["diagnostics"] == ""
    assert "aten.relu" not in editor.command("etir.runPasses", uri, 3, "decompose-aten,aten-to-edge,dce")[
        "text"
    ].replace("edge.aten.relu", "")
    explained = editor.command("etir.explain", uri, 4)["text"]
    assert "aten.relu.default (origin" in explained and "aten::relu.out" in explained
    names = [entry["name"] for entry in editor.command("etir.passes")]
    assert {"compile-to=et", "cse", "decompose-aten"} <= set(names)
    for arguments, id in (
        ((uri, 3), "E1432"),
        ((uri, -1, "cse"), "E1432"),
        ((uri, "x", "cse"), "E1432"),
        (("file:///nowhere.mlir", 3, "cse"), "E1432"),
        ((), "E1432"),
        ((uri, 3, "no-such-pass"), "E0502"),
        ((uri, 3, "compile-to=mars"), "E1432"),
        ((uri, 3, "cse{"), "E0506"),
    ):
        assert id in editor.command("etir.runPasses", *arguments)["diagnostics"]
    assert "E1432" in editor.command("etir.explain", uri, 6)["diagnostics"] + "E1432"
    editor.close("c.mlir")


def test_malformed_text_and_places_do_not_end_the_server(editor: Editor) -> None:
    for text in ("\ud800", "{" * 2000, '"' * 99, "%x = aten.add.Tensor(", "\x00\u2028\r", "// -----\n" * 50):
        editor.open("d.mlir", text)
        for line, at in ((0, 0), (0, 10**6), (10**6, 0)):
            editor.hover("d.mlir", line, at)
            editor.definition("d.mlir", line, at)
            editor.references("d.mlir", line, at)
            editor.complete("d.mlir", line, at)
            editor.actions("d.mlir", line)
        editor.outline("d.mlir")
        editor.edit("d.mlir", 10**6, 5, 3, "🦜")
        editor.close("d.mlir")
    assert editor.hover("never-opened.mlir", 0, 0) == ""


def test_another_client(tmp_path: Path) -> None:
    """One that counts bytes and cannot ask for passes: it gets some to choose from, and results as files."""
    (tmp_path / "bad.trace").write_bytes(b"PK\x03\x04 no trace")
    with Editor(tmp_path, shows=False, encoding="utf-8") as editor:
        text = 'func.func @f(%x: i1) -> i1 attributes {note = "é🦜"} { // %q\n  func.return %q : i1\n}\n'
        (problem,) = editor.open("bad.mlir", text)
        assert problem.range.start == lsp.Position(1, 14)
        editor.change("bad.mlir", lsp.TextDocumentContentChangeWholeDocument(TEXT))
        assert "aten::add.Tensor" in editor.hover("bad.mlir", 3, 10)
        assert any("E1401" in message or "E1403" in message for message in editor.log)
        assert "Run passes here..." not in editor.actions("bad.mlir", 3)
        shown = editor.command("etir.runPasses", editor.uri("bad.mlir"), 3, "cse,dce")
        assert shown["text"] and editor.shown and editor.shown[0].endswith(".mlir")
        assert editor.command("etir.runPasses", editor.uri("bad.mlir"), 3, "nope")["text"] is None
        assert any("E0502" in message for message in editor.log)


@pytest.mark.nightly
def test_a_long_text_takes_little_time_after_the_first_reading(tmp_path: Path) -> None:
    text = chain(3000, locations=True)
    loose = 1.0 if os.environ.get("ETIR_TIMES") else 4.0
    with Editor(tmp_path) as editor:
        start = time.perf_counter()
        assert editor.open("long.mlir", text) == []
        first = time.perf_counter() - start
        start = time.perf_counter()
        (found,) = editor.edit("long.mlir", 1500, 2, 4, "%w")
        edited = time.perf_counter() - start
        editor.hover("long.mlir", 1600, 12)
        start = time.perf_counter()
        assert "aten::relu" in editor.hover("long.mlir", 1700, 12)
        hovered = time.perf_counter() - start
    assert found.range.start.line == 1501
    # The machine of a test may be busy with others.
    assert (first < 2 * loose, edited < 0.5 * loose, hovered < 0.1 * loose) == (True,) * 3, (first, edited, hovered)


def test_the_extra_is_asked_for_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("pygls", "etir.devtools.lsp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.setitem(sys.modules, "pygls", None)
    assert et_lsp.main(["--stdio", "--color=never", "--debug"]) == 1
    assert "E1431" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "code", "said"), [("--help", 0, "usage: et-lsp"), ("--version", 0, "et-lsp ")])
def test_what_the_tool_says_of_itself(options: str, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        et_lsp.main([options])
    assert ended.value.code == code and said in capsys.readouterr().out


NVIM = """
vim.opt.runtimepath:append("{editors}")
vim.cmd("filetype plugin on")
vim.cmd("syntax on")
require("etir").setup({{ cmd = {{ "{python}", "-m", "etir.tools.et_lsp" }} }})
vim.cmd("edit {file}")
assert(vim.bo.filetype == "mlir", vim.bo.filetype)
assert(vim.b.current_syntax == "mlir")
assert(vim.wait(30000, function() return #vim.diagnostic.get(0) == 1 end, 20), "no diagnostics")
assert(vim.diagnostic.get(0)[1].message:find("there is no value %%q"))
vim.api.nvim_win_set_cursor(0, {{ 4, 10 }})
local found = vim.lsp.buf_request_sync(0, "textDocument/hover", vim.lsp.util.make_position_params(), 10000)
local _, answer = next(found)
assert(answer.result.contents.value:find("aten::add.Tensor", 1, true), vim.inspect(found))
vim.api.nvim_buf_set_lines(0, 5, 6, false, {{ "  func.return %z : tensor<4xf32>" }})
assert(vim.wait(30000, function() return #vim.diagnostic.get(0) == 0 end, 20), "not mended")
local client = vim.lsp.buf_get_clients(0)
local id = next(client)
local uri = vim.uri_from_bufnr(0)
vim.lsp.commands["etir.runPasses"]({{ arguments = {{ uri, 3, "compile-to=edge" }} }}, {{ client_id = id }})
assert(vim.wait(30000, function() return #vim.api.nvim_list_wins() == 2 end, 20), "no result")
local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n")
assert(text:find("edge.aten.add.Tensor", 1, true), text)
print("all well")
vim.cmd("qa!")
"""


def test_neovim(tmp_path: Path) -> None:
    neovim = shutil.which("nvim")
    if neovim is None:
        pytest.skip("Neovim is not installed")
    (tmp_path / "t.mlir").write_text(TEXT.replace("return %z", "return %q"))
    script = tmp_path / "test.lua"
    script.write_text(
        NVIM.format(editors=ROOT / "editors" / "nvim", python=sys.executable, file=tmp_path / "t.mlir"),
        encoding="utf-8",
    )
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    command = [neovim, "--headless", "-u", "NONE", "-i", "NONE", "-c", f"luafile {script}", "-c", "cquit"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0 and "all well" in done.stderr, done.stderr
