"""Language models as a whole beside other engines: reading a prompt, and writing tokens after it.

    python benchmarks/language_models.py MODEL.pte                        etir, and how fast memory is
        --gguf MODEL.gguf                  the checkpoint, for llama.cpp and OpenVINO GenAI where they are installed
        --stock STOCK.pte                  ExecuTorch with XNNPACK: what language_peers/export_stock.py wrote
        --python PYTHON                    the interpreter of llama.cpp and OpenVINO GenAI, if it is another one
        --threads 1 2 --turns 3            numbers of threads; each of them has as many turns
        --seconds 60                       no turn begins that would not end in so long, the first excepted
        --write                            puts the table into docs/guide/language_models.md

Each engine is a process of its own (``language_peers``) that stays loaded; they are asked in turns, one at a time, and
who comes first moves on by one. All get the same tokens, their own defaults and the same number of threads, and write
down the token that follows a prompt: one that differs shows who computes something else. A turn of an engine is each
prompt once, and some tokens after it, of which the fastest eight in a row count: a busy machine only adds. Before the
first turn each is asked for the longest prompt: an engine that takes the memory of its cache when it needs it waits for
the system then, in a virtual machine for longer than a half of what the prompt takes.

In the same turns ``language_peers/memory.py`` reads the bytes of the file and does nothing else, with as many threads
and the access pattern of the products of one row: what a token could take at least, since it needs all weights once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import document
from machine_limit import processor

PEERS = Path(__file__).resolve().parent / "language_peers"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "language_models.md"
WINDOW = 8
"""Tokens in a row whose time counts."""
OWN, MEMORY = "own", "memory"


@dataclass
class Worker:
    """A process of :data:`PEERS`: ``kind`` is its file's name."""

    kind: str
    threads: int
    process: subprocess.Popen[str]
    name: str = ""
    next: int = -1

    @classmethod
    def start(cls, kind: str, python: str, model: str, threads: int) -> Worker:
        command = [python, str(PEERS / f"{kind}.py"), model, str(threads)]
        pipe = subprocess.PIPE
        return cls(kind, threads, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))

    def greet(self) -> None:
        """Wait until it is ready. Raises RuntimeError with what it said when it is not."""
        answer = self._answer()
        self.name, self.next = answer["name"], answer["next"]

    def ask(self, prompt: int, tokens: int) -> dict[str, Any]:
        """Seconds of a prompt and of tokens after it. Raises RuntimeError when the process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{prompt} {tokens}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            said = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(f"{self.kind}: {said[-1] if said else 'ended'}")
        return json.loads(line)

    def stop(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


@dataclass
class Figures:
    """Tokens in a second of one engine with one number of threads, by turns: ``[prompt length][turn]``. For reading,
    ``decode`` is passes over the file in a second.
    """

    prefill: dict[int, list[float]] = field(default_factory=dict)
    decode: dict[int, list[float]] = field(default_factory=dict)
    resident: int = 0

    def add(self, prompt: int, answer: Mapping[str, Any]) -> None:
        """One answer of a worker."""
        if answer["prefill"] > 0:
            self.prefill.setdefault(prompt, []).append(prompt / answer["prefill"])
        self.decode.setdefault(prompt, []).append(1 / best_in_a_row(answer["decode"]))
        self.resident = max(self.resident, answer["resident"])


Table = dict[tuple[str, int], Figures]
"""By kind and number of threads."""


def best_in_a_row(seconds: Sequence[float]) -> float:
    """The least mean of :data:`WINDOW` in a row."""
    window = min(WINDOW, len(seconds))
    return min(sum(seconds[at : at + window]) / window for at in range(len(seconds) - window + 1))


def started(wanted: Sequence[tuple[str, str, str]], threads: Sequence[int]) -> Iterator[Worker]:
    """The workers that are ready: kind, interpreter and file of each. Others are named on standard error."""
    workers = [Worker.start(*each, count) for each in wanted for count in threads]
    for worker in workers:
        try:
            worker.greet()
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
            worker.stop()
            continue
        print(f"ready: {worker.name}, {worker.threads} threads, next token {worker.next}", file=sys.stderr)
        yield worker


def measure(workers: Sequence[Worker], prompts: Sequence[int], tokens: int, turns: int, seconds: float) -> Table:
    """What all workers took, in turns. The first turn is made; others while the longest would end in ``seconds``."""
    table: Table = {(worker.kind, worker.threads): Figures() for worker in workers}
    begin = time.perf_counter()
    longest = 0.0
    for worker in workers:
        worker.ask(max(prompts), tokens)
    for turn in range(turns):
        start = time.perf_counter()
        if turn > 0 and start + longest > begin + seconds:
            print(f"{turn} of {turns} turns in {seconds:g} s", file=sys.stderr)
            break
        for count in sorted({worker.threads for worker in workers}):
            some = [worker for worker in workers if worker.threads == count]
            first = turn % len(some)
            for prompt in prompts:
                for worker in some[first:] + some[:first]:
                    answer = worker.ask(prompt, tokens)
                    table[worker.kind, count].add(prompt, answer)
        longest = max(longest, time.perf_counter() - start)
        print(f"turn {turn + 1}: {longest:.1f} s at most", file=sys.stderr)
    return table


def span(values: Sequence[float], digits: int = 0) -> str:
    """``least to most``, or one number where they are the same."""
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def lines_of(workers: Sequence[Worker], table: Table, prompts: Sequence[int], size: int) -> list[str]:
    """The table, and what follows from it, as Markdown."""
    threads = sorted({worker.threads for worker in workers})
    names = {worker.kind: worker.name for worker in workers if worker.kind != MEMORY}
    titles = [*(f"prefill of {n:,}" for n in prompts), *(f"decode after {n:,}" for n in prompts)]
    found = ["| | " + " | ".join(titles) + " |", "| --- |" + " --- |" * len(titles)]
    for kind, name in names.items():
        cells: list[str] = []
        for what in ("prefill", "decode"):
            for prompt in prompts:
                rows = [getattr(table[kind, n], what).get(prompt) for n in threads if (kind, n) in table]
                cells.append("; ".join(span(row) for row in rows if row))
        found.append(f"| {name} | " + " | ".join(cells) + " |")
    found.append("")
    found += [line for n in threads for line in ratios_of(workers, table, prompts, n, size)]
    return found


def ratios_of(
    workers: Sequence[Worker], table: Table, prompts: Sequence[int], threads: int, size: int
) -> Iterator[str]:
    """What etir is to the others with one number of threads, turn by turn."""
    own = table.get((OWN, threads))
    peers = {
        worker.name: table[worker.kind, threads]
        for worker in workers
        if worker.threads == threads and worker.kind not in (OWN, MEMORY)
    }
    if own is None:
        return
    some = f"{threads} thread{'s' * (threads > 1)}"
    for what in ("prefill", "decode"):
        for prompt in prompts:
            mine = getattr(own, what)[prompt]
            parts = [
                f"{span([a / b for a, b in zip(mine, getattr(peer, what)[prompt], strict=True)], 2)} × {name}"
                for name, peer in peers.items()
            ]
            if parts:
                yield (
                    f"- {some}, {what} of {prompt:,}: " + ", ".join(parts)
                    if what == "prefill"
                    else (f"- {some}, decode after {prompt:,}: " + ", ".join(parts))
                )
    memory = table.get((MEMORY, threads))
    if memory is not None:
        for prompt in prompts:
            passes = memory.decode[prompt]
            share = [a / b for a, b in zip(own.decode[prompt], passes, strict=True)]
            yield (
                f"- {some}, reading the file's {size / 1e6:.1f} MB: {span([size * p / 1e9 for p in passes], 1)} GB/s, "
                f"{span(passes)} passes a second; a token after {prompt:,} takes place at "
                f"{span([100 * each for each in share])} % of that"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Language models beside other engines.")
    parser.add_argument("model", help="a file of et-llm compile")
    parser.add_argument("--gguf", help="the checkpoint, for llama.cpp and OpenVINO GenAI")
    parser.add_argument("--stock", help="a file for ExecuTorch with XNNPACK")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of llama.cpp and OpenVINO GenAI")
    parser.add_argument("--peers", nargs="*", default=["llama", "genai", "stock"], help="those to measure (all)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--prefill", type=int, nargs="+", default=[128, 1024], metavar="N", help="lengths of prompts")
    parser.add_argument("--decode", type=int, default=24, metavar="N", help="tokens after each prompt (24)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=600.0, help="time for all turns (600)")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    given = parser.parse_args(arguments)
    wanted = [(OWN, sys.executable, given.model), (MEMORY, sys.executable, given.model)]
    wanted += [(kind, given.python, given.gguf) for kind in ("llama", "genai") if given.gguf and kind in given.peers]
    if given.stock and "stock" in given.peers:
        wanted.append(("stock", sys.executable, given.stock))
    workers: list[Worker] = []
    try:
        workers.extend(started(wanted, given.threads))
        table = measure(workers, given.prefill, given.decode, given.turns, given.seconds)
    finally:
        for worker in workers:
            worker.stop()
    lines = lines_of(workers, table, given.prefill, Path(given.model).stat().st_size)
    print(f"{processor()}\n")
    print("\n".join(lines))
    for (kind, count), figures in table.items():
        print(f"{kind}, {count} threads: {figures.resident / 1e6:.0f} MB resident", file=sys.stderr)
    if given.write:
        document.put(PAGE, Path(__file__).name, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
