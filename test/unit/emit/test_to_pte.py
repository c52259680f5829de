"""What a module cannot become, and what a file has that no module can hold."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import StringAttr

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.payloads import DelegateOp, NamedDataOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module
from etir.emit.from_pte import read_program
from etir.emit.pte.model import IntList
from etir.emit.to_pte import emit_program

from etir_testing.runtime.programs import Builder

DELEGATE = """
et.delegate @lowered "Backend" = #et.blob<"sha256:00112233445566778899aabbccddeeff", 4>
et.method @forward pools [0, 32] {
  %x = et.buffer at <1, 0> : tensor<4xf32>
  et.inputs %x
  et.delegate_call @lowered(%x)
  et.return %x
}
"""

SAME_NAME = """
et.weight @packed : tensor<4xf32> = #et.synthetic<seed = 1> {external = "shared"}
et.method @forward pools [0, 32] {
  %x = et.buffer at <1, 0> : tensor<4xf32>
  %w = et.get_weight @packed : tensor<4xf32>
  et.inputs %x
  et.call "aten::add.out"(%x, %w, 1) -> %x
  et.return %x
}
"""


def test_a_call_of_a_delegate_that_is_not_there() -> None:
    module = parse_module(DELEGATE, EtContext())
    next(op for op in module.walk() if isinstance(op, DelegateOp)).detach()
    with pytest.raises(EtirError, match="there is no delegate @lowered") as caught:
        emit_program(module)
    assert caught.value.ids == ("E0862",)


def test_a_weight_and_a_delegate_s_data_of_one_name_in_one_file() -> None:
    module = parse_module(SAME_NAME, EtContext())
    data = NamedDataOp("packed", BlobAttr(Blob.of(bytes(8))))
    data.attributes["external"] = StringAttr("shared")
    module.body.block.add_op(data)
    with pytest.raises(EtirError, match="'shared.ptd' is to hold a weight and a delegate's data as 'packed'") as caught:
        emit_program(module)
    assert caught.value.ids == ("E0867",)


def test_a_list_that_is_written() -> None:
    b = Builder()
    one = b.int(1)
    b.call("executorch_prim::add.Scalar", one, one, b.value(IntList((one, one))))
    with pytest.raises(EtirError, match="value 1 is a list that is an input, an output or written") as caught:
        read_program(b.pte(check=False))
    assert caught.value.ids == ("E0864",)
