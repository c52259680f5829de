"""``verify-tile``: prove that what is executed stays inside of its memory, and reads what has been written.

It shares no code with the lowering and the planner. For every operation, for all values of loop variables:

* what a memref touches lies inside of its base: an argument, a weight, a buffer. Offsets, strides and extents of casts
  are those of their types; a template touches what its memrefs say and no more, which is its contract and is tested
  under sanitizers;
* nothing writes inputs or weights; different indices of what is written are different floats;
* what is read has been written before, every float of it: padding lanes of panels, borders of images; outputs are
  written to the last float. Where an operation writes memory that it reads, the template allows it;
* places of buffers that live at the same time share no bytes, and end inside of the arena;
* where dims are known at run time only, every access is proven to be inside for all values of the symbols, and the rest
  holds for some values of each (:mod:`etir.backends.native.passes.verify_sizes`);
* weights have the floats that their types say, in the order that their panels say;
* templates take the schedule, and there is C for bodies.

The pass runs in every compilation, on the schedule of each processor, and on text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import Float32Type, IntAttr, IntegerAttr, MemRefType, ModuleOp, NoneAttr, StridedLayoutAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.cpu import Cpu, cpu
from etir.backends.native.errors import E1164, E1166, E1169
from etir.backends.native.flags import FlagsOp
from etir.backends.native.footprint import footprint, is_injective
from etir.backends.native.functions import OUTPUTS, places_of, tile_functions
from etir.backends.native.kernels import template_of
from etir.backends.native.kernels.template import body_problem, schedule_problem
from etir.backends.native.loop import PartsOp
from etir.backends.native.memory_checks import MOST_BYTES, verify_memory, verify_places
from etir.backends.native.passes.verify_sizes import depths_of, instances, outside, size_problems, sizes_problem
from etir.backends.native.print_sizes import is_dynamic, numbers_of
from etir.backends.native.sizes import Undecided, at_least, is_known
from etir.backends.native.sizes_attr import SizesAttr
from etir.backends.native.tile import (
    BufferOp,
    TemplateOp,
    WeightOp,
    bytes_of,
    is_flags,
    row_major,
    shape_of,
    strides_of,
)
from etir.backends.native.touched import Accesses, Base, Touched
from etir.backends.native.view import ViewOp
from etir.backends.native.winograd import OUT, POINTS, WINDOW
from etir.diagnostics import Diagnostic, ErrorId, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.quick_definitions import quicken
from etir.dialects.text import source_location
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def verify_function(
    func: FuncOp,
    target: Cpu | None = None,
    weights: Mapping[str, Sequence[int]] | None = None,
    arena_bytes: int | None = None,
    proven: Proven | None = None,
) -> None:
    """Raises one error with everything that is wrong with ``func`` (E1164, E1166 to E1169, E1174).

    With ``target``, schedules are those of that processor. ``weights`` are the sizes of the program's weights by
    symbol, None if they are not known; ``arena_bytes`` the arena's, None for text, whose arena is what its places need.
    ``proven`` is what has been proven of this very function with other schedules; what is proven now is added.
    """
    raise_if_errors(problems(func, target, weights, arena_bytes, proven))


def problems(
    func: FuncOp,
    target: Cpu | None = None,
    weights: Mapping[str, Sequence[int]] | None = None,
    arena_bytes: int | None = None,
    proven: Proven | None = None,
) -> list[Diagnostic]:
    """What :func:`verify_function` raises. What does not follow from what is wrong already is found, too."""
    if proven is not None and proven.walk is not None:
        return proven.walk.again(target) or [*verify_memory(proven.walk.accesses, source_location(func.location))]
    for op in func.walk():
        quicken(type(op))
    try:
        func.verify()
    except VerifyException as error:
        return [E1169.diagnostic(str(error), source_location(func.location))]
    walk = _Walk(func, target, weights)
    try:
        walk.run()
    except Undecided as error:
        return [E1169.diagnostic(f"code would decide by a size: {error}", source_location(func.location))]
    # Lives and contents are known once every access is inside of its memory.
    where = source_location(func.location)
    if is_dynamic(func):
        found = walk.found or [*verify_places(walk.accesses, arena_bytes, places_of(func))] or size_problems(func)
        known, depths = {} if proven is None else proven.depths, depths_of(func)
        if found or depths in known:
            return found
        known[depths] = None
        return [problem for at in instances(func) for problem in problems(at, None, weights)]
    found = (
        walk.found
        or [*verify_places(walk.accesses, arena_bytes, places_of(func))]
        or [*verify_memory(walk.accesses, where)]
    )
    if proven is not None and not found:
        proven.walk = walk
    return found


@dataclass
class Proven:
    """What holds for a function whatever its schedules are, when only those change: the code of each processor has its
    own. ``walk`` has types and places. Where dims are known at run time only, ``depths`` are those of schedules for
    which single floats have been looked at.
    """

    walk: _Walk | None = None
    depths: dict[tuple[Attribute | None, ...], None] = field(default_factory=dict[tuple["Attribute | None", ...], None])


@dataclass
class _Walk:
    """Types, bounds, schedules and bodies, operation by operation."""

    func: FuncOp
    target: Cpu | None
    weights: Mapping[str, Sequence[int]] | None
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    accesses: Accesses = field(default_factory=Accesses)
    places: dict[SSAValue, tuple[Base, int]] = field(default_factory=dict[SSAValue, tuple[Base, int]])
    """The base of every value, and the float of it that the value starts at."""
    scheduled: list[TemplateOp] = field(default_factory=list[TemplateOp])
    loops: list[_Loop] = field(default_factory=list["_Loop"])

    def again(self, target: Cpu | None) -> list[Diagnostic]:
        """What is wrong with other schedules of operations of which all else has been proven."""
        self.target, self.found = target, []
        for op in (*self.scheduled, *(loop.op for loop in self.loops)):
            try:
                op.verify(verify_nested_ops=False)
            except VerifyException as error:
                self.say(E1169, str(error), op)
        for op in self.scheduled:
            self.schedule(op)
        for loop in self.loops:
            self.found += loop.walk.again(target) or loop.memory()
        return self.found

    def run(self) -> None:
        block = self.func.body.block
        outputs = self.func.attributes.get(OUTPUTS)
        count = outputs.value.data if isinstance(outputs, IntegerAttr) else -1
        if not 0 <= count <= len(block.args) or len(self.func.body.blocks) != 1:
            self.say(E1169, f"{OUTPUTS} says how many of the last arguments are outputs", self.func)
            return
        for number, arg in enumerate(block.args):
            kind = "output" if number >= len(block.args) - count else "input"
            self.base(arg, Base(arg, f"{kind} {number}", kind), self.func)
        for op in block.ops:
            self.operation(op)

    def say(self, id: ErrorId, message: str, op: Operation) -> None:
        self.found.append(id.diagnostic(message, source_location(op.location)))

    def base(self, value: SSAValue, base: Base, op: Operation) -> None:
        """Memory begins: types of bases have floats, all of them in it, and no floats before the first one."""
        problem = _type_problem(value.type, may_be_flags=base.kind in ("input", "output"))
        if problem is None and not all(at_least(s, 0) for s in strides_of(value.type)):
            problem = "has negative strides"
        if problem is None and base.kind != "buffer" and strides_of(value.type) != row_major(_shape(value)):
            problem = "is not row-major, as the memory that is given is"
        if problem is None and bytes_of(base.value.type) > MOST_BYTES:
            problem = "has more bytes than 32 bits can say"
        if problem is not None:
            self.say(E1166, f"{base.name} {problem}: {value.type}", op)
            return
        self.places[value] = (base, 0)
        self.accesses.bases.append(base)

    def operation(self, op: Operation) -> None:
        if isinstance(op, WeightOp):
            self.base(op.result, Base(op.result, f"weight '{op.symbol.data}'", "weight"), op)
            problem = _weight_problem(op, self.weights)
            if problem is not None:
                self.say(E1166, f"weight '{op.symbol.data}' {problem}", op)
        elif isinstance(op, BufferOp):
            self.base(op.result, Base(op.result, _buffer_name(op), "buffer"), op)
        elif isinstance(op, ReinterpretCastOp):
            self.cast(op)
        elif isinstance(op, ViewOp):
            self.view(op)
        elif isinstance(op, TemplateOp):
            self.template(op)
        elif not isinstance(op, ReturnOp) or op.arguments:
            self.say(E1169, f"'{op.name}' is no weight, buffer, cast or template", op)

    def cast(self, op: ReinterpretCastOp) -> None:
        result = op.results[0]
        problem = _type_problem(result.type)
        offsets = op.static_offsets.get_values()
        if problem is None and (op.offsets or op.sizes or op.strides or len(offsets) != 1):
            problem = "has one offset, sizes and strides that are numbers"
        if problem is None:
            said = (tuple(op.static_sizes.get_values()), tuple(op.static_strides.get_values()))
            if said != (_shape(result), strides_of(result.type)):
                problem = f"has the sizes {list(said[0])} and strides {list(said[1])}, other than its type"
        if problem is not None:
            self.say(E1166, f"a cast {problem}: {result.type}", op)
        elif is_flags(op.source.type):
            self.say(E1166, f"a cast of flags, which tile.flags alone reads: {op.source.type}", op)
        elif op.source in self.places:
            base, offset = self.places[op.source]
            self.places[result] = (base, offset + offsets[0])

    def view(self, op: ViewOp) -> None:
        problem = _type_problem(op.result.type)
        if problem is not None:
            self.say(E1166, f"a view {problem}: {op.result.type}", op)
        elif is_flags(op.source.type):
            self.say(E1166, f"a view of flags, which tile.flags alone reads: {op.source.type}", op)
        elif op.source in self.places:
            base, offset = self.places[op.source]
            self.places[op.result] = (base, offset + op.start.rows[0][0])

    def template(self, op: TemplateOp) -> None:
        """Every operand is inside of its base, and the template takes the operation."""
        inside = True
        for value in dict.fromkeys(op.operands):
            if value not in self.places:
                inside = False  # what is wrong with it has been said
                continue
            base, offset = self.places[value]
            if is_flags(value.type) and not isinstance(op, FlagsOp):
                self.say(E1166, f"'{op.name}' takes floats, and {base.name} is of flags", op)
                inside = False
            shape, strides = _touches(op, value)
            if not is_known((*shape, *strides, offset, base.floats)):
                if (said := outside(shape, strides, offset, base)) is not None:
                    self.say(E1166, f"'{op.name}' touches {said}", op)
                    inside = False
                self.accesses.touched[value] = Touched(base, offset, footprint((), (), 0))
                continue
            print_ = footprint(shape, strides, offset)
            if print_.first < 0 or print_.last >= base.floats:
                said = f"floats {print_.first} to {print_.last} of {base.name}, which has {base.floats}"
                self.say(E1166, f"'{op.name}' touches {said}", op)
                inside = False
            self.accesses.touched[value] = Touched(base, offset, print_)
        for value in op.writes():
            if value in self.places and self.places[value][0].kind in ("input", "weight"):
                self.say(E1166, f"'{op.name}' writes {self.places[value][0].name}, which is only read", op)
            touches = _touches(op, value)
            if not is_known((*touches[0], *touches[1])):
                continue
            if _type_problem(value.type) is None and not is_injective(*touches):
                self.say(E1166, f"'{op.name}' writes floats twice: {value.type}", op)
        bodies = [] if isinstance(op, PartsOp) else op.regions
        problem = next((p for region in bodies for p in [body_problem(region.block)] if p is not None), None)
        if problem is not None:
            self.say(E1169, f"the body of '{op.name}' {problem}", op)
        elif isinstance(op, PartsOp):
            self.loop(op)
        elif inside:
            self.scheduled.append(op)
            self.schedule(op)
        if inside:
            self.accesses.steps.append(op)

    def loop(self, op: PartsOp) -> None:
        """Each block on one part of every operand, whatever the part: all are of the same types."""
        if len(dict.fromkeys(op.operands)) < len(op.operands):
            self.say(E1166, f"'{op.name}' has every operand once", op)
            return
        for block, kinds in op.scopes():
            inner = _Walk(self.func, self.target, None)
            for number, (arg, kind) in enumerate(zip(block.args, kinds, strict=True)):
                if (problem := _type_problem(arg.type)) is not None:
                    self.say(E1166, f"part {number} of '{op.name}' {problem}: {arg.type}", op)
                    return
                base = Base(arg, f"part {number} of '{op.name}'", kind)
                inner.places[arg] = (base, 0)
                inner.accesses.bases.append(base)
            for step in block.ops:
                inner.operation(step)
            known = all(is_known(row) for arg in block.args for row in numbers_of(arg))
            self.loops.append(_Loop(op, inner, known))
            self.found += inner.found or self.loops[-1].memory()

    def schedule(self, op: TemplateOp) -> None:
        """A schedule that the template can do. ``scheduled`` has the operation for other ones."""
        problem = schedule_problem(op, template_of(op).entries)
        if problem is None and self.target is not None:
            problem = template_of(op).illegal(op, self.target)
        if problem is not None:
            on = "" if self.target is None else f" on {self.target.name}"
            self.say(E1164, f"{op.name}{on}: {problem}", op)


@dataclass
class _Loop:
    """The operations of a loop on one part of everything; whether the sizes of that are numbers."""

    op: PartsOp
    walk: _Walk
    is_known: bool

    def memory(self) -> list[Diagnostic]:
        """What is wrong with what the operations read and write."""
        return [*verify_memory(self.walk.accesses, source_location(self.op.location))] if self.is_known else []


def _touches(op: TemplateOp, value: SSAValue) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dims and strides of what an operation touches of an operand: all of it, or all parts of it."""
    if isinstance(op, PartsOp):
        for part in op.parts():
            if part.operand is value:
                return (*part.extents, *_shape(part.argument)), (*part.steps, *strides_of(part.argument.type))
    return _shape(value), strides_of(value.type)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, MemRefType)
    return shape_of(value)


def _type_problem(type: Attribute, may_be_flags: bool = False) -> str | None:
    """What speaks against a type of memory."""
    if may_be_flags and is_flags(type):
        type = cast("MemRefType[Attribute]", type)
    elif not isinstance(type, MemRefType) or not isinstance(type.element_type, Float32Type):
        return "is no memref of f32"
    if isinstance(type.layout, SizesAttr):
        return sizes_problem(type)
    if any(n < 1 for n in type.get_shape()):
        return "has dims that are no positive numbers"
    if isinstance(type.layout, NoneAttr):
        return None
    if not isinstance(type.layout, StridedLayoutAttr):
        return "has another layout than strides"
    known = all(isinstance(s, IntAttr) for s in type.layout.strides)
    if not known or len(type.layout.strides) != len(type.get_shape()):
        return "does not have a number as the stride of every dim"
    # Where a cast starts is its own offset; print-c reads no other.
    return None if type.layout.offset in (IntAttr(0), NoneAttr()) else "has an offset in its type"


def _weight_problem(op: WeightOp, weights: Mapping[str, Sequence[int]] | None) -> str | None:
    """Whether the packed bytes of a weight are not as long as its type, or not in its panels."""
    if _type_problem(op.result.type) is not None:
        return None
    shape = _shape(op.result)
    panel = None if op.panel is None else op.panel.value.data
    if panel is not None and (len(shape) not in (3, 4, 5) or shape[-1] != panel):
        return f"is in panels of {panel}, which {op.result.type} has not"
    is_round = len(shape) == 2 if panel is None else len(shape) == 5 and op.transposed is not None
    if op.spread is not None and not is_round:
        return f"has channels that go round groups, which {op.result.type} has not"
    if weights is None:
        return None
    if op.symbol.data not in weights:
        return "is not there"
    given = tuple(weights[op.symbol.data])
    total = 1
    for n in given:
        total *= n
    if panel is None:
        wanted = 1
        for n in shape:
            wanted *= n
        return None if wanted == total else f"has {total} floats, {op.result.type} has {wanted}"
    if len(given) < 2:
        return f"has the sizes {list(given)}, which are no matrix"
    if op.winograd is not None:
        if op.winograd.value.data != OUT or op.transposed is None or given[2:] != (WINDOW, WINDOW):
            return f"has the sizes {list(given)}, which are no filters [n, c, 3, 3] for tiles of {OUT}x{OUT}"
        wanted_shape = (POINTS, -(-given[0] // panel), given[1], panel)
        return None if shape == wanted_shape else f"of sizes {list(given)} is {list(wanted_shape)}, not {list(shape)}"
    rows, columns = given[0], total // given[0] if given[0] else 0
    n, k = (rows, columns) if op.transposed is not None else (columns, rows)
    expected: tuple[int, ...] = (-(-n // panel), k, panel)
    if len(shape) > 3:
        groups = shape[0] if len(shape) == 5 else 1
        if len(given) not in (3, 4) or given[0] % groups:
            return f"has the sizes {list(given)}, which are no windows [n, c, h, w] of {groups} groups"
        taps, width = (1, *given[2:])[-2:]
        n, c = (given[0] // groups, given[1]) if op.transposed is not None else (given[1], given[0] // groups)
        expected = (*shape[: len(shape) - 4], taps, -(-n // panel), width * c, panel)
    return None if shape == expected else f"of sizes {list(given)} is {list(expected)} in panels, not {list(shape)}"


def _buffer_name(op: BufferOp) -> str:
    place = "" if op.at is None else f" at {op.at.value.data}"
    hint = op.result.name_hint
    return f"the buffer{'' if hint is None else f' %{hint}'}{place} of {op.result.type}"


@register_pass
@dataclass(frozen=True)
class VerifyTilePass(Pass):
    """Check functions of ``tile``: accesses stay inside of their memory, reads follow writes, places do not overlap

    ``cpu`` is the processor of the schedules; without one, those that are there are checked as far as all have to.
    """

    name = "verify-tile"
    checks_only = True
    cpu: str = ""

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with everything that is wrong (E1160, E1164, E1166 to E1169)."""
        target = cpu(self.cpu) if self.cpu else None
        found: list[Diagnostic] = []
        for func in tile_functions(module):
            found += problems(func, target)
        raise_if_errors(found)
