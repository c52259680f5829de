"""Random programs on both runtimes against eager.

    python test/generated_programs.py --count 2000             until 2,000 programs agree
    python test/generated_programs.py --count 2000 --jobs 2    in two processes
    python test/generated_programs.py --seed 17 --seed 23      these, with their source
    python test/generated_programs.py --count 100 --first 5000 from another number on

A program that torch itself does not run or export, or exports to something else than eager runs, counts for nothing;
there may be one in twenty. Every other program has to compile for both targets and agree with eager over several calls
on both runtimes. One that does not is made as small as it gets and printed as torch source, and the exit code is 1. An
error of a documented limit is counted apart: two programs in a thousand may be refused.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools
import json
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from etir_testing.generated.program_check import HEADER, NOT_OURS, Outcome, check
from etir_testing.generated.program_shrink import shrink
from etir_testing.generated.program_writer import Writer

REFUSED_BY_TORCH = 0.05
"""The share of programs that torch may refuse."""
REFUSED = 0.002
"""The share of the others that a documented limit may refuse."""


def run(seed: int) -> Outcome:
    """Write and check one program."""
    return check(Writer(seed).write())


def _quiet() -> None:
    logging.disable(logging.CRITICAL)
    # torch's fake kernels and the stock runtime write what is of no use here.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)


def _prepare() -> None:
    """Make a process ready for many programs.

    One program imports what every other needs. The collector leaves that alone from then on: to walk the heap of torch
    and the compiler again and again takes a fifth of a program's time.
    """
    _quiet()
    run(0)
    gc.collect()
    gc.freeze()


def outcomes(first: int, count: int, jobs: int) -> Iterator[Outcome]:
    """What becomes of the programs from number ``first``, until ``count`` agree with eager."""
    found = 0
    if jobs == 1:
        _prepare()
        results: Iterator[Outcome] = map(run, itertools.count(first))
        for outcome in results:
            yield outcome
            found += outcome.stage == "ok" or outcome.stage.startswith("refused")
            if found == count:
                return
    with multiprocessing.get_context("spawn").Pool(jobs, _prepare, maxtasksperchild=200) as pool:
        for batch in itertools.count():
            size = min(200, max(count - found, 8))
            for outcome in pool.imap(run, range(first, first + size)):
                yield outcome
                found += outcome.stage == "ok" or outcome.stage.startswith("refused")
                if found == count:
                    return
            first += size
            del batch


def show(seed: int) -> None:
    """Print a program that fails, made small."""
    program = Writer(seed).write()
    outcome = check(program)
    if outcome.stage not in NOT_OURS:
        program, outcome = shrink(program, outcome)
    print(f"{HEADER}{program.source()}\n# {outcome.stage}: {outcome.message}\n", flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="programs that have to agree")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, action="append", default=[], help="only this program (repeatable)")
    parser.add_argument("--json", type=Path, help="append every outcome to this file, one a line")
    arguments = parser.parse_args()
    if arguments.seed:
        _quiet()
        for seed in arguments.seed:
            show(seed)
        return 0
    start, stages = time.monotonic(), collections.Counter[str]()
    failed: list[int] = []
    for outcome in outcomes(arguments.first, arguments.count, arguments.jobs):
        stages[outcome.stage] += 1
        if arguments.json is not None:
            with arguments.json.open("a") as out:
                out.write(json.dumps(asdict(outcome)) + "\n")
        if outcome.stage not in NOT_OURS:
            print(f"{outcome.seed}: {outcome.stage}: {outcome.message}", flush=True)
            failed.append(outcome.seed)
    total = sum(stages.values())
    print(f"{total} programs in {time.monotonic() - start:.0f} s: {dict(stages)}")
    for seed in failed[:5]:
        show(seed)
    return verdict(stages)


def verdict(stages: Mapping[str, int]) -> int:
    """Print how the counts compare with the bars; 1 when one is missed."""
    total = sum(stages.values())
    by_torch = sum(stages.get(stage, 0) for stage in NOT_OURS if stage != "ok")
    refused = sum(count for stage, count in stages.items() if stage.startswith("refused"))
    ours = total - by_torch
    wrong = ours - refused - stages.get("ok", 0)
    print(
        f"{ours} programs that torch exports: {wrong} wrong or with an error, {refused} refused by a documented limit"
    )
    missed = [f"{wrong} programs are wrong or end with an error"] if wrong else []
    if refused > REFUSED * ours:
        missed.append(f"{refused} of {ours} programs are refused, {REFUSED:.1%} may be")
    if by_torch > REFUSED_BY_TORCH * total + 2:
        missed.append(f"torch refuses {by_torch} programs: the generator writes too many that are not valid")
    print("\n".join(missed) or "every bar is met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
