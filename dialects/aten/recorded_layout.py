"""Names of the attributes by which an importer says how eager PyTorch lays tensors out, where types do not say it."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute

DIM_ORDERS = "dim_orders"
"""Of an operator: for each result its dims from the outermost to the innermost one, ``unit`` if not known."""

INPUT_ORDER = "et.dim_order"
"""Of an argument: the dim order of the input at export, ``unit`` if it has gaps."""

INPUT_OFFSET = "et.storage_offset"
"""Of an argument: where the input started in its storage at export, if not at its beginning."""

SELF_LAYOUT = "self_layout"
"""Of ``as_strided``: the strides and, last, the offset of its operand in eager mode."""

TRACED_AS_COPIES = frozenset({"aten.dropout.default"})
"""Operators that return their input itself in eager mode, of which torch's traces make a copy: what export records of
their results, and of views of these, is another storage than that of the input."""


def recorded_order(attribute: Attribute | None) -> tuple[int, ...] | None:
    """The dim order in an attribute, or in a list of one; None for anything else."""
    if isinstance(attribute, ArrayAttr):
        attribute = attribute.data[0] if len(attribute.data) == 1 else None
    return tuple(int(d) for d in attribute.get_values()) if isinstance(attribute, DenseArrayBase) else None


def recorded_offset(attributes: Mapping[str, Attribute]) -> int:
    """Where an input started in its storage, by the attributes of its argument."""
    known = attributes.get(INPUT_OFFSET)
    return known.value.data if isinstance(known, IntegerAttr) else 0
