"""A row of elements seen with another element type: complex numbers as pairs, bytes under another dtype."""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Attribute

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import Dim, tensor_type
from etir.dialects.literals import ArgValue
from etir.lowering.functionalize.emitter import Tensor

ViewStep = tuple[type[AtenOp], dict[str, ArgValue], Tensor]
"""A view operator, its arguments besides the tensor, and the type of its result."""


def element_views(count: Dim, own: Attribute, wanted: Attribute) -> list[ViewStep] | None:
    """Views of ``tensor<count x own>`` that give ``tensor<n x wanted>`` of the same bytes.

    None when the bytes are no whole number of elements.
    """
    steps: list[ViewStep] = []
    if own == wanted:
        return steps
    if isinstance(own, ComplexType):
        own = own.element_type
        steps.append((aten.view_as_real.default, {}, tensor_type(own, [count, 2])))
        count = 2 * count
        steps.append((aten.view.default, {"size": [-1]}, tensor_type(own, [count])))
    plain = wanted.element_type if isinstance(wanted, ComplexType) else wanted
    if own != plain:
        sizes = dtype_of(own).itemsize, dtype_of(plain).itemsize
        if count * sizes[0] % sizes[1] != 0:
            return None
        count = count * sizes[0] // sizes[1]
        steps.append((aten.view.dtype, {"dtype": plain}, tensor_type(plain, [count])))
    if plain != wanted:
        if count % 2 != 0:
            return None
        count = count // 2
        steps.append((aten.view.default, {"size": [-1, 2]}, tensor_type(plain, [count, 2])))
        steps.append((aten.view_as_complex.default, {}, tensor_type(wanted, [count])))
    return steps
