"""What the compiler's digest depends on besides etir's own files: packages that add to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etir.sweeps.identity import compiler_digest, plugins


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with a backend, the way pip lays it out. It cannot be imported, and need not be."""
    (tmp_path / "etir_test_addition").mkdir()
    (tmp_path / "etir_test_addition" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "etir_test_addition" / "kernels.so").write_bytes(b"first")
    about = tmp_path / "etir_test_addition-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: etir-test-addition\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[etir.backends]\nadded = etir_test_addition.backend:BACKEND\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    compiler_digest.cache_clear()
    yield tmp_path
    compiler_digest.cache_clear()


def _digests() -> tuple[str, str]:
    """The compiler's, and that of the files of the added package."""
    compiler_digest.cache_clear()
    (files,) = [files for entry, _, files in plugins() if "etir_test_addition" in entry]
    return compiler_digest(), files


def test_a_plug_in_that_was_changed_makes_another_compiler(package: Path) -> None:
    first = _digests()
    assert _digests() == first and "etir_test_addition" not in sys.modules
    # Python writes these while it runs.
    (package / "etir_test_addition" / "__pycache__").mkdir()
    (package / "etir_test_addition" / "__pycache__" / "backend.pyc").write_bytes(b"any")
    assert _digests() == first
    seen = {first}
    for name, data in (("kernels.so", b"second"), ("backend.py", b"BACKEND = 1\n")):
        (package / "etir_test_addition" / name).write_bytes(data)
        seen.add(_digests())
    assert len({compiler for compiler, _ in seen}) == len({files for _, files in seen}) == 3


def test_a_plug_in_of_another_version_or_without_files_makes_another_compiler(package: Path) -> None:
    first = _digests()
    about = package / "etir_test_addition-1.0.dist-info"
    (about / "METADATA").write_text((about / "METADATA").read_text().replace("1.0", "1.1"))
    second = _digests()
    assert second[0] != first[0] and second[1] == first[1]
    (about / "entry_points.txt").write_text("[etir.backends]\nadded = etir_test_nowhere:BACKEND\n")
    compiler_digest.cache_clear()
    assert compiler_digest() not in (first[0], second[0])
