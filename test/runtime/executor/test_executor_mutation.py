"""Random mutations of files: whatever a file says, loading and running it ends with an error or a result.

The executor and the light kernel families are compiled with the address and undefined behavior sanitizers, and each
mutant is loaded and run twice with memory that ends where the file says that it ends. Inputs are the hand-written
programs of the other tests; ``ETIR_MUTANTS`` sets their number.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from etir_testing.runtime.builds import build, selection
from etir_testing.runtime.kernels import manifest
from etir_testing.runtime.mutated_programs import programs


def corpus(folder: Path) -> list[Path]:
    """The inputs as files."""
    files = programs()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.fixture(scope="module")
def mutate() -> Path:
    names = [name for name, row in manifest().items() if row["family"] in ("prim", "copy")]
    folder = build("asan", "etir_mutate", defines={"ETIR_ONLY_OPS": selection(names)})
    return folder / "runtime" / "testing" / "etir_mutate"


@pytest.mark.parametrize("seed", [1, 2])
def test_no_mutant_gets_through(mutate: Path, tmp_path: Path, seed: int) -> None:
    count = int(os.environ.get("ETIR_MUTANTS", "5000"))
    files = corpus(tmp_path / "corpus")
    done = subprocess.run(
        [mutate, str(seed), str(count), *files], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout == f"{count} mutants of {len(files)} files\n"
