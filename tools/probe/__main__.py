"""``python -m etir.tools.probe``: check the manifest of the stock runtime against the installed one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import torch

from etir.diagnostics import EtirError
from etir.targets.manifest import load
from etir.tools.probe.check import Observation, observe, samples_of
from etir.tools.probe.runner import load_runtime


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if the manifest accepts what the runtime gets wrong, or nothing that works."""
    parser = argparse.ArgumentParser(prog="python -m etir.tools.probe", description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--all", action="store_true", help="probe every kernel that has a sample")
    chosen.add_argument("--op", action="append", default=[], metavar="NAME", help="probe this kernel (repeatable)")
    parser.add_argument("--target", default="executorch", help="the manifest to check (default: %(default)s)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try one in N combinations of dtypes")
    parser.add_argument("--usual", action="store_true", help="try only the usual dtypes and dim orders")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="disagreements to print per kernel and kind")
    parser.add_argument("--table", action="store_true", help="print every case that runs")
    options = parser.parse_args(arguments)
    try:
        manifest = load(options.target)
    except EtirError as error:
        print(error, file=sys.stderr)
        return 1
    names = [n for n in manifest.kernels if samples_of(n)] if options.all else options.op
    missing = [n for n in names if manifest.lookup(n) is None or not samples_of(n)]
    if missing:
        near = ", ".join(manifest.nearest(missing[0]))
        print(f"error: no kernel or no sample for '{missing[0]}'; similar: {near}", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    runtime = load_runtime([library for library, always in manifest.libraries.items() if not always])
    unsafe = strict = 0
    idle: list[str] = []
    # All usual calls fit into one batch; with varied types, one per kernel shows progress.
    batches = [names] if options.usual else [[name] for name in names]
    observed = (
        observe(runtime, [manifest.kernels[n] for n in batch], every=options.every, usual_only=options.usual)
        for batch in batches
    )
    for name, seen in _by_kernel(observed):
        found_unsafe = [o for o in seen if o.is_unsafe]
        found_strict = [o for o in seen if o.is_strict]
        if manifest.kernels[name].dtypes.rows and not any(o.is_agreed or o.is_known_wrong for o in seen):
            idle.append(name)
        unsafe += len(found_unsafe)
        strict += len(found_strict)
        _report(name, seen, found_unsafe, found_strict, options.show)
        if options.table:
            print(*(f"  {o}" for o in seen if o.outcome.ran), sep="\n")
    print(f"{len(names)} kernels: {unsafe} calls accepted that do not work, {strict} refused that do")
    for name in idle:
        print(f"{name}: no call is both accepted and works")
    return 1 if unsafe or idle else 0


def _by_kernel(batches: Iterable[list[Observation]]) -> Iterator[tuple[str, list[Observation]]]:
    """The observations of each kernel, as soon as they are there."""
    for batch in batches:
        for name, group in groupby(batch, key=lambda o: o.call.name):
            yield name, list(group)


def _report(
    name: str, seen: list[Observation], unsafe: list[Observation], strict: list[Observation], show: int
) -> None:
    outcomes = Counter(o.outcome.name for o in seen)
    print(f"{name}: {', '.join(f'{count} {outcome}' for outcome, count in sorted(outcomes.items()))}", flush=True)
    for kind, found in (("accepted but does not work", unsafe), ("refused but works", strict)):
        if found:
            print(f"  {kind}: {len(found)}")
            print(*(f"    {o}" for o in found[:show]), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
