"""Casts, copies and other operators that give back their input, maybe in another type or memory format.

At this level values are immutable, so that a copy is its input.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i1, ui8
from etir.dialects.et.layout import order_of
from etir.lowering.build.builder import Builder, element
from etir.lowering.build.inference import tensor_type_of
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.float8 import format_of, from_float8, to_float8


def _converted(b: Builder, x: SSAValue) -> SSAValue:
    """``x`` in the element type and dim order of the result."""
    wanted = b.declared
    given = tensor_type_of(x)
    if order_of(given) != order_of(wanted):
        rank = wanted.get_num_dims()
        contiguous = order_of(wanted) == tuple(range(rank))
        memory_format = "contiguous" if contiguous else "channels_last" if rank == 4 else "channels_last_3d"
        if element(x) == wanted.element_type:
            return b(aten.clone.default, x, memory_format=memory_format, types=[wanted])
        return b(aten._to_copy.default, x, dtype=wanted.element_type, memory_format=memory_format, types=[wanted])
    return b.cast(x, wanted.element_type)


@decomposition(
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.device,
    aten.to.other,
    aten.type_as.default,
    aten._cast_Byte.default,
    aten._cast_Char.default,
    aten._cast_Short.default,
    aten._cast_Int.default,
    aten._cast_Long.default,
    aten._cast_Half.default,
    aten._cast_Float.default,
    aten._cast_Double.default,
)
def to(b: Builder, x: SSAValue, *_options: object) -> SSAValue:
    """A cast, or the input where nothing changes. Everything is on one device, so that only the type counts."""
    return _converted(b, x)


@decomposition(aten._to_copy.default)
def to_copy(b: Builder, x: SSAValue, *_options: object) -> SSAValue | None:
    """The input where neither the type nor the dim order changes; 8-bit floats by a table."""
    wanted, given = b.declared, tensor_type_of(x)
    if element(x) != wanted.element_type and order_of(given) == order_of(wanted):
        if format_of(element(x)) is not None:
            return from_float8(b, x, wanted.element_type)
        if format_of(wanted.element_type) is not None:
            return to_float8(b, x, wanted.element_type)
    if element(x) != wanted.element_type or order_of(given) != order_of(wanted):
        return b.notify_match_failure("it changes the element type or the dim order")
    return x


@decomposition(aten.view.dtype, aten.view_copy.dtype)
def bytes_as_bools(b: Builder, x: SSAValue, *_options: object) -> SSAValue | None:
    """``ne`` of each byte and 0 where the result is bool: kernels read the byte of a bool as the number 0 or 1"""
    wanted = b.declared
    if wanted.element_type != i1 or element(x) == i1:
        return b.notify_match_failure("the result is not bool")
    number = TensorType(ui8, wanted.get_shape(), wanted.encoding)
    raw = x if element(x) == number.element_type else b(aten.view.dtype, x, number.element_type, types=[number])
    return b(aten.ne.Scalar, raw, 0, types=[wanted])


@decomposition(aten.clone.default, aten.contiguous.default)
def copy(b: Builder, x: SSAValue, *_options: object) -> SSAValue | None:
    """The input where the dim order does not change."""
    if order_of(b.declared) == order_of(tensor_type_of(x)):
        return x
    return (
        b.notify_match_failure("it changes the dim order")
        if isinstance(b.rewriter.root, aten.clone.default)
        else _converted(b, x)
    )


@decomposition(
    aten.alias.default,
    aten.detach.default,
    aten.detach_copy.default,
    aten.alias_copy.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.data.default,
    aten.positive.default,
    aten.resolve_conj.default,
    aten.resolve_neg.default,
    aten._lazy_clone.default,
)
def identity(b: Builder, x: SSAValue, *_options: object) -> SSAValue | None:
    """The input."""
    if isinstance(b.rewriter.root, aten.alias.default) and x.type != b.rewriter.root.results[0].type:
        return b.notify_match_failure("it gives the type another spelling")
    return x


@decomposition(
    aten.conj_physical.default,
    aten._conj_physical.default,
    aten.conj.default,
    aten._conj.default,
    aten._conj_copy.default,
)
def conjugate(b: Builder, x: SSAValue) -> SSAValue | None:
    """The input, for real types; ``_conj_physical`` for complex ones."""
    if element(x) == element(b.rewriter.root.results[0]) and "complex" not in str(element(x)):
        return x
    if isinstance(b.rewriter.root, aten._conj_physical.default):
        return b.notify_match_failure("it is complex")
    return b(aten._conj_physical.default, x, types=[b.rewriter.root.results[0].type])


@decomposition(aten.real.default)
def real(b: Builder, x: SSAValue) -> SSAValue | None:
    """The input, for real types."""
    return b.notify_match_failure("it is complex") if "complex" in str(element(x)) else x


@decomposition(aten.copy.default, symint_args=("non_blocking",))
def overwrite(b: Builder, x: SSAValue, source: SSAValue, _non_blocking: bool) -> SSAValue:
    """The source in the type and shape of the destination."""
    return b.expand(b.cast(source, element(x)), b.sizes(x))


@decomposition(aten.item.default)
def item(b: Builder, x: SSAValue) -> SSAValue:
    """The element of a tensor that has one, as a runtime scalar"""
    return b(aten._local_scalar_dense.default, x, types=[b.rewriter.root.results[0].type])
