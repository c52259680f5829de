"""The outcomes of many entries: processes that make them, tables of them, the list that they are held against."""

from __future__ import annotations

import collections
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from etir_testing import TESTS
from etir_testing.opinfo.op_stages import STAGES, Outcome

EXCEPTIONS = Path(__file__).with_name("exceptions.json")
"""The entries that are known not to run, with the reason."""

DYNAMIC_EXCEPTIONS = EXCEPTIONS.with_name("dynamic_exceptions.json")
"""The same for programs whose sizes are dynamic."""

SECONDS = 300
"""An entry that takes longer is stopped."""


def exceptions(limit: int | None, path: Path = EXCEPTIONS) -> dict[str, str]:
    """Entry to the reason why it does not run, as far as ``limit`` samples for each dtype show it."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {name: row["reason"] for name, row in rows.items() if limit is None or limit >= row["from"]}


# --- processes --------------------------------------------------------------------------------------------------------


def run_entry(name: str, limit: int | None, stock: bool) -> list[Outcome]:
    """The outcomes of one entry in this process."""
    from etir_testing.opinfo.op_samples import dtypes_of, samples
    from etir_testing.opinfo.op_stages import outcome_of

    outcomes: list[Outcome] = []
    for dtype in dtypes_of(name):
        try:
            for sample in samples(name, dtype, limit):
                outcomes.append(outcome_of(sample, stock))
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            outcomes.append(Outcome(name, str(dtype)[6:], "", "eager", f"no samples: {text}", "-"))
    return outcomes


def work() -> None:
    """A process that reads entries and writes outcomes, one JSON text a line."""
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What torch prints is no answer.
    for line in sys.stdin:
        request = json.loads(line)
        outcomes = run_entry(request["entry"], request["limit"], request["stock"])
        print(json.dumps([asdict(o) for o in outcomes]), file=answers, flush=True)


class _Worker:
    """A process that is started again when it dies."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, name: str, limit: int | None, stock: bool) -> list[Outcome]:
        """The outcomes of an entry; a process that dies or hangs is an outcome too."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, str(TESTS / "opinfo_programs.py"), "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"entry": name, "limit": limit, "stock": stock}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            code = process.wait()
            self.process = None
            return [Outcome(name, "", "", "run", f"the process ended with {code}", "-")]
        return [Outcome(**o) for o in json.loads(line)]

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()


def run_entries(names: Sequence[str], *, jobs: int, limit: int | None, stock: bool) -> Iterator[list[Outcome]]:
    """The outcomes of every entry, in order of completion, from ``jobs`` processes."""
    waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[list[Outcome]] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)

    def serve() -> None:
        worker = _Worker()
        while (name := waiting.get()) is not None:
            done.put(worker.ask(name, limit, stock))
        worker.close()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        waiting.put(None)
        thread.start()
    for _ in names:
        yield done.get()
    for thread in threads:
        thread.join()


# --- report -----------------------------------------------------------------------------------------------------------


def accepted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of samples that ``torch.export`` makes programs of."""
    return [o for o in outcomes if o.stage not in ("eager", "export")]


def is_green(outcomes: Sequence[Outcome]) -> bool:
    """Whether every program of an entry runs and matches."""
    return all(o.stage == "ok" for o in accepted(outcomes))


def report(results: dict[str, list[Outcome]]) -> None:
    """Print the tables."""
    programs = {name: outcomes for name, outcomes in results.items() if accepted(outcomes)}
    failing = {name: [o for o in accepted(outcomes) if o.stage != "ok"] for name, outcomes in programs.items()}
    causes: dict[tuple[str, str], list[str]] = {}
    for name, outcomes in failing.items():
        for outcome in outcomes:
            causes.setdefault((outcome.stage, outcome.message), []).append(f"{name}[{outcome.dtype}]")
    for (stage, message), where in sorted(causes.items(), key=lambda c: (STAGES.index(c[0][0]), -len(c[1]), c[0][1])):
        print(f"{stage}: {len(where)} x {message}\n    {' '.join(dict.fromkeys(where))}")
    print(f"\n{'stage':<12}{'samples':>8}{'entries':>8}")
    for stage in STAGES:
        count = sum(o.stage == stage for outcomes in results.values() for o in outcomes)
        entries = sum(any(o.stage == stage for o in outcomes) for outcomes in results.values())
        print(f"{stage:<12}{count:>8}{entries:>8}")
    _report_stock([o for outcomes in programs.values() for o in accepted(outcomes) if o.stock != "-"])
    green = sum(not outcomes for outcomes in failing.values())
    refused = len(results) - len(programs)
    print(f"\n{len(results)} entries, {refused} without a program of torch.export")
    print(f"{len(programs)} entries accepted, {green} run and match: {100 * green / max(len(programs), 1):.1f} %")


def _report_stock(asked: Sequence[Outcome]) -> None:
    """What the stock runtime's kernels take, and what they lack most often."""
    if not asked:
        return
    lacking = [o for o in asked if o.stock]
    entries = {o.entry for o in asked}
    whole = len(entries) - len({o.entry for o in lacking})
    print(f"\nthe stock runtime links {len(asked) - len(lacking)} of {len(asked)} samples, {whole} entries whole")
    for reason, count in collections.Counter(o.stock for o in lacking).most_common(12):
        print(f"    {count} x {reason}")


def differences(results: dict[str, list[Outcome]], listed: dict[str, str]) -> list[str]:
    """What the list of exceptions says otherwise than ``results``."""
    found: list[str] = []
    for name, outcomes in results.items():
        if is_green(outcomes) and accepted(outcomes) and name in listed:
            found.append(f"{name} runs, but is listed: {listed[name]}")
        if not is_green(outcomes) and name not in listed:
            first = next(o for o in accepted(outcomes) if o.stage != "ok")
            found.append(f"{name}{first.sample} in {first.dtype} stops at {first.stage}: {first.message}")
    return found
