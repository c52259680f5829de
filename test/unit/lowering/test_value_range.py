"""What is known about masks and ranges from the operations that make them."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from etir.dialects.dtypes import i1
from etir.dialects.et.program import WeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module
from etir.lowering.decompose_aten.value_range import every_row_has_true, never_minus_infinity, value_range
from etir.passes.infra.base import methods

M = "tensor<4x4xf32>"
HEAD = """
sym.dim @s0 in [1, 8]
func.func @forward(%p: tensor<4xi64>, %b: tensor<4x4xi1>, %f: tensor<4x4xf32>, %i: tensor<4x1xi64>) {
  %zero = aten.full.default(size = [], fill_value = 0.0) : () -> tensor<f32>
  %low = aten.full.default(size = [], fill_value = -1.0e30) : () -> tensor<f32>
  %inf = aten.full.default(size = [], fill_value = -inf) : () -> tensor<f32>
  %all = aten.full.default(size = [4, 4], fill_value = true) : () -> tensor<4x4xi1>
  %col = aten.arange.start_step(start = 0, end = 4, dtype = i64) : () -> tensor<4xi64>
  %row = aten.unsqueeze.default(%col, dim = 1) : (tensor<4xi64>) -> tensor<4x1xi64>
  %cast = aten._to_copy.default(%b, dtype = f32) : (tensor<4x4xi1>) -> tensor<4x4xf32>
"""
TAIL = """
  func.return
}
"""


def value(line: str) -> SSAValue:
    """The result of one more operation after :data:`HEAD`."""
    (method,) = methods(parse_module(f"{HEAD}  %v = {line}{TAIL}"))
    last = method.body.block.last_op
    assert last is not None and last.prev_op is not None
    return last.prev_op.results[0]


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("aten.le.Tensor(%col, %row) : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>", True),
        ("aten.ge.Tensor(%row, %col) : (tensor<4x1xi64>, tensor<4xi64>) -> tensor<4x4xi1>", True),
        ("aten.lt.Tensor(%col, %row) : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>", False),
        ("aten.le.Tensor(%col, %i) : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>", False),
        ("aten.le.Tensor(%p, %row) : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>", False),
        ("aten.logical_or.default(%b, %all) : (tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>", True),
        ("aten.logical_and.default(%b, %all) : (tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>", False),
        ("aten.slice.Tensor(%all, dim = 0, start = 1) : (tensor<4x4xi1>) -> tensor<3x4xi1>", True),
        ("aten.slice.Tensor(%all, dim = 1, start = 1) : (tensor<4x4xi1>) -> tensor<4x3xi1>", False),
        ("aten.index.Tensor(%all, [%p]) : (tensor<4x4xi1>, tensor<4xi64>) -> tensor<4x4xi1>", True),
        ("aten.index.Tensor(%all, [none, %p]) : (tensor<4x4xi1>, tensor<4xi64>) -> tensor<4x4xi1>", False),
        ("aten.permute.default(%all, dims = [1, 0]) : (tensor<4x4xi1>) -> tensor<4x4xi1>", False),
        ("aten.where.self(%b, %all, %b) : (tensor<4x4xi1>, tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>", False),
        ("et.constant dense<[[1, 0], [0, 1]]> : tensor<2x2xi1>", True),
        ("et.constant dense<[[1, 1], [0, 0]]> : tensor<2x2xi1>", False),
    ],
)
def test_rows_with_a_true_element(line: str, known: bool) -> None:
    assert every_row_has_true(value(line)) == known


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("aten.where.self(%b, %zero, %low) : (tensor<4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>", True),
        ("aten.where.self(%b, %zero, %inf) : (tensor<4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>", False),
        ("aten.where.self(%b, %f, %low) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>", False),
        (
            "aten.masked_fill.Scalar(%cast, %b, value = -1.0e9) : (tensor<4x4xf32>, tensor<4x4xi1>) -> tensor<4x4xf32>",
            True,
        ),
        ("aten.mul.Scalar(%cast, other = -3.0e38) : (tensor<4x4xf32>) -> tensor<4x4xf32>", True),
        ("aten.mul.Scalar(%cast, other = -3.0e39) : (tensor<4x4xf32>) -> tensor<4x4xf32>", False),
        ("aten.rsub.Scalar(%cast, other = 1.0) : (tensor<4x4xf32>) -> tensor<4x4xf32>", True),
        ("aten.neg.default(%f) : (tensor<4x4xf32>) -> tensor<4x4xf32>", False),
    ],
)
def test_masks_without_minus_infinity(line: str, known: bool) -> None:
    assert never_minus_infinity(value(line)) == known


@pytest.mark.parametrize(
    ("line", "interval"),
    [
        ("aten.rsub.Scalar(%cast, other = 1.0) : (tensor<4x4xf32>) -> tensor<4x4xf32>", (0.0, 1.0)),
        ("aten.sub.Scalar(%cast, other = 1.0, alpha = 2) : (tensor<4x4xf32>) -> tensor<4x4xf32>", (-2.0, -1.0)),
        (
            "aten.add.Tensor(%cast, %cast, alpha = -2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>",
            (-2.0, 1.0),
        ),
        ("aten.mul.Tensor(%cast, %low) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>", (-1.0e30, 0.0)),
        ("et.constant dense<[3, -1]> : tensor<2xi64>", (-1.0, 3.0)),
        ("aten.relu.default(%f) : (tensor<4x4xf32>) -> tensor<4x4xf32>", None),
        ("aten._to_copy.default(%low, dtype = i1) : (tensor<f32>) -> tensor<i1>", (0.0, 1.0)),
        ("aten._to_copy.default(%low, dtype = f16) : (tensor<f32>) -> tensor<f16>", None),
        # A trace may have a number in the place of a tensor.
        ("aten._to_copy.default(5, dtype = f32) : () -> tensor<f32>", (5.0, 5.0)),
        ("aten.neg.default(3) : () -> tensor<f32>", (-3.0, -3.0)),
        ("aten.view.default(2.5, size = [1]) : () -> tensor<1xf32>", (2.5, 2.5)),
    ],
)
def test_ranges(line: str, interval: tuple[float, float] | None) -> None:
    assert value_range(value(line)) == interval


def _with_weight(mask: np.ndarray) -> ModuleOp:
    module = parse_module("""
func.func @forward(%p: tensor<2xi64>, %q: tensor<1x2x8xf32>, %k: tensor<1x4x8xf32>) -> tensor<1x2x8xf32> {
  %m = et.get_weight @mask : tensor<4x4xi1>
  %r = aten.index.Tensor(%m, [%p]) : (tensor<4x4xi1>, tensor<2xi64>) -> tensor<2x4xi1>
  %y = aten.scaled_dot_product_attention.default(%q, %k, %k, %r) : (tensor<1x2x8xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<2x4xi1>) -> tensor<1x2x8xf32>
  func.return %y : tensor<1x2x8xf32>
}
""")  # noqa: E501
    weight = WeightOp("mask", TensorType(i1, mask.shape), BlobAttr(Blob.of(mask.tobytes())))
    first = module.body.block.first_op
    assert first is not None
    module.body.block.insert_op_before(weight, first)
    return module


@pytest.mark.parametrize("hidden", [False, True])
def test_the_bytes_of_a_mask_decide_about_the_guard(hidden: bool) -> None:
    from etir_testing.lowering.one_op import decompose

    mask = np.tril(np.ones([4, 4], dtype=bool))
    mask[2] = not hidden
    assert ("aten.any.dim" in decompose(_with_weight(mask))) == hidden
