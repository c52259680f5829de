"""Coverage-guided fuzzing of the loader, the executor and the kernels, under AddressSanitizer and
UndefinedBehaviorSanitizer.

    python test/fuzz.py --seconds 60
    python test/fuzz.py --runs 2000000 --jobs 2

Builds ``runtime/executor/program_fuzz.cc`` with clang's libFuzzer and all families of kernels, for the element types
that most programs use, and runs it on the seeds in ``test/corpus`` (``fuzz_corpus.py`` makes them). A mutator
that walks the tables of ``.pte`` and ``.ptd`` files (``runtime/executor/file_mutator.h``) makes most of the changes.
What crashes, hangs or leaks is kept in ``--artifacts``, and the exit code is not 0.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from etir_testing.runtime.executor import RUNTIME, link_executor

CORPUS = Path(__file__).resolve().parent / "corpus"
# uint8, int8, int32, int64, half, float, double, bool. Compilers differ in what they warn of.
SANITIZE = "-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
FLAGS = f"-O1 -g1 {SANITIZE} -DETIR_DTYPES=0x8fbu -Wno-error"
SOURCES = ("program_fuzz.cc", "file_mutator.cc", "libfuzzer_mutator.cc")
MOST_BYTES = 8192


def main() -> int:
    """Build, and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=0, help="how long; 0 for no limit")
    parser.add_argument("--runs", type=int, default=-1, help="how many executions of each job; -1 for no limit")
    parser.add_argument("--jobs", type=int, default=1, help="processes, which share what they find (default: 1)")
    parser.add_argument("--family", action="append", help="folders of kernels (default: all)")
    parser.add_argument("--artifacts", default="build/fuzz", help="where what fails is kept (default: build/fuzz)")
    parser.add_argument("--found", help="where inputs that reach new code are kept (default: nowhere)")
    parser.add_argument("--print-flags", action="store_true", help="print the compiler's flags, and do nothing else")
    arguments = parser.parse_args()
    if arguments.print_flags:
        print(FLAGS)
        return 0
    os.environ |= {"CXX": "clang++", "ETIR_KERNEL_FLAGS": FLAGS}
    families = arguments.family or sorted(path.parent.name for path in (RUNTIME / "kernels").glob("*/kernels.json"))
    sources = [RUNTIME / "executor" / name for name in SOURCES]
    name = "-".join(("fuzz", *arguments.family)) if arguments.family else "fuzz"
    program = link_executor(families, name, sources, "-fsanitize=fuzzer")
    artifacts = Path(arguments.artifacts)
    artifacts.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        found = Path(arguments.found or folder) / "found"
        found.mkdir(parents=True, exist_ok=True)
        command = [program, found, CORPUS, f"-artifact_prefix={artifacts}/", "-timeout=25", f"-max_len={MOST_BYTES}"]
        command += [f"-max_total_time={arguments.seconds}", f"-runs={arguments.runs}", "-rss_limit_mb=4096"]
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
    print(f"fuzzing ended after {executions} executions with exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
