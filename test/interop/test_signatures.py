"""Inputs, outputs and state of methods: eager, the interpreter at every level and the stock runtime agree."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from executorch.runtime import Runtime  # noqa: E402
from torch.export import Dim  # noqa: E402

from etir.driver import compile_program  # noqa: E402

from etir_testing.interop.program_runs import Function, assert_same, check_program, eager, exported, f32, stock  # noqa: E402
from etir_testing.interop.signature_cases import DYNAMIC, OUTPUTS, STATE, Buffers  # noqa: E402

CALLS = [(f32(2, 3, seed=s),) for s in range(3)]


@pytest.mark.parametrize("name", list(OUTPUTS))
def test_outputs(name: str) -> None:
    """Every kind of output, over several calls."""
    check_program(Function(OUTPUTS[name]), CALLS)


@pytest.mark.parametrize(
    "name", ["input", "only_the_input", "repeated_input", "view_and_base", "parts_of_input", "constant"]
)
@pytest.mark.parametrize("planned", [(True, False), (False, True), (False, False)])
def test_memory_of_the_caller(name: str, planned: tuple[bool, bool]) -> None:
    """``plan_inputs`` and ``plan_outputs`` off: the caller supplies the memory, the numbers stay the same."""
    module = Function(OUTPUTS[name])
    program = compile_program(exported(module, CALLS[0]), plan_inputs=planned[0], plan_outputs=planned[1])
    assert_same(stock(program.buffer, CALLS), eager(module, CALLS), "stock runtime", 1e-6)


def cache(m, x, position):
    m.a.index_put_((position,), x)
    return m.a.sum(0)


def cache_read_before(m, x, position):
    before = m.a.sum(0)
    m.a.index_put_((position,), x)
    return before, m.a.mean(0)


@pytest.mark.parametrize("name", list(STATE))
def test_state(name: str) -> None:
    """Five calls on one loaded method."""
    step, buffers = STATE[name]
    check_program(Buffers(step, **buffers), [(f32(2, 3, seed=s),) for s in range(5)])


@pytest.mark.parametrize("step", [cache, cache_read_before])
def test_cache_is_written_in_place(step: Any) -> None:
    """``index_put`` into state is the in-place kernel on the state's own memory: no copy of the cache."""
    calls = [(f32(1, 4, seed=s), torch.tensor([s])) for s in range(5)]
    program = check_program(Buffers(step, a=torch.zeros(8, 4)), calls)
    kernels = program.report().methods[0].operators
    assert kernels["aten::index_put_"] == 1
    assert "aten::copy_" not in kernels and "aten::index_put.out" not in kernels


def test_cache_that_is_read_later_is_copied() -> None:
    """The old content is still needed after the write, so that it may not be done in place."""

    def step(m, x, position):
        old = m.a.clone()
        m.a.index_put_((position,), x)
        return old.sum(0), m.a.sum(0)

    calls = [(f32(1, 4, seed=s), torch.tensor([s])) for s in range(4)]
    check_program(Buffers(step, a=torch.zeros(8, 4)), calls)


def mutates(x, y):
    x.add_(y)
    return x * 2


def mutates_and_returns(x, y):
    x.mul_(y)
    return x


def mutates_both(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def mutates_row(x, y):
    x[0] = y[1]
    return x.sum()


def mutates_and_returns_old(x, y):
    old = x.clone()
    x.squeeze().fill_(0.25)
    return old


def mutates_and_returns_old_and_new(x, y):
    old = x.clone()
    x.add_(old)
    y.sigmoid_()
    return old, x.clone(), old + y, y


@pytest.mark.parametrize(
    "step",
    [
        mutates,
        mutates_and_returns,
        mutates_both,
        mutates_row,
        mutates_and_returns_old,
        mutates_and_returns_old_and_new,
    ],
)
def test_mutated_inputs(step: Any) -> None:
    """The caller's tensor changes, on the runtime as in eager."""
    check_program(Function(step), [(f32(2, 3, seed=s), f32(2, 3, seed=s + 5)) for s in range(3)])


def test_a_changed_input_that_is_returned_has_memory_of_its_own() -> None:
    """The wheel's `Method.execute` gives outputs without memory fresh tensors before the run: not the input's."""
    x, y = f32(2, 3, seed=1), f32(2, 3, seed=2)
    program = compile_program(exported(Function(mutates_and_returns), (x.clone(), y))).buffer
    loaded = Runtime.get().load_program(program)
    method = loaded.load_method("forward")
    changed = x.clone()
    (output,) = method.execute((changed, y))
    torch.testing.assert_close(output, x * y)
    torch.testing.assert_close(changed, x * y)


INPUTS: dict[str, Any] = {
    "fixed_int": (lambda x, n: x * n, (3,)),
    "fixed_float": (lambda x, n: x * n, (0.5,)),
    "fixed_bool": (lambda x, flag: x + 1 if flag else x - 1, (True,)),
    "fixed_string": (lambda x, mode: x + 1 if mode == "up" else x - 1, ("up",)),
    "fixed_none": (lambda x, other: x + 1 if other is None else x + other, (None,)),
    "unused_tensor": (lambda x, y: x + 1, (f32(4),)),
    "returned_number": (lambda x, n: (x + n, n), (3,)),
}


@pytest.mark.parametrize("name", list(INPUTS))
def test_inputs_that_are_no_tensors(name: str) -> None:
    """Numbers, strings and None that the export fixed stay arguments of the method."""
    function, rest = INPUTS[name]
    # The stock runtime's Python bindings take no strings.
    runtime = name != "fixed_string"
    check_program(Function(function), [(x, *rest) for (x,) in CALLS], runtime=runtime)


BATCH = Dim("batch", min=1, max=8)
TOKENS = Dim("tokens", min=4, max=16)
SIZES = ((3, 5), (1, 4), (8, 16), (2, 7))


@pytest.mark.parametrize("name", list(DYNAMIC))
def test_dynamic_shapes(name: str) -> None:
    """One loaded method at several sizes, the smallest and the largest among them."""
    calls = [(f32(b, t, 4, seed=b),) for b, t in SIZES]
    check_program(Function(DYNAMIC[name]), calls, dynamic_shapes=(((({0: BATCH, 1: TOKENS}),)),))


INDEXED: dict[str, Any] = {
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: x[:, i],
    "both": lambda x, i: x[i, i],
    "index_put": lambda x, i: x.index_put((i,), torch.zeros(())),
    "index_select": lambda x, i: x.index_select(1, i),
    "gather": lambda x, i: x.gather(0, i[None].expand(3, 3)),
}


@pytest.mark.parametrize("name", list(INDEXED))
def test_indices(name: str) -> None:
    """Optional lists of tensors with holes."""
    calls = [(f32(3, 3, seed=s), torch.tensor([s, 2, 0])) for s in range(3)]
    check_program(Function(INDEXED[name]), calls)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]
)
def test_dtypes(dtype: str) -> None:
    """Every dtype as input, output and constant. NumPy's operators compute bfloat16 where ml_dtypes is installed."""
    type = getattr(torch, dtype)

    def function(x, y):
        if type is torch.bool:
            return x & y, x | torch.tensor([True, False, True]), x.to(torch.float32)
        return x + y, x * torch.tensor([1, 2, 3], dtype=type), x.to(torch.float32), x == y

    values = torch.tensor([[1, 0, 2], [3, 1, 0]])
    calls = [((values * (s + 1)).to(type), values.flip(0).to(type)) for s in range(2)]
    without = type is torch.bfloat16 and importlib.util.find_spec("ml_dtypes") is None
    check_program(Function(function), calls, tolerance=0.0, oracles=("torch",) if without else ("torch", "numpy"))


def test_sizes_from_data_are_refused_without_a_bound() -> None:
    """An unbounded dim is a diagnostic that says how to give it a bound."""
    from etir.diagnostics import EtirError

    rows = Dim("rows", min=1)
    program = exported(Function(lambda x: x + 1), (f32(3, 2),), dynamic_shapes=(({0: rows},),))
    with pytest.raises(EtirError) as raised:
        compile_program(program)
    assert set(raised.value.ids) == {"E0416"}
    assert "Dim(" in str(raised.value)
