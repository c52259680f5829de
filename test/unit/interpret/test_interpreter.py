"""What the interpreter refuses, at both kinds of level: inputs, methods, operators that fail, loops without an end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.interpret import executable, interpreter, run_module

FUNCTIONS = """
func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
func.func @select(%x: tensor<3xf32>, %i: tensor<1xi64>) -> tensor<1xf32> {
  %0 = aten.index_select.default(%x, dim = 0, index = %i) : (tensor<3xf32>, tensor<1xi64>) -> tensor<1xf32>
  func.return %0 : tensor<1xf32>
}
func.func @endless(%n: i64) -> i64 {
  %0 = control.while carry (%i = %n) : (i64) {
    %1 = sym.ge %i, %i : (i64, i64) -> i1
    control.yield %1 : i1
  } do {
  ^bb0(%j: i64):
    control.yield %j : i64
  }
  func.return %0 : i64
}
"""

METHODS = """
et.method @forward pools [0, 32] {
  %x = et.buffer at <1, 0> : tensor<2x3xf32>
  et.inputs %x
  et.return %x
}
et.method @endless pools [0] {
  et.inputs
  et.next ^again
^again:
  et.jump ^again
}
"""

X = np.zeros((2, 3), np.float32)


def refused(text: str, inputs: list[Any], method: str = "forward", evaluator: str = "numpy") -> EtirError:
    """The error of running a method on inputs."""
    with pytest.raises(EtirError) as caught:
        run_module(parse_module(text, EtContext()), inputs, method=method, evaluator=evaluator)
    return caught.value


@pytest.mark.parametrize("text", [FUNCTIONS, METHODS], ids=["func", "et"])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "takes 1 inputs, 0 given"),
        ([X, X], "takes 1 inputs, 2 given"),
        ([X.T], r"shape \[3, 2\]"),
        ([X[0]], r"shape \[3\]"),
        ([X.astype(np.float64)], "dtype float64"),
    ],
)
def test_inputs_that_do_not_fit(text: str, inputs: list[Any], message: str) -> None:
    error = refused(text, inputs)
    assert error.ids == ("E1002",)
    assert error.diagnostics[0].help
    with pytest.raises(EtirError, match=message):
        raise error


@pytest.mark.parametrize("text", [FUNCTIONS, METHODS], ids=["func", "et"])
def test_a_method_that_is_not_there(text: str) -> None:
    error = refused(text, [X], "backward")
    assert error.ids == ("E1003",) and "the module has forward, " in str(error)


def test_an_operator_that_fails_is_named() -> None:
    error = refused(FUNCTIONS, [np.zeros(3, np.float32), np.array([7])], "select", "torch")
    assert error.ids == ("E1004",) and "'aten.index_select.default': " in str(error)


def test_a_loop_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MAX_ITERATIONS", 100)
    monkeypatch.setattr(executable, "MAX_INSTRUCTIONS", 100)
    error = refused(FUNCTIONS, [1], "endless")
    assert error.ids == ("E1005",) and "the loop ran 100 times" in str(error)
    error = refused(METHODS, [], "endless")
    assert error.ids == ("E1005",) and "the method ran 100 instructions" in str(error)


CHECKED = """
et.method @forward pools [0] {
  %n = et.scalar 0 : i64
  %r = et.scalar 0.0 : f64
  %b = et.scalar false
  et.inputs %n, %r, %b
  et.call "etir::check_number"(%n, -4, 9223372036854775807, 3, "input 'n' is 3*k - 4")
  et.call "etir::check_number"(%r, 0, 0, 1, "input 'r'")
  et.call "etir::check_number"(%b, 7, 7, 1, "input 'b'")
  et.return %n
}
"""


@pytest.mark.parametrize(("number", "fits"), [(-4, True), (2, True), (-7, False), (0, False), (2**63 - 1, False)])
def test_numbers_that_a_program_checks(number: int, fits: bool) -> None:
    """As on the runtime: integers are among ``low``, ``low + step``, ... up to ``high``; others are not looked at."""
    if fits:
        assert run_module(parse_module(CHECKED), [number, 2.5, True], evaluator="numpy") == [number]
        return
    error = refused(CHECKED, [number, 2.5, True])
    assert error.ids == ("E1002",) and f"an input is {number}: input 'n' is 3*k - 4" in str(error)


FIXED = """
et.method @forward pools [0] {
  %n = et.scalar 2 : i64
  %r = et.scalar 1.5 : f64
  %b = et.scalar true
  %m = et.scalar 0 : i64
  %twice = et.scalar 0 : i64
  et.inputs %n, %r, %b, %m
  et.call "executorch_prim::mul.Scalar"(%m, 2, %twice) -> %twice
  et.return %twice, %n
}
"""


@pytest.mark.parametrize(
    ("inputs", "wrong"),
    [
        ([2, 1.5, True, 7], None),
        ([np.array(2), np.array(1.5), np.array(True), np.array(7)], None),
        ([3, 1.5, True, 7], "input 'n' is 3, the program was compiled for 2"),
        ([2, 1.6, True, 7], "input 'r' is 1.6, the program was compiled for 1.5"),
        ([2, float("nan"), True, 7], "input 'r' is nan"),
        ([2, 1.5, False, 7], "input 'b' is False, the program was compiled for True"),
    ],
)
def test_numbers_that_export_wrote_into_a_program(inputs: list[Any], wrong: str | None) -> None:
    """What no instruction reads has one value, as on the runtimes; a number that one reads may vary."""
    if wrong is None:
        assert run_module(parse_module(FIXED), inputs, evaluator="numpy") == [14, 2]
        return
    error = refused(FIXED, inputs)
    assert error.ids == ("E1002",) and wrong in str(error) and "dynamic_shapes" in str(error)


SUM_TO_INTEGERS = """
et.method @forward pools [0, 48] {
  %x = et.buffer at <1, 0> : tensor<3xf32>
  %y = et.buffer at <1, 16> : tensor<i32>
  et.inputs %x
  et.call "aten::sum.IntList_out"(%x, ints[0], false, none, %y) -> %y
  et.return %y
}
"""


@pytest.mark.parametrize("evaluator", ["numpy", "torch"])
def test_a_reduction_computes_in_the_dtype_of_its_out(evaluator: str) -> None:
    """As torch's out variants and both runtimes do, where no dtype is given: elements lose their fractions first."""
    if evaluator == "torch":
        pytest.importorskip("torch")
    x = np.array([1.75, 1.75, -0.5], np.float32)
    (found,) = run_module(parse_module(SUM_TO_INTEGERS), [x], evaluator=evaluator)
    assert int(np.asarray(found)) == 2


class Halves(torch.nn.Module):
    """Pieces of a value that nothing needs afterwards: target etir leaves them where they are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third = torch.sigmoid(x).split(2, 1)
        return first * second + third


def test_pieces_stay_where_the_whole_was() -> None:
    x = torch.randn(1, 6)
    program = etir.compile(torch.export.export(Halves(), (x,)), target="etir")
    assert "split_with_sizes_copy.out" in str(program.module)
    (found,) = run_module(program.module, [x])
    torch.testing.assert_close(torch.as_tensor(found), Halves()(x))
