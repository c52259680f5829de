"""Random mutations of files: whatever a file says, loading and running it ends with an error or a result.

The executor and the light kernel families are compiled with the address and undefined behaviour sanitizers, and each
mutant is loaded and run twice with memory that ends where the file says that it ends. Inputs are the hand-written
programs of the other tests; ``ETIR_MUTANTS`` sets their number.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from etir_testing.runtime.executor import RUNTIME, link_executor
from etir_testing.runtime.mutated_programs import programs

MUTATOR = ("program_fuzz.cc", "file_mutator.cc")
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"


def corpus(folder: Path) -> list[Path]:
    """The inputs as files."""
    files = programs()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.fixture(scope="module")
def mutate() -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETIR_KERNEL_FLAGS", FLAGS)
        sources = [RUNTIME / "executor" / name for name in (*MUTATOR, "program_mutation_fuzz.cc")]
        return link_executor(["prim", "copy"], "program_mutate", sources, "")


@pytest.mark.parametrize("seed", [1, 2])
def test_no_mutant_gets_through(mutate: Path, tmp_path: Path, seed: int) -> None:
    count = int(os.environ.get("ETIR_MUTANTS", "5000"))
    files = corpus(tmp_path / "corpus")
    done = subprocess.run(
        [mutate, str(seed), str(count), *files], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout == f"{count} mutants of {len(files)} files\n"
