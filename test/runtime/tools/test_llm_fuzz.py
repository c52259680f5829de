"""Damaged tokenizers and chats under sanitizers: runtime/llm/llm_fuzz.cc."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from etir_testing import ROOT
from etir_testing.models.language_model import train_tokenizer


@pytest.mark.nightly
def test_damaged_files_under_sanitizers(tmp_path: Path) -> None:
    folder = ROOT / "build" / "llm-sanitizers"
    operators = tmp_path / "operators.txt"
    operators.write_text("aten::add.out Float\n")
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DETIR_SANITIZE=address,undefined", "-DETIR_ISAS=", "-DETIR_TESTS=ON"]
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *options, f"-DETIR_ONLY_OPS={operators}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(
        ["cmake", "--build", str(folder), "--target", "etir_llm_fuzz", "-j1"], check=True, capture_output=True
    )
    train_tokenizer().save(str(tmp_path / "tokenizer.json"))
    program = next(path for path in folder.rglob("etir_llm_fuzz") if path.is_file())
    command = [str(program), "5", "1500", str(tmp_path), str(tmp_path / "tokenizer.json")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "of 1500 were read" in ran.stdout
