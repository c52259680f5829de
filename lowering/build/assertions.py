"""Assertions about what tensors hold, as torch makes them: ``sym.assert`` of a number that is read from one."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i1
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.sym.ops import AssertOp

Insert = Callable[[Operation], object]


def assert_true(value: SSAValue, message: str, insert: Insert) -> None:
    """Assert that a tensor with one element is true, or not 0."""
    assert isinstance(value.type, TensorType)
    if value.type.element_type != i1:
        bools = tensor_type(i1, dims_of(value.type))
        insert(compared := aten.ne.Scalar.make({"self": value, "other": 0}, [bools]))
        value = compared.results[0]
    insert(number := aten.item.default.make({"self": value}, [i1]))
    insert(AssertOp(number.results[0], message))


def assert_factored(info: SSAValue, name: str, insert: Insert) -> None:
    """Assert that ``info``, which a factorization gives for each matrix, is 0 for all: ``_linalg_check_errors``.

    ``name`` is the function that the user called.
    """
    assert isinstance(info.type, TensorType)
    bools = tensor_type(i1, dims_of(info.type))
    insert(compared := aten.eq.Scalar.make({"self": info, "other": 0}, [bools]))
    insert(every := aten.all.default.make({"self": compared.results[0]}, [tensor_type(i1, [])]))
    assert_true(every.results[0], f"{name}: a matrix is singular, or has no such factorization", insert)
