"""``tile.softmax`` of rows of every length, with the largest element, and what is no number, at every place."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from etir_testing.native.functions import parsed_function
from etir_testing.native.images import Code, here

pytestmark = pytest.mark.filterwarnings("ignore")


def softmax(rows: int, length: int) -> FuncOp:
    type = f"memref<{rows}x{length}xf32>"
    return parsed_function(f"""
func.func @f(%x: {type}, %y: {type}) attributes {{native.outputs = 1 : i64}} {{
  tile.softmax %x, %y : {type}, {type}
  func.return
}}
""")


@pytest.mark.parametrize("length", [31, 32, 63, 64, 127, 128, 129, 191, 200, 1500])
def test_the_largest_is_found_wherever_it_is(length: int) -> None:
    """Rows whose largest element is far above the others: one that is missed is an infinity."""
    func = softmax(length, length)
    x = np.random.default_rng(length).standard_normal((length, length)).astype(np.float32)
    x[np.arange(length), np.arange(length)] = 300.0
    for name in here():
        (found,) = Code(func.clone(), name)([x])
        np.testing.assert_allclose(found, np.eye(length, dtype=np.float32), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("length", [40, 128, 150])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_makes_its_row_none(value: float, length: int) -> None:
    func = softmax(length + 1, length)
    x = np.random.default_rng(0).standard_normal((length + 1, length)).astype(np.float32)
    x[np.arange(length), np.arange(length)] = value
    for name in here():
        (found,) = Code(func.clone(), name)([x])
        assert np.isnan(found[:length]).any(1).all(), name
        assert np.isfinite(found[length]).all() and abs(found[length].sum() - 1) < 1e-6, name
