"""Matrix products and convolutions of etir's kernels beside torch eager and the stock runtime, on one thread.

    python benchmarks/kernels_linalg.py [--stock] [--only TEXT]

``ETIR_KERNEL_FLAGS`` are the compiler flags of the kernels (for instance ``-O3 -march=x86-64-v3``; ``-O3`` is baseline
SSE2). A time is the least CPU time of a call over some repetitions, in microseconds: CPU time, so that other work on
the machine counts as little as possible. Results are compared before they are timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "benchmarks")]

from etir_testing.runtime.kernels import build_kernels  # noqa: E402

SECONDS = 0.2
"""About how long each cell of the table is measured."""


def least_time(call: Callable[[], float]) -> float:
    """The least of the times that ``call`` returns, in microseconds."""
    best = call()
    end = time.perf_counter() + SECONDS
    repetitions = 0
    while repetitions < 3 or (time.perf_counter() < end and repetitions < 1000):
        best = min(best, call())
        repetitions += 1
    return best * 1e6


def cpu_time(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


class TimedLibrary:
    """A kernel library that notes how long each call took, without the making of its arguments."""

    def __init__(self, library: Any):
        self.etir_kernel_signature = library.etir_kernel_signature
        self._call = library.etir_call_kernel
        self.seconds = 0.0

    def etir_call_kernel(self, *arguments: Any) -> bool:
        start = time.thread_time()
        found = self._call(*arguments)
        self.seconds = time.thread_time() - start
        return found


@dataclass(frozen=True)
class Case:
    """One call. The first `inputs` arguments are inputs of the stock runtime's program, the others constants in it."""

    label: str
    name: str
    arguments: list[Any]
    inputs: int

    def eager(self, *arguments: Any) -> torch.Tensor:
        return getattr(torch.ops.aten, self.name.split("::")[1].split(".")[0])(*arguments)


def convolution(
    label: str, x: torch.Tensor, w: torch.Tensor, stride: int = 1, padding: int = 0, groups: int = 1
) -> Case:
    """A convolution with bias in as many dims as the tensors have."""
    dims = x.dim() - 2
    numbers = [[stride] * dims, [padding] * dims, [1] * dims, False, [0] * dims, groups]
    return Case(label, "aten::convolution.out", [x, w, torch.randn(w.shape[0]), *numbers], 1)


def cases() -> list[Case]:
    """What is measured."""
    randn = torch.randn
    last = torch.channels_last
    image = randn(1, 64, 56, 56)
    w3 = randn(64, 64, 3, 3)
    found = [Case(f"mm {n}", "aten::mm.out", [randn(n, n), randn(n, n)], 2) for n in (8, 64, 512)]
    for m in (1, 64, 1024):
        arguments = [randn(m, 1024), randn(1024, 1024), randn(1024)]
        found.append(Case(f"linear {m}x1024x1024", "aten::linear.out", arguments, 1))
    half = [t.bfloat16() for t in (randn(1, 1024), randn(1024, 1024), randn(1024))]
    return [
        *found,
        Case("linear 1x1024x1024 bf16", "aten::linear.out", half, 1),
        Case("bmm 8x128x64x128", "aten::bmm.out", [randn(8, 128, 64), randn(8, 64, 128)], 2),
        convolution("conv 3x3 64->64 @56", image, w3, padding=1),
        convolution("the same, channels last", image.to(memory_format=last), w3.to(memory_format=last), padding=1),
        convolution("conv 1x1 64->256 @56", image, randn(256, 64, 1, 1)),
        convolution("conv 7x7 stride 2 3->64 @224", randn(1, 3, 224, 224), randn(64, 3, 7, 7), 2, 3),
        convolution("conv 3x3 512->512 @7", randn(1, 512, 7, 7), randn(512, 512, 3, 3), padding=1),
        convolution("depthwise 3x3 64 @56", image, randn(64, 1, 3, 3), padding=1, groups=64),
        convolution("the same, channels last", image.to(memory_format=last), randn(64, 1, 3, 3), 1, 1, 64),
        convolution("depthwise 3x3 stride 2 96 @112", randn(1, 96, 112, 112), randn(96, 1, 3, 3), 2, 1, 96),
        convolution("depthwise 3x3 960 @7", randn(1, 960, 7, 7), randn(960, 1, 3, 3), 1, 1, 960),
        convolution("conv1d k3 80->256 @500", randn(1, 80, 500), randn(256, 80, 3), 1, 1),
    ]


def stock_time(case: Case) -> float:
    """Microseconds of the stock runtime for a program of this one operator."""
    from executorch.runtime import Runtime

    from stock import stock_buffer

    class Program(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return case.eager(*inputs, *case.arguments[case.inputs :])

    inputs = tuple(case.arguments[: case.inputs])
    program = Runtime.get().load_program(stock_buffer(torch.export.export(Program(), inputs)))
    method = program.load_method("forward")
    if method is None:
        raise RuntimeError(f"the stock runtime does not load '{case.label}'")
    return least_time(lambda: cpu_time(lambda: method.execute(inputs)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stock", action="store_true", help="measure the stock runtime too (slow)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kernels = build_kernels("linalg", "convolution")
    timed = TimedLibrary(kernels.library)
    kernels.library = timed  # type: ignore[assignment]

    print(f"{'':34}{'etir':>10}{'torch':>10}{'ratio':>7}" + (f"{'stock':>11}{'gain':>7}" if options.stock else ""))
    for case in cases():
        if options.only not in case.label:
            continue
        expected = case.eager(*case.arguments)
        (got,) = kernels.call(case.name, case.arguments, [expected])
        tolerance = 3e-2 if expected.dtype == torch.bfloat16 else 1e-3
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))

        def call(case: Case = case, expected: torch.Tensor = expected) -> float:
            kernels.call(case.name, case.arguments, [expected])
            return timed.seconds

        ours = least_time(call)
        eager = least_time(lambda case=case: cpu_time(lambda: case.eager(*case.arguments)))
        line = f"{case.label:34}{ours:10.1f}{eager:10.1f}{ours / eager:7.2f}"
        if options.stock:
            stock = stock_time(case)
            line += f"{stock:11.1f}{stock / ours:7.1f}"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
