"""Calls that a runtime takes and gets wrong, as rows say them."""

import pytest

from etir.diagnostics import EtirError
from etir.lowering.decompose_aten.families.exact import MOST_IN_A_ROW
from etir.targets.manifest import load
from etir.targets.wrong import Wrong


def test_calls_that_end_the_stock_process_are_refused() -> None:
    stock = load("executorch")
    amax = {"self": 6, "out": 6}
    assert stock.check_call("aten::amax.out", amax, shapes={"self": (2, 3), "out": (2,)}) is None
    assert "ends the process" in str(stock.check_call("aten::amax.out", amax, shapes={"self": (0, 3), "out": (0,)}))
    for dim, reason in ((1, None), (-1, "ends the process: dims are not counted from the end")):
        assert stock.check_call("aten::narrow_copy.out", amax, others={"dim": dim}) == reason


def test_integers_beside_16_bits_are_refused() -> None:
    stock = load("executorch")
    assert stock.check_call("aten::add.out", [3, 5, 5], others={"alpha": 1}) == (
        "wrong result: the integers are not rounded to the type of the result"
    )


def test_what_depends_on_values_is_said_and_not_refused() -> None:
    stock = load("executorch")
    assert stock.kernels["aten::max_pool2d_with_indices.out"].wrong[0].values == "NaN"
    assert stock.check_call("aten::gelu.out", {"self": 6, "out": 6}) is None


def test_a_tensor_of_rank_0_that_is_converted_to_a_narrower_type() -> None:
    """Integers of 64 bits beside some of 8 bits are; integers beside floating point are not, nor what has dims."""
    stock, kernel = load("executorch"), "aten::maximum.out"
    narrow, out = (2, 3), (2, 3)
    for self, other, dims, is_wrong in (
        (1, 4, (), True),
        (6, 7, (), True),
        (6, 4, (), False),
        (4, 1, (), False),
        (1, 4, (3,), False),
    ):
        for names, shapes in ((("self", "other"), (narrow, dims)), (("other", "self"), (narrow, dims))):
            types = dict(zip(names, (self, other), strict=True))
            given = {**dict(zip(names, shapes, strict=True)), "out": out}
            common = self if is_wrong or self > other else other
            found = stock.check_call(kernel, {**types, "out": common}, shapes=given)
            assert (found is not None and "computed in the type of both" in found) == is_wrong, (types, dims, found)


def test_how_many_elements_are_added_one_after_the_other() -> None:
    (entry,) = load("executorch").kernels["aten::mean.out"].wrong
    for shape, dims, many in (
        ((64, 65), None, True),
        ((64, 64), (), False),
        ((64, 65), (1,), False),
        ((4097, 2), (-2,), True),
        ((4097, None), (0,), True),
        ((4097, None), (0, 1), False),
        ((), (-1,), False),
    ):
        assert entry.wants_parts({"self": shape}, dims) == many, (shape, dims)
    assert "more than 4096 elements of self" in entry.text
    assert entry.above == MOST_IN_A_ROW


def test_unknown_fields_are_errors() -> None:
    with pytest.raises(EtirError, match="E0602"):
        Wrong.parse({"why": "x", "when": "y"})
