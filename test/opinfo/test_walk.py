"""The walk over torch's samples: what it checks, and processes that end."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

from etir.interpret import numpy_ops

from etir_testing.interpret import numpy_ops_oracle
from etir_testing.opinfo.op_samples import entries
from etir_testing.opinfo.walk import Bounds, Entry, lost_entry, walk
from etir_testing.opinfo.workers import Lost, Running, Workers
from etir_testing.runtime.kernels import Kernels, build_kernels


class Said:
    """What a process says, kept here."""

    what = ""

    def say(self, what: str) -> None:
        self.what = what


def walked(name: str, bounds: Bounds, kernels: Kernels | None = None) -> Entry:
    """One entry in this process."""
    return walk(name, bounds, kernels, Said())  # type: ignore[reportArgumentType]


def test_a_sample_is_checked_for_everything_with_one_run_of_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = build_kernels("elementwise", "copy", "prim")
    op, runs = entries()["tanh"], list[Any]()
    real = op.op

    def counted(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_exporting():
            runs.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(op, "op", counted)
    monkeypatch.setattr(op, "dtypes", {torch.float32})
    monkeypatch.setattr(op, "supports_autograd", False)
    entry = walked("tanh", Bounds(), kernels)
    assert [outcome.stage for outcome in entry.programs] == ["ok"]
    assert entry.kernels["aten::tanh.out"].passed["float32"] == 1
    assert entry.numpy.passed["aten.tanh.default"] == 1 and not entry.numpy.failed
    assert len(runs) == 1


def test_wrong_numpy_operators_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numpy_ops.lookup("aten.tanh.default") is not None
    real = numpy_ops_oracle.lookup

    def lookup(name: str) -> Any:
        return (lambda x: np.tanh(x) + 1) if name == "aten.tanh.default" else real(name)

    monkeypatch.setattr(numpy_ops_oracle, "lookup", lookup)
    entry = walked("tanh", Bounds(("numpy",)))
    assert list(entry.numpy.failed) == ["aten.tanh.default"]
    assert not entry.kernels and not entry.programs


def test_wrong_kernels_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = build_kernels("elementwise", "copy", "prim")
    real = kernels.call

    def call(name: str, *args: Any) -> Any:
        return [r + 1 if isinstance(r, torch.Tensor) and r.is_floating_point() else r for r in real(name, *args)]

    monkeypatch.setattr(kernels, "call", call)
    entry = walked("tanh", Bounds(("kernels",)), kernels)
    assert entry.kernels["aten::tanh.out"].failed["float32"] > 0
    assert "float32" in "".join(entry.kernels["aten::tanh.out"].failures)


@pytest.mark.parametrize(("programs", "count"), [(1, 1), (3, 3)])
def test_programs_have_different_signatures(programs: int, count: int) -> None:
    entry = walked("sum", Bounds(("programs",), programs=programs))
    of_float = [outcome.sample for outcome in entry.programs if outcome.dtype == "float32"]
    assert len(dict.fromkeys(of_float)) == len(of_float) == count


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_process_that_ends_costs_its_key_only() -> None:
    def prepare() -> Any:
        def answer(key: int, running: Running) -> int:
            running.say(f"working on {key}")
            if key == 2:
                print("the last words")
                os._exit(7)
            return key * key

        return answer

    found = {key: answer for key, answer, _ in Workers(2, prepare).run(range(5))}
    assert found == {0: 0, 1: 1, 2: Lost(7, "working on 2"), 3: 9, 4: 16}
    assert found[2].printed.endswith("the last words\n")


def test_more_processes_than_keys() -> None:
    """As at the end, when several become free at once."""

    def prepare() -> Any:
        return lambda key, running: key + 1

    assert sorted((key, answer) for key, answer, _ in Workers(3, prepare).run(range(2))) == [(0, 1), (1, 2)]


def test_a_lost_entry_fails_every_check() -> None:
    entry = lost_entry("add", Lost(-11, "aten::add.out", "the last words"), Bounds())
    assert entry.kernels["aten::add.out"].failed["all"] == 1
    assert "code -11 at aten::add.out\nthe last words" in entry.numpy.failed["add"]
    assert [outcome.stage for outcome in entry.programs] == ["run"]
