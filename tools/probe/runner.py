"""Runs cases on the installed runtime, each batch in a child process, and says how every one ended.

The runtime ends the whole process on some errors (a tag or dtype mismatch inside a kernel), so cases run in a forked
child that reports after each one; when it dies, the case it was at is recorded as ``ABORT`` and a new child goes on
after it. Forking after the runtime and PyTorch are loaded makes a new child cost milliseconds.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Sequence
from enum import IntEnum
from itertools import repeat
from typing import Any

import torch

from etir.emit.formats.scalar_type import ScalarType
from etir.tools.probe.call import TORCH_DTYPES, Call, Case

_SECONDS_PER_CASE = 20.0
_RAN_SO_FAR = 255
_HALF = (ScalarType.HALF, ScalarType.BFLOAT16, ScalarType.COMPLEXHALF)
_SINGLE = (ScalarType.FLOAT, ScalarType.COMPLEXFLOAT)


class Outcome(IntEnum):
    """How a case ended."""

    SAME = 0
    """Ran, and wrote what PyTorch writes."""
    RAN = 1
    """Ran; PyTorch does not take these types, so there is nothing to compare with."""
    WRONG = 2
    """Ran, and wrote something else than PyTorch."""
    LOAD_ERROR = 3
    RUN_ERROR = 4
    ABORT = 5
    """Ended the process, or did not return in time."""

    @property
    def is_good(self) -> bool:
        """Whether it ran, and not wrongly as far as is known."""
        return self <= Outcome.RAN

    @property
    def ran(self) -> bool:
        """Whether the runtime accepted the call."""
        return self <= Outcome.WRONG


def load_runtime(libraries: Sequence[str] = ()) -> Any:
    """The Python binding of the runtime; ``libraries`` may name the optional ``quantized`` and ``custom_ops``."""
    from executorch.extension.pybindings import portable_lib

    if "quantized" in libraries:
        import executorch.kernels.quantized  # noqa: F401  (registers kernels)
    if "custom_ops" in libraries:
        from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers kernels)
    return portable_lib


def run_cases(runtime: Any, cases: Sequence[tuple[Call, Case]]) -> list[Outcome]:
    """The outcome of every case, in order. Many cases at once save children."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(cases):
        outcomes.extend(_run_in_child(runtime, cases[len(outcomes) :]))
    return outcomes


def _run_in_child(runtime: Any, cases: Sequence[tuple[Call, Case]]) -> list[Outcome]:
    """Outcomes of the first cases, at least one; the last is ``ABORT``, or ``RAN``, if the child died there."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _silence()
        for call, case in cases:
            outcome, results = run_case(runtime, call, case)
            if outcome is Outcome.RAN:
                # Said before PyTorch runs, which crashes on some of the stranger combinations.
                os.write(write_end, bytes([_RAN_SO_FAR]))
                outcome = compare(call, case, results)
            os.write(write_end, bytes([outcome]))
        os._exit(0)
    os.close(write_end)
    reports = bytearray()
    while select.select([read_end], [], [], _SECONDS_PER_CASE)[0]:
        chunk = os.read(read_end, 65536)
        if not chunk:
            break
        reports += chunk
    else:
        os.kill(child, signal.SIGKILL)
    os.close(read_end)
    os.waitpid(child, 0)
    outcomes = [Outcome(b) for b in reports if b != _RAN_SO_FAR]
    if len(outcomes) < len(cases):
        outcomes.append(Outcome.RAN if reports and reports[-1] == _RAN_SO_FAR else Outcome.ABORT)
    return outcomes


def _silence() -> None:
    """No runtime log and no core file from a child that is expected to crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def run_case(runtime: Any, call: Call, case: Case) -> tuple[Outcome, list[Any]]:
    """Load and run one case in this process, which may not survive it: the outcome, at best ``RAN``, and results."""
    file = call.file(case)  # named, because the binding reads it without keeping it alive
    try:
        program = runtime._load_program_from_buffer(file)
        method = program.load_method("forward")
    except RuntimeError:
        return Outcome.LOAD_ERROR, []
    try:
        method.execute()
    except RuntimeError:
        return Outcome.RUN_ERROR, []
    if any(case.dtypes[i] not in TORCH_DTYPES for i in call.results):
        return Outcome.RAN, []
    return Outcome.RAN, method.get_outputs()


def compare(call: Call, case: Case, results: Sequence[Any]) -> Outcome:
    """``SAME`` or ``WRONG`` against PyTorch, ``RAN`` where it refuses these types."""
    expected = call.reference(case.dtypes) if results else None
    if expected is None:
        return Outcome.RAN
    return Outcome.SAME if all(map(_close, results, expected, repeat(tolerance(case)))) else Outcome.WRONG


def tolerance(case: Case) -> float:
    """What the types of a case cost: where all that are not integers are Double, the results have to be."""
    if any(d in _HALF for d in case.dtypes):
        return 2e-2
    return 1e-10 if not any(d in _SINGLE for d in case.dtypes) else 1e-4


def _close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    """Equal up to ``tolerance`` times the greatest magnitude, which is what low-precision accumulation costs.

    Integers are equal.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if not actual.is_floating_point() and not actual.is_complex():
        return torch.equal(actual, expected)
    wide = torch.complex128 if actual.is_complex() else torch.float64
    actual, expected = actual.to(wide), expected.to(wide)
    finite = expected[expected.isfinite()].abs()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    return torch.allclose(actual, expected, rtol=0.0, atol=tolerance * scale, equal_nan=True)
