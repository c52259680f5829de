"""``tile.softmax`` of rows of every length, with the largest element, and what is no number, at every place."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from etir_testing.native.emulated import EMULATORS
from etir_testing.native.functions import parsed_function
from etir_testing.native.images import Code, here, meaning

pytestmark = pytest.mark.filterwarnings("ignore")


def softmax(rows: int, length: int, word: str = "") -> FuncOp:
    type = f"memref<{rows}x{length}xf32>"
    return parsed_function(f"""
func.func @f(%x: {type}, %y: {type}) attributes {{native.outputs = 1 : i64}} {{
  tile.softmax {word} %x, %y : {type}, {type}
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


def hidden_rows(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are hidden, hidden but for one element, hidden with a NaN or an infinity, and shown; what is wanted."""
    x = np.random.default_rng(length).standard_normal((length + 4, length)).astype(np.float32)
    x[:-1] = -np.inf
    x[np.arange(1, length + 1), np.arange(length)] = -300.0
    x[length + 1, length // 2] = np.nan
    x[length + 2, length - 1] = np.inf
    wanted = np.zeros_like(x)
    wanted[np.arange(1, length + 1), np.arange(length)] = 1.0
    shown = np.exp(x[-1].astype(np.float64) - x[-1].max())
    wanted[-1] = shown / shown.sum()
    return x, wanted


@pytest.mark.parametrize("length", [1, 3, 8, 31, 64, 129, 200])
def test_hidden_rows_are_zeros(length: int) -> None:
    """With ``safe``; what is no number is none, and rows that are shown are what they are without it."""
    x, wanted = hidden_rows(length)
    for name in here():
        (found,) = Code(softmax(*x.shape, "safe"), name)([x])
        np.testing.assert_allclose(found[: length + 1], wanted[: length + 1], atol=1e-7, err_msg=name)
        assert not found[0].any() and np.isnan(found[length + 1 : length + 3]).any(1).all(), name
        np.testing.assert_allclose(found[-1], wanted[-1], rtol=2e-6, err_msg=name)
        (plain,) = Code(softmax(*x.shape), name)([x])
        assert np.isnan(plain[0]).all() and np.array_equal(plain[[1, -1]], found[[1, -1]]), name


@pytest.mark.parametrize("name", EMULATORS)
def test_hidden_rows_on_other_processors(name: str) -> None:
    if EMULATORS[name].missing is not None or name in here():
        pytest.skip("nothing runs this code here, or the test before does")
    x, wanted = hidden_rows(31)
    (found,) = Code(softmax(*x.shape, "safe"), name)([x])
    np.testing.assert_allclose(found[:32], wanted[:32], atol=1e-7)
    assert np.isnan(found[32:34]).any(1).all()
    np.testing.assert_allclose(found[-1], wanted[-1], rtol=2e-6)


def test_the_meaning_of_hidden_rows() -> None:
    """What the interpreter computes of the text."""
    x, wanted = hidden_rows(31)
    (found,) = meaning(softmax(*x.shape, "safe"), [x], {})
    np.testing.assert_allclose(found[[*range(32), 34]], wanted[[*range(32), 34]], rtol=1e-6, atol=1e-7)
    assert np.isnan(found[32:34]).any(1).all()


def test_a_logarithm_has_no_zeros() -> None:
    with pytest.raises(Exception, match="no logarithm of the zeros"):
        softmax(2, 3, "log safe").verify()
