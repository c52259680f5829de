"""Compares a manifest with the runtime: runs what it says runs, and what it says does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from etir.targets.manifest import KernelEntry
from etir.targets.wrong import EFFECTS
from etir.tools.probe.call import Call, Case
from etir.tools.probe.library_samples import CUSTOM_SAMPLES, PRIM_SAMPLES, QUANTIZED_SAMPLES
from etir.tools.probe.runner import Outcome, run_cases
from etir.tools.probe.sample import Sample
from etir.tools.probe.samples import SAMPLES
from etir.tools.probe.shape_samples import SHAPE_SAMPLES

FULL_LIMIT = 25_000
"""Most combinations of scalar types that are all tried for the first sample of an operator."""
FURTHER_LIMIT = 2_000
"""The same for its further samples."""


@dataclass(frozen=True)
class Observation:
    """One case: what the runtime did, and what the manifest says, ``None`` if that it works."""

    call: Call
    sample: int
    case: Case
    outcome: Outcome
    reason: str | None

    @property
    def is_unsafe(self) -> bool:
        """The manifest lets through what the runtime refuses or gets wrong."""
        return self.reason is None and not self.outcome.is_good

    @property
    def is_strict(self) -> bool:
        """The manifest refuses what PyTorch agrees that the runtime gets right; not what is wrong for other values."""
        return self.reason is not None and not self.is_known_wrong and self.outcome is Outcome.SAME

    @property
    def is_known_wrong(self) -> bool:
        """The manifest refuses it because of ``wrong`` in the row."""
        return self.reason is not None and self.reason.startswith(EFFECTS)

    @property
    def is_agreed(self) -> bool:
        """The manifest accepts it, and it works."""
        return self.reason is None and self.outcome.is_good

    def __str__(self) -> str:
        tensors = [
            f"{t.name}: {d.name}{list(o)}"
            for t, d, o in zip(self.call.tensors, self.case.dtypes, self.case.dim_orders, strict=True)
        ]
        grown = ", results too large" if self.call.grown else ""
        said = "accepted" if self.reason is None else self.reason
        return f"{self.call.name} sample {self.sample}{grown}, {', '.join(tensors)}: {self.outcome.name}; {said}"


def samples_of(op_name: str) -> tuple[Sample, ...]:
    """All samples of an operator; their position is the number in reports."""
    tables = (SAMPLES, SHAPE_SAMPLES, PRIM_SAMPLES, QUANTIZED_SAMPLES, CUSTOM_SAMPLES)
    return tuple(sample for table in tables for sample in table.get(op_name, ()))


def observe(
    runtime: Any, entries: Sequence[KernelEntry], *, every: int = 1, usual_only: bool = False
) -> list[Observation]:
    """Probe kernels with all their samples.

    With ``every`` above 1 only one in so many combinations of types is tried; with ``usual_only`` no type or dim order
    is changed. Where the manifest says that the kernel resizes its results, it also gets too large ones.
    """
    jobs = [job for entry in entries for job in _jobs(entry, every, usual_only)]
    outcomes = run_cases(runtime, [(call, case) for _, _, call, case in jobs])
    observations: list[Observation] = []
    for (entry, number, call, case), outcome in zip(jobs, outcomes, strict=True):
        reason = entry.check(
            call.by_name(case.dtypes), call.by_name(case.dim_orders), others=call.others, shapes=call.shapes
        )
        observations.append(Observation(call, number, case, outcome, reason))
    return observations


def _jobs(entry: KernelEntry, every: int, usual_only: bool) -> Iterator[tuple[KernelEntry, int, Call, Case]]:
    for number, sample in enumerate(samples_of(entry.name)):
        call = Call(entry.name, entry.schema, sample, is_prim=entry.kind == "prim")
        yield entry, number, call, call.base
        if not usual_only:
            combinations = [] if sample.shape_only else _combinations(entry, call, number)[::every]
            for case in (*combinations, *call.dim_order_cases()):
                yield entry, number, call, case
        grown = Call(entry.name, entry.schema, sample, is_prim=entry.kind == "prim", grown=True)
        if entry.resizes_output and grown.grown:
            yield entry, number, grown, grown.base


def _combinations(entry: KernelEntry, call: Call, number: int) -> list[Case]:
    if entry.name in QUANTIZED_SAMPLES or entry.name in CUSTOM_SAMPLES:
        return list(call.near_base(steps=1 if number else 2))
    return list(call.dtype_cases(FURTHER_LIMIT if number else FULL_LIMIT))
