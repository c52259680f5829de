"""Calls whose operands are fewer than their template says: messages print them before they are verified."""

from __future__ import annotations

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType, f32
from xdsl.utils.exceptions import VerifyException

from etir.dialects.et.arguments import OPERAND
from etir.dialects.et.instructions import CallOp


@pytest.mark.parametrize(
    ("count", "arguments"),
    [(0, "(<<NULL VALUE>>, <<NULL VALUE>>) -> <<NULL VALUE>>"), (1, "(%0, <<NULL VALUE>>) -> <<NULL VALUE>>")],
)
def test_missing_operands_print(count: int, arguments: str) -> None:
    made = test.TestOp(result_types=[TensorType(f32, [4])] * count)
    call = CallOp("aten::add.out", (OPERAND, OPERAND), made.results, (OPERAND,))
    assert str(call) == f'et.call "aten::add.out"{arguments}'
    with pytest.raises(VerifyException, match="C1"):
        call.verify()
