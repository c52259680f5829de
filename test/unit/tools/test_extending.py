"""Plug-ins of et-opt, and etir's own dialects and passes in xDSL's tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition

from etir.diagnostics import Severity
from etir.dialects.context import EtContext
from etir.dialects.errors import E0301
from etir.dialects.text import source_location
from etir.extensions import registry_changed
from etir.extensions.plugin import Plugin
from etir.passes.infra import registry
from etir.passes.infra.base import Pass
from etir.tools import context
from etir.tools.et_opt import main

XDSL_OPT = Path(sys.executable).with_name("xdsl-opt")


@irdl_op_definition
class MarkOp(IRDLOperation):
    """An operation of a plug-in."""

    name = "plug.mark"
    assembly_format = "attr-dict"


@dataclass(frozen=True)
class MarkPass(Pass):
    """Mark the module."""

    name: ClassVar[str] = "plug-mark"
    word: str = "seen"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Set an attribute."""
        module.attributes["plug.word"] = StringAttr(self.word)


@dataclass(frozen=True)
class WarnPass(Pass):
    """Warn without failing."""

    name: ClassVar[str] = "plug-warn"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Leave a warning at the first operation."""
        first = module.body.block.first_op
        place = None if first is None else source_location(first.location)
        ctx.diagnostics.append(E0301.diagnostic("look here", place, severity=Severity.WARNING))


@dataclass(frozen=True)
class ImpostorPass(Pass):
    """Not the real one."""

    name: ClassVar[str] = "cse"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Fail."""
        raise AssertionError


@pytest.fixture(autouse=True)
def _plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plugin = Plugin(
        passes={"plug-mark": MarkPass, "plug-warn": WarnPass, "cse": ImpostorPass},
        dialects={"plug": lambda: Dialect("plug", [MarkOp], []), "aten": lambda: Dialect("aten", [], [])},
    )
    for module in (registry, context):
        monkeypatch.setattr(module, "installed_plugins", lambda: {"plug-in 'plug' (test)": plugin})
    registry_changed()
    yield
    registry_changed()


def test_a_plug_in_adds_dialects_and_passes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.mlir"
    path.write_text("plug.mark {level = 3 : i64}\n")
    assert main([str(path), "-p", "plug-mark{word=hello},cse", "--verify-roundtrip"]) == 0
    shown = capfd.readouterr()
    assert 'attributes {plug.word = "hello"}' in shown.out
    assert "plug.mark {level = 3 : i64}" in shown.out
    assert "there are two dialects 'aten': of etir.dialects.context and of plug-in 'plug' (test)" in shown.err
    assert shown.err.count("warning[E1303]") == 2


def test_a_plug_in_s_pass_is_an_option_and_is_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.mlir"
    path.write_text("")
    assert main([str(path), "--plug-mark=word=a"]) == 0
    assert 'plug.word = "a"' in capfd.readouterr().out
    assert main(["--list-passes"]) == 0
    assert "plug-mark\n    Mark the module.\n      word=str  (default seen)\n" in capfd.readouterr().out
    assert main(["--list-dialects"]) == 0
    assert "plug           1 operations  (plug-in)" in capfd.readouterr().out


def test_warnings_are_printed_and_can_be_expected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.mlir"
    path.write_text("// expected-warning @below [E0301] {{look here}}\nplug.mark\n")
    assert main([str(path), "-p", "plug-warn"]) == 0
    captured = capfd.readouterr()
    assert f"{path}:2:1: warning[E0301]: look here\n    plug.mark\n    ^\n" in captured.err
    assert "plug.mark" in captured.out
    assert main([str(path), "-p", "plug-warn", "--verify-diagnostics"]) == 0
    assert main([str(path), "--verify-diagnostics"]) == 1


def test_xdsl_s_own_tool_sees_etir(tmp_path: Path) -> None:
    path = tmp_path / "in.mlir"
    path.write_text(
        "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  %2 = edge.aten.mul.Tensor(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %2 : tensor<4xf32>\n"
        "}\n"
    )
    done = subprocess.run([XDSL_OPT, "-p", "etir-cse", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("aten.relu.default") == 1
    assert "edge.aten.mul.Tensor(%0, %0)" in done.stdout
