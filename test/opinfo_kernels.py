"""Torch's own OpInfo samples on the runtime's kernels, against eager.

    python test/opinfo_kernels.py                     a bounded part of every operator's samples
    python test/opinfo_kernels.py --all               all of them
    python test/opinfo_kernels.py --kernel aten::add.out --verbose

The part of ``opinfo_walk.py`` that concerns kernels, for a closer look. Each forward sample of ``op_db`` runs in eager
with every call of an ATen operator recorded. A recorded call that a kernel of the manifest computes is repeated on that
kernel, with the same arguments, and its results are compared (``etir_testing/runtime/opinfo_compare.py``). So every
operator is tested on the calls that torch itself makes, composite ones through the operators that they consist of, and
operators that compute gradients on the calls that the gradients of the samples make.

Samples that a ``.pte`` file cannot express are left out, by the reasons of ``opinfo_calls.EXCLUDED``. The bounded part
is the first samples of every entry in every dtype and some of the others, and of these only the first calls of every
kernel: always the same ones. Kernels that no sample reaches must be named in a test of their own. The exit code is 1
when something failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

import torch

from etir_testing.opinfo.op_samples import entries
from etir_testing.opinfo.walk import Bounds, lost_entry, walk
from etir_testing.opinfo.workers import Answer, Lost, Workers
from etir_testing.runtime.kernels import build_kernels
from etir_testing.runtime.opinfo_report import Tally, report


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every sample, not a bounded part")
    parser.add_argument("--kernel", help="only this kernel")
    parser.add_argument("--op", help="only the OpInfo entries whose name this regular expression matches")
    parser.add_argument("--part", default="1/1", help="the k-th of n parts of the entries, as k/n")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print passes and dtypes too")
    parser.add_argument("--json", type=Path, help="write all numbers and failures to this file")
    arguments = parser.parse_args()
    bounds = Bounds(("kernels",), arguments.all, only=arguments.kernel)
    start = time.monotonic()
    build_kernels()
    print(f"kernels: {time.monotonic() - start:.0f} s", file=sys.stderr)
    torch.set_num_threads(1)
    part, parts = map(int, arguments.part.split("/"))
    names = [name for name in entries() if arguments.op is None or re.search(arguments.op, name)][part - 1 :: parts]
    print(f"samples loaded: {time.monotonic() - start:.0f} s", file=sys.stderr)

    def prepare() -> Answer:
        kernels = build_kernels()
        return lambda name, running: walk(name, bounds, kernels, running)

    total: dict[str, Tally] = {}
    seconds: dict[str, float] = {}
    shown = time.monotonic()

    def write_json() -> None:
        if arguments.json is None:
            return
        written = {name: vars(tally) for name, tally in sorted(total.items())}
        arguments.json.write_text(json.dumps({"kernels": written, "seconds": seconds}, indent=1), encoding="utf-8")

    for name, answer, took in Workers(arguments.jobs, prepare).run(names):
        seconds[name] = took
        entry = lost_entry(name, answer, bounds) if isinstance(answer, Lost) else answer
        for kernel, tally in entry.kernels.items():
            total.setdefault(kernel, Tally()).add(tally)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            done = sum(sum(t.passed.values()) for t in total.values())
            print(f"{len(seconds)} of {len(names)} entries, {done} calls, {shown - start:.0f} s", file=sys.stderr)
            write_json()
    write_json()
    whole = arguments.kernel is None and arguments.op is None and parts == 1
    untested = report(total, arguments.verbose, whole)
    print(f"{time.monotonic() - start:.0f} s")
    return int(untested or any(t.failed for t in total.values()))


if __name__ == "__main__":
    sys.exit(main())
