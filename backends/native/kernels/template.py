"""What a template is: C for one operation with all its strides, and what the operation means.

The C of an operation is one function that takes the addresses of its operands, in order, and does a part of its units
of work: ``(arguments, begin, end)`` of a loop that threads share. Strides and sizes are constants in it. Equal
operations of a program have equal text, and share one function.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, Float32Type, FloatAttr, IntegerAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.sizes import Size
from etir.backends.native.tile import TemplateOp, YieldOp


@dataclass(frozen=True)
class CFunction:
    """The C of an operation.

    ``body`` are statements that do the units from ``begin`` to ``end`` on the operands ``p0``, ``p1``, ...; ``helpers``
    are functions before it, ``@`` in whose names and uses stands for the name of this one. ``units`` is how many units
    there are, ``grain`` the least that is worth a thread. ``calls`` says that its time is spent in helpers that are
    functions of their own, so that nothing is gained where a compiler optimizes what calls them.
    """

    body: str
    units: int
    grain: int = 1
    helpers: tuple[str, ...] = ()
    calls: bool = False


class Template(ABC):
    """One template. The instance is registered by :func:`template`."""

    name: ClassVar[str]
    """What its functions are called in the C."""
    entries: ClassVar[Mapping[str, int]] = {}
    """What a schedule may say: the names of its entries, and how many numbers each one is."""

    def schedule(self, op: Any, cpu: Cpu) -> dict[str, Any]:
        """The schedule that is taken where the operation has none, by a model of the processor."""
        return {}

    def shared(self, ops: Sequence[Any], cpu: Cpu) -> dict[Any, dict[str, int]]:
        """Entries that the schedules of some of a function's operations get so that they have code in common."""
        return {}

    def candidates(self, op: Any, cpu: Cpu) -> list[dict[str, Any]]:
        """The schedules that are worth measuring, the model's own first; none where there is nothing to choose."""
        return []

    def illegal(self, op: Any, cpu: Cpu) -> str | None:
        """Why ``op`` cannot be done with its schedule on the processor, or None."""
        return None

    def in_place(self, op: Any) -> Sequence[SSAValue]:
        """The operands that may be the very memory of what ``op`` writes: each float is read before it is written."""
        return ()

    def in_place_always(self, op: Any) -> Sequence[SSAValue]:
        """Those of :meth:`in_place` with any schedule: schedules are chosen when memory has been planned."""
        return self.in_place(op)

    @abstractmethod
    def c(self, op: Any, cpu: Cpu) -> CFunction:
        """The C of ``op``."""

    @abstractmethod
    def numpy(self, op: Any, operands: Sequence[Any]) -> None:
        """Do what ``op`` means on arrays, one for each operand in order; the written ones are changed in place."""


REGISTERED: dict[type[TemplateOp], Template] = {}
TemplateT = TypeVar("TemplateT", bound=Template)


def template(op: type[TemplateOp]) -> Callable[[type[TemplateT]], type[TemplateT]]:
    """Register the decorated class for an operation."""

    def register(cls: type[TemplateT]) -> type[TemplateT]:
        REGISTERED[op] = cls()
        return cls

    return register


def integers(op: TemplateOp, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Entry ``name`` of an operation's schedule: a number or a list of numbers."""
    found = None if op.schedule is None else op.schedule.data.get(name)
    if isinstance(found, IntegerAttr):
        return (found.value.data,)
    if isinstance(found, ArrayAttr):
        return tuple(item.value.data for item in found if isinstance(item, IntegerAttr))
    return tuple(default)


def set_schedule(op: TemplateOp, entries: Mapping[str, int | list[int]]) -> None:
    """Make numbers, and lists of them, the schedule of an operation."""
    op.properties["schedule"] = DictionaryAttr(
        {
            name: ArrayAttr([IntegerAttr(v, i64) for v in value])
            if isinstance(value, list)
            else IntegerAttr(value, i64)
            for name, value in entries.items()
        }
    )


def schedule_problem(op: TemplateOp, known: Mapping[str, int]) -> str | None:
    """What is wrong with the entries of a schedule, whatever the processor; ``known`` are those of its template."""
    for name, entry in (op.schedule.data if op.schedule is not None else {}).items():
        if name not in known:
            return f"a schedule has no entry '{name}'" + (f"; there are {', '.join(known)}" if known else "")
        items = [*entry] if isinstance(entry, ArrayAttr) else [entry]
        numbers = [item.value.data for item in items if isinstance(item, IntegerAttr)]
        if len(numbers) != len(items) or len(items) != known[name]:
            return f"'{name}' of a schedule is {known[name]} integers"
        if any(number < 1 for number in numbers):
            return f"'{name}' of a schedule is positive"
    return None


def template_of(op: TemplateOp) -> Template:
    """The registered template of an operation."""
    return REGISTERED[type(op)]


DECLARE = "<|declare|>"
"""A line of a function for which ``print_sizes`` puts declarations of the sizes that the function uses."""


def uses_sizes(function: CFunction) -> bool:
    """Whether the C of an operation is given the sizes of the call, as an array after its operands."""
    return any("<|" in text for text in (function.body, str(function.units), *function.helpers))


def part_text(name: str, function: CFunction, count: int, cpu: Cpu) -> str:
    """``void NAME_part(void* given, int64_t begin, int64_t end)``: some units on ``count`` operands.

    It is never inlined: the entry would have a copy of everything, and compilers take half of their time for that. One
    that only calls others stays as it is, but in code that is linked with a program, of which every byte counts.
    """
    kind = "static ETIR_AS_IS" if function.calls and not cpu.linked else "ETIR_NOINLINE"
    declared = [f"  float* const p{i} = ((float**)given)[{i}];" for i in range(count)]
    if uses_sizes(function):
        declared += [f"  const int64_t* const sizes = ((const int64_t**)given)[{count}];", f"  {DECLARE}"]
    return "\n".join(
        [
            f"{kind} void {name}_part(void* given, int64_t begin, int64_t end) {{",
            *declared,
            *(f"  {line.replace('@', name)}" for line in function.body.splitlines()),
            "}",
        ]
    )


# --- bodies -----------------------------------------------------------------------------------------------------------

_BINARY = {
    arith.AddfOp: "({} + {})", arith.SubfOp: "({} - {})", arith.MulfOp: "({} * {})", arith.DivfOp: "({} / {})",
    math.PowFOp: "vpow({}, {})",
}  # fmt: skip
_UNARY = {
    arith.NegfOp: "(-{})", math.ExpOp: "vexp({})", math.TanhOp: "vtanh({})", math.ErfOp: "verf({})",
    math.ExpM1Op: "vexpm1({})", math.LogOp: "vlog({})", math.Log1pOp: "vlog1p({})", math.SqrtOp: "vsqrt({})",
    math.AbsFOp: "vabs({})", math.SinOp: "vsin({})", math.CosOp: "vcos({})", math.FloorOp: "vfloor({})",
    math.CeilOp: "vceil({})", math.TruncOp: "vtrunc({})", math.RoundEvenOp: "vround({})",
}  # fmt: skip
_COMPARISONS = {"oeq": "veq", "one": "vapart", "olt": "vlt", "ole": "vle", "ogt": "vgt", "oge": "vge", "une": "vne"}
_NAME = re.compile(r"\bv\d+\b")
HEAVY = (
    math.LogOp, math.Log1pOp, math.ExpOp, math.ExpM1Op, math.TanhOp, math.ErfOp, math.SinOp, math.CosOp, math.SqrtOp,
    math.PowFOp, arith.DivfOp,
)  # fmt: skip
"""Operations of which a body has so many instructions that it stands in a loop rather than in every register tile."""


def is_light(block: Block) -> bool:
    """Whether a body is a few instructions."""
    return not any(isinstance(op, HEAVY) for op in block.ops)


def body_function(
    block: Block, name: str = "_body", given: Sequence[SSAValue] | None = None, result: SSAValue | None = None
) -> str:
    """``vf @_body(vf v0, vf v1, ...)``: a body on vectors; or what makes ``result`` of the values ``given``."""
    given = block.args if given is None else given
    last = block.last_op
    assert isinstance(last, YieldOp)
    result = last.values[0] if result is None else result
    names: dict[SSAValue, str] = {value: f"v{i}" for i, value in enumerate(given)}
    made_by: dict[str, str] = {}
    needed = makers_of(result, given)
    for op in block.ops:
        if op not in needed:
            continue
        names[op.results[0]] = made = f"v{len(names)}"
        kind = "vm" if isinstance(op, arith.CmpfOp) else "vf"
        made_by[made] = f"  const {kind} {made} = {_expression(op, names)};"
    lines = [f"  return {names[result]};"]
    read = {*_NAME.findall(lines[0])}
    for made, line in reversed(made_by.items()):  # what became a part of one function is not computed by itself
        if made in read:
            lines.insert(0, line)
            read.update(_NAME.findall(line))
    parameters = ", ".join(f"vf {names[value]}" for value in given)
    return "\n".join([f"ETIR_INLINE vf @{name}({parameters or 'void'}) {{", *lines, "}"])


def makers_of(result: SSAValue, given: Sequence[SSAValue]) -> set[Operation]:
    """The operations of a body that make a value of others."""
    found: set[Operation] = set()
    pending = [result]
    while pending:
        value = pending.pop()
        if value not in given and isinstance(value.owner, Operation) and value.owner not in found:
            found.add(value.owner)
            pending += value.owner.operands
    return found


def _expression(op: Operation, names: dict[SSAValue, str]) -> str:
    operands = [names[v] for v in op.operands]
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, FloatAttr)
        return f"vset({float_text(op.value.value.data)})"
    if (parts := _logistic(op)) is not None and all(part in names for part in parts):
        return f"vlogistic({names[parts[0]]}, {names[parts[1]]})"
    if type(op) in _BINARY:
        return _BINARY[type(op)].format(*operands)
    if type(op) in _UNARY:
        return _UNARY[type(op)].format(*operands)
    if isinstance(op, (arith.MaximumfOp, arith.MinimumfOp)):
        function = "vmax" if isinstance(op, arith.MaximumfOp) else "vmin"
        if (bound := number_of(op.rhs)) is not None and bound == bound:
            return f"{function}_bound({operands[1]}, {operands[0]})"
        return f"{function}({operands[0]}, {operands[1]})"
    if isinstance(op, arith.CmpfOp):
        function = _COMPARISONS[arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]]
        return f"{function}({operands[0]}, {operands[1]})"
    if isinstance(op, arith.SelectOp):
        return f"vselect({operands[0]}, {operands[1]}, {operands[2]})"
    raise NotImplementedError(op.name)


def _minus_exponent(op: Operation) -> SSAValue | None:
    """The x of 1 + e^-x."""
    if not isinstance(op, arith.AddfOp):
        return None
    for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        exponential = other.owner
        if number_of(one) == 1.0 and isinstance(exponential, math.ExpOp):
            negated = exponential.operand.owner
            return negated.operand if isinstance(negated, arith.NegfOp) else None
    return None


def _logistic(op: Operation) -> tuple[SSAValue, SSAValue] | None:
    """The y and x of y / (1 + e^-x), which may be a product of y and 1 / (1 + e^-x): it is divided and rounded once."""
    if isinstance(op, arith.DivfOp):
        below = op.rhs.owner
        x = _minus_exponent(below) if isinstance(below, Operation) else None
        return None if x is None else (op.lhs, x)
    if not isinstance(op, arith.MulfOp):
        return None
    for factor, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        parts = _logistic(other.owner) if isinstance(other.owner, arith.DivfOp) else None
        if parts is not None and number_of(parts[0]) == 1.0:
            return factor, parts[1]
    return None


def number_of(value: SSAValue) -> float | None:
    """The number that a value is."""
    owner = value.owner
    found = owner.value if isinstance(owner, arith.ConstantOp) else None
    return found.value.data if isinstance(found, FloatAttr) else None


def body_problem(block: Block) -> str | None:
    """What of a body has no C."""
    for op in block.ops:
        if isinstance(op, arith.ConstantOp):
            if not isinstance(op.value, FloatAttr) or not isinstance(op.value.type, Float32Type):
                return "has a constant that is no f32"
        elif isinstance(op, arith.CmpfOp):
            comparison = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
            if comparison not in _COMPARISONS:
                return f"has the comparison '{comparison}', of which there is no C"
        elif isinstance(op, (arith.SelectOp, arith.MaximumfOp, arith.MinimumfOp, YieldOp)):
            continue
        elif type(op) not in _BINARY and type(op) not in _UNARY:
            return f"has '{op.name}', of which there is no C"
    inside = {*block.args, *(result for op in block.ops for result in op.results)}
    if any(operand not in inside for op in block.ops for operand in op.operands):
        return "reads what is outside of it"
    return None


def float_text(value: float) -> str:
    """A C literal of exactly this float."""
    if value != value:
        return '__builtin_nanf("")'
    if value in (float("inf"), float("-inf")):
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    return f"{float(value).hex()}f"


def count_text(n: int) -> str:
    """A number of elements as a float, in C."""
    return f"(float){n}" if isinstance(n, Size) else float_text(n)


def run_body(block: Block, values: Sequence[Any]) -> Any:
    """A body on arrays, in their precision."""
    from etir.backends.native.meanings import evaluate

    found: dict[SSAValue, Any] = dict(zip(block.args, values, strict=True))
    for op in block.ops:
        if isinstance(op, YieldOp):
            return found[op.values[0]]
        found[op.results[0]] = evaluate(op, [found[v] for v in op.operands])
    raise AssertionError("a body ends with tile.yield")
