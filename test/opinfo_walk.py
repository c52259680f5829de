"""Torch's own OpInfo samples on everything that computes operators: kernels, NumPy operators, compiled programs.

    python test/opinfo_walk.py                  every entry: a bounded part of its samples
    python test/opinfo_walk.py --every-sample   all samples on kernels
    python test/opinfo_walk.py --part 6         one sixth of the entries, chosen by the content of the tree, and those
                                                whose own implementation has changed
    python test/opinfo_walk.py --op softmax     the entries whose name matches
    python test/opinfo_walk.py --check numpy    one of the checks alone

Each sample is made once and run once in eager; see ``etir_testing/opinfo/walk.py``. The exit code is 1 when a kernel or
a NumPy operator fails, when a program fails that ``exceptions.json`` does not list or one runs that it does, and, of a
walk over all entries, when a kernel has neither a sample nor a test or a NumPy operator was never compared.
``opinfo_kernels.py`` and ``opinfo_programs.py`` look closer at one of the checks.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence

import torch

from etir.interpret.numpy_ops import supported
from etir.progress import Progress

from etir_testing import TESTS
from etir_testing.collector import collect_less
from etir_testing.interpret import numpy_ops_calls, numpy_samples
from etir_testing.interpret.numpy_ops_oracle import Tally as NumpyTally
from etir_testing.opinfo.op_samples import entries
from etir_testing.opinfo.op_stages import Outcome
from etir_testing.opinfo.op_table import differences, exceptions
from etir_testing.opinfo.op_table import report as report_programs
from etir_testing.opinfo.walk import CHECKS, Bounds, Entry, lost_entry, walk
from etir_testing.opinfo.workers import Answer, Lost, Workers
from etir_testing.runtime.kernels import build_kernels
from etir_testing.runtime.opinfo_report import Tally
from etir_testing.runtime.opinfo_report import report as report_kernels
from etir_testing.selection import changed_files, part_of, touched, tree_digest


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every-sample", action="store_true", help="every sample on kernels, not a bounded part")
    parser.add_argument("--programs", type=int, default=1, help="programs for each dtype; 0: all (default: 1)")
    parser.add_argument("--part", type=int, metavar="N", help="one N-th of the entries, and those that were changed")
    parser.add_argument("--op", help="only the entries whose name this regular expression matches")
    parser.add_argument("--check", action="append", choices=CHECKS, help="only this (repeatable)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    arguments = parser.parse_args(argv)
    collect_less()
    bounds = Bounds(tuple(arguments.check or CHECKS), arguments.every_sample, arguments.programs or None)
    start = time.monotonic()
    if "kernels" in bounds.checks:
        build_kernels()
    torch.set_num_threads(1)
    names = chosen_entries(arguments.op, arguments.part)
    found = walk_all(names, bounds, arguments.jobs)
    is_whole = arguments.op is None and arguments.part is None
    failed = [check for check in bounds.checks if not _REPORTS[check](found, bounds, is_whole)]
    print(f"{len(names)} of {len(entries())} entries, {time.monotonic() - start:.0f} s")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


def chosen_entries(pattern: str | None, parts: int | None) -> list[str]:
    """The names of the entries to walk."""
    names = [name for name in entries() if pattern is None or re.search(pattern, name)]
    if parts is None:
        return names
    root = TESTS.parent
    of_part = part_of(names, tree_digest(root), parts)
    changed = [name for name in touched(root, names, changed_files(root)) if name not in of_part]
    print(f"{len(of_part)} entries are this tree's part of {parts}, {len(changed)} more were changed")
    return [*of_part, *changed]


def walk_all(names: Sequence[str], bounds: Bounds, jobs: int) -> dict[str, Entry]:
    """What became of every entry, in their order."""

    def prepare() -> Answer:
        kernels = build_kernels() if "kernels" in bounds.checks else None
        return lambda name, running: walk(name, bounds, kernels, running)

    found: dict[str, Entry] = {}
    with Progress("torch's samples") as progress:
        for name, answer, _ in Workers(jobs, prepare).run(names):
            found[name] = lost_entry(name, answer, bounds) if isinstance(answer, Lost) else answer
            progress.say(f"{len(found)} of {len(names)} entries")
    return {name: found[name] for name in names}


def _kernels_pass(found: dict[str, Entry], bounds: Bounds, is_whole: bool) -> bool:
    total: dict[str, Tally] = {}
    for entry in found.values():
        for name, tally in entry.kernels.items():
            total.setdefault(name, Tally()).add(tally)
    untested = report_kernels(total, False, is_whole)
    return not untested and not any(tally.failed for tally in total.values())


def _numpy_passes(found: dict[str, Entry], bounds: Bounds, is_whole: bool) -> bool:
    total = NumpyTally(Counter(), {})
    for entry in found.values():
        total.passed += entry.numpy.passed
        total.failed = entry.numpy.failed | total.failed
    for name, failure in sorted(total.failed.items()):
        print(f"NumPy: {name}: {failure}")
    print(f"NumPy: {total.passed.total()} calls of {len(total.passed)} overloads are eager's, {len(total.failed)} not")
    if not is_whole:
        return not total.failed
    called = {name for name, _, _ in numpy_ops_calls.all_calls()}
    never = sorted({*supported()} - {*total.passed} - called - numpy_samples.NO_EAGER)
    never = [name for name in never if not name.startswith(numpy_samples.OF_KERNELS)]
    if never:
        print(f"NumPy: never compared: {' '.join(never)}")
    return not total.failed and not never


def _programs_pass(found: dict[str, Entry], bounds: Bounds, is_whole: bool) -> bool:
    results: dict[str, list[Outcome]] = {name: entry.programs for name, entry in found.items()}
    report_programs(results)
    wrong = differences(results, exceptions(bounds.programs))
    print("\n".join(wrong), end="\n" * bool(wrong))
    return not wrong


_REPORTS = {"kernels": _kernels_pass, "numpy": _numpy_passes, "programs": _programs_pass}

if __name__ == "__main__":
    sys.exit(main())
