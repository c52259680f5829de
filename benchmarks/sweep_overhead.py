"""What a sweep adds to the time of its cells: on one core, and with cells that do nothing.

    python benchmarks/sweep_overhead.py                       100 cells of a second, 10,000 that do nothing
    python benchmarks/sweep_overhead.py --seconds 0.1 --trivial 0

The cells of the first part sleep, so that what else the machine does changes them little; they run one after the other,
in this process and on one worker, and what the sweep takes beyond them is its own: plan, dispatch, the row in the file,
and the start of the worker.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import etir
from etir.sweeps import Results


def nap(cell: Any) -> dict[str, float]:
    """A cell that takes as long as its arguments say."""
    time.sleep(cell.arguments["seconds"])
    return {"slept": cell.arguments["seconds"]}


def plan(count: int, seconds: float) -> dict[str, Any]:
    """So many cells that sleep."""
    programs = [{"name": f"p{i}", "arguments": {"seconds": seconds}} for i in range(count)]
    return {"function": "sweep_overhead:nap", "programs": programs}


def measure(count: int, seconds: float, jobs: int) -> tuple[float, float]:
    """Seconds of a whole sweep, and of its cells."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.sqlite"
        start = time.perf_counter()
        found = etir.sweep(plan(count, seconds), path, jobs=jobs)
        whole = time.perf_counter() - start
        assert found.statuses == {"ok": count}
        with Results(path) as results:
            return whole, sum(row.seconds for row in results.rows())


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--trivial", type=int, default=10_000)
    arguments = parser.parse_args()
    for jobs in (0, 1):
        whole, own = measure(arguments.cells, arguments.seconds, jobs)
        where = "one worker" if jobs else "this process"
        print(
            f"{arguments.cells} cells of {arguments.seconds:g} s in {where}: {whole / own - 1:.2%} beyond them",
            flush=True,
        )
    if arguments.trivial:
        whole, _ = measure(arguments.trivial, 0.0, 2)
        print(f"{arguments.trivial:,} cells that do nothing, on two workers: {whole:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
