"""Every OpInfo entry of torch as a program: exported, compiled, run on etir's runtime, compared with eager.

    python test/opinfo_programs.py --op softmax          entries whose name contains it
    python test/opinfo_programs.py --all --jobs 2        every entry
    python test/opinfo_programs.py --all --limit 1       one sample for each entry and dtype (default: 3)

The result is a table of what became of the samples by stage, what stopped them grouped by cause, and what the stock
runtime would have said. Nothing is kept between runs. The list of entries that are known not to run is
``exceptions.json``: the reason, and how many samples it takes to see it. With ``--check`` the exit code says whether it
is exact: nothing fails that is not listed, and nothing listed runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from etir_testing.opinfo.op_stages import Outcome
from etir_testing.opinfo.op_table import differences, exceptions, report, run_entries, work


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", default=[], help="entries whose name contains this (repeatable)")
    parser.add_argument("--exact", action="store_true", help="--op names whole entries")
    parser.add_argument("--all", action="store_true", help="every entry")
    parser.add_argument("--slice", metavar="I/N", help="the I-th of N parts of the chosen entries")
    parser.add_argument("--limit", type=int, default=3, help="samples for each entry and dtype; 0: all of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--no-stock", action="store_true", help="leave out the stock runtime's link check")
    parser.add_argument("--check", action="store_true", help="compare with the list of exceptions")
    parser.add_argument("--json", type=Path, help="write every outcome to this file, one a line")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
        return 0
    from etir_testing.opinfo.op_samples import entries

    if not arguments.all and not arguments.op:
        parser.error("say which entries: --op NAME or --all")
    names = [
        name
        for name in entries()
        if arguments.all or any(o == name if arguments.exact else o in name for o in arguments.op)
    ]
    if arguments.slice:
        part, count = map(int, arguments.slice.split("/"))
        names = names[part::count]
    results: dict[str, list[Outcome]] = {}
    out = None if arguments.json is None else arguments.json.open("w")
    limit = arguments.limit or None
    for outcomes in run_entries(names, jobs=arguments.jobs, limit=limit, stock=not arguments.no_stock):
        if outcomes:
            results[outcomes[0].entry] = outcomes
        if out is not None:
            out.writelines(json.dumps(asdict(o)) + "\n" for o in outcomes)
            out.flush()
    for name in names:
        results.setdefault(name, [])
    report(results)
    if not arguments.check:
        return 0
    wrong = differences(results, exceptions(limit))
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
