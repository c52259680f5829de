"""Generated attacks on the compiler, the runtime and the developer tools.

Edited text, hostile files, headers, orders of passes, and files of the developer tools (from two minutes on, or when
asked for: the stock runtime writes some of them).

    python test/fuzz_adversary.py --seconds 20
    python test/fuzz_adversary.py --seconds 3600 --seed 1000000 --kind files

What each kind tries is in ``etir_testing.fuzz``. The kinds take turns; every finding is printed with the seed that
makes it again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from etir_testing.fuzz import files, headers, pass_orders, text_mutations, tool_files
from etir_testing.runtime.fuzz_corpus import CORPUS

BATCH = 20


def _text(seed: int, target: str) -> Iterator[str]:
    text, weights, inputs = text_mutations.start(target)
    for number in itertools.count():
        for mutation in itertools.islice(text_mutations.mutations(text, seed + number), BATCH):
            found = text_mutations.verdict(mutation.text, weights, inputs, target)
            if found not in (text_mutations.REFUSED, text_mutations.SAME):
                yield f"text for {target}, seed {seed + number}, {mutation.what}: {found}\n{mutation.text}"
            else:
                yield ""


def _files(seed: int) -> Iterator[str]:
    # A seed begins with four bytes for the fuzzer; one with data outside of its program has these first.
    stock = sorted(path for path in CORPUS.iterdir() if path.name.startswith("stock-"))
    seeds = [path for path in stock if path.read_bytes()[8:12] == b"ET12"]
    for number in itertools.count():
        path = seeds[(seed + number) % len(seeds)]
        cases = list(itertools.islice(files.hostile_files(path.read_bytes()[4:], seed + number), BATCH))
        for case, found in files.verdicts(cases):
            yield f"file {path.name}, seed {seed + number}, {case.what}: {found}"
        yield from [""] * len(cases)


def _headers(seed: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        for number in itertools.count(seed, BATCH):
            yield from headers.findings(range(number, number + BATCH), Path(folder))
            yield from [""] * BATCH


def _passes(seed: int) -> Iterator[str]:
    module, calls = pass_orders.edge_module(), pass_orders.calls()
    for number in itertools.count(seed):
        found = pass_orders.check(number, module, calls)
        yield f"passes, seed {number}: {found}" if found else ""


def _tools(seed: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tool_files.write_seeds(folder)
        for number in itertools.count(seed):
            for file in tool_files.READERS:
                for case in itertools.islice(tool_files.cases(folder, file, number), BATCH):
                    findings = list(tool_files.verdicts(folder, case))
                    yield from (f"{file}, seed {number}, {case.what}: {found}" for found in findings)
                    yield ""  # a case that was judged


def main() -> int:
    """Take turns until the time is over; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--kind", choices=("text", "files", "headers", "passes", "tools"), help="this one only")
    arguments = parser.parse_args()
    seed: int = arguments.seed
    kinds = {
        "text": [lambda: _text(seed, "etir"), lambda: _text(seed, "executorch")],
        "files": [lambda: _files(seed)],
        "headers": [lambda: _headers(seed)],
        "passes": [lambda: _passes(seed)],
        "tools": [lambda: _tools(seed)],
    }
    if arguments.kind is None and arguments.seconds < 120:
        del kinds["tools"]
    running = [(name, make()) for name, makers in kinds.items() for make in makers if arguments.kind in (None, name)]
    counts = dict.fromkeys(kinds, 0)
    findings = 0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        for name, cases in running:
            turn = time.monotonic() + 0.5
            while time.monotonic() < min(turn, end):
                found = next(cases)
                counts[name] += 1
                if found:
                    findings += 1
                    print(found, flush=True)
    done = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    print(f"{done}: {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
