"""Torch's own OpInfo samples as programs with every size dynamic, run at three sizes.

    python test/opinfo_dynamic.py                every entry: one sample of its first dtype
    python test/opinfo_dynamic.py --samples 3    three samples for each of two dtypes
    python test/opinfo_dynamic.py --part 10      one tenth of the entries, chosen by the content of the tree
    python test/opinfo_dynamic.py --op softmax   the entries whose name matches

See ``etir_testing/opinfo/dynamic.py``. The exit code is 1 when an entry fails that ``dynamic_exceptions.json`` does not
list or one runs that it does, and, of a walk over all entries, when fewer than 98 % of those that torch exports run.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence

import torch

from etir.progress import Progress

from etir_testing import TESTS
from etir_testing.collector import collect_less
from etir_testing.opinfo.dynamic import run_entry
from etir_testing.opinfo.op_samples import entries
from etir_testing.opinfo.op_stages import Outcome
from etir_testing.opinfo.op_table import DYNAMIC_EXCEPTIONS, accepted, differences, exceptions, is_green, report
from etir_testing.opinfo.workers import Answer, Lost, Workers
from etir_testing.selection import part_of, tree_digest

BAR = 98.0
"""Percent of the entries that torch exports with a dynamic size."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1, help="samples for each dtype (default: 1)")
    parser.add_argument("--part", type=int, metavar="N", help="one N-th of the entries")
    parser.add_argument("--op", help="only the entries whose name this regular expression matches")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    arguments = parser.parse_args(argv)
    collect_less()
    start = time.monotonic()
    torch.set_num_threads(1)
    names = [name for name in entries() if arguments.op is None or re.search(arguments.op, name)]
    if arguments.part is not None:
        names = part_of(names, tree_digest(TESTS.parent), arguments.part)
    results = walk_all(names, arguments.samples, arguments.jobs)
    report(results)
    # What does not run with static sizes, either, is in the list of that walk.
    static = exceptions(None)
    checked = {name: outcomes for name, outcomes in results.items() if name not in static}
    wrong = differences(checked, exceptions(arguments.samples, DYNAMIC_EXCEPTIONS))
    print("\n".join(wrong), end="\n" * bool(wrong))
    programs = [outcomes for outcomes in results.values() if accepted(outcomes)]
    share = 100 * sum(map(is_green, programs)) / max(len(programs), 1)
    print(f"{len(names)} of {len(entries())} entries, {time.monotonic() - start:.0f} s")
    is_whole = arguments.op is None and arguments.part is None
    if is_whole and share < BAR:
        print(f"failed: {share:.1f} % run, the bar is {BAR} %")
    return int(bool(wrong) or (is_whole and share < BAR))


def walk_all(names: Sequence[str], limit: int, jobs: int) -> dict[str, list[Outcome]]:
    """What became of every entry, in their order. More than one sample is taken in two dtypes."""

    def prepare() -> Answer:
        def answer(name: str, running: object) -> list[Outcome]:
            return run_entry(name, limit, 1 if limit == 1 else 2)

        return answer

    found: dict[str, list[Outcome]] = {}
    with Progress("torch's samples, dynamic") as progress:
        for name, answer, _ in Workers(jobs, prepare).run(names):
            lost = isinstance(answer, Lost)
            found[name] = [Outcome(name, "", "", "run", f"the process ended: {answer}", "-")] if lost else answer
            progress.say(f"{len(found)} of {len(names)} entries")
    return {name: found[name] for name in names}


if __name__ == "__main__":
    sys.exit(main())
