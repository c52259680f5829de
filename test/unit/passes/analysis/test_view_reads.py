"""Which views an instruction may still read: along the method, around a loop, through views of views."""

from __future__ import annotations

from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.values import ViewOp
from etir.dialects.text import parse_module
from etir.passes.analysis.view_reads import ViewReads

LINE = """
et.state @s : tensor<4xf32>
et.method @forward pools [0, 64] {
  %s = et.buffer at <1, 0> state @s : tensor<4xf32>
  %part = et.view %s at 4 : tensor<3xf32>
  %inner = et.view %part at 4 : tensor<2xf32>
  %never = et.view %s : tensor<2xf32>
  %x = et.buffer at <1, 16> : tensor<4xf32>
  %y = et.buffer at <1, 32> : tensor<2xf32>
  et.inputs %x
  et.call "aten::copy_"(%s, %x, false) -> %s
  et.call "aten::relu.out"(%inner, %y) -> %y
  et.call "aten::copy_"(%s, %x, false) -> %s
  et.return %y
}
"""

LOOP = """
et.state @s : tensor<4xf32>
et.method @forward pools [0, 64] {
  %s = et.buffer at <1, 0> state @s : tensor<4xf32>
  %part = et.view %s at 4 : tensor<3xf32>
  %x = et.buffer at <1, 16> : tensor<4xf32>
  %y = et.buffer at <1, 32> : tensor<3xf32>
  %c = et.buffer at <1, 48> : tensor<1xi1>
  et.inputs %x, %c
  et.next ^body
^body:
  et.call "aten::relu.out"(%part, %y) -> %y
  et.call "aten::copy_"(%s, %x, false) -> %s
  et.jump_false %c, ^body, ^after
^after:
  et.call "aten::copy_"(%s, %x, false) -> %s
  et.return %y
}
"""


def read_after(text: str) -> list[dict[str, bool]]:
    """Of each call of ``copy_``, in order: by the name of each view whether it may be read after it."""
    module = parse_module(text)
    (method,) = (op for op in module.walk() if isinstance(op, MethodOp))
    views = [op.result for op in method.walk() if isinstance(op, ViewOp)]
    copies = [op for op in method.walk() if isinstance(op, CallOp) and op.kernel.data == "aten::copy_"]
    reads = ViewReads()
    return [{str(view.name_hint): reads.after(op, view) for view in views} for op in copies]


def test_along_a_method() -> None:
    assert read_after(LINE) == [
        {"part": True, "inner": True, "never": False},
        {"part": False, "inner": False, "never": False},
    ]


def test_around_a_loop() -> None:
    assert read_after(LOOP) == [{"part": True}, {"part": False}]
