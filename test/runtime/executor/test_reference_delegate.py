"""The reference delegate on the executor: results as without it, bit for bit, in the memory that was stated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.backends.reference.blob import HEADER, MAGIC, VERSION
from etir.emit.pte.reader import read_pte
from etir.emit.pte.writer import write_pte

from etir_testing.runtime.counter import Counter
from etir_testing.runtime.executor import ExecutorError, Memory, Method, Program, build_executor


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor("prim", "copy", "elementwise", "linalg", "normalization", "reduction")


class _Block(nn.Module):
    """Two linear layers around a tanh, which the tests leave to the method's own kernels, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.tanh(self.first(x))
        return torch.softmax(self.second(hidden) + x, -1), hidden


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def compiled(module: nn.Module, x: torch.Tensor, *delegates: str, **options: Any) -> etir.Program:
    return etir.compile(torch.export.export(module.eval(), (x,)), target="etir", delegates=delegates, **options)


def load(library: Any, program: etir.Program, **options: Any) -> Method:
    """The method with the memory that the report states, to the byte."""
    memory = program.runtime_memory()["forward"]
    method = Method(Program(library, program.buffer), memory=Memory(memory.method), temp=memory.temp, **options)
    assert method.number(0) <= memory.method < method.number(0) + 16 * 3
    return method


def failure(check: str, call: Any) -> ExecutorError:
    with pytest.raises(ExecutorError) as caught:
        call()
    assert caught.value.check == check, caught.value
    return caught.value


def test_two_delegates_give_the_same_bits(library: Any) -> None:
    plain = compiled(_Block(), X)
    delegated = compiled(_Block(), X, "reference{leave=aten.tanh.default}")
    assert delegated.delegation is not None
    assert [b.operators for b in delegated.delegation.backends] == [4]
    assert len(read_pte(delegated.buffer).execution_plan[0].delegates) == 2
    expected, method = load(library, plain)(X), load(library, delegated)
    for _ in range(2):
        for got, wanted in zip(method(X), expected, strict=True):
            assert torch.equal(got, wanted)


def test_memory_is_shared_by_delegates(library: Any) -> None:
    """Activations are in temporary memory, one delegate's after another's: there is as much as the largest needs."""
    program = compiled(_Block(), X, "reference{leave=aten.tanh.default}")
    method = load(library, program)
    method(X)
    memory = program.runtime_memory()["forward"]
    assert method.number(1) <= memory.temp
    failure("BackendMemory", lambda: load_with_temp(library, program, 32))


def load_with_temp(library: Any, program: etir.Program, temp: int) -> Method:
    memory = program.runtime_memory()["forward"]
    return Method(Program(library, program.buffer), memory=Memory(memory.method), temp=temp)


def test_dynamic_shapes(library: Any) -> None:
    batch = torch.export.Dim("batch", max=5)
    exported = torch.export.export(_Block().eval(), (X,), dynamic_shapes={"x": {0: batch}})
    plain = load(library, etir.compile(exported, target="etir"))
    delegated = load(library, etir.compile(exported, target="etir", delegates=["reference"]))
    for rows in (2, 5, 1):
        x = torch.linspace(-2, 2, rows * 8).reshape(rows, 8)
        for got, wanted in zip(delegated(x), plain(x), strict=True):
            assert got.shape == wanted.shape
            assert torch.equal(got, wanted)


def test_delegate_owns_a_mutable_buffer(library: Any) -> None:
    x = torch.tensor([1.0, 0.5])
    program = compiled(Counter(), x, "reference", partition={"own_state": True})
    assert program.delegation is not None
    (partition,) = program.delegation.backends[0].partitions
    assert partition.state_bytes == 8
    assert program.report().methods[0].state_bytes == 0
    method = load(library, program)
    assert [method(x)[0].tolist() for _ in range(3)] == [[4.0, 5.0], [6.0, 6.0], [8.0, 7.0]]
    # Loaded again it starts from its initial contents.
    assert load(library, program)(x)[0].tolist() == [4.0, 5.0]


def test_shared_by_two_methods(library: Any) -> None:
    """Two methods with the same delegate: the second one takes no memory for it, and initializes nothing."""
    module = _Block().eval()
    exported = {name: torch.export.export(module, (X,)) for name in ("first", "second")}
    program = etir.compile(exported, target="etir", delegates=["reference"])
    loaded = Program(library, program.buffer)
    memory = program.runtime_memory()["first"]
    first = Method(loaded, "first", memory=Memory(memory.method), temp=memory.temp)
    second = Method(loaded, "second", temp=memory.temp, share=first)
    assert second.number(0) == loaded.method_memory(second.index) < first.number(0)
    for got, wanted in zip(second(X), first(X), strict=True):
        assert torch.equal(got, wanted)
    # Unless it is asked to, no method uses another one's.
    failure("BackendMemory", lambda: Method(loaded, "second", temp=memory.temp))


def test_delegates_with_state_are_not_shared(library: Any) -> None:
    x = torch.tensor([1.0, 0.5])
    program = compiled(Counter(), x, "reference", partition={"own_state": True})
    loaded = Program(library, program.buffer)
    memory = program.runtime_memory()["forward"]
    first = Method(loaded, memory=Memory(memory.method), temp=memory.temp)
    second = Method(loaded, memory=Memory(memory.method), temp=memory.temp, share=first)
    assert first(x)[0].tolist() == [4.0, 5.0]
    assert second(x)[0].tolist() == [4.0, 5.0]


def test_events(library: Any) -> None:
    """A profiler hears of every instruction inside of a delegate."""
    method = load(library, compiled(_Block(), X, "reference{leave=aten.tanh.default}"), watched=True)
    method(X)
    assert method.number(4) == method.number(5) == 3  # the sum is a part of the product
    assert method.number(6) == 1 << 16 | 1


def altered(program: etir.Program, change: Any) -> bytes:
    """The program with the blob of its first delegate changed."""
    from dataclasses import replace

    file = read_pte(program.buffer)
    plan = file.execution_plan[0]
    blob = change(bytes(plan.delegates[0].data))
    plan = replace(plan, delegates=(replace(plan.delegates[0], data=blob), *plan.delegates[1:]))
    return write_pte(replace(file, execution_plan=(plan,)))


def test_bad_blobs(library: Any) -> None:
    program = compiled(_Block(), X, "reference")
    memory = program.runtime_memory()["forward"]

    def attempt(change: Any) -> None:
        Method(Program(library, altered(program, change)), memory=Memory(memory.method), temp=memory.temp)

    error = failure("BackendVersion", lambda: attempt(lambda b: HEADER.pack(MAGIC, 7, 0, 0) + b[16:]))
    assert (error.a, error.b) == (7, VERSION)
    failure("BackendData", lambda: attempt(lambda b: b"OTHER" + b[5:]))
    failure("BackendData", lambda: attempt(lambda b: b[:10]))
    # What is wrong with the program inside is said as if it were the program itself.
    failure("FileTooSmall", lambda: attempt(lambda b: b[:20]))
