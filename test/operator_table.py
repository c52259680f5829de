"""Every operator of torch's table, called by itself in a program: it compiles, runs and agrees with eager, or why not.

    python test/operator_table.py                  every operator of the table
    python test/operator_table.py --op index       those whose name matches
    python test/operator_table.py --part 10        a tenth, chosen by the content of the tree
    python test/operator_table.py --record         find arguments again (for a new torch), and keep the reasons
    python test/operator_table.py --stock          also what the stock runtime's kernels lack
    python test/operator_table.py --stock --write  and write docs/reference/torch_operators.md

The table is ``etir_testing/operators/operators.json``: the arguments of one call of each functional and in-place
overload of ``aten`` and ``prims``, and a reason where it does not compile. The exit code is 1 for an internal error,
for an operator that fails without a reason, and for one that has a reason and runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from etir.progress import Progress

from etir_testing import TESTS
from etir_testing.operators import arguments as finding
from etir_testing.operators.calls import OperatorCall
from etir_testing.operators.document import PAGE, page
from etir_testing.operators.listing import operators, reason_without_call
from etir_testing.operators.table import Row, outcome, problems, reasons, report, rows, write
from etir_testing.opinfo.op_stages import Outcome
from etir_testing.opinfo.workers import Answer, Lost, Workers
from etir_testing.selection import part_of, tree_digest


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", help="only the operators whose name this regular expression matches")
    parser.add_argument("--part", type=int, metavar="N", help="one N-th, chosen by the content of the tree")
    parser.add_argument("--record", action="store_true", help="find arguments again")
    parser.add_argument("--stock", action="store_true", help="link for the stock runtime too")
    parser.add_argument("--write", action="store_true", help="of a whole walk with --stock: keep it, write the page")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--json", type=Path, help="write every outcome to this file, one a line")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    if arguments.record:
        write(record(arguments.jobs))
    table = {name: row for name, row in rows().items() if re.search(arguments.op or "", name)}
    names = [name for name, row in table.items() if row.call is not None]
    if arguments.part is not None:
        names = part_of(names, tree_digest(TESTS.parent), arguments.part)
    start = time.monotonic()
    outcomes = walk(names, table, arguments.jobs, arguments.stock)
    if arguments.json is not None:
        arguments.json.write_text("".join(json.dumps(asdict(o)) + "\n" for o in outcomes))
    report(outcomes, table)
    if arguments.stock:
        lacking = [f"{o.entry}: {o.stock}" for o in outcomes if o.stock not in ("", "-")]
        print(f"the stock runtime links {len(outcomes) - len(lacking)} of {len(outcomes)}")
    if arguments.write:
        write_page(outcomes, table)
    wrong = problems(outcomes, table)
    print("\n".join(wrong), end="\n" * bool(wrong))
    print(f"{len(outcomes)} calls, {time.monotonic() - start:.0f} s")
    return int(bool(wrong))


def walk(names: Sequence[str], table: dict[str, Row], jobs: int, stock: bool) -> list[Outcome]:
    """What becomes of the calls of operators, in their order."""

    def prepare() -> Answer:
        return lambda name, running: outcome(name, _call_of(table, name), stock)

    found: dict[str, Outcome] = {}
    with Progress("operators") as progress:
        for name, answer, _ in Workers(jobs, prepare).run(names):
            if isinstance(answer, Lost):
                answer = Outcome(name, "", "", "run", f"the process ended with {answer.code}: {answer.printed[-300:]}")
            found[name] = answer
            progress.say(f"{len(found)} of {len(names)}")
    return [found[name] for name in names]


def write_page(outcomes: Sequence[Outcome], table: dict[str, Row]) -> None:
    """Keep what the stock runtime lacks, and write the page of the documentation."""
    lacking = {o.entry: o.stock.split(" ")[0] for o in outcomes if o.stage == "ok" and o.stock not in ("", "-")}
    new = {name: replace(row, stock=lacking.get(name, "")) for name, row in table.items()}
    write(new)
    PAGE.write_text(page(new, reasons(), torch.__version__.split("+")[0]), encoding="utf-8")


def _call_of(table: dict[str, Row], name: str) -> OperatorCall:
    call = table[name].call
    assert call is not None
    return call


def record(jobs: int) -> dict[str, Row]:
    """The table with arguments found again; reasons are kept."""
    known = rows()
    candidates: dict[str, list[OperatorCall]] = {}
    with Progress("torch's samples") as progress:
        keys = list(finding.sources())
        workers = Workers(jobs, lambda: lambda key, running: finding.recorded(key))
        for done, (_, answer, _) in enumerate(workers.run(keys), 1):
            for name, call in ({} if isinstance(answer, Lost) else answer).items():
                candidates.setdefault(name, []).append(call)
            progress.say(f"{done} of {len(keys)}")
    for name, call in finding.listed():
        candidates.setdefault(name, []).append(call)
    names = operators()
    choices = {name: finding.choices(name, candidates) for name in names}
    found: dict[str, OperatorCall | None] = {}
    with Progress("operators") as progress:
        answer_of = Workers(jobs, lambda: lambda name, running: _taken(name, choices[name]))
        for name, answer, _ in answer_of.run(names):
            found[name] = None if isinstance(answer, Lost) else answer
            progress.say(f"{len(found)} of {len(names)}")
    kept = {name: known[name].reason for name in names if name in known}
    return {
        name: Row(call, kept.get(name, "") if call is not None else reason_without_call(name))
        for name, call in found.items()
    }


def _taken(name: str, choices: Sequence[OperatorCall]) -> OperatorCall | None:
    """The first call that eager takes."""
    for call in choices:
        try:
            finding.run(name, call)
        except finding.NOT_TAKEN:
            continue
        return call
    return finding.made(name)


if __name__ == "__main__":
    sys.exit(main())
