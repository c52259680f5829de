"""Coverage-guided fuzzing of what reads files in C++, under AddressSanitizer and UndefinedBehaviorSanitizer.

    python test/fuzz.py --seconds 60
    python test/fuzz.py --runs 2000000 --jobs 2 --target programs

``programs`` are the loader, the executor and the kernels (``runtime/executor/program_fuzz.cc``) with the preset
``fuzz``: clang's libFuzzer and all kernels, for the element types that most programs use, on the seeds of
``etir_testing.runtime.fuzz_corpus``. A mutator that walks the tables of ``.pte`` and ``.ptd`` files, and of delegates
of XNNPACK and of native code in them (``runtime/executor/file_mutator.h``), makes most of the changes. ``bundled`` is
the reader of bundled programs (``runtime/devtools/bundled_fuzz.cc``). Without ``--target`` one follows the other.
What crashes, hangs or leaks is kept in ``--artifacts``, and the exit code is not 0.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from etir_testing.runtime.builds import build
from etir_testing.runtime.fuzz_corpus import CORPUS, bundled_seeds, made_seeds

MOST_BYTES = 8192


@dataclass(frozen=True)
class Target:
    """A program of libFuzzer's, the seeds that are made for it and those that are files, and its share of the time."""

    program: str
    seeds: Callable[[], dict[str, bytes]]
    corpus: tuple[Path, ...] = ()
    share: int = 1


TARGETS = {
    "programs": Target("etir_fuzz", made_seeds, (CORPUS,)),
    "bundled": Target("etir_bundled_fuzz", bundled_seeds, share=10),
}
"""The share is one of so many parts of ``--seconds``: a small reader has soon shown what it does."""


def main() -> int:
    """Build, and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=0, help="how long; 0 for no limit")
    parser.add_argument("--runs", type=int, default=-1, help="how many executions of each job; -1 for no limit")
    parser.add_argument("--jobs", type=int, default=1, help="processes, which share what they find (default: 1)")
    parser.add_argument("--target", choices=TARGETS, help="what is fuzzed (default: one after the other)")
    parser.add_argument("--only", default="", help="seeds whose names start so, alone (default: all)")
    parser.add_argument("--artifacts", default="build/fuzz", help="where what fails is kept (default: build/fuzz)")
    parser.add_argument("--found", help="where inputs that reach new code are kept (default: nowhere)")
    arguments = parser.parse_args()
    chosen = [arguments.target] if arguments.target else list(TARGETS)
    folder = build("fuzz", *(TARGETS[name].program for name in chosen)) / "runtime" / "testing"
    return max(_fuzz(name, folder, arguments) for name in chosen)


def _fuzz(name: str, folder: Path, arguments: argparse.Namespace) -> int:
    """The exit code of one target."""
    target = TARGETS[name]
    artifacts = Path(arguments.artifacts)
    artifacts.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(arguments.found or temporary) / f"found-{name}"
        found.mkdir(parents=True, exist_ok=True)
        made = Path(temporary) / "made"
        made.mkdir()
        for seed, data in target.seeds().items():
            if seed.startswith(arguments.only):
                (made / seed).write_bytes(data)
        command = [
            folder / target.program,
            found,
            *([] if arguments.only else target.corpus),
            made,
            f"-artifact_prefix={artifacts}/{name}-",
            "-timeout=25",
            f"-max_len={MOST_BYTES}",
        ]
        seconds = -(-arguments.seconds // target.share)
        command += [f"-max_total_time={seconds}", f"-runs={arguments.runs}", "-rss_limit_mb=4096"]
        command += ["-print_final_stats=1", "-verbosity=0", "-reload=10"]
        running = [
            subprocess.Popen([*map(str, command), f"-seed={job + 1}"], stderr=subprocess.PIPE, text=True)
            for job in range(arguments.jobs)
        ]
        texts = [process.communicate()[1] for process in running]
    for text in texts:
        print(text, end="")
    executions = sum(int(n) for text in texts for n in re.findall(r"number_of_executed_units: (\d+)", text))
    code = max((abs(process.returncode) for process in running), default=0)
    print(f"fuzzing of {name} ended after {executions} executions with exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
