"""The rule language: what each term accepts, and what a refusal says."""

import pytest

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType as S
from etir.targets.dtypes import SETS, can_cast, can_hold, promote, promote_with_scalar, scalar_type
from etir.targets.rules import Call, DimOrderRule, DtypeRule, is_channels_last, is_contiguous, parse_constraint

NHWC = (0, 2, 3, 1)
NCHW = (0, 1, 2, 3)


def accepts(row: dict[str, str], tensors: dict[str, tuple[S, ...]], **others: object) -> bool:
    return DtypeRule.parse([row]).failure(Call(tensors, others)) is None  # type: ignore[arg-type]


def test_set_names_follow_the_legend():
    assert set(SETS["REALHBBF16"]) == {*SETS["INT"], S.FLOAT, S.DOUBLE, S.HALF, S.BOOL, S.BFLOAT16}
    assert set(SETS["FLOATHBF16"]) == {S.FLOAT, S.DOUBLE, S.HALF, S.BFLOAT16}
    assert set(SETS["INTB"]) == {*SETS["INT"], S.BOOL}
    assert S.BOOL not in SETS["REALHBF16"]
    assert S.FLOAT8E5M2 in SETS["any"]


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (S.BYTE, S.CHAR, S.SHORT),
        (S.BYTE, S.LONG, S.LONG),
        (S.LONG, S.HALF, S.HALF),
        (S.HALF, S.BFLOAT16, S.FLOAT),
        (S.BOOL, S.BOOL, S.BOOL),
        (S.DOUBLE, S.COMPLEXFLOAT, S.COMPLEXDOUBLE),
        (S.UINT16, S.INT, None),
        (S.QINT8, S.FLOAT, None),
    ],
)
def test_promotion(a: S, b: S, common: S | None):
    assert promote(a, b) == promote(b, a) == common


def test_numbers_change_a_type_only_by_category():
    assert promote_with_scalar(S.BYTE, "int") == S.BYTE
    assert promote_with_scalar(S.BYTE, "float") == S.FLOAT
    assert promote_with_scalar(S.BOOL, "int") == S.LONG
    assert promote_with_scalar(S.HALF, "float") == S.HALF
    assert can_hold(S.INT, "bool") and not can_hold(S.INT, "float")


def test_casts_go_up_only():
    assert can_cast(S.DOUBLE, S.HALF) and can_cast(S.LONG, S.BYTE) and can_cast(S.BOOL, S.CHAR)
    assert not can_cast(S.HALF, S.LONG) and not can_cast(S.INT, S.BOOL) and not can_cast(S.QINT8, S.FLOAT)


def test_scalar_types_by_name_and_number():
    assert scalar_type("Float") == scalar_type("FLOAT") == scalar_type(6) == S.FLOAT
    for wrong in ("Flaot", 99):
        with pytest.raises(EtirError) as error:
            scalar_type(wrong)
        assert error.value.ids == ("E0602",)
        assert str(wrong) in str(error.value)


def test_sets_and_equality():
    row = {"self": "REALHBF16", "index": "Int+Long", "out": "=self"}
    assert accepts(row, {"self": (S.HALF,), "index": (S.INT,), "out": (S.HALF,)})
    assert not accepts(row, {"self": (S.BOOL,), "index": (S.INT,), "out": (S.BOOL,)})
    assert not accepts(row, {"self": (S.HALF,), "index": (S.SHORT,), "out": (S.HALF,)})
    assert not accepts(row, {"self": (S.HALF,), "index": (S.INT,), "out": (S.FLOAT,)})


def test_promote_is_exact_and_cast_is_not():
    tensors = {"a": (S.INT,), "b": (S.HALF,), "out": (S.FLOAT,)}
    assert accepts({"out": "cast(a, b)"}, tensors)
    assert not accepts({"out": "promote(a, b)"}, tensors)
    assert accepts({"out": "promote(a, b)"}, tensors | {"out": (S.HALF,)})
    assert not accepts({"out": "cast(a, b)"}, tensors | {"out": (S.LONG,)})


def test_a_number_takes_part_in_a_promotion():
    row = {"self": "REALHBF16", "out": "promote(self, other)"}
    integer = {"self": (S.INT,), "out": (S.INT,)}
    assert accepts(row, integer, other=2)
    assert not accepts(row, integer, other=2.5)
    assert accepts(row, {"self": (S.INT,), "out": (S.FLOAT,)}, other=float)
    assert accepts(row, integer), "a number that is not known is not checked"


def test_fits_compares_categories():
    row = {"self": "REALHBBF16", "alpha": "fits(self)"}
    assert accepts(row, {"self": (S.INT,)}, alpha=2)
    assert not accepts(row, {"self": (S.INT,)}, alpha=2.5)
    assert not accepts(row, {"self": (S.BOOL,)}, alpha=2)


def test_literals():
    assert accepts({"mode": "is(none, trunc)"}, {}, mode=None)
    assert accepts({"mode": "is(none, trunc)"}, {}, mode="trunc")
    assert not accepts({"mode": "is(none, trunc)"}, {}, mode="floor")
    assert accepts({"flag": "is(false)"}, {}, flag=False) and not accepts({"flag": "is(false)"}, {}, flag=True)
    assert accepts({"x": "is(int)"}, {}, x=3) and not accepts({"x": "is(int)"}, {}, x=True)
    assert accepts({"dims": "is(nonempty)"}, {}, dims=[1]) and not accepts({"dims": "is(nonempty)"}, {}, dims=[])


def test_a_requested_dtype_is_constrained_like_a_tensor():
    rows = [
        {"self": "FLOATHBF16", "dtype": "is(none)", "out": "FLOATHBF16"},
        {"self": "REALHBBF16", "dtype": "FLOATHBF16", "out": "=dtype"},
    ]
    rule = DtypeRule.parse(rows)
    assert rule.failure(Call({"self": (S.INT,), "out": (S.FLOAT,)}, {"dtype": S.FLOAT})) is None
    assert rule.failure(Call({"self": (S.INT,), "out": (S.HALF,)}, {"dtype": S.FLOAT})) is not None
    assert rule.failure(Call({"self": (S.INT,), "out": (S.FLOAT,)}, {"dtype": None})) is not None
    assert rule.failure(Call({"self": (S.HALF,), "out": (S.FLOAT,)}, {"dtype": None})) is None


def test_lists_and_absent_tensors():
    row = {"tensors": "REALHBBF16", "bias": "=tensors", "out": "promote(tensors)"}
    assert accepts(row, {"tensors": (S.INT, S.HALF), "bias": (), "out": (S.HALF,)})
    assert not accepts(row, {"tensors": (S.INT, S.COMPLEXFLOAT), "bias": (), "out": (S.COMPLEXFLOAT,)})
    assert not accepts(row, {"tensors": (S.INT, S.HALF), "bias": (S.HALF,), "out": (S.HALF,)})


def test_a_refusal_names_the_arguments_of_the_closest_row():
    rule = DtypeRule.parse([{"self": "COMPLEXH", "out": "=self"}, {"self": "REALHBF16", "out": "=self"}])
    assert rule.failure(Call({"self": (S.INT,), "out": (S.LONG,)}, {})) == "'out' is LONG, must be the type of 'self'"
    assert DtypeRule.parse([]).failure(Call({}, {})) == "the kernel accepts no types at all"


@pytest.mark.parametrize("text", ["RHBfB", "Int + Lung", "casts(self)", "", "cast(self"])
def test_a_constraint_that_is_not_understood_is_an_error(text: str):
    with pytest.raises(EtirError) as error:
        parse_constraint(text)
    assert error.value.ids == ("E0602",)


def test_dim_order_words():
    assert is_contiguous(()) and is_contiguous(NCHW) and not is_contiguous(NHWC)
    assert is_channels_last(NHWC) and is_channels_last((0, 2, 3, 4, 1))
    assert not is_channels_last((0,)) and not is_channels_last((0, 2, 1))
    same = DimOrderRule("same")
    assert same.failure({"a": [NHWC], "b": [NHWC]}, {}, {}) is None
    assert same.failure({"a": [NHWC], "b": [()]}, {}, {}) is not None, "a scalar is contiguous, not channels-last"
    assert same.failure({"a": [(0, 1, 3, 2)]}, {}, {}) is not None
    assert DimOrderRule("any").failure({"a": [NHWC], "b": [NCHW]}, {}, {}) is None
    mixed = DimOrderRule({"input": "same", "weight": "either", "out": "same"})
    assert mixed.failure({"input": [NHWC], "weight": [NCHW], "bias": [(0,)], "out": [NHWC]}, {}, {}) is None
    assert mixed.failure({"input": [NHWC], "weight": [NCHW], "bias": [], "out": [NCHW]}, {}, {}) is not None
    assert mixed.failure({"input": [NCHW], "weight": [(0, 1, 3, 2)], "bias": [], "out": [NCHW]}, {}, {}) is not None
    with pytest.raises(EtirError):
        DimOrderRule("channels_last")


def test_same_shape_forbids_broadcasting_channels_last():
    rule = DimOrderRule("same_shape")
    shapes = {"a": [(2, 3, 4, 5)], "b": [(1, 3, 1, 1)]}
    assert rule.failure({"a": [NCHW], "b": [NCHW]}, shapes, {}) is None
    assert "broadcast" in str(rule.failure({"a": [NHWC], "b": [NHWC]}, shapes, {}))
    assert rule.failure({"a": [NHWC], "b": [NHWC]}, {"a": [(None, 3, 4, 5)], "b": [(2, 3, 4, None)]}, {}) is None
    assert rule.failure({"a": [NHWC], "b": [NHWC]}, {}, {}) is None


def test_requested_follows_the_argument():
    rule = DimOrderRule({"self": "any", "out": "requested"})
    assert rule.failure({"self": [NCHW], "out": [NHWC]}, {}, {"dim_order": list(NHWC)}) is None
    assert rule.failure({"self": [NHWC], "out": [NCHW]}, {}, {"dim_order": None}) is not None
    assert rule.failure({"self": [NHWC], "out": [NHWC]}, {}, {"dim_order": None}) is None


def test_is_none_requires_an_optional_tensor_to_be_absent():
    row = {"x": "REALHBF16", "zero_points": "is(none)"}
    assert accepts(row, {"x": (S.FLOAT,), "zero_points": ()})
    assert not accepts(row, {"x": (S.FLOAT,), "zero_points": (S.LONG,)})


def test_a_failure_names_all_alternatives():
    rows = DtypeRule.parse(
        [{"self": "Int", "out": "=self"}, {"self": "Half+Float", "out": "=self"}, {"self": "COMPLEXH"}]
    )
    problem = rows.failure(Call({"self": (S.BYTE,), "out": (S.BYTE,)}, {}))
    assert problem == "'self' is BYTE, must be one of INT, HALF, FLOAT, COMPLEXHALF, COMPLEXFLOAT, COMPLEXDOUBLE"
    problem = rows.failure(Call({"self": (S.INT,), "out": (S.BYTE,)}, {}))
    assert problem is not None and problem.count(" or ") == 1
    assert "must be the type of 'self'" in problem
