"""``etir.runtime`` against torch eager: what goes in, what comes out, and who owns what."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.runtime import Program, ScalarInfo, TensorInfo, is_available, load

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")


class Affine(torch.nn.Module):
    """One input, one output; weights are constants in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + 1


class Counter(torch.nn.Module):
    """State that a call changes."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([10.0, 20.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 1


class Reader(Counter):
    """The same state, read only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.total + x


def compiled(module: torch.nn.Module, *inputs: Any, kwargs: dict[str, Any] | None = None, **options: Any) -> bytes:
    return etir.compile(torch.export.export(module.eval(), inputs, kwargs), **options).buffer


def program(module: torch.nn.Module, *inputs: Any, **options: Any) -> Program:
    return load(compiled(module, *inputs, **options))


# --- values ---------------------------------------------------------------------------------------------------------


def test_torch_in_torch_out() -> None:
    x = torch.randn(4, 3)
    outputs = program(Affine(), x).forward(x)
    assert isinstance(outputs[0], torch.Tensor)
    torch.testing.assert_close(outputs, [Affine()(x)])


def test_numpy_in_numpy_out() -> None:
    x = torch.randn(4, 3)
    outputs = program(Affine(), x).forward(x.numpy())
    assert isinstance(outputs[0], np.ndarray) and outputs[0].dtype == np.float32
    np.testing.assert_allclose(outputs[0], Affine()(x).detach().numpy(), rtol=1e-6)


def test_buffers_of_other_objects() -> None:
    x = torch.tensor([1, 2, 3], dtype=torch.int32)
    rt = program(torch.nn.Identity(), x, plan_inputs=False)
    view = memoryview(bytes(np.array([7, 8, 9], np.int32))).cast("i")
    assert rt.forward(view)[0].tolist() == [7, 8, 9]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.uint8])
def test_dtypes_travel(dtype: torch.dtype) -> None:
    x = (torch.randn(3, 5) * 3).to(dtype)

    class Transpose(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.t().clone()

    (y,) = program(Transpose(), x).forward(x)
    assert y.dtype == dtype
    assert torch.equal(y, x.t())


def test_bfloat16_without_a_numpy_type_comes_widened() -> None:
    x = torch.randn(6).to(torch.bfloat16)
    rt = program(torch.nn.Identity(), x, plan_inputs=False)
    script_visible = "ml_dtypes" in sys.modules
    (y,) = rt["forward"]._handle.run([x], False)
    assert y.dtype == ("bfloat16" if script_visible else np.float32)
    np.testing.assert_array_equal(y.astype(np.float32), x.float().numpy())


def test_numbers_none_and_several_outputs() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int, flag: bool) -> Any:
            return x + n, x.shape[0], flag, None, 2.5

    x = torch.randn(2, 2)
    rt = program(Mixed(), x, 3, True)
    outputs = rt.forward(x, 3, True)
    expected = torch.utils._pytree.tree_leaves(Mixed()(x, 3, True))
    assert torch.equal(outputs[0], x + 3)
    assert outputs[1:] == expected[1:]
    assert [type(v) for v in outputs[1:]] == [type(v) for v in expected[1:]]
    assert rt["forward"].inputs[1:] == (ScalarInfo("int", "n", 3), ScalarInfo("bool", "flag", True))


def test_zero_dim_and_empty_tensors() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * 2, y * 2

    x, y = torch.tensor(1.5), torch.zeros(0, 3)
    rt = program(Twice(), x, y)
    a, b = rt.forward(x, y)
    assert a.shape == () and a.item() == 3.0 and b.shape == (0, 3)
    a, b = rt.forward(np.float32(2), y.numpy())
    assert a.shape == () and float(a) == 4.0 and b.shape == (0, 3)


def test_dynamic_shapes() -> None:
    x = torch.randn(4, 3)
    rows = torch.export.Dim("rows", min=1, max=16)
    ep = torch.export.export(Affine(), (x,), dynamic_shapes={"x": {0: rows}})
    rt = load(etir.compile(ep).buffer)
    assert rt.forward.inputs == (TensorInfo((16, 3), "float32", (0, 1), True, "x"),)
    for count in (1, 16, 5):
        x = torch.randn(count, 3)
        torch.testing.assert_close(rt.forward(x), [Affine()(x)])


def test_channels_last() -> None:
    x = torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last)

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    rt = program(Double(), x)
    info = rt.forward.inputs[0]
    assert isinstance(info, TensorInfo) and info.dim_order == (0, 2, 3, 1)
    (y,) = rt.forward(x)
    assert torch.equal(y, x + x) and y.is_contiguous(memory_format=torch.channels_last)
    (z,) = rt.forward(x.numpy())
    assert z.strides == tuple(4 * s for s in x.stride())
    np.testing.assert_array_equal(z, (x + x).numpy())


def test_tensors_that_require_grad() -> None:
    x = torch.randn(2, 3, requires_grad=True)
    torch.testing.assert_close(program(Affine(), x.detach()).forward(x), [Affine()(x).detach()])


# --- containers and keywords ----------------------------------------------------------------------------------------


class Structured(torch.nn.Module):
    def forward(self, pair: Sequence[torch.Tensor], *, table: dict[str, torch.Tensor], bias: torch.Tensor) -> Any:
        return {"first": pair[0] + table["a"], "second": [pair[1] * table["b"] - bias]}


def test_arguments_are_flattened_like_the_program_s() -> None:
    a, b, c, d, e = (torch.randn(2, 2) for _ in range(5))
    data = compiled(Structured(), (a, b), kwargs={"table": {"a": c, "b": d}, "bias": e})
    rt = load(data)
    assert [info.name for info in rt.forward.inputs] == ["pair_0", "pair_1", "table_a", "table_b", "bias"]
    expected = [a + c, b * d - e]
    torch.testing.assert_close(rt.forward([a, b], bias=e, table={"b": d, "a": c}), expected)
    torch.testing.assert_close(rt.forward(a, b, c, d, e), expected)
    with pytest.raises(etir.EtirError, match="got a, c; the program takes a, b"):
        rt.forward((a, b), table={"a": c, "c": d}, bias=e)
    with pytest.raises(etir.EtirError, match="argument 'pair': got 3 values; the program takes 2"):
        rt.forward((a, b, c), table={"a": c, "b": d}, bias=e)


# --- methods and state ----------------------------------------------------------------------------------------------


def test_state_stays_from_call_to_call() -> None:
    one = torch.ones(2)
    rt = program(Counter(), one)
    start = rt.forward(torch.zeros(2))[0]
    assert torch.equal(rt.forward(one)[0], start + 1)
    assert torch.equal(rt.forward(one)[0], start + 2)
    assert torch.equal(rt.load_method("forward")(one)[0], start + 1), "a method of its own has its own state"
    assert torch.equal(rt["forward"](one)[0], start + 3)


def two_methods() -> bytes:
    one = torch.ones(2)
    programs = {"write": torch.export.export(Counter(), (one,)), "read": torch.export.export(Reader(), (one,))}
    return etir.compile(programs, share_state=True).buffer


@pytest.mark.parametrize("first", ["write", "read"])
def test_methods_share_state_as_the_file_says(first: str) -> None:
    rt = load(two_methods())
    assert sorted(rt.methods) == ["read", "write"] and "write" in rt and sorted(rt) == ["read", "write"]
    zero, one = torch.zeros(2), torch.ones(2)
    _ = rt[first]
    start = rt["read"](zero)[0]
    for i in range(3):
        assert torch.equal(rt["write"](one)[0], start + i + 1)
        assert torch.equal(rt["read"](zero)[0], start + i + 1)


def test_two_threads_call_two_methods() -> None:
    rt = load(two_methods())
    zero, one = torch.zeros(2), torch.ones(2)
    start = rt["read"](zero)[0]
    seen: list[float] = []
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(5_000):
                rt.write(one)
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            for _ in range(10_000):
                a, b = (rt.read(zero)[0] - start).tolist()
                assert a == b, "a run was seen half done"
                seen.append(a)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=target) for target in (write, read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert seen == sorted(seen)
    assert torch.equal(rt["read"](zero)[0], start + 10_000)


def test_one_method_from_many_threads() -> None:
    rt = program(Affine(), torch.randn(64, 3))
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = torch.full((64, 3), float(seed))
        expected = Affine()(x)
        for _ in range(300):
            if not torch.equal(rt.forward(x)[0], expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_of_a_run_give_the_same_result() -> None:
    x = torch.randn(300, 400)

    class Large(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * x + x).permute(1, 0).clone()

    data = compiled(Large(), x)
    rt = load(data, threads=3)
    assert rt.threads == 3
    assert torch.equal(rt.forward(x)[0], load(data).forward(x)[0])


# --- memory ---------------------------------------------------------------------------------------------------------


def test_program_keeps_its_bytes_alive() -> None:
    x = torch.randn(4, 3)
    data = bytearray(compiled(Affine(), x))
    method = load(bytes(data))["forward"]
    copied = load(data)["forward"]
    data[:] = b"\0" * len(data)
    gc.collect()
    _ = [bytes(len(data)) for _ in range(100)]
    torch.testing.assert_close(method(x), [Affine()(x)])
    torch.testing.assert_close(copied(x), [Affine()(x)])


def test_sources_of_bytes(tmp_path: Path) -> None:
    x = torch.randn(4, 3)
    data = compiled(Affine(), x)
    path = tmp_path / "m.pte"
    path.write_bytes(data)
    shifted = memoryview(b"?" + data)[1:]
    for rt in (load(path), load(str(path)), load(path, mmap=True), load(memoryview(data)), load(shifted)):
        torch.testing.assert_close(rt.forward(x), [Affine()(x)])


def test_outputs_own_their_memory() -> None:
    x = torch.randn(4, 3)
    for planned in (True, False):
        rt = program(Affine(), x, plan_outputs=planned)
        (first,) = rt.forward(x)
        kept = first.clone()
        (second,) = rt.forward(x + 1)
        (array,) = rt.forward(x.numpy())
        assert torch.equal(first, kept) and not torch.equal(first, second)
        first.zero_()
        del rt
        gc.collect()
        np.testing.assert_array_equal(array, kept.numpy())


class InPlace(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


def test_inputs_without_a_planned_place_are_used_in_place() -> None:
    x = torch.zeros(3)
    rt = program(InPlace(), x, plan_inputs=False)
    outputs = rt.forward(x)
    assert torch.equal(outputs[-1], torch.full((3,), 2.0))
    assert torch.equal(x, torch.ones(3)), "the program wrote its input where it is"
    array = np.zeros(3, np.float32)
    rt.forward(array)
    assert array.tolist() == [1, 1, 1]
    array.flags.writeable = False
    assert rt.forward(array)[-1].tolist() == [4, 4, 4]
    assert array.tolist() == [1, 1, 1], "what is read-only is copied"


def test_external_weights(tmp_path: Path) -> None:
    x = torch.randn(4, 3)
    compiled_program = etir.compile(torch.export.export(Affine(), (x,)), external_weights="w")
    compiled_program.save(tmp_path / "m.pte")
    expected = [Affine()(x)]
    path = tmp_path / "w.ptd"
    for data in (path, [str(path)], path.read_bytes()):
        torch.testing.assert_close(load(tmp_path / "m.pte", data=data).forward(x), expected)


def test_memory_and_profile() -> None:
    x = torch.randn(4, 3)
    method = program(Affine(), x)["forward"]
    memory = method.memory
    assert memory.method > 0 and sum(memory.planned) >= x.nbytes  # The result may be written over the input.
    assert memory.total == memory.method + sum(memory.planned) + memory.temp
    profile = method.profile(x)
    torch.testing.assert_close(profile.outputs, [Affine()(x)])
    rows = {row.operator: row.calls for row in profile.operators}
    assert sorted(name.partition(".")[0] for name in rows) == ["aten::add", "aten::mul"]
    assert set(rows.values()) == {1}
    assert profile.nanoseconds == sum(row.nanoseconds for row in profile.operators) > 0
    assert "aten::mul.out" in str(profile)


def test_instruction_sets_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 3)
    data = compiled(Affine(), x)
    best = load(data)
    baseline = load(data, isa="baseline")
    assert baseline.isa == "baseline"
    torch.testing.assert_close(best.forward(x), baseline.forward(x))
    monkeypatch.setenv("ETIR_ISA", "baseline")
    assert load(data).isa == "baseline"


# --- imports --------------------------------------------------------------------------------------------------------


def in_a_process(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_etir_does_not_load_the_runtime() -> None:
    out = in_a_process("import sys, etir; print([m for m in sys.modules if m.startswith('etir.runtime')])")
    assert out.strip() == "[]"


def test_the_runtime_loads_without_torch_and_numpy() -> None:
    script = "import sys, etir; etir.runtime.operators(); print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert in_a_process(script).strip() == "False False"


def test_loading_without_the_native_module_says_what_to_do() -> None:
    script = (
        "import sys; sys.modules['etir.runtime._native'] = None\n"
        "import etir\n"
        "assert not etir.runtime.is_available()\n"
        "try:\n"
        "    etir.runtime.load(b'')\n"
        "except etir.runtime.RuntimeFailure as error:\n"
        "    print(error)\n"
    )
    out = in_a_process(script)
    assert "error[E1201]" in out and "C++17 compiler" in out
