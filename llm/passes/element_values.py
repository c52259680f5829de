"""What an element of an integer, boolean or mask tensor is, as a formula in its coordinates.

``arange(n) + start`` is ``d0 + start``; ``le(keys[None, :], queries[:, None])`` holds where ``d0 + start - d1 >= 0``. A
mask is proven causal by reading its computation this way, whatever operators wrote it, and not by what it looks like:
what has no formula here has none, and the caller leaves the program alone.

A :class:`Linear` never names a dim of size 1 (its coordinate is 0), so that broadcasting only renumbers dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.dialects.aten.base import AtenOp
from etir.dialects.dtypes import dtype_of, f16, i1, i32, i64
from etir.dialects.et.layout import dims_of, tensor_of
from etir.passes.analysis.constants import ConstantStore

HIDDEN = -1e30
"""What is added to a score has to be below this to hide a key: no score comes near, in any floating dtype."""
LEAST_HALF = -65504.0
"""The least number of float16, which models add there: only scores that are about to overflow come near."""

Name: TypeAlias = "int | tuple[object, ...] | Floor"
"""A coordinate (the number of a dim), a runtime scalar, or a quotient of them."""


@dataclass(frozen=True)
class Linear:
    """``constant + sum(factor * name)``; factors are not 0."""

    factors: Mapping[Name, int]
    constant: int = 0

    def plus(self, other: Linear, times: int = 1) -> Linear:
        """``self + times * other``."""
        factors = dict(self.factors)
        for name, factor in other.factors.items():
            factors[name] = factors.get(name, 0) + times * factor
        return Linear({n: f for n, f in factors.items() if f}, self.constant + times * other.constant)

    def renumbered(self, place: Callable[[int], int]) -> Linear:
        """The same with dim ``d`` called ``place(d)``."""
        return Linear({_renumbered(n, place): f for n, f in self.factors.items()}, self.constant)

    def settled(self, base: Linear, low: int, high: int) -> Linear:
        """The same for where ``base`` is ``low`` to ``high``: a quotient of ``base``, or of what is a number more or
        less, is a number if it is the same for both.
        """
        result = Linear({}, self.constant)
        for name, factor in self.factors.items():
            value = Linear({name: 1})
            if isinstance(name, Floor):
                more = name.dividend.plus(base, -1)
                first, last = ((end + more.constant) // name.divisor for end in (low, high))
                value = Linear({}, first) if not more.factors and first == last else value
            result = result.plus(value, factor)
        return result


@dataclass(frozen=True)
class Floor:
    """A :class:`Linear` over a positive number, rounded down."""

    factors: frozenset[tuple[Name, int]]
    constant: int
    divisor: int

    @property
    def dividend(self) -> Linear:
        """What is divided."""
        return Linear(dict(self.factors), self.constant)


def _renumbered(name: Name, place: Callable[[int], int]) -> Name:
    if isinstance(name, Floor):
        moved = name.dividend.renumbered(place)
        return Floor(frozenset(moved.factors.items()), moved.constant, name.divisor)
    return place(name) if isinstance(name, int) else name


@dataclass(frozen=True)
class All:
    """True where every one of the numbers is at least 0; of a mask of numbers: 0 there, and ``hidden`` elsewhere."""

    at_least_zero: tuple[Linear, ...]
    is_number: bool = False
    hidden: float = 0.0


Element: TypeAlias = "Linear | All"


class Elements:
    """Formulas of the values of one module; ``origin`` of each runtime scalar is the tensor without dims that it is."""

    def __init__(self, store: ConstantStore):
        self._store = store
        self._known: dict[SSAValue, Element | None] = {}
        self.origin: dict[Name, SSAValue] = {}

    def of(self, value: object) -> Element | None:
        """The formula of a tensor's elements, or of a scalar; None where there is none."""
        if isinstance(value, (bool, int)):
            return Linear({}, int(value))
        if not isinstance(value, SSAValue):
            return None
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    # --- one value --------------------------------------------------------------------------------------------------

    def _compute(self, value: SSAValue) -> Element | None:
        op = value.owner
        if isinstance(op, AtenOp):
            rule = _RULES.get(op.SCHEMA.op_name)
            found = None if rule is None else rule(self, op, value)
            if found is not None:
                return found
        elif self._store.is_constant(value) and tensor_of(value).element_type in (i1, i32, i64):
            return self._constant(value)
        return self._number(value)

    def _constant(self, value: SSAValue) -> Element | None:
        import numpy as np

        type = tensor_of(value)
        numbers = np.frombuffer(self._store.data(value), dtype_of(type.element_type).numpy_name)
        if not numbers.size or (numbers != numbers[0]).any():
            return None
        return _truth(bool(numbers[0])) if type.element_type == i1 else Linear({}, int(numbers[0]))

    def _number(self, value: SSAValue) -> Element | None:
        """An integer tensor without dims is a name of its own; two that select the same element have one name."""
        if not isinstance(value.type, TensorType) or dims_of(tensor_of(value)) != ():
            return None
        if tensor_of(value).element_type not in (i32, i64):
            return None
        op, name = value.owner, ("value", value)
        if isinstance(op, AtenOp) and op.SCHEMA.op_name == "aten.select.int" and isinstance(op.arg("index"), int):
            name = ("select", op.arg("self"), op.arg("dim"), op.arg("index"))
        self.origin.setdefault(name, value)
        return Linear({name: 1})


def _truth(holds: bool) -> All:
    return All(()) if holds else All((Linear({}, -1),))


def _dims(value: object) -> tuple[Any, ...]:
    return dims_of(tensor_of(value)) if isinstance(value, SSAValue) and isinstance(value.type, TensorType) else ()


def _moved(found: Element | None, place: Callable[[int], int]) -> Element | None:
    if isinstance(found, Linear):
        return found.renumbered(place)
    if isinstance(found, All):
        return All(tuple(one.renumbered(place) for one in found.at_least_zero), found.is_number, found.hidden)
    return None


def _aligned(elements: Elements, operand: object, result: SSAValue) -> Element | None:
    """The formula of an operand in the coordinates of a result that it is broadcast to."""
    shift = len(_dims(result)) - len(_dims(operand))
    return _moved(elements.of(operand), lambda d: d + shift)


def _arange(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    names = [a.name for a in op.SCHEMA.arguments]
    start = elements.of(op.arg("start")) if "start" in names else Linear({})
    step = op.arg("step") if "step" in names else 1
    if not isinstance(start, Linear) or step != 1 or tensor_of(value).element_type not in (i32, i64):
        return None
    return start if _dims(value) == (1,) else start.plus(Linear({0: 1}))


def _sum(times: int) -> _Rule:
    def rule(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
        if tensor_of(value).element_type not in (i32, i64) or op.arg("alpha") != 1:
            return None
        left, right = (_aligned(elements, op.arg(name), value) for name in ("self", "other"))
        return left.plus(right, times) if isinstance(left, Linear) and isinstance(right, Linear) else None

    return rule


def _comparison(swapped: bool, strict: bool) -> _Rule:
    """``self >= other``, with the two exchanged for ``le`` and ``lt``."""

    def rule(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
        left, right = (_aligned(elements, op.arg(name), value) for name in ("self", "other"))
        if not isinstance(left, Linear) or not isinstance(right, Linear):
            return None
        great, small = (right, left) if swapped else (left, right)
        return All((great.plus(small, -1).plus(Linear({}, -1 if strict else 0)),))

    return rule


def _equal(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    left, right = (_aligned(elements, op.arg(name), value) for name in ("self", "other"))
    if not isinstance(left, Linear) or not isinstance(right, Linear):
        return None
    return All((left.plus(right, -1), right.plus(left, -1)))


def _quotient(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    """Rounded down: a number where that is the same for every element, else a name."""
    if (
        tensor_of(value).element_type not in (i32, i64)
        or op.SCHEMA.name == "div"
        and op.arg("rounding_mode") != "floor"
    ):
        return None
    left, right = (_aligned(elements, op.arg(name), value) for name in ("self", "other"))
    if not isinstance(left, Linear) or not isinstance(right, Linear) or right.factors or right.constant <= 0:
        return None
    ends = _ends(left, _dims(value))
    if ends is not None and ends[0] // right.constant == ends[1] // right.constant:
        return Linear({}, ends[0] // right.constant)
    return Linear({Floor(frozenset(left.factors.items()), left.constant, right.constant): 1})


def _ends(found: Linear, dims: Sequence[Any]) -> tuple[int, int] | None:
    """The least and the largest of a tensor of these dims; None where they depend on more than its coordinates."""
    low = high = found.constant
    for name, factor in found.factors.items():
        size = dims[name] if isinstance(name, int) else None
        if not isinstance(size, int) or size < 1:
            return None
        low, high = low + min(0, factor * (size - 1)), high + max(0, factor * (size - 1))
    return low, high


def _index(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    """What is the same everywhere is so at any place. An index that may be no place of the tensor is an error."""
    given: Any = op.arg("self")
    indices: Any = op.arg("indices")
    found = elements.of(given)
    for size, index in zip(_dims(given), indices, strict=False):
        place = elements.of(index) if index is not None else None
        ends = _ends(place, _dims(index)) if isinstance(place, Linear) else None
        if index is not None and (ends is None or not isinstance(size, int) or ends[0] < -size or ends[1] >= size):
            return None
    formulas = found.at_least_zero if isinstance(found, All) else (found,)
    return None if any(one is None or one.factors for one in formulas) else found


def _both(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    left, right = (_aligned(elements, op.arg(name), value) for name in ("self", "other"))
    if not isinstance(left, All) or not isinstance(right, All) or left.is_number or right.is_number:
        return None
    return All((*left.at_least_zero, *right.at_least_zero))


def _same(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    """An operator that changes neither an element nor its place; the dtype has to stay what its formula is for."""
    operand = op.operands[0]
    before, after = tensor_of(operand).element_type, tensor_of(value).element_type
    found = elements.of(operand)
    if isinstance(found, All) and found.is_number:
        return found
    if isinstance(found, Linear) and not found.factors and after == i1:
        return _truth(found.constant != 0)
    return found if before == after else None


def _unsqueeze(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    position = int(op.arg("dim")) % len(_dims(value))  # type: ignore[arg-type]
    return _moved(elements.of(op.operands[0]), lambda d: d + (d >= position))


def _expand(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    return _aligned(elements, op.operands[0], value)


def _everywhere(number: int) -> _Rule:
    def rule(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
        type = tensor_of(value).element_type
        if type == i1:
            return _truth(number != 0)
        return Linear({}, number) if type in (i32, i64) else None

    return rule


def _where(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
    """0 where a condition holds, and a number that hides elsewhere."""
    condition = _aligned(elements, op.arg("condition"), value)
    kept, hidden = (_filled(op.arg(name)) for name in ("self", "other"))
    least = LEAST_HALF if tensor_of(value).element_type == f16 else HIDDEN
    if not isinstance(condition, All) or condition.is_number or kept != 0 or hidden is None or hidden > least:
        return None
    return All(condition.at_least_zero, is_number=True, hidden=hidden)


def _multiplied(divided: bool) -> _Rule:
    """A mask of numbers by a positive number that leaves hidden what is."""

    def rule(elements: Elements, op: AtenOp, value: SSAValue) -> Element | None:
        found, by = elements.of(op.arg("self")), op.arg("other")
        if not isinstance(found, All) or not found.is_number or not isinstance(by, (int, float)) or not by > 0:
            return None
        hidden = found.hidden / by if divided else found.hidden * by
        least = LEAST_HALF if tensor_of(value).element_type == f16 else HIDDEN
        return All(found.at_least_zero, is_number=True, hidden=hidden) if hidden <= least else None

    return rule


def _filled(value: object) -> float | None:
    """The number that is everywhere in a tensor."""
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, SSAValue) or not isinstance(value.owner, AtenOp):
        return None
    op = value.owner
    match op.SCHEMA.name:
        case "zeros" | "new_zeros" | "zeros_like":
            return 0.0
        case "full" | "new_full" | "full_like" | "scalar_tensor":
            number = op.arg("s" if op.SCHEMA.name == "scalar_tensor" else "fill_value")
            return float(number) if isinstance(number, (int, float)) else None
        case "to" | "expand" | "_to_copy":
            return _filled(op.operands[0])
        case _:
            return None


_Rule: TypeAlias = "Callable[[Elements, AtenOp, SSAValue], Element | None]"
_FAMILIES: Sequence[tuple[_Rule, Sequence[str]]] = (
    (_arange, ("arange.default", "arange.start", "arange.start_step")),
    (_sum(1), ("add.Tensor", "add.Scalar")),
    (_sum(-1), ("sub.Tensor", "sub.Scalar")),
    (_comparison(swapped=False, strict=False), ("ge.Tensor", "ge.Scalar")),
    (_comparison(swapped=False, strict=True), ("gt.Tensor", "gt.Scalar")),
    (_comparison(swapped=True, strict=False), ("le.Tensor", "le.Scalar")),
    (_comparison(swapped=True, strict=True), ("lt.Tensor", "lt.Scalar")),
    (_equal, ("eq.Tensor", "eq.Scalar")),
    (_quotient, ("floor_divide.default", "floor_divide.Scalar", "div.Tensor_mode", "div.Scalar_mode")),
    (_both, ("__and__.Tensor", "bitwise_and.Tensor", "logical_and.default")),
    (_same, ("to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", "alias.default", "detach.default")),
    (_same, ("clone.default", "contiguous.default")),
    (_unsqueeze, ("unsqueeze.default",)),
    (_expand, ("expand.default",)),
    (_everywhere(1), ("ones.default", "new_ones.default", "ones_like.default")),
    (_everywhere(0), ("zeros.default", "new_zeros.default", "zeros_like.default")),
    (_index, ("index.Tensor",)),
    (_multiplied(divided=False), ("mul.Tensor", "mul.Scalar")),
    (_multiplied(divided=True), ("div.Tensor", "div.Scalar")),
    (_where, ("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")),
)
_RULES: dict[str, _Rule] = {f"aten.{name}": rule for rule, names in _FAMILIES for name in names}
