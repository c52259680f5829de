"""What is known of sizes at run time: only what holds for every run, and with it which plans are right."""

from __future__ import annotations

import pytest

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.text import parse_module
from etir.passes.et.run_time_sizes import Dims, run_time_sizes
from etir.passes.et.verify_plan import VerifyPlanPass

DEFINED = """
  %x = et.buffer at <1, 0> dynamic : tensor<4x8xf32>
  %z = et.buffer at <1, 128> dynamic : tensor<4x8xf32>
  %a = et.buffer at <1, 256> dynamic : tensor<4x8xf32>
  %b = et.buffer at <1, 384> dynamic : tensor<4x8xf32>
  %y = et.buffer at <1, 256> dynamic : tensor<4x8xf32>
  %n = et.scalar 0 : i64
  %m = et.scalar 0 : i64
  %c = et.scalar false
  %w = et.get_weight @w : tensor<4x8xf32>
"""


def method(body: str, inputs: str = "%x, %z", more: str = "") -> str:
    return f"""
    et.weight @w : tensor<4x8xf32> = #et.synthetic<seed = 0>
    et.method @forward pools [0, 1024] {{ {DEFINED} {more}
      et.inputs {inputs}
      {body}
    }}
    """


def sizes(text: str) -> dict[str, Dims]:
    """The dims by the name of the value."""
    module = parse_module(text)
    (found,) = (op for op in module.body.block.ops if isinstance(op, MethodOp))
    return {value.name_hint or "": dims for value, dims in run_time_sizes(EtContext(), found).items()}


def refused(text: str) -> bool:
    """Whether the plan of a method is."""
    try:
        VerifyPlanPass().run(EtContext(), parse_module(text))
    except EtirError as error:
        assert set(error.ids) == {"E0714"}
        return True
    return False


SAME = 'et.call "aten::exp.out"(%x, %a) -> %a\n et.call "aten::sin.out"(%x, %b) -> %b\n'
"""Two tensors of the sizes of an input."""
PRODUCT = 'et.call "aten::mul.out"(%a, %b, %y) -> %y\n et.return %y'
"""Writes its result over its first operand."""


def test_operands_of_one_input_have_its_sizes() -> None:
    found = sizes(method(SAME + PRODUCT))
    assert found["x"] == found["a"] == found["b"] == found["y"] and len(set(found["x"])) == 2
    assert not refused(method(SAME + PRODUCT))


def test_operands_of_two_inputs_need_not_have_one_size() -> None:
    """What a hand planted: the result has as many rows as the longer one."""
    apart = SAME.replace('sin.out"(%x', 'sin.out"(%z') + PRODUCT
    found = sizes(method(apart))
    assert found["a"] != found["b"] and found["y"] not in (found["a"], found["b"])
    assert refused(method(apart))


@pytest.mark.parametrize("rows", [0, 1])
def test_what_the_method_checks_is_known(rows: int) -> None:
    body = f"""
      et.call "aten::sym_size.int"(%x, {rows}, %n)
      et.call "etir::check_size"(%z, 0, %n, %n, 1, "rows")
      et.call "aten::sym_size.int"(%x, 1, %m)
      et.call "etir::check_size"(%z, 1, %m, %m, 1, "columns")
    """
    apart = SAME.replace('sin.out"(%x', 'sin.out"(%z') + PRODUCT
    assert refused(method(body + apart)) == (rows == 1)


def test_a_comparison_before_an_error_is_a_check() -> None:
    def text(fails: str) -> str:
        return method(f"""
          et.call "aten::sym_size.int"(%x, 0, %n)
          et.call "aten::sym_size.int"(%z, 0, %m)
          et.call "executorch_prim::eq.Scalar"(%n, %m, %c)
          et.jump_false %c, ^bb3, ^bb1
        ^bb1:
          et.call "etir::check_size"(%x, 1, 8, 8, 1, "columns")
          et.call "etir::check_size"(%z, 1, 8, 8, 1, "columns")
          {SAME.replace('sin.out"(%x', 'sin.out"(%z')}
          et.call "aten::mul.out"(%a, %b, %y) -> %y
          et.jump ^bb4
        ^bb3:
          et.call "executorch_prim::add.Scalar"(true, true, %n)
          et.jump {fails}
        ^bb4:
          et.return %y
        """)

    assert not refused(text("^bb3"))
    assert refused(text("^bb1"))


def test_numbers_are_followed() -> None:
    body = """
      et.call "aten::sym_size.int"(%x, 0, %n)
      et.call "executorch_prim::mul.Scalar"(%n, 2, %m)
      et.call "aten::arange.start_out"(0, %m, 2, %i) -> %i
      et.call "aten::slice_copy.Tensor_out"(%w, 0, none, %n, 1, %a) -> %a
      et.call "executorch_prim::et_view.default"(%x, ints[%n, 2, -1], %v)
      et.call "aten::mean.out"(%x, ints[-1], true, none, %r) -> %r
      et.call "aten::cat.out"(tensors[%x, %w], 0, %j) -> %j
      et.return %a
    """
    more = """
      %i = et.buffer at <1, 512> dynamic : tensor<4xi64>
      %v = et.view %x late dynamic : tensor<4x2x4xf32>
      %r = et.buffer at <1, 600> dynamic : tensor<4x1xf32>
      %j = et.buffer at <1, 640> dynamic : tensor<8x8xf32>
    """
    found = sizes(method(body, more=more))
    rows, columns = found["x"]
    assert found["i"] == (rows,) and found["a"] == (rows, 8) and found["r"] == (rows, 1)
    assert found["v"][:2] == (rows, 2) and str(found["v"][2]) == f"{columns} floordiv 2"
    assert found["j"] == (rows + 4, columns) or found["j"] == (rows + 4, 8)  # type: ignore[operator]


def test_a_slice_that_may_end_behind_its_tensor_is_not_known() -> None:
    """``%n`` is any number: there are at most four rows."""
    body = 'et.call "aten::slice_copy.Tensor_out"(%w, 0, none, %n, 1, %a) -> %a\n et.return %a'
    found = sizes(method(body, inputs="%x, %n"))
    assert str(found["a"][0]).startswith("u") and found["a"][1] == 8


def test_a_loop_forgets_what_changes() -> None:
    """``%a`` has the rows of the input, and one more at every turn."""
    text = method(
        """
      et.move 0, %n
      et.call "aten::exp.out"(%x, %a) -> %a
      et.next ^bb1
    ^bb1:
      et.call "aten::cat.out"(tensors[%a, %r], 0, %b) -> %b
      et.call "aten::copy.out"(%b, %b, false, %a) -> %a
      et.call "aten::exp.out"(%x, %y) -> %y
      et.call "executorch_prim::add.Scalar"(%n, 1, %n)
      et.call "executorch_prim::eq.Scalar"(%n, 3, %c)
      et.jump_false %c, ^bb1, ^bb2
    ^bb2:
      et.return %a
    """.replace("et.move 0, %n", 'et.call "executorch_prim::add.Scalar"(0, 0, %n)'),
        more="%r = et.buffer at <1, 600> : tensor<1x8xf32>",
    )
    found = sizes(text)
    assert found["a"][0] is None and found["b"][0] is None
    assert found["y"] == found["x"]


def test_what_a_kernel_of_its_own_gives_is_of_one_instruction() -> None:
    """Two calls of an operator whose results have the sizes that they find have nothing in common."""
    body = """
      et.call "aten::nonzero.out"(%x, %a) -> %a
      et.call "aten::nonzero.out"(%x, %b) -> %b
      et.call "aten::exp.out"(%a, %y) -> %y
      et.return %y
    """
    found = sizes(method(body))
    assert found["a"] != found["b"] and found["y"] == found["a"]
