"""Conditions that most backends need, each with its reason. A backend writes others with ``patterns.condition``.

Shapes, dtypes and dim orders are read from types, which do not differ between the ATen and the edge level where these
conditions are asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.patterns import Condition, Match
from etir.dialects.dtypes import BY_TYPE
from etir.dialects.et.layout import is_contiguous, order_of
from etir.dialects.et.program import ConstantOp, GetWeightOp


def dtype_name(type: Attribute) -> str:
    """torch's name of a tensor type's element type (``float32``), or the type's text."""
    row = BY_TYPE.get(type.element_type) if isinstance(type, TensorType) else None
    return str(type) if row is None else row.torch_name


def is_constant(value: object) -> bool:
    """Whether a value is known when the program is compiled: a weight or a constant."""
    return isinstance(value, SSAValue) and isinstance(value.owner, (GetWeightOp, ConstantOp))


def _named(match: Match, names: Sequence[str]) -> list[tuple[str, SSAValue]]:
    """Tensors of the root's arguments ``names``; those that are absent, or that it does not have, are left out."""
    found: list[tuple[str, SSAValue]] = []
    for name in (name for name in names if name in match.op.SCHEMA.index):
        value = match.arg(name)
        values = value if isinstance(value, tuple) else (value,)
        found += [(name, v) for v in values if isinstance(v, SSAValue) and isinstance(v.type, TensorType)]
    return found


def dtypes(*allowed: str, of: Sequence[str] = ()) -> Condition:
    """Every tensor that enters or leaves the match is of one of the dtypes ``allowed``, by torch's names.

    ``of`` limits the question to some arguments of the root.
    """
    text = f"{'/'.join(of) + ' ' if of else ''}dtype {' or '.join(allowed)}"

    def failure(match: Match) -> str | None:
        values = [v for _, v in _named(match, of)] if of else match.tensors
        for value in values:
            if (name := dtype_name(value.type)) not in allowed:
                return f"dtype {name}, takes {' or '.join(allowed)}"
        return None

    return Condition(text, failure)


def same_dtype() -> Condition:
    """Every tensor that enters or leaves the match is of one dtype."""

    def failure(match: Match) -> str | None:
        names = list(dict.fromkeys(dtype_name(v.type) for v in match.tensors))
        return None if len(names) <= 1 else f"mixed dtypes {' and '.join(names)}"

    return Condition("one dtype", failure)


def static_shapes() -> Condition:
    """Every tensor that enters or leaves the match has a shape known at compile time."""

    def failure(match: Match) -> str | None:
        for value in match.tensors:
            assert isinstance(value.type, TensorType)
            if DYNAMIC_INDEX in value.type.get_shape():
                return f"dynamic shape {value.type}"
        return None

    return Condition("static shapes", failure)


def not_empty() -> Condition:
    """No tensor that enters or leaves the match has a dim of size 0."""

    def failure(match: Match) -> str | None:
        for value in match.tensors:
            assert isinstance(value.type, TensorType)
            if 0 in value.type.get_shape():
                return f"empty tensor {value.type}"
        return None

    return Condition("no empty tensor", failure)


def contiguous() -> Condition:
    """Every tensor that enters or leaves the match is in the default dim order."""

    def failure(match: Match) -> str | None:
        for value in match.tensors:
            assert isinstance(value.type, TensorType)
            if not is_contiguous(value.type):
                return f"dim order {list(order_of(value.type))}"
        return None

    return Condition("default dim order", failure)


def rank(name: str, low: int, high: int | None = None) -> Condition:
    """Argument ``name`` of the root has from ``low`` to ``high`` dims, by default exactly ``low``."""
    high = low if high is None else high
    text = f"'{name}' of rank {low}" if low == high else f"'{name}' of rank {low} to {high}"

    def failure(match: Match) -> str | None:
        for _, value in _named(match, (name,)):
            assert isinstance(value.type, TensorType)
            if not low <= value.type.get_num_dims() <= high:
                return f"'{name}' has rank {value.type.get_num_dims()}, takes {text.removeprefix(repr(name) + ' of ')}"
        return None

    return Condition(text, failure)


def constant(*names: str) -> Condition:
    """The arguments ``names`` of the root are weights or constants, where they are given."""

    def failure(match: Match) -> str | None:
        for name, value in _named(match, names):
            if not is_constant(value):
                return f"'{name}' is computed, not a weight"
        return None

    return Condition(f"constant {' and '.join(repr(n) for n in names)}", failure)


def literal(*names: str) -> Condition:
    """The arguments ``names`` of the root are literals, not values of the program."""

    def failure(match: Match) -> str | None:
        for name in names:
            value = match.arg(name)
            items = value if isinstance(value, tuple) else (value,)
            if any(isinstance(item, SSAValue) for item in items):
                return f"'{name}' is a runtime scalar"
        return None

    return Condition(f"literal {' and '.join(repr(n) for n in names)}", failure)


def given(name: str, *allowed: object) -> Condition:
    """Argument ``name`` of the root is one of the literals ``allowed``."""
    text = f"{name} = {' or '.join(map(_text, allowed))}"

    def failure(match: Match) -> str | None:
        value = match.arg(name)
        if isinstance(value, SSAValue):
            return f"'{name}' is a runtime scalar"
        return None if value in allowed else f"{name} = {_text(value)}, takes {' or '.join(map(_text, allowed))}"

    return Condition(text, failure)


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
