"""Calls that a runtime takes and gets wrong, as rows say them."""

import pytest

from etir.diagnostics import EtirError
from etir.targets.manifest import load
from etir.targets.wrong import Wrong


def test_calls_that_end_the_stock_process_are_refused() -> None:
    stock = load("executorch")
    amax = {"self": 6, "out": 6}
    assert stock.check_call("aten::amax.out", amax, shapes={"self": (2, 3), "out": (2,)}) is None
    assert "ends the process" in str(stock.check_call("aten::amax.out", amax, shapes={"self": (0, 3), "out": (0,)}))
    for dim, reason in ((1, None), (-1, "ends the process: dims are not counted from the end")):
        assert stock.check_call("aten::narrow_copy.out", amax, others={"dim": dim}) == reason


def test_what_depends_on_values_is_said_and_not_refused() -> None:
    stock = load("executorch")
    assert stock.kernels["aten::max_pool2d_with_indices.out"].wrong[0].values == "NaN"
    assert stock.check_call("aten::floor.out", {"self": 4, "out": 4}) is None


def test_unknown_fields_are_errors() -> None:
    with pytest.raises(EtirError, match="E0602"):
        Wrong.parse({"why": "x", "when": "y"})
