"""What the tools share: reading, writing, printing diagnostics, exit codes."""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.errors import E0301
from etir.tools.common import FAILED, OK, USAGE, Console, ToolParser, read_text, run_tool, write_output
from etir.tools.et_opt import main


def _parser() -> ToolParser:
    return ToolParser("et-test", "A tool for tests.")


def test_a_body_s_code_is_the_exit_code() -> None:
    assert run_tool(_parser(), lambda arguments, console: 7, []) == 7


def test_diagnostics_are_printed_and_fail(capsys: pytest.CaptureFixture[str]) -> None:
    def body(arguments: argparse.Namespace, console: Console) -> int:
        console.sources["m.mlir"] = "one\n\ttwo\n"
        raise EtirError([E0301.diagnostic("wrong", SourceLocation("m.mlir", 2, 2), notes=["because"])])

    assert run_tool(_parser(), body, []) == FAILED
    assert capsys.readouterr().err.split("\n")[:4] == [
        "m.mlir:2:2: error[E0301]: wrong",
        "    \ttwo",
        "    \t^",
        "  note: because",
    ]


def test_an_unexpected_error_is_one_line_unless_debugging(capsys: pytest.CaptureFixture[str]) -> None:
    def body(arguments: argparse.Namespace, console: Console) -> int:
        raise KeyError("lost")

    assert run_tool(_parser(), body, []) == FAILED
    text = capsys.readouterr().err
    assert text.startswith("error[E0909]: KeyError: 'lost'")
    assert "Traceback" not in text
    assert run_tool(_parser(), body, ["--debug"]) == FAILED
    assert "Traceback" in capsys.readouterr().err


def test_a_wrong_command_line_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_tool(_parser(), lambda arguments, console: OK, ["--nothing"])
    assert caught.value.code == USAGE
    assert "error[E0901]: et-test: unrecognized arguments: --nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("color", "environment", "expected"), [("always", {}, True), ("never", {}, False), ("auto", {}, False)]
)
def test_color(color: str, environment: dict[str, str], expected: bool, capsys: pytest.CaptureFixture[str]) -> None:
    Console(color).report([E0301.diagnostic("wrong", help="do")])
    assert ("\x1b[" in capsys.readouterr().err) is expected


def test_lines_of_unknown_files_and_beyond_the_end_are_not_shown() -> None:
    console = Console()
    console.sources["m.mlir"] = "one\r\ntwo"
    assert console.source_line(E0301.diagnostic("", SourceLocation("m.mlir", 1, 1))) == "one"
    assert console.source_line(E0301.diagnostic("", SourceLocation("m.mlir", 3, 1))) is None
    assert console.source_line(E0301.diagnostic("", SourceLocation("other", 1, 1))) is None
    assert console.source_line(E0301.diagnostic("")) is None


def test_writing_replaces_a_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.mlir"
    path.write_text("old")
    os.chmod(path, 0o644)
    write_output(str(path), "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out.mlir"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_output(str(link), b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_file_is_written_in_place() -> None:
    before = os.stat(os.devnull)
    write_output(os.devnull, "text")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.stat(os.devnull).st_rdev == before.st_rdev


def test_a_folder_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(EtirError) as caught:
        read_text(str(tmp_path), Console())
    assert caught.value.ids == ("E0902",)


def test_a_failing_run_keeps_the_old_output(tmp_path: Path) -> None:
    source, target = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text("func.func @f() {\n  %0 = et.get_weight @w : tensor<4xf32>\n  func.return\n}\n")
    target.write_text("old")
    assert main([str(source), "-o", str(target)]) == FAILED
    assert target.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.mlir", "out.mlir"]


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "in.mlir"
    path.write_text("".join(f"sym.dim @s{i} in [1, 64]\n" for i in range(5000)))
    command = f'"{sys.executable}" -m etir.tools.et_opt "{path}" | head -n 1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "builtin.module {\n"
    assert done.stderr == ""
