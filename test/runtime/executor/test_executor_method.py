"""Methods: inputs, outputs, memory, state, control flow, lists, delegates, external data; programs written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.ptd.writer import write_ptd
from etir.emit.pte import model
from etir.emit.pte.model import Bool, Double, Int, IntList, JumpFalseCall, MoveCall

from etir_testing.runtime.executor import ExecutorError, External, Memory, Method, Program, build_executor
from etir_testing.runtime.executor_programs import conditional, copies, external, floats, grower, loop, state
from etir_testing.runtime.programs import BOUND, UNBOUND, Builder


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor("prim", "copy")


def failure(check: str, call: Any, *arguments: Any) -> ExecutorError:
    with pytest.raises(ExecutorError) as caught:
        call(*arguments)
    assert caught.value.check == check, caught.value
    return caught.value


X = torch.arange(6.0).reshape(2, 3)


def test_numbers_that_an_exporter_left_out_are_named(library: Any) -> None:
    """ExecuTorch's writes None for an input that is a number that varies: the message says so."""
    b = Builder()
    x = b.input(b.tensor(2))
    none, rows = b.input(b.none()), b.int(0)
    b.call("aten::sym_size.int", x, none, rows)
    error = failure("ArgumentNone", Method, Program(library, b.pte(check=False)))
    assert error.a == 1
    b.instructions.clear()
    sizes = b.value(IntList((none,)))
    error = failure("ListItemNone", Program, library, b.pte(check=False))
    assert (error.a, error.b) == (sizes, none)


def test_runs_and_runs_again(library: Any) -> None:
    method = Method(Program(library, copies()))
    for x in (X, X + 1):
        (y,) = method(x)
        assert torch.equal(y, x)


def test_loaders_agree(library: Any, tmp_path: Path) -> None:
    b = Builder()
    c, y = b.tensor(2, 3, constant=floats(*range(6))), b.tensor(2, 3)
    b.clone(c, y)
    b.outputs.append(y)
    path = tmp_path / "p.pte"
    path.write_bytes(b.pte())
    for kind in (1, 2):
        (y,) = Method(Program(library, str(path), kind))()
        assert torch.equal(y, X)
    failure("FileTooSmall", Program, library, str(tmp_path / "missing.pte"), 1)
    failure("FileTooSmall", Program, library, str(tmp_path), 2)


def test_method_memory_is_exact(library: Any) -> None:
    b = Builder()
    x, y = b.input(b.tensor(2, 3, dynamism=BOUND)), b.tensor(2, 3, dynamism=BOUND)
    b.value(IntList((b.int(2), b.int(3))))
    b.clone(x, y)
    b.outputs.append(y)
    program = Program(library, b.pte())
    size = program.method_memory()
    assert size == 9 * 6 + 32 * 2 + 16 * 1 + 4 * 4 + 1
    method = Method(program, memory=Memory(size))
    assert method.number(0) == size
    assert torch.equal(method(X)[0], X)
    error = failure("MethodMemory", lambda: Method(program, memory=Memory(size - 1)))
    assert (error.a, error.b) == (size, size - 1)
    failure("MethodMemoryAlignment", lambda: Method(program, memory=Memory(size, 4)))


def test_planned_buffers_are_checked(library: Any) -> None:
    program = Program(library, copies())
    (size,) = program.planned()
    failure("PlannedCount", lambda: Method(program, planned=[]))
    error = failure("PlannedSize", lambda: Method(program, planned=[(Memory(size - 1), False)]))
    assert (error.a, error.b) == (0, size)
    failure("PlannedAlignment", lambda: Method(program, planned=[(Memory(size, 4), False)]))


@pytest.mark.parametrize("planned", [True, False])
def test_inputs_are_checked(library: Any, planned: bool) -> None:
    method = Method(Program(library, copies(planned=planned)))
    error = failure("InputNotSet", method.execute)
    assert error.a == 0
    failure("InputDtype", method.set_input, 0, X.double())
    failure("InputRank", method.set_input, 0, torch.zeros(6))
    error = failure("InputSize", method.set_input, 0, torch.zeros(2, 4))
    assert (error.a, error.b) == (0, 4)
    failure("InputDimOrder", method.set_input, 0, X.t().contiguous().t())
    failure("InputKind", method.set_input, 0, 1)
    failure("InputNumber", method.set_input, 1, X)
    failure("InputNoData", method.set_tensor, 0, None, torch.float32, [2, 3], [0, 1])
    if not planned:
        failure("InputAlignment", method.set_tensor, 0, X.data_ptr() + 2, torch.float32, [2, 3], [0, 1])
    method.set_input(0, X)
    if planned:
        method.execute()
        assert torch.equal(method.output(0), X)
    else:
        failure("KernelNoData", method.execute)


def test_dim_orders_may_differ_in_dims_of_size_one(library: Any) -> None:
    b = Builder()
    x, y = b.input(b.tensor(2, 1, 3, order=(0, 2, 1))), b.tensor(2, 1, 3, order=(0, 2, 1))
    b.clone(x, y)
    b.outputs.append(y)
    method = Method(Program(library, b.pte()))
    assert torch.equal(method(X.reshape(2, 1, 3))[0], X.reshape(2, 1, 3))


def test_unplanned_memory_is_the_callers(library: Any) -> None:
    method = Method(Program(library, copies(planned=False)))
    x, memory = X.clone(), Memory(24)
    method.set_input(0, x)
    method.set_output(0, memory)
    x += 5
    method.execute()
    assert memory.bytes() == floats(*(X + 5).flatten().tolist())
    error = failure("OutputTooSmall", method.set_output, 0, Memory(23))
    assert (error.a, error.b) == (0, 24)
    failure("OutputNumber", method.set_output, 1, memory)
    planned = Method(Program(library, copies()))
    failure("OutputNotSettable", planned.set_output, 0, memory)


def test_shapes_up_to_the_bound(library: Any) -> None:
    for planned in (True, False):
        b = Builder()
        x = b.input(b.tensor(4, 3, dynamism=BOUND, planned=planned))
        y = b.tensor(4, 3, dynamism=BOUND, planned=planned)
        b.clone(x, y)
        b.outputs.append(y)
        method = Method(Program(library, b.pte()))
        if not planned:
            method.set_output(0, Memory(3 * 3 * 4))
        for rows in (2, 3, 0, 1):
            x_value = torch.arange(rows * 3.0).reshape(rows, 3)
            assert torch.equal(method(x_value)[0], x_value)
        error = failure("InputTooLarge", method.set_input, 0, torch.zeros(5, 3))
        assert error.b == 15
        if planned:
            assert torch.equal(method(torch.ones(3, 4))[0], torch.ones(3, 4))
        else:
            failure("KernelResize", method, torch.ones(4, 3))
            assert torch.equal(method(torch.ones(1, 3))[0], torch.ones(1, 3))


def test_results_fit_the_memory_that_they_are_given(library: Any) -> None:
    b = Builder()
    x, y = b.input(b.tensor(4, dynamism=BOUND)), b.tensor(4, dynamism=BOUND, planned=False)
    b.clone(x, y)
    b.outputs.append(y)
    method = Method(Program(library, b.pte()))
    method.set_output(0, Memory(16))
    assert torch.equal(method(torch.ones(4))[0], torch.ones(4))
    small = Memory(8)
    method.set_output(0, small)
    error = failure("KernelResize", method, torch.ones(4))
    assert (error.a, error.b) == (4, 2)
    assert torch.equal(method(torch.ones(2))[0], torch.ones(2))


def test_numbers_must_be_the_traced_ones(library: Any) -> None:
    b = Builder()
    for value in (Int(7), Double(2.0), Bool(True), model.Null(), Double(float("nan")), Double(float("inf"))):
        b.outputs.append(b.input(b.value(value)))
    method = Method(Program(library, b.pte()))
    nan = float("nan")
    values = method(7, 2.0 + 1e-4, True, None, nan, float("inf"))
    assert values[:4] == [7, 2.0, True, None] and values[4] != values[4] and values[5] == float("inf")
    for i, wrong in ((0, 8), (1, 2.01), (2, False), (4, 1.0), (5, -float("inf")), (5, 1e308), (1, nan)):
        failure("InputValue", method.set_input, i, wrong)
    for i, wrong in ((0, 7.0), (1, 2), (2, 1), (3, 0)):
        failure("InputKind", method.set_input, i, wrong)


def test_every_kind_of_output(library: Any) -> None:
    b = Builder()
    t = b.tensor(2, constant=floats(1, 2))
    two = b.int(2)
    values = [
        two, b.value(Double(1.5)), b.value(Bool(True)), b.none(), b.value(model.String("héllo")), t,
        b.value(IntList((two, two))), b.value(model.DoubleList((0.5, 2.5))), b.value(model.BoolList((True, False))),
        b.value(model.TensorList((t, t))), b.value(model.OptionalTensorList((-1, t))),
    ]  # fmt: skip
    b.outputs += values
    got = Method(Program(library, b.pte()))()
    assert got[:5] == [2, 1.5, True, None, "héllo"]
    assert got[5].tolist() == [1, 2] and got[6:9] == [[2, 2], [0.5, 2.5], [True, False]]
    assert [v.tolist() for v in got[9]] == [[1, 2], [1, 2]]
    assert got[10][0] is None and got[10][1].tolist() == [1, 2]


def test_loops_and_their_limit(library: Any) -> None:
    program = Program(library, loop(5).pte())
    method = Method(program, limit=22)
    assert [method(), method()] == [[5, 0], [5, 0]]
    method = Method(program, limit=21)
    # A run that ends early leaves no state.
    for _ in range(2):
        error = failure("InstructionLimit", method.execute)
        assert error.a == 21
        assert method.outputs() == [0, 0]


def test_endless_loops_end(library: Any) -> None:
    b = Builder()
    b.instructions.append(JumpFalseCall(b.false(), 0))
    failure("InstructionLimit", Method(Program(library, b.pte()), limit=100_000).execute)


def test_steps(library: Any) -> None:
    method = Method(Program(library, loop(2).pte()))
    for expected in (1, 2, 3, 4, 1, 2, 3, 4, 5):
        method.step()
        assert method.number(2) == expected
    failure("MethodInProgress", method.execute)
    method.step()
    failure("MethodAtEnd", method.step)
    assert method.outputs() == [2, 0]
    method.reset()
    method.step()
    method.step()
    method.reset()
    assert method.outputs() == [0, 0]
    assert method() == [2, 0]


def test_conditions_and_moves(library: Any) -> None:
    method = Method(Program(library, conditional()))
    for flag, expected in (([1, 1], [1, 2]), ([1, 0], [3, 4]), ([0, 0], [3, 4]), ([1, 1], [1, 2])):
        y, copy = method(torch.tensor(flag, dtype=torch.bool))
        assert y.tolist() == copy.tolist() == expected


def test_constants_are_not_written(library: Any) -> None:
    b = Builder()
    x, c = b.input(b.tensor(2)), b.tensor(2, constant=floats(1, 2))
    y = b.tensor(2, planned=False)
    b.clone(x, c)
    error = failure("WriteToConstant", Method(Program(library, b.pte(check=False))), torch.ones(2))
    assert (error.a, error.op, error.instruction) == (2, 0, 0)
    # Nor through a handle, nor through a view.
    b.instructions[0] = MoveCall(c, y)
    b.clone(x, y)
    failure("WriteToConstant", Method(Program(library, b.pte(check=False))), torch.ones(2))
    del b.instructions[:]
    b.call("executorch_prim::et_view.default", c, b.value(IntList((b.int(2),))), y)
    b.clone(x, y)
    failure("WriteToConstant", Method(Program(library, b.pte(check=False))), torch.ones(2))
    b.call("executorch_prim::et_view.default", x, b.value(IntList((b.int(2),))), c)
    b.instructions[:2] = []
    failure("KernelArgument", Method(Program(library, b.pte(check=False))), torch.ones(2))


def test_views_follow_the_run(library: Any) -> None:
    b = Builder()
    x = b.input(b.tensor(4, 3, dynamism=BOUND, planned=False))
    rows, zero = b.int(0), b.int(0)
    v = b.tensor(12, dynamism=BOUND, planned=False)
    y = b.tensor(12, dynamism=BOUND)
    b.call("aten::sym_size.int", x, zero, rows)
    b.call("executorch_prim::et_view.default", x, b.value(IntList((b.int(-1),))), v)
    b.clone(v, y)
    b.outputs += [v, y, rows]
    method = Method(Program(library, b.pte()))
    for n in (4, 1, 3):
        x_value = torch.arange(n * 3.0).reshape(n, 3)
        got = method(x_value)
        assert got[2] == n and torch.equal(got[0], x_value.flatten()) and torch.equal(got[1], x_value.flatten())


def test_tensors_without_a_bound(library: Any) -> None:
    program = Program(library, grower(UNBOUND))
    method = Method(program, allocator=True)
    for x in (torch.ones(2), torch.zeros(2)):
        (y,) = method(x)
        # Only the last row is sure: what was there before is not kept.
        assert list(y.shape) == [3, 2] and torch.equal(y[2], x)
    assert method.number(3) > 0
    error = failure("KernelResize", Method(program), torch.ones(2))
    assert (error.a, error.b, error.instruction) == (2, 0, 0)
    error = failure("KernelResize", Method(Program(library, grower(BOUND))), torch.ones(2))
    assert (error.a, error.b, error.instruction) == (4, 2, 1)


@pytest.mark.parametrize("initial", [None, (3.0, 4.0)])
def test_state(library: Any, initial: tuple[float, float] | None) -> None:
    program = Program(library, state(floats(*initial) if initial else None).pte())
    buffers = [(Memory(size), False) for size in program.planned()]
    for memory, _ in buffers:
        memory._buffer[:] = b"\xa5" * len(memory._buffer)
    method = Method(program, planned=buffers)
    assert method(torch.tensor([1.0, 2.0]))[0].tolist() == list(initial or (0.0, 0.0))
    assert method(torch.tensor([5.0, 6.0]))[0].tolist() == [1, 2]
    assert method(torch.tensor([0.0, 0.0]))[0].tolist() == [5, 6]


def test_methods_share_state(library: Any) -> None:
    first, second = state(floats(3, 4), 2), state(floats(3, 4), 2)
    second.name = "second"
    second.mutable = first.mutable
    program = Program(library, first.pte(second))
    shared = Memory(program.planned()[1])
    a = Method(program, "forward", planned=[(Memory(program.planned()[0]), False), (shared, False)])
    assert a(torch.tensor([1.0, 2.0]))[0].tolist() == [3, 4]
    b = Method(program, "second", planned=[(Memory(program.planned(1)[0]), False), (shared, True)])
    assert b(torch.tensor([7.0, 8.0]))[0].tolist() == [1, 2]
    assert a(torch.tensor([0.0, 0.0]))[0].tolist() == [7, 8]


def test_delegates(library: Any) -> None:
    b = Builder()
    x, c = b.input(b.tensor(2, dynamism=BOUND)), b.tensor(2, constant=floats(1, 2))
    y = b.tensor(2, dynamism=BOUND)
    b.delegates.append(model.BackendDelegate("SumBackend", b"\x03"))
    b.delegates.append(model.BackendDelegate("SumBackend", b"\x02", (model.CompileSpec("k", b"v"),), inline=True))
    b.instructions += [model.DelegateCall(0, (x, c, y)), model.DelegateCall(1, (y, c, y))]
    b.outputs.append(y)
    program = Program(library, b.pte())
    method = Method(program, extra=64)
    assert method(torch.ones(2))[0].tolist() == [14, 22]
    error = failure("BackendExecute", method, torch.ones(1))
    assert (error.a, error.b, error.instruction) == (0, 0x12, 0)
    assert method(torch.ones(2))[0].tolist() == [14, 22]
    error = failure("BackendInit", Method, program)
    assert (error.a, error.b) == (0, 0x31)
    b.delegates[1] = model.BackendDelegate("OtherBackend", b"\x03")
    error = failure("BackendMissing", lambda: Method(Program(library, b.pte()), extra=64))
    assert error.a == 1


def test_named_data_of_delegates(library: Any) -> None:
    """In the program, in a file beside it, in the program first where both have it, and nowhere."""
    b = Builder()
    x, y = b.input(b.tensor(2)), b.tensor(2)
    b.delegates.append(model.BackendDelegate("SumBackend", b"\x00key"))
    b.instructions.append(model.DelegateCall(0, (x, y)))
    b.outputs.append(y)
    inside = Program(library, b.pte(named_data={"key": model.NamedData(b"\x05")}))
    beside = External(library, write_ptd(FlatTensor({"key": NamedTensor(b"\x07")})))
    assert Method(inside, extra=64)(torch.ones(2))[0].tolist() == [5, 5]
    assert Method(inside, extra=64, external=beside)(torch.ones(2))[0].tolist() == [5, 5]
    outside = Program(library, b.pte())
    assert Method(outside, extra=64, external=beside)(torch.ones(2))[0].tolist() == [7, 7]
    other = External(library, write_ptd(FlatTensor({"kez": NamedTensor(b"\x07")})))
    for missing in (None, other):
        failure("BackendInit", lambda missing=missing: Method(outside, extra=64, external=missing))


@pytest.mark.parametrize("planned", [False, True])
def test_external_data(library: Any, planned: bool) -> None:
    def ptd(dtype: str, sizes: tuple[int, ...], key: str = "w") -> bytes:
        layout = TensorLayout(ScalarType[dtype], sizes, tuple(range(len(sizes))))
        return write_ptd(FlatTensor({key: NamedTensor(floats(8, 9), layout)}))

    program = Program(library, external(planned).pte())
    good = External(library, ptd("FLOAT", (2,)))
    assert Method(program, external=good)()[0].tolist() == [8, 9]
    failure("ExternalMissing", Method, program)
    failure("ExternalMissing", lambda: Method(program, external=External(library, ptd("FLOAT", (2,), "v"))))
    failure("ExternalMismatch", lambda: Method(program, external=External(library, ptd("INT", (2,)))))
    failure("ExternalMismatch", lambda: Method(program, external=External(library, ptd("FLOAT", (1, 2)))))
    failure("ExternalTooSmall", External, library, ptd("FLOAT", (2,))[:40])
    failure("ExternalIdentifier", External, library, b"\0" * 64)
    failure("ExternalHeader", External, library, ptd("FLOAT", (2,))[:-1])


def test_missing_operators(library: Any) -> None:
    b = Builder()
    x, y = b.input(b.tensor(2)), b.tensor(2)
    b.clone(x, y)
    b.call("aten::nothing.out", x, y, y)
    error = failure("OperatorMissing", lambda: Method(Program(library, b.pte(check=False))))
    assert (error.error, error.op, error.a) == (0x14, 1, 1)
    assert Program(library, b.pte(check=False)).operators() == ["aten::clone.out", "aten::nothing.out"]


def test_arguments_are_checked_against_the_signature(library: Any) -> None:
    b = Builder()
    x, y, z = b.input(b.tensor(2)), b.tensor(2), b.tensor(2, planned=False)
    none, one = b.none(), b.int(1)
    many = b.value(model.TensorList((y,)))

    def load(*args: int, name: str = "aten::clone.out") -> Method:
        del b.instructions[:], b.operators[:]
        b.call(name, *args)
        b.outputs[:] = [z]
        return Method(Program(library, b.pte(check=False)))

    assert load(x, none, y, y)(torch.ones(2))
    # What a kernel returns may go to another value.
    (got,) = load(x, one, y, z)(torch.ones(2))
    assert got.tolist() == [1, 1]
    error = failure("ArgumentCount", load, x, none, y)
    assert (error.a, error.b, error.op, error.instruction) == (3, 4, 0, 0)
    error = failure("ArgumentKind", load, one, none, y, y)
    assert (error.a, error.b) == (0, 2)
    failure("ArgumentNone", load, none, none, y, y)
    failure("ArgumentKind", load, x, none, one, one)
    failure("ReturnSlot", load, x, none, y, many)
    failure("ReturnSlot", load, x, none, y, one)

    def prim(*args: int) -> Method:
        return load(*args, name="aten::sym_numel")

    failure("ArgumentCount", prim, x, one, one)
    failure("ArgumentKind", prim, x, b.value(Double(1.0)))
    assert prim(x, one)(torch.ones(2))


@pytest.mark.parametrize("seed", range(3))
def test_a_failed_run_changes_nothing_but_state(library: Any, seed: int) -> None:
    b = Builder()
    flag, x, y = b.input(b.tensor(dtype="INT", planned=False)), b.input(b.tensor(2)), b.tensor(2)
    number, one, count = b.int(0), b.int(1), b.int(10 + seed)
    b.call("executorch_prim::add.Scalar", count, one, count)
    b.call("aten::_local_scalar_dense", flag, number)
    b.call("executorch_prim::floordiv.Scalar", count, number, count)
    b.clone(x, y)
    b.outputs += [y, count]
    method = Method(Program(library, b.pte()))
    for divisor in (2, 0, 3, 0, 0, 1):
        flag_value = torch.tensor(divisor, dtype=torch.int32)
        if divisor == 0:
            error = failure("KernelDivisionByZero", method, flag_value, X[0, :2].clone())
            assert error.instruction == 2 and error.op == 2
        else:
            assert method(flag_value, torch.ones(2))[1] == (11 + seed) // divisor
