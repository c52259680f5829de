"""Coverage-guided fuzzing of the loader and the executor, under AddressSanitizer and UndefinedBehaviorSanitizer.

    python test/runtime/fuzz.py --seconds 60
    python test/runtime/fuzz.py --runs 2000000 --family prim --family copy --family elementwise

Builds ``runtime/executor/program_fuzz.cc`` with clang's libFuzzer, writes a corpus of small programs and external data
(control flow, lists, state, dynamic shapes), and runs. What crashes, hangs or leaks is kept in ``--artifacts``, and the
exit code is not 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from executor import RUNTIME, link_executor
from test_executor_mutation import corpus

FLAGS = "-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"


def main() -> int:
    """Build, and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=0, help="how long; 0 for no limit")
    parser.add_argument("--runs", type=int, default=-1, help="how many executions; -1 for no limit")
    parser.add_argument("--family", action="append", help="folders of kernels (default: prim and copy)")
    parser.add_argument("--artifacts", default="build/fuzz", help="where what fails is kept (default: build/fuzz)")
    arguments = parser.parse_args()
    os.environ |= {"CXX": "clang++", "ETIR_KERNEL_FLAGS": FLAGS}
    families = arguments.family or ["prim", "copy"]
    source = RUNTIME / "executor" / "program_fuzz.cc"
    program = link_executor(families, "-".join(("fuzz", *families)), [source], "-fsanitize=fuzzer")
    artifacts = Path(arguments.artifacts)
    artifacts.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found"
        found.mkdir()
        corpus(Path(folder) / "corpus")
        command = [program, found, Path(folder) / "corpus", f"-artifact_prefix={artifacts}/", "-timeout=10"]
        limits = [f"-max_total_time={arguments.seconds}", f"-runs={arguments.runs}", "-rss_limit_mb=4096"]
        done = subprocess.run([*map(str, command), *limits, "-print_final_stats=1", "-verbosity=0"], check=False)
    print(f"fuzzing ended with exit code {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
