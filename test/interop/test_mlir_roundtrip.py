"""The generic form is MLIR's: a real MLIR parser reads it, prints it, and nothing is lost on the way back.

``iree-opt`` stands for MLIR's tools; it knows none of etir's dialects, so that everything has to be in the text.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from etir.backends.api.registry import backend_dialects
from etir.dialects.context import EtContext
from etir.dialects.split import split_input
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module

IREE_OPT = Path(sys.executable).with_name("iree-opt")
DIALECT_TESTS = Path(__file__).resolve().parent.parent / "lit" / "dialects"

pytestmark = pytest.mark.skipif(not IREE_OPT.exists(), reason="iree-opt is not installed (iree-base-compiler)")


NAMESAKES = ("quant",)
"""Dialects of MLIR with the name of one of ours: `mlir-opt` takes no operations of a dialect that it knows but for its
own (docs/reference/dialects/quant.md).
"""


def _cases() -> list[tuple[str, str]]:
    """Every module of the dialects' ``ops`` and ``types`` tests."""
    cases: list[tuple[str, str]] = []
    for path in sorted(DIALECT_TESTS.glob("*/*.mlir")):
        if path.stem not in ("ops", "types") or path.parent.name in NAMESAKES:
            continue
        for index, chunk in enumerate(split_input(path.read_text())):
            cases.append((f"{path.parent.name}/{path.stem}-{index}", chunk.text))
    return cases


CASES = _cases()


def _through_mlir(text: str) -> str:
    done = subprocess.run(
        [IREE_OPT, "--mlir-print-op-generic", "--allow-unregistered-dialect", "-mlir-print-local-scope", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "text"), CASES, ids=[name for name, _ in CASES])
def test_generic_form_survives_mlir(name: str, text: str) -> None:
    module = parse_module(text, EtContext(dialects=backend_dialects()), name=name)
    verify_module(module)
    again = parse_module(
        _through_mlir(print_module(module, generic=True)), EtContext(dialects=backend_dialects()), name="iree-opt"
    )
    verify_module(again)
    assert module.is_structurally_equivalent(again)


def test_locations_survive_mlir() -> None:
    text = """
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("layers.0"("model.py":12:5))
      %1 = aten.relu.default(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["model.py":13:5, "model.py":14:5])
      func.return %1 : tensor<4xf32> loc("model.py":15:5)
    } loc("model.py":1:1)
    """
    module = parse_module(text, EtContext(dialects=backend_dialects()))
    done = subprocess.run(
        [
            IREE_OPT,
            "--mlir-print-op-generic",
            "--allow-unregistered-dialect",
            "-mlir-print-local-scope",
            "--mlir-print-debuginfo",
            "-",
        ],
        input=print_module(module, generic=True, locations=True),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    again = parse_module(done.stdout, EtContext(dialects=backend_dialects()))
    pairs = list(zip(module.walk(), again.walk(), strict=True))
    assert [str(a.location) for a, _ in pairs[1:]] == [str(b.location) for _, b in pairs[1:]]
