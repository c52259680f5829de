"""Delegates that methods of one program share through `etir.runtime`: initialized once, and one piece of state."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.emit.pte.reader import read_pte

from etir_testing.runtime.counter import Counter


class _Other(Counter):
    """The same state in another computation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total -= x
        return self.total * 2


X = torch.tensor([1.0, 0.5])


def compiled(*modules: nn.Module, x: torch.Tensor = X, own: bool = True, **options: Any) -> etir.Program:
    """Methods ``m0``, ``m1``, ... of modules that share what they hold."""
    programs = {f"m{i}": torch.export.export(module.eval(), (x,)) for i, module in enumerate(modules)}
    partition = {"own_state": own}
    return etir.compile(programs, target="etir", delegates=["reference"], partition=partition, **options)


def owned_bytes(program: etir.Program) -> list[int]:
    assert program.delegation is not None
    return [p.state_bytes for p in program.delegation.backends[0].partitions]


def test_a_delegate_is_initialized_once_for_two_methods() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    x = torch.randn(2, 8)
    loaded = etir.runtime.load(compiled(module, module, x=x).buffer)
    assert torch.equal(loaded.m0(x)[0], loaded.m1(x)[0])
    # The delegate's memory is the first one's; what is loaded apart from the program's methods has its own.
    apart = loaded.load_method("m1")
    assert loaded.m1.memory.method < 200 < loaded.m0.memory.method == apart.memory.method
    assert torch.equal(apart(x)[0], loaded.m0(x)[0])


def test_state_of_a_delegate_is_shared_as_the_program_says() -> None:
    counter = Counter()
    program = compiled(counter, counter, share_state=True)
    assert owned_bytes(program) == [8, 8]
    specs = [d.compile_specs for plan in read_pte(program.buffer).execution_plan for d in plan.delegates]
    assert len(specs) == 2 and specs[0] == specs[1]
    loaded = etir.runtime.load(program.buffer)
    calls = [loaded.m0, loaded.m1, loaded.m0, loaded.load_method("m1"), loaded.m1]
    assert [method(X)[0].tolist() for method in calls] == [[2.0 * (i + 2), i + 5.0] for i in range(5)]


def test_methods_with_state_of_their_own_have_delegates_of_their_own() -> None:
    program = compiled(Counter(), Counter())
    loaded = etir.runtime.load(program.buffer)
    assert [m(X)[0].tolist() for m in (loaded.m0, loaded.m1, loaded.m0)] == [[4.0, 5.0], [4.0, 5.0], [6.0, 6.0]]


@pytest.mark.parametrize("state", [False, True])
def test_state_that_cannot_be_in_one_delegate_stays_outside(state: bool) -> None:
    """Two different computations of one state, or a method that reads it from outside of the program."""
    counter = Counter()
    second: nn.Module = counter
    if not state:
        second = _Other()
        second.total = counter.total
    program = compiled(counter, second, share_state=True, state_methods=state)
    assert owned_bytes(program) == [0] * len(owned_bytes(program))
    loaded = etir.runtime.load(program.buffer)
    first, then = loaded.m0(X)[0], loaded.m1(X)[0]
    assert first.tolist() == [4.0, 5.0]
    assert then.tolist() == ([6.0, 6.0] if state else [2.0, 4.0])


def test_threads_run_methods_that_share_a_delegate() -> None:
    counter = Counter()
    loaded = etir.runtime.load(compiled(counter, counter, share_state=True).buffer)
    methods = (loaded.m0, loaded.m1)
    failures: list[BaseException] = []

    def run(method: Any) -> None:
        try:
            for _ in range(500):
                method(torch.ones(2))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(method,)) for method in methods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert loaded.m0(torch.zeros(2))[0].tolist() == [2002.0, 2004.0]
