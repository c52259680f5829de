"""What the repository's own plans (``benchmarks/plans``) name: the zoo, torch's samples, the accuracy benchmark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from etir_testing import ROOT


def small_zoo() -> list[str]:
    """The entries of the zoo that run on every landing, as far as their packages are installed."""
    from etir_testing.models.zoo_table import ENTRIES

    return [name for name, entry in ENTRIES.items() if entry.small and not entry.missing()]


def zoo(name: str) -> Any:
    """An entry of the zoo as a plan's model."""
    from etir.sweeps import Model

    from etir_testing.models.zoo_table import ENTRIES

    entry = ENTRIES[name]
    built = entry.build()
    return Model(built.module, tuple(built.inputs), built.dynamic_shapes, built.more, tolerance=entry.tolerance)


def opinfo_entries() -> list[str]:
    """The names of torch's OpInfo entries."""
    from etir_testing.opinfo.op_samples import entries

    return list(entries())


def opinfo(cell: Any) -> Mapping[str, Any]:
    """The walk over the samples of an entry: how many calls and programs are right; see ``test/opinfo_walk.py``."""
    from etir_testing.opinfo.op_stages import Outcome
    from etir_testing.opinfo.op_table import differences, exceptions
    from etir_testing.opinfo.walk import Bounds, walk

    bounds = Bounds()
    found = walk(cell.program, bounds, _kernels(), SimpleNamespace(say=lambda what: None, what=""))  # type: ignore[arg-type]
    outcomes: list[Outcome] = found.programs
    kernels = sum(tally.failed.total() for tally in found.kernels.values())
    wrong = differences({cell.program: outcomes}, exceptions(bounds.programs))
    problems = [*wrong, *(f"{name}: {why}" for name, why in sorted(found.numpy.failed.items()))]
    problems += [f"{name}: {tally.failed.total()} calls" for name, tally in found.kernels.items() if tally.failed]
    figures = {
        "kernel_calls": sum(tally.passed.total() for tally in found.kernels.values()),
        "kernel_failures": kernels,
        "numpy_calls": found.numpy.passed.total(),
        "numpy_failures": len(found.numpy.failed),
        "programs": sum(outcome.stage == "ok" for outcome in outcomes),
    }
    if problems:
        return {**figures, "status": "wrong", "message": "; ".join(problems)}
    if not any(figures.values()):
        return {**figures, "status": "unchecked", "message": "no sample fits a kernel, a NumPy operator or a program"}
    return figures


@cache
def _kernels() -> Any:
    from etir_testing.runtime.kernels import build_kernels

    return build_kernels()


def accuracy_tasks() -> list[str]:
    """The tasks of ``benchmarks/quantization.py`` whose packages are installed, by name."""
    tasks = _tasks()
    from quantization_tasks import is_installed

    return [name for name in tasks if is_installed(name)]


def accuracy(name: str) -> Any:
    """A task as a plan's model: its test inputs as the calls, its score as the metric."""
    from etir.sweeps import Model

    task = _tasks()[name]()
    metric = _Score(name)
    return Model(task.module, task.tests[0], None, task.tests[1:], task.calibration, metric)


class _Score:
    """The score of a task, which is made again where it is needed: its data may be large."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, outputs: list[list[Any]]) -> float:
        import numpy as np

        return float(_task(self.name).score(np.concatenate([call[0] for call in outputs])))


@cache
def _task(name: str) -> Any:
    return _tasks()[name]()


@cache
def _tasks() -> dict[str, Any]:
    folder = str(ROOT / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    from quantization_tasks import TASKS

    return dict(TASKS)
