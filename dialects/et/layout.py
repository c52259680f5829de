"""The one encoding of tensor types: symbolic dims and dim order, ``#et.layout<dims = [s0, 4], order = [0, 2, 3, 1]>``.

Equality of symbolic shapes is equality of types, so that verifiers, CSE and pattern matching get it for free.
Canonical form: no encoding at all when every dim is static and the order is contiguous; ``?`` in the shape exactly
where the expression is not a constant; ``dims`` absent when all dims are static; ``order`` absent when contiguous.
:func:`tensor_type` builds canonical types only and shares equal ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, TensorType
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from etir.dialects.kept import kept
from etir.dialects.sym.expr import SymExpr, const
from etir.dialects.sym.expr import parse as parse_expr

Dim: TypeAlias = int | SymExpr


@dataclass(frozen=True)
class Layout:
    """Symbolic dims (None: all static) and dim order, outermost first (None: contiguous)."""

    dims: tuple[SymExpr, ...] | None = None
    order: tuple[int, ...] | None = None


_FIELD = re.compile(r"\s*(dims|order)\s*=\s*\[")


def _split_fields(body: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while body[position:].strip():
        match = _FIELD.match(body, position)
        if match is None or match[1] in fields:
            raise ValueError("expected 'dims = [...]' and 'order = [...]', each at most once")
        end = body.find("]", match.end())
        if end < 0:
            raise ValueError(f"'{match[1]}' has no closing bracket")
        fields[match[1]] = body[match.end() : end]
        rest = body[end + 1 :].lstrip()
        position = len(body) - len(rest) + rest.startswith(",")
        if rest and not rest.startswith(","):
            raise ValueError("expected ',' between the fields")
    if not fields:
        raise ValueError("an empty layout is written by leaving the encoding out")
    return fields


def _split_top_level(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]] if text.strip() else []


def parse_layout(body: str) -> Layout:
    """The layout from the text between the angle brackets. Raises ``ValueError`` with what is wrong."""
    fields = _split_fields(body)
    dims = None
    if "dims" in fields:
        dims = tuple(parse_expr(part.strip()) for part in _split_top_level(fields["dims"]))
        if all(dim.is_const for dim in dims):
            raise ValueError("'dims' has no symbolic dim: leave it out")
    order = None
    if "order" in fields:
        parts = [part.strip() for part in _split_top_level(fields["order"])]
        if wrong := [part for part in parts if not part.isdecimal()]:
            entry = f"the entry '{wrong[0]}'" if wrong[0] else "an empty entry"
            raise ValueError(f"'order' has {entry} where the number of a dim is expected")
        order = tuple(map(int, parts))
        if sorted(order) != list(range(len(order))):
            raise ValueError(f"'order' {list(order)} is not a permutation")
        if list(order) == list(range(len(order))):
            raise ValueError("'order' is contiguous: leave it out")
    if dims is not None and order is not None and len(dims) != len(order):
        raise ValueError(f"'dims' has {len(dims)} entries and 'order' {len(order)}")
    return Layout(dims, order)


@irdl_attr_definition
class LayoutAttr(Data[Layout]):
    """Symbolic dims and dim order of a tensor type."""

    name = "et.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        position = parser.pos
        body = parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage]
        try:
            return parse_layout(body)
        except ValueError as error:
            parser.raise_error(f"bad tensor layout: {error}", position)

    def print_parameter(self, printer: Printer) -> None:
        fields: list[str] = []
        if self.data.dims is not None:
            fields.append(f"dims = [{', '.join(str(d) for d in self.data.dims)}]")
        if self.data.order is not None:
            fields.append(f"order = [{', '.join(str(d) for d in self.data.order)}]")
        printer.print_string(f"<{', '.join(fields)}>")


def tensor_type(element: Attribute, dims: Sequence[Dim], order: Sequence[int] | None = None) -> TensorType[Attribute]:
    """The canonical tensor type with ``dims`` (ints or expressions) and ``order`` (outermost first; None: contiguous).

    Raises ``ValueError`` when ``order`` is not a permutation of the dims.
    """
    return _tensor_type(element, tuple(dims), None if order is None else tuple(order))


@lru_cache(maxsize=8192)
def _tensor_type(element: Attribute, dims: tuple[Dim, ...], order: tuple[int, ...] | None) -> TensorType[Attribute]:
    if order is not None:
        if sorted(order) != list(range(len(dims))):
            raise ValueError(f"dim order {list(order)} is not a permutation of {len(dims)} dims")
        if order == tuple(range(len(dims))):
            order = None
    shape = tuple(d if isinstance(d, int) else int(d) if d.is_const else DYNAMIC_INDEX for d in dims)
    symbolic = tuple(const(d) if isinstance(d, int) else d for d in dims) if DYNAMIC_INDEX in shape else None
    encoding = NoneAttr() if symbolic is None and order is None else LayoutAttr(Layout(symbolic, order))
    return TensorType(element, shape, encoding)


def tensor_of(value: SSAValue) -> TensorType[Attribute]:
    """The type of a value that is known to be a tensor."""
    return cast("TensorType[Attribute]", value.type)


@kept
def dims_of(type: TensorType[Attribute]) -> tuple[Dim, ...]:
    """The dims of a tensor type, each an int or an expression.

    Raises ``ValueError`` for ``tensor<?xf32>`` without an encoding: such a dim has no name.
    """
    shape = type.get_shape()
    if DYNAMIC_INDEX not in shape:
        return shape
    encoding = type.encoding
    if not isinstance(encoding, LayoutAttr) or encoding.data.dims is None:
        raise ValueError("a dynamic dim ('?') needs a name in the encoding: #et.layout<dims = [...]>")
    return tuple(int(d) if d.is_const else d for d in encoding.data.dims)


def order_of(type: TensorType[Attribute]) -> tuple[int, ...]:
    """The dim order, outermost first."""
    encoding = type.encoding
    if isinstance(encoding, LayoutAttr) and encoding.data.order is not None:
        return encoding.data.order
    return tuple(range(type.get_num_dims()))


def is_contiguous(type: TensorType[Attribute]) -> bool:
    """Whether the dim order is the default one."""
    return not isinstance(type.encoding, LayoutAttr) or type.encoding.data.order is None


def is_static(type: TensorType[Attribute]) -> bool:
    """Whether every dim is a constant."""
    return DYNAMIC_INDEX not in type.get_shape()


def with_dims(type: TensorType[Attribute], dims: Sequence[Dim]) -> TensorType[Attribute]:
    """The contiguous type with the same element type and other dims."""
    return tensor_type(type.element_type, dims)


@kept
def layout_errors(type: TensorType[Attribute]) -> str | None:
    """Why a tensor type is not canonical, or None: the check that verifiers share.

    Layout constraints: (L1) ``?`` needs an expression; (L2) ``?`` stands exactly where the expression is not a
    constant, and constants agree with the shape; (L3) ``order`` has one entry per dim.
    """
    encoding = type.encoding
    shape = type.get_shape()
    if not isinstance(encoding, LayoutAttr):
        if encoding != NoneAttr():
            return "the encoding of a tensor type must be #et.layout<...>"
        if DYNAMIC_INDEX in shape:
            return "a dynamic dim ('?') needs a name in the encoding: #et.layout<dims = [...]> (L1)"
        return None
    layout = encoding.data
    if layout.order is not None and len(layout.order) != len(shape):
        return f"'order' has {len(layout.order)} entries for {len(shape)} dims (L3)"
    if layout.dims is None:
        return None if DYNAMIC_INDEX not in shape else "a dynamic dim ('?') needs an expression in 'dims' (L1)"
    if len(layout.dims) != len(shape):
        return f"'dims' has {len(layout.dims)} entries for {len(shape)} dims (L2)"
    for size, dim in zip(shape, layout.dims, strict=True):
        if (size == DYNAMIC_INDEX) == dim.is_const or (dim.is_const and int(dim) != size):
            return f"dim '{dim}' does not agree with {'?' if size == DYNAMIC_INDEX else size} in the shape (L2)"
    return None
