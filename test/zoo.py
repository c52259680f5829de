"""Compile, run and check the model zoo, and write the table of its figures.

    python test/zoo.py                              every entry, etir and the stock pipeline: a table
    python test/zoo.py resnet18 llama2_decode       some entries
    python test/zoo.py --small --no-stock --check --part 3      what runs on every landing: of the small entries a
                                                    third, chosen by the content of the tree
    python test/zoo.py --document docs/guide/zoo.md       write the document of the last full run

Every entry is compiled for etir's runtime and for the stock one, run on both and compared with eager. Each compiler
works on it in a process of its own, with a time limit: one failure or peak of memory disturbs no other. ``--results``
keeps what was found in a file of JSON lines, from which a run that was interrupted goes on
(what etir failed on runs again). With ``--check`` the exit code says whether all entries were there, compiled and
matched.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from etir.progress import Progress

from etir_testing import TESTS
from etir_testing.models.zoo_report import document, failure, table
from etir_testing.models.zoo_table import ENTRIES
from etir_testing.models.zoo_worker import Figures, work
from etir_testing.selection import part_of, tree_digest

Job = tuple[str, str]
"""Name of the entry, and ``etir`` or ``stock``."""


def _worker(name: str, compiler: str, wheel: bool, timed: bool, answer: Connection) -> None:
    answer.send(work(ENTRIES[name], compiler, wheel=wheel, timed=timed))


def run(jobs: Sequence[Job], processes: int, limit: float, wheel: bool, timed: bool) -> Iterator[Figures]:
    """Figures of every job as it ends. A process that dies or takes longer than ``limit`` seconds is an error."""
    context = multiprocessing.get_context("forkserver")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    context.set_forkserver_preload(["etir_testing.models.zoo_preload"])
    waiting, running = list(jobs), dict[Any, tuple[Job, Any, float]]()
    while waiting or running:
        while waiting and len(running) < processes:
            job = waiting.pop(0)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_worker, args=(*job, wheel, timed, sender))
            process.start()
            sender.close()
            running[receiver] = (job, process, time.monotonic())
        ready = wait(list(running), timeout=1.0)
        for receiver, (job, process, start) in list(running.items()):
            late = time.monotonic() - start > limit
            if receiver not in ready and not late:
                continue
            del running[receiver]
            if receiver in ready:
                try:
                    figures = receiver.recv()
                except EOFError:
                    process.join()
                    figures = Figures(*job, "process", f"it ended with exit code {process.exitcode}")
            else:
                process.kill()
                figures = Figures(*job, "time limit", f"no end after {limit:.0f} s")
            process.join()
            yield figures


def _shown(rows: Iterator[Figures], count: int) -> Iterator[Figures]:
    """The same, while it is said how many there are already."""
    with Progress("model zoo") as progress:
        for number, row in enumerate(rows, start=1):
            progress.say(f"{number} of {count}, {row.name} was the last")
            progress.clear()
            yield row


def _known(results: Path | None) -> dict[Job, Figures]:
    if results is None or not results.exists():
        return {}
    rows = [Figures(**json.loads(line)) for line in results.read_text().splitlines()]
    final = [row for row in rows if row.error is None or row.compiler == "stock" and row.stage != "time limit"]
    return {(row.name, row.compiler): row for row in final}


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help=f"all of: {', '.join(ENTRIES)}")
    parser.add_argument("--small", action="store_true", help="the entries that are checked on landings")
    parser.add_argument("--part", type=int, metavar="N", help="one N-th of them, chosen by the content of the tree")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument("--no-stock", action="store_true", help="leave the stock pipeline out, not its runtime")
    parser.add_argument("--no-wheel", action="store_true", help="leave the stock runtime out, too")
    parser.add_argument("--limit", type=float, default=600, help="seconds that one process may take (default 600)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of the table")
    parser.add_argument("--results", type=Path, help="keep figures here; what is there already is not run again")
    parser.add_argument("--document", type=Path, help="write the table as a document")
    parser.add_argument(
        "--check", action="store_true", help="compare only; exit with 1 unless every entry was compared and matches"
    )
    options = parser.parse_args(argv)
    if unknown := [name for name in options.entries if name not in ENTRIES]:
        parser.error(f"unknown entry {unknown[0]!r}; known: {', '.join(ENTRIES)}")
    chosen = options.entries or [name for name, entry in ENTRIES.items() if entry.small or not options.small]
    if options.part is not None:
        chosen = part_of(chosen, tree_digest(TESTS.parent), options.part)
    left_out = [name for name in chosen if ENTRIES[name].missing()]
    for name in left_out:
        print(f"{name}: left out, not installed: {', '.join(ENTRIES[name].missing())}", file=sys.stderr)
        chosen.remove(name)
    compilers = ("etir",) if options.no_stock or options.no_wheel else ("etir", "stock")
    known = _known(options.results)
    found = {(name, compiler): row for (name, compiler), row in known.items() if name in chosen}
    wanted = [(name, compiler) for name in chosen for compiler in compilers if (name, compiler) not in found]
    start = time.monotonic()
    for row in _shown(run(wanted, options.jobs, options.limit, not options.no_wheel, not options.check), len(wanted)):
        found[row.name, row.compiler] = row
        if options.results is not None:
            with options.results.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        problem = row.error if row.compiler == "stock" else failure(ENTRIES[row.name], row)
        print(f"{row.name} ({row.compiler}): {problem or 'ok'}", file=sys.stderr, flush=True)
    rows = {name: {c: found[name, c] for c in ("etir", "stock") if (name, c) in found} for name in chosen}
    if options.json:
        print("\n".join(json.dumps(asdict(figures)) for row in rows.values() for figures in row.values()))
    elif not options.check:
        print(table(rows))
    if options.document is not None:
        options.document.write_text(document(rows))
    failed = [name for name, row in rows.items() if failure(ENTRIES[name], row["etir"]) is not None]
    seconds = time.monotonic() - start
    print(f"{len(rows) - len(failed)} of {len(rows)} entries match eager, {seconds:.0f} s", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(options.check and bool(failed or left_out))


if __name__ == "__main__":
    sys.exit(main())
