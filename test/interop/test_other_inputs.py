"""Inputs and outputs that are no tensors, or the same tensors, on both runtimes: what eager gives, or a clear error."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import etir.runtime  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.driver import compile_program  # noqa: E402

from etir_testing.interop.program_runs import Calls, Function, assert_same, eager, fresh, stock, trace  # noqa: E402


class State(torch.nn.Module):
    """No inputs; a buffer, a part of it and a parameter as outputs, some of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self) -> Any:
        self.count.add_(1)
        return self.count, self.weight, self.count[0], self.weight, 3, None


Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Scaled:
    """A tensor and a number."""

    tensor: torch.Tensor
    factor: int


torch.export.register_dataclass(Scaled)

X = torch.linspace(-1, 1, 6).reshape(2, 3)
TENSORS = [(X + i,) for i in range(3)]


def changed_parts(x: Any) -> Any:
    y = x[0]
    y.mul_(2)
    return y, x, x + 0


CASES: dict[str, tuple[Callable[..., Any], Calls]] = {
    "numbers": (lambda x, n, s, b: (x * n + s if b else x, n, s, b), [(*t, 2, 1.5, True) for t in TENSORS]),
    "nothing": (lambda x, n: (x if n is None else x * n, n), [(*t, None) for t in TENSORS]),
    "dict": (
        lambda d: {"sum": d["a"] + d["b"][0], "rest": (d["b"][1][0] * d["b"][1][1], None)},
        [({"a": t, "b": [t + 1, (t * 2, 3)]},) for (t,) in TENSORS],
    ),
    "namedtuple": (lambda p: Pair(p.second - p.first, p.first), [(Pair(t, t + 1),) for (t,) in TENSORS]),
    "dataclass": (lambda d: Scaled(d.tensor * d.factor, d.factor), [(Scaled(t, 3),) for (t,) in TENSORS]),
    "empty": (lambda e, x, items, d: x + len(e) + len(items), [((), *t, [], {}) for t in TENSORS]),
    "gaps": (lambda items: [None if i is None else i + 1 for i in items], [([*t, None, *t],) for t in TENSORS]),
    "constants": (lambda x: (1, 2.5, "a", None, True, torch.ones(2), torch.tensor(5.0)), TENSORS),
    "repeated": (lambda x: (y := x + 1, y, [y, x, x], {"k": y}), TENSORS),
    "views_of_input": (lambda x: (x, x[0], x.t(), x.view(-1), x.reshape(3, 2)), TENSORS),
    "changed_input": (lambda x: (x.add_(1), x), TENSORS),
    "changed_parts": (changed_parts, TENSORS),
    "scalars": (lambda a, b: (a * b, a, b), [(torch.tensor(float(k)), torch.tensor(k)) for k in range(3)]),
    "state": (State(), [()] * 3),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", list(CASES))
def test_both_runtimes(name: str) -> None:
    """Several calls on one loaded method; inputs that are changed are compared too."""
    function, calls = CASES[name]
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    expected = eager(module, calls)
    with torch.no_grad():
        program = torch.export.export(module.eval(), fresh(calls[0]))
    data = compile_program(program).buffer
    loaded = etir.runtime.load(data)["forward"]
    assert_same(trace(lambda flat: loaded(*flat), calls), expected, "etir's runtime", 1e-6)
    assert_same(stock(data, calls), expected, "stock runtime", 1e-6)


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "another_int": ((X, 4, 1.5, True), "input 1 was given a value that differs"),
    "a_float": ((X, 3.0, 1.5, True), "input 1 was given a value of kind float"),
    "a_bool": ((X, True, 1.5, True), "input 1 was given a value of kind bool"),
    "nothing": ((X, None, 1.5, True), "input 1 was given a value of kind none"),
    "another_float": ((X, 3, 1.6, True), "input 2 was given a value that differs"),
    "another_bool": ((X, 3, 1.5, False), "input 3 was given a value that differs"),
    "no_tensor": ((3, 3, 1.5, True), "input 0 was given a value of kind int"),
    "another_dtype": ((X.double(), 3, 1.5, True), "input 0 was given a tensor of dtype float64"),
    "another_size": ((X[:, :2].contiguous(), 3, 1.5, True), "input 0 was given a size of 2"),
    "too_many": ((X, 3, 1.5, True, 1), "there is no input 4; the method takes 4"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_inputs(name: str) -> None:
    """Numbers that the program was compiled for are checked, and the message says which input is wrong."""
    given, message = WRONG[name]
    program = torch.export.export(Function(lambda x, n, s, b: x * n + s if b else x), (X, 3, 1.5, True))
    loaded = etir.runtime.load(compile_program(program).buffer)["forward"]
    with pytest.raises(EtirError) as caught:
        loaded(*given)
    assert caught.value.ids == ("E1208",)
    assert message in str(caught.value)
    if "differs" in message:
        assert "int = 3" in str(caught.value) and "dynamic_shapes" in str(caught.value)
    assert torch.equal(loaded(X, 3, 1.5, True)[0], X * 3 + 1.5), "the method still runs"
