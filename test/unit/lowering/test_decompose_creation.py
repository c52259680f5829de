"""Operators that make tensors, and casts, against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir.dialects.text import parse_module

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import check, decompose, one_op_module

X = torch.arange(12.0).reshape(3, 4)

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.zeros.default", ([2, 3],), {}),
    ("aten.zeros.default", ([2, 3],), {"dtype": torch.int64}),
    ("aten.ones.default", ([],), {"dtype": torch.bool}),
    ("aten.zeros_like.default", (X,), {}),
    ("aten.zeros_like.default", (X,), {"dtype": torch.int32}),
    ("aten.ones_like.default", (X,), {}),
    ("aten.full_like.default", (X, 3), {}),
    ("aten.full_like.default", (X, 2.7), {"dtype": torch.int64}),
    ("aten.new_zeros.default", (X, [5]), {}),
    ("aten.new_ones.default", (X, [5, 1]), {"dtype": torch.float64}),
    ("aten.new_full.default", (X, [2], 7), {}),
    ("aten.fill.Scalar", (X, 4), {}),
    ("aten.fill.Tensor", (X, torch.tensor(3)), {}),
    ("aten.arange.default", (7,), {}),
    ("aten.arange.default", (2.5,), {}),
    ("aten.arange.start", (3, 9), {"dtype": torch.float32}),
    ("aten.linspace.default", (-1.0, 2.0, 7), {}),
    ("aten.linspace.default", (0, 1, 1), {}),
    ("aten.linspace.default", (3, -5, 10), {"dtype": torch.int64}),
    ("aten.eye.default", (4,), {}),
    ("aten.eye.m", (3, 5), {"dtype": torch.bool}),
    ("aten.tril_indices.default", (4, 3, -1), {}),
    ("aten.triu_indices.default", (3, 4, 1), {}),
    ("aten.hann_window.default", (8,), {}),
    ("aten.hann_window.periodic", (9, False), {}),
    ("aten.hamming_window.default", (5,), {}),
    ("aten.hamming_window.periodic", (1, True), {}),
    ("aten.one_hot.default", (torch.tensor([[1, 0], [3, 2]]), 5), {}),
    ("aten.to.dtype", (X, torch.int64), {}),
    ("aten.to.dtype", (X, torch.float32), {}),
    ("aten.to.dtype_layout", (X,), {"dtype": torch.float64}),
    ("aten.to.other", (X, torch.ones(2, dtype=torch.float16)), {}),
    ("aten.type_as.default", (X, torch.ones(2, dtype=torch.int32)), {}),
    ("aten._cast_Float.default", (torch.arange(3),), {}),
    ("aten.clone.default", (X,), {}),
    ("aten.contiguous.default", (X,), {}),
    ("aten.detach.default", (X,), {}),
    ("aten.lift_fresh_copy.default", (X,), {}),
    ("aten.copy.default", (X, torch.arange(4)), {}),
    ("aten.scalar_tensor.default", (3,), {"dtype": torch.int64}),
    ("aten.conj_physical.default", (X,), {}),
    ("aten.range.step", (1, 8, 2), {}),
    ("aten.range.default", (1, 8), {}),
    ("aten.zero.default", (X,), {}),
    ("aten.to.device", (X, "cpu", torch.float64), {}),
    *[(f"aten._cast_{n}.default", (X,), {}) for n in ("Byte", "Char", "Short", "Int", "Long", "Half", "Double")],
    ("aten._to_copy.default", (X,), {}),
    ("aten.alias.default", (X,), {}),
    ("aten.detach_copy.default", (X,), {}),
    ("aten.alias_copy.default", (X,), {}),
    ("aten.lift.default", (X,), {}),
    ("aten.positive.default", (X,), {}),
    ("aten.resolve_conj.default", (X,), {}),
    ("aten.resolve_neg.default", (X,), {}),
    ("aten._conj_physical.default", (X,), {}),
    ("aten.conj.default", (X,), {}),
    ("aten.real.default", (X,), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_creation(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows_of_every_length(name: str, length: int, periodic: bool) -> None:
    """One element has no period, and of two the last is where the window ends."""
    check(f"aten.{name}_window.periodic", length, periodic, dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten.zeros_like.default", ()),
        ("aten.full_like.default", (2.5,)),
        ("aten.fill.Scalar", (1,)),
        ("aten.copy.default", (torch.arange(4.0),)),
        ("aten.to.dtype", (torch.float64,)),
    ],
)
def test_dynamic_sizes(name: str, args: tuple[Any, ...]) -> None:
    check(name, X, *args, dynamic={0: [0, 1]})


@pytest.mark.parametrize("name", ["data", "lift_fresh", "_lazy_clone", "_conj"])
def test_copies_that_only_tracing_makes(name: str) -> None:
    text = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.NAME.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
    assert decompose(parse_module(text.replace("NAME", name))) == []


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("new_empty.default", (X, [2, 3])),
        ("empty_strided.default", ([2, 3], [3, 1])),
        ("empty_permuted.default", ([2, 3], [0, 1])),
        ("new_empty_strided.default", (X, [2, 3], [3, 1])),
        ("empty_like.default", (X,)),
    ],
)
def test_uninitialized_tensors_are_zeros(name: str, args: tuple[Any, ...]) -> None:
    module, tensors = one_op_module(f"aten.{name}", args, {})
    assert decompose(module) == ["aten.full.default"]
    assert not evaluate(module, tensors)[0].any()


@pytest.mark.parametrize("name", ["rand_like", "randn_like"])
def test_random_tensors(name: str) -> None:
    module, _ = one_op_module(f"aten.{name}.default", (X,), {}, {0: [0]})
    assert decompose(module) == ["aten.sym_size.int", f"aten.{name.removesuffix('_like')}.default"]


def test_positions_of_nonzero_elements() -> None:
    text = """
sym.dim @u0 in [0, 4]
func.func @forward(%x: tensor<4xf32>) -> tensor<?x1xi64, #et.layout<dims = [u0, 1]>> {
  %0 = aten.argwhere.default(%x) : (tensor<4xf32>) -> tensor<?x1xi64, #et.layout<dims = [u0, 1]>>
  func.return %0 : tensor<?x1xi64, #et.layout<dims = [u0, 1]>>
}
"""
    assert decompose(parse_module(text)) == ["aten.nonzero.default"]


def test_item() -> None:
    text = """
func.func @forward(%x: tensor<i64>) -> i64 {
  %0 = aten.item.default(%x) : (tensor<i64>) -> i64
  func.return %0 : i64
}
"""
    assert decompose(parse_module(text)) == ["aten._local_scalar_dense.default"]


def test_memory_format_stays() -> None:
    x = torch.rand(1, 3, 4, 4)
    names = check("aten.to.dtype", x, torch.float64, memory_format=torch.channels_last)
    assert names == ["aten._to_copy.default"]
    assert check("aten.contiguous.default", x) == []
