"""Whole models with and without the reference delegate, on etir's runtime, side by side.

    python benchmarks/reference_delegate.py [MODEL]...     times, ratio, and whether the outputs are the same bits
    python benchmarks/reference_delegate.py --check        exit code 1 when a delegated program takes over 1.03 times

Both programs run in one process on the same kernels, in turns of a few runs each, with one thread; the figure of each
is the least time of a run, which noise disturbs least, and the ratio is of these.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import torch
from delegation_models import CASES

import etir

from etir_testing.models.registry import MODELS
from etir_testing.runtime.executor import Memory, Method, Program, build_executor

ALL = {**MODELS, **CASES}
"""The models of the tests, and those that XNNPACK is measured on."""

BAR = 1.03
TURNS = 12


def load(program: etir.Program) -> Method:
    """The method, with the memory that the report states."""
    memory = program.runtime_memory()["forward"]
    loaded = Program(build_executor(), program.buffer)
    return Method(loaded, memory=Memory(memory.method), temp=max(memory.temp, 1 << 20))


def run(method: Method, inputs: tuple[torch.Tensor, ...], runs: int) -> float:
    """The least seconds of one run."""
    least = float("inf")
    for _ in range(runs):
        for i, value in enumerate(inputs):
            method.set_input(i, value)
        start = time.perf_counter()
        method.execute()
        least = min(least, time.perf_counter() - start)
    return least


def compare(name: str) -> float:
    """Print one model's row; returns delegated / plain."""
    case = ALL[name]
    exported = case.export()
    plain = load(etir.compile(exported, target="etir"))
    delegated = load(etir.compile(exported, target="etir", delegates=["reference"], partition={"own_state": True}))
    inputs = case.inputs(0)
    same = all(torch.equal(a, b) for a, b in zip(plain(*inputs), delegated(*inputs), strict=True))
    once = run(plain, inputs, 1)
    runs = max(1, min(200, int(0.2 / once)))
    times = [[run(method, inputs, runs) for method in (plain, delegated)] for _ in range(TURNS)]
    first, second = (min(column) for column in zip(*times, strict=True))
    print(
        f"{name:16} {first * 1e3:9.3f} ms {second * 1e3:9.3f} ms  {second / first:6.3f}  same bits: {same}", flush=True
    )
    return second / first if same else float("inf")


def main() -> int:
    """Run the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", default=[n for n, case in ALL.items() if not case.missing()])
    parser.add_argument("--check", action="store_true", help=f"fail when a ratio is over {BAR}")
    arguments = parser.parse_args()
    print(f"{'model':16} {'plain':>12} {'delegated':>12}  {'ratio':>6}")
    ratios = [compare(name) for name in arguments.models]
    return int(arguments.check and max(ratios) > BAR)


if __name__ == "__main__":
    sys.exit(main())
