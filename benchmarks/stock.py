"""The stock ExecuTorch pipeline and runtime as three functions: the peer that etir is measured against.

Everything here is what a user of the ``executorch`` wheel writes with default options: ``to_edge(...).to_executorch()``
ahead of time, ``executorch.runtime`` at run time. Figures about a file are read from its bytes, so that files of both
compilers are judged by the same reader.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram


@dataclass(frozen=True)
class PteFigures:
    """What a ``.pte`` costs, over all its methods: sizes in bytes, ``arenas`` one per planned memory id from 1."""

    file_bytes: int
    arenas: tuple[int, ...]
    instructions: int
    values: int

    @property
    def arena_bytes(self) -> int:
        return sum(self.arenas)


@dataclass(frozen=True)
class StockResult:
    """One run of the stock pipeline: the file, its figures, and wall seconds from ``ExportedProgram`` to bytes."""

    buffer: bytes
    figures: PteFigures
    seconds: float


def pte_figures(buffer: bytes) -> PteFigures:
    """Read the figures of any ``.pte``, with ExecuTorch's own deserializer."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    plans = deserialize_pte_binary(buffer).program.execution_plan
    return PteFigures(
        file_bytes=len(buffer),
        arenas=tuple(size for plan in plans for size in plan.non_const_buffer_sizes[1:]),
        instructions=sum(len(chain.instructions) for plan in plans for chain in plan.chains),
        values=sum(len(plan.values) for plan in plans),
    )


def stock_buffer(ep: ExportedProgram) -> bytes:
    """The ``.pte`` that the stock pipeline makes of ``ep``; ``ep`` may be changed by it."""
    from executorch.exir import to_edge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_edge(ep).to_executorch().buffer


def independent_copy(ep: ExportedProgram) -> ExportedProgram:
    """A copy that shares nothing with ``ep``, by saving and loading it.

    ``copy.deepcopy`` is not enough: it shares the symbols' environment, where the stock pipeline keeps the unbacked
    symbols of one run, which make the next run on any copy of a data-dependent program fail.
    """
    file = io.BytesIO()
    torch.export.save(ep, file)
    file.seek(0)
    return torch.export.load(file)


def compile_stock(ep: ExportedProgram) -> StockResult:
    """Run the stock pipeline on an independent copy of ``ep``, made outside the measured time."""
    import executorch.exir  # noqa: F401  (seconds of imports are not the pipeline's)

    private = independent_copy(ep)
    start = time.perf_counter()
    buffer = stock_buffer(private)
    seconds = time.perf_counter() - start
    return StockResult(buffer, pte_figures(buffer), seconds)


def run_stock_runtime(
    buffer: bytes, calls: Sequence[Sequence[Any]], method: str = "forward"
) -> list[list[torch.Tensor]]:
    """Load ``buffer`` in the stock runtime and execute ``method`` once per element of ``calls``, in order.

    All calls go to one loaded method, so mutable buffers carry over from one to the next. Each element of ``calls``
    holds the method's inputs, flat; each element of the result its outputs, copied out of the runtime's memory.
    Raises RuntimeError if the runtime refuses the file or an execution fails.
    """
    from executorch.runtime import Runtime

    # The runtime reads the file's bytes in place: `program` holds them, and stays referenced for as long as it is used.
    program = Runtime.get().load_program(bytes(buffer))
    loaded = program.load_method(method)
    if loaded is None:
        raise RuntimeError(f"the stock runtime could not load method {method!r}")
    return [[torch.as_tensor(output).clone() for output in loaded.execute(tuple(inputs))] for inputs in calls]
