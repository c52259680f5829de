"""One walk over the samples of an OpInfo entry, which checks everything that a sample can tell.

A sample is made once and eager runs it once, with the calls of ATen operators recorded (``runtime/opinfo_calls.py``).
Then

* each recorded call is repeated on the runtime's kernel for it (``runtime/opinfo_compare.py``),
* and on the NumPy operator of its name (``interpret/numpy_ops_oracle.py``),
* and the sample becomes a program, which is exported, compiled and run (``op_stages.py``), and compared with the result
  of that same run of eager.

Each of the three has its own bound on the samples that it takes; torch seeds every sample of its own, so which are
taken does not change them. Operators that compute gradients are called by the gradients of further samples.
"""

from __future__ import annotations

import collections
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from etir_testing.interpret import numpy_ops_oracle, numpy_samples
from etir_testing.opinfo.op_samples import MAX_SCANNED, Sample, dtypes_of, entries, sample_of, signature_of
from etir_testing.opinfo.op_stages import Outcome, outcome_of
from etir_testing.opinfo.workers import Lost, Running
from etir_testing.runtime.kernels import DTYPES, Kernels
from etir_testing.runtime.opinfo_calls import Call, Kernel, gradient_calls_of, run_recorded
from etir_testing.runtime.opinfo_compare import check_call, tolerances_of
from etir_testing.runtime.opinfo_report import Tally

CHECKS = ("kernels", "numpy", "programs")
"""What samples are checked for."""

SAMPLES, GRADIENT_SAMPLES, MOST_SAMPLES, CALLS = 6, 2, 400, 2
"""The bounded part for kernels: how many samples of an entry in one dtype are taken one by one, for results and for
gradients; the last one of those after them, of which every other, then fewer and fewer are taken; and calls of one
kernel with the same dtypes in all of these."""


@dataclass(frozen=True)
class Bounds:
    """What is checked, and of how many samples.

    ``every_sample`` takes all of them for kernels; ``programs`` is how many programs are made for each dtype, None for
    all; ``only`` names one kernel.
    """

    checks: tuple[str, ...] = CHECKS
    every_sample: bool = False
    programs: int | None = 1
    only: str | None = None


@dataclass
class Entry:
    """What became of the samples of one entry."""

    kernels: dict[str, Tally] = field(default_factory=dict)
    numpy: numpy_ops_oracle.Tally = field(default_factory=numpy_ops_oracle.Tally)
    programs: list[Outcome] = field(default_factory=list)


def lost_entry(name: str, lost: Lost, bounds: Bounds) -> Entry:
    """What became of an entry whose process ended: a failure of each check."""
    message = f"the process ended with code {lost.code} at {lost.doing}\n{lost.printed}".rstrip()
    entry = Entry()
    if "kernels" in bounds.checks:
        tally = entry.kernels.setdefault(lost.doing, Tally(failures=[message]))
        tally.failed["all"] += 1
    if "numpy" in bounds.checks:
        entry.numpy.failed[name] = message
    if "programs" in bounds.checks:
        entry.programs.append(Outcome(name, "", "", "run", message, "-"))
    return entry


def walk(name: str, bounds: Bounds, kernels: Kernels | None, running: Running) -> Entry:
    """Check the samples of an entry in all dtypes. ``running`` is told what runs, in case it ends the process."""
    entry = Entry()
    op = entries()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in sorted(op.supported_dtypes("cpu"), key=str):
            _Dtype(name, dtype, bounds, kernels, running, entry).walk()
    return entry


class _Dtype:
    """The samples of one entry in one dtype."""

    def __init__(
        self, name: str, dtype: torch.dtype, bounds: Bounds, kernels: Kernels | None, running: Running, entry: Entry
    ):
        self.op = entries()[name]
        self.name, self.dtype, self.bounds, self.running, self.entry = name, dtype, bounds, running, entry
        self.kernels = kernels if dtype in DTYPES else None
        self.tolerances = tolerances_of(self.op, dtype)
        self.seen: collections.Counter[tuple[str, tuple[torch.dtype, ...]]] = collections.Counter()
        self.signatures: dict[Any, None] = {}

    def walk(self) -> None:
        """Take each sample for the checks that want it."""
        of_kernels = _Thinned(None if self.bounds.every_sample else SAMPLES)
        of_gradients = _Thinned(None if self.bounds.every_sample else GRADIENT_SAMPLES)
        takes_programs = "programs" in self.bounds.checks and self.dtype in dtypes_of(self.name)
        takes_numpy = "numpy" in self.bounds.checks and not self.op.name.startswith("jiterator_")
        numpy_count = numpy_samples.SAMPLES.get(self.dtype, 0) if takes_numpy else 0
        for number, sample in self._samples(gradients=False):
            for_kernels = self.kernels is not None and of_kernels.takes(number)
            for_numpy = number < numpy_count
            program = self._program(number, sample) if takes_programs else None
            if for_kernels or for_numpy or program is not None:
                self._check(sample, for_kernels, for_numpy, program)
            at_end = (self.kernels is None or of_kernels.ended(number)) and number >= numpy_count
            if at_end and not (takes_programs and self._takes_more_programs(number)):
                break
        if self.kernels is None or not self.op.supports_autograd:
            return
        if self.dtype in self.op.supported_backward_dtypes("cpu"):
            for number, sample in self._samples(gradients=True):
                if of_gradients.takes(number):
                    calls = gradient_calls_of(self.op, sample, lambda *c: is_gradient(c[0]) and self._wanted(*c))
                    self._check_kernels(calls)
                if of_gradients.ended(number):
                    break

    def _samples(self, *, gradients: bool) -> Iterator[tuple[int, Any]]:
        """Numbered samples; they end where making them needs a package that is not installed, or is not possible."""
        try:
            yield from enumerate(self.op.sample_inputs("cpu", self.dtype, requires_grad=gradients))
        except ModuleNotFoundError:
            return
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            outcome = Outcome(self.name, str(self.dtype)[6:], "", "eager", f"no samples: {text}", "-")
            self.entry.programs.append(outcome)

    # --- which samples ------------------------------------------------------------------------------------------------

    def _takes_more_programs(self, number: int) -> bool:
        limit = self.bounds.programs
        return limit is None or (len(self.signatures) < limit and number + 1 < MAX_SCANNED)

    def _program(self, number: int, sample: Any) -> Sample | None:
        """The sample as a program, when its signature is a new one."""
        if not (number == 0 or self._takes_more_programs(number - 1)):
            return None
        signature = signature_of(sample)
        if self.bounds.programs is not None and signature in self.signatures:
            return None
        self.signatures[signature] = None
        return sample_of(self.name, self.dtype, sample)

    def _wanted(self, kernel: Kernel, dtypes: tuple[torch.dtype, ...]) -> bool:
        if self.bounds.only is not None and kernel.name != self.bounds.only:
            return False
        self.seen[kernel.name, dtypes] += 1
        return self.bounds.every_sample or self.seen[kernel.name, dtypes] <= CALLS

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check(self, sample: Any, for_kernels: bool, for_numpy: bool, program: Sample | None) -> None:
        wanted = self._wanted if for_kernels else _nothing
        numpy = self._is_compared_with_numpy if for_numpy else None
        calls, result = run_recorded(self.op, sample, wanted, numpy)
        if for_numpy:
            for call in calls:
                numpy_samples.check_recorded(self.entry.numpy, call, self.dtype)
        self._check_kernels([call for call in calls if call.kernel is not None])
        if program is not None:
            self.running.say(f"a program of {self.name}{program.text}")
            if result is not None:
                # Outside of inference mode, where comparing may write.
                result = (pytree.tree_map_only(torch.Tensor, torch.clone, result[0]),)
            self.entry.programs.append(outcome_of(program, False, result))

    def _is_compared_with_numpy(self, operator: str) -> bool:
        return numpy_samples.is_compared(operator, self.dtype)

    def _check_kernels(self, calls: Sequence[Call]) -> None:
        for call in calls:
            assert call.kernel is not None and self.kernels is not None
            self.running.say(call.kernel.name)
            tally = self.entry.kernels.setdefault(call.kernel.name, Tally())
            check_call(self.kernels, call, self.tolerances, tally)


class _Thinned:
    """Takes the first ``limit`` samples, then every other, then fewer and fewer; all of them when it is None."""

    def __init__(self, limit: int | None):
        self.limit = limit
        self._next = 0

    def takes(self, number: int) -> bool:
        """Whether to take this sample; to be asked for one after the other."""
        if self.limit is None or number < self.limit:
            return True
        if number > MOST_SAMPLES or number < self._next:
            return False
        self._next = number + 1 + number // 4
        return True

    def ended(self, number: int) -> bool:
        """Whether no sample after this one is taken."""
        return self.limit is not None and number >= MOST_SAMPLES


def _nothing(kernel: Kernel, dtypes: tuple[torch.dtype, ...]) -> bool:
    return False


def is_gradient(kernel: Kernel) -> bool:
    """Whether a kernel computes gradients."""
    return "backward" in kernel.base
