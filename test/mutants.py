"""How many small faults in the sources the tests see.

    python test/mutants.py --seed 1 --count 300              mutants of lowering/, passes/ and emit/
    python test/mutants.py --seed 1 --count 300 --list       their differences, and nothing is run
    python test/mutants.py --seed 1 --count 100 --native     mutants of runtime/core/ and runtime/executor/
    python test/mutants.py --only lowering/errors.py:10:     those of the sample that are there
    python test/mutants.py --measure --suite test/interop    measure besides which lines these tests run
    python test/mutants.py --survivors                       whether the tests that were written still kill theirs
    python test/mutants.py --survivors --native              the same for the C++ tests

The first run measures which test runs which line (``build/mutants/measured.json``, to be deleted after changes), which
takes as long as the tests themselves. Verdicts are added to ``build/mutants/verdicts.jsonl``; those that are there are
not asked for again, unless ``--again`` is given, which judges survivors again. The exit code is 1 when fewer than
``--bar`` percent are killed. ``--write`` keeps the figures and the survivors in ``etir_testing/mutants/found.json``,
where each gets a reason by hand, and writes ``docs/internals/mutants.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

# Before anything imports torch: on several threads a fork would wait for those that it does not have.
os.environ["OMP_NUM_THREADS"] = "1"

from etir_testing import ROOT
from etir_testing.mutants import cpp_judging, cpp_mutants, document, python_mutants, survivors
from etir_testing.mutants.judging import KILLED, UNFIT, Judge, Verdict
from etir_testing.mutants.measuring import Measured, measure
from etir_testing.mutants.mutant import Mutant, sample

FOLDERS = ("lowering", "passes", "emit")
SUITES = (
    "test/unit/lowering",
    "test/unit/passes",
    "test/unit/emit",
    "test/unit/backends",
    "test/unit/targets",
    "test/unit/dialects",
    "test/unit/interpret",
    "test/unit/etir",
    "test/unit/tools",
    "test/unit/meta",
    "test/interop",
    "test/generated",
    "test/runtime/executor",
    "test/opinfo",
)
"""The tests beside lit's, which are always there."""
STATE = ROOT / "build" / "mutants"
MEASURED = STATE / "measured.json"
VERDICTS = STATE / "verdicts.jsonl"
SURVIVORS = STATE / "survivors.jsonl"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true", help="mutants of runtime/core and runtime/executor")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="default: 300, with --native 100")
    parser.add_argument("--only", action="append", help="mutants whose id begins with this (repeatable)")
    parser.add_argument("--list", action="store_true", help="print the differences, and do nothing else")
    parser.add_argument("--measure", action="store_true", help="measure tests that are not measured yet, and stop")
    parser.add_argument("--suite", action="append", help="measure these test files or folders (repeatable)")
    parser.add_argument("--again", action="store_true", help="judge again what has survived")
    parser.add_argument("--survivors", action="store_true", help="judge those of found.json by the tests named there")
    parser.add_argument("--write", action="store_true", help="write the figures and survivors, and their page")
    parser.add_argument("--bar", type=float, default=90.0)
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.survivors:
        return judge_survivors(tuple(arguments.only or ("",)), arguments.native)
    suites = arguments.suite or SUITES
    if arguments.measure or (not arguments.native and not arguments.list and not MEASURED.exists()):
        _in_child(lambda: measure(FOLDERS, suites, MEASURED, print_now))
        if arguments.measure:
            return 0
    count = arguments.count or (100 if arguments.native else 300)
    if arguments.native:
        files = dict(cpp_mutants.sources(ROOT))
        found = [mutant for path, source in files.items() for mutant in cpp_mutants.mutants_of(path, source)]
        mutants = list(sample(found, arguments.seed, lambda mutant: True))
    else:
        files = dict(python_mutants.sources(ROOT, FOLDERS))
        mutants = python_mutants.sample_of(files, count, arguments.seed)
    if arguments.only:
        mutants = [mutant for mutant in mutants if mutant.id.startswith(tuple(arguments.only))]
    if arguments.list:
        for mutant in mutants[:count]:
            print(f"{mutant.id}\n{mutant.diff(files[mutant.path])}\n")
        return 0
    known = earlier = verdicts()
    if arguments.again:
        known = {name: verdict for name, verdict in known.items() if verdict.status not in ("survived", "unreached")}
    say = _Log(files)
    if arguments.native:
        _in_child(lambda: cpp_judging.judge(mutants, files, count, known, say))
        judged = verdicts()
        mutants = [m for m in mutants if m.id in judged and judged[m.id].status != "no mutant"][:count]
    else:
        rest = [mutant for mutant in mutants if mutant.id not in known]
        judge = Judge(files, Measured.load(MEASURED), say, earlier)
        _in_child(lambda: judge.judge(rest, [f"etir.{folder}" for folder in FOLDERS]))
        judged = verdicts()
        unfit = [mutant for mutant in rest if judged[mutant.id].status == UNFIT]
        _in_child(lambda: judge.judge_at_import(unfit))
    if arguments.write:
        judged = verdicts()
        command = (
            f"python test/mutants.py --seed {arguments.seed} --count {len(mutants)}{' --native' * arguments.native}"
        )
        document.update(command, [(m, judged[m.id], m.diff(files[m.path])) for m in mutants])
    return report(mutants, arguments.bar)


class _Log:
    """Prints and writes verdicts."""

    def __init__(self, files: Mapping[str, str], place: Path = VERDICTS) -> None:
        self.files = files
        self.place = place
        self.start = time.monotonic()

    def __call__(self, mutant: Mutant, verdict: Verdict) -> None:
        print_now(f"{time.monotonic() - self.start:6.0f} s  {mutant.id}  {verdict.status} {verdict.by}")
        entry = {"id": mutant.id, **asdict(verdict), "diff": mutant.diff(self.files[mutant.path])}
        self.place.parent.mkdir(parents=True, exist_ok=True)
        with self.place.open("a") as out:
            out.write(json.dumps(entry) + "\n")


def judge_survivors(only: tuple[str, ...], native: bool) -> int:
    """Judge what tests were written for, each by its test; 1 when one survives, or its lines are gone."""
    known = [s for run in document.load().values() for s in run.survivors if s.kind == "killed since"]
    files = dict(cpp_mutants.sources(ROOT) if native else python_mutants.sources(ROOT, FOLDERS))
    wanted = [s for s in known if s.id.startswith(only) and s.id.partition(":")[0] in files]
    places = [(survivor, survivors.located(survivor, files[survivor.id.partition(":")[0]])) for survivor in wanted]
    mutants = [mutant for _, mutant in places if mutant is not None]
    SURVIVORS.unlink(missing_ok=True)
    say = _Log(files, SURVIVORS)
    if native:
        _in_child(lambda: cpp_judging.judge_by_cpp_tests(mutants, files, say))
    else:
        tests = {mutant.id: [survivor.test] for survivor, mutant in places if mutant is not None}
        measured = survivors.measured(survivor.test for survivor in wanted)
        judge = survivors.NamedJudge(files, measured, say, tests=tests)
        _in_child(lambda: judge.judge(mutants, [f"etir.{folder}" for folder in FOLDERS]))
        judged = verdicts(SURVIVORS)
        _in_child(lambda: judge.judge_at_import([m for m in mutants if judged[m.id].status == UNFIT]))
    judged = verdicts(SURVIVORS)
    alive = [survivor for survivor, mutant in places if mutant is None or judged[mutant.id].status not in KILLED]
    for survivor in alive:
        print(f"not killed by {survivor.test}, or gone: {survivor.id}")
    print(f"{len(wanted) - len(alive)} of {len(wanted)} are killed by their tests")
    return int(bool(alive))


def verdicts(place: Path = VERDICTS) -> dict[str, Verdict]:
    """What was said so far, the latest of each."""
    if not place.exists():
        return {}
    found = [json.loads(line) for line in place.read_text().splitlines()]
    return {entry["id"]: Verdict(*(entry[key] for key in ("status", "by", "tests", "known"))) for entry in found}


def report(mutants: Sequence[Mutant], bar: float) -> int:
    """The figures by folder, and what is left."""
    known = verdicts()
    total, killed = Counter[str](), Counter[str]()
    for mutant in mutants:
        is_killed = mutant.id in known and known[mutant.id].status in KILLED
        for name in (document.folder_of(mutant), "all"):
            total[name] += 1
            killed[name] += is_killed
        if not is_killed:
            print(f"{known[mutant.id].status if mutant.id in known else 'unknown':10} {mutant.id}")
    for name in sorted(total, key=lambda name: (name == "all", name)):
        print(f"{name:18} {killed[name]:4} of {total[name]:4} killed, {100 * killed[name] / total[name]:.1f} %")
    return int(100 * killed["all"] < bar * total["all"])


def print_now(text: str) -> None:
    """For whoever watches."""
    print(text, flush=True)


def _in_child(body: Callable[[], None]) -> None:
    """In a process of its own, which imports the compiler and is gone afterwards."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    if os.waitpid(process, 0)[1]:
        sys.exit("it did not come to its end")


if __name__ == "__main__":
    sys.exit(main())
