"""A function while it is lowered: where its tensors are, and what lowers its operators.

Arguments are the inputs of the delegate and then its outputs. Views are other strides (``places.py``); the result of a
group is written to where the function returns it when that is the only reader, to its part of a concatenation that
reads it, else to a buffer of the arena.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, TensorType, i1, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.asked import saves
from etir.backends.native.body import Body
from etir.backends.native.cpu import Cpu
from etir.backends.native.dialect import GroupOp
from etir.backends.native.dims import SIZE, dims
from etir.backends.native.elementwise import ELEMENTWISE
from etir.backends.native.flags import FlagsOp, flags
from etir.backends.native.functions import CUT, LATE, OUTPUTS, ROOM, SAVES, least_bytes
from etir.backends.native.kernels.brgemm import panel_of
from etir.backends.native.kinds import WITH_WINDOWS
from etir.backends.native.live import live_bytes_at
from etir.backends.native.lowering.winograd import reason_for_all
from etir.backends.native.memory import Memory, is_image
from etir.backends.native.operators import QUANTIFIERS, is_view
from etir.backends.native.places import Place
from etir.backends.native.shared import SHARED, Shares
from etir.backends.native.sizes import most
from etir.backends.native.sums import SUMS, in_turn
from etir.backends.native.tile import BufferOp, YieldOp, body_of, is_flags, memref, row_major
from etir.backends.native.unjoined import UNJOINED, convolution_of
from etir.backends.native.windows import border_for, can_be_cut, counts_inside, has_small_groups, image_bytes
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of

RESHAPES = ("aten.view_copy.default", "aten.unsqueeze_copy.default")
"""Operators that keep the elements in order."""

Outside = Mapping[SSAValue, SSAValue]
"""The tensor of the function for each argument of a group's block."""


def constant_name(number: int) -> str:
    """What ``tile`` calls a constant of the function, which has no symbol."""
    return f"constant:{number}"


def shape(value: SSAValue) -> tuple[int, ...]:
    """The dims of a tensor."""
    return dims(value)


def type_of(value: SSAValue) -> MemRefType[Attribute]:
    """The memory that an input or an output of a function is."""
    element = cast("TensorType[Attribute]", value.type).element_type
    return flags(shape(value)) if element == i1 else memref(shape(value))


def is_given_flags(value: SSAValue) -> bool:
    """Whether a tensor is truth values that a function is given: those that it computes are floats."""
    return isinstance(value.owner, Block) and is_flags(type_of(value))


def members(group: GroupOp) -> list[SchemaOp]:
    """The edge operators of a group, in order."""
    return [op for op in ops_of(group.body.block) if isinstance(op, SchemaOp)]


def lower_function(func: FuncOp, target: Cpu) -> ModuleOp:
    """The ``tile`` level of a function of groups, for a processor and the others of its family.

    Images of ``native.cut`` bytes and more have no border where their readers can do without.
    """
    return Lowering(in_turn(func), target).module()


class Lowering(Memory):
    """State: the function that is made, and where the tensors of the given one are."""

    def __init__(self, func: FuncOp, target: Cpu):
        self.func, self.target, self.panel = func, target, panel_of(target)
        self.least_cut, self.least_late = least_bytes(func, CUT), least_bytes(func, LATE)
        self._against: dict[GroupOp, str | None] = {}
        self._live: dict[Operation, int] | None = None
        source = func.body.block
        self.returned = cast(ReturnOp, source.last_op)
        types = [type_of(v) for v in (*source.args, *self.returned.arguments)]
        super().__init__(Block(arg_types=types))
        self.places: dict[SSAValue, Place] = {}
        self.batches: dict[SSAValue, Place] = {}
        """Operands of batches of matrices alone, under the dims that the batch is made of."""
        self.weights: dict[SSAValue, str] = {}
        self.packed: dict[tuple[Any, ...], SSAValue] = {}
        self.outputs: dict[SSAValue, SSAValue] = {}
        self._later: dict[SSAValue, SchemaOp | GroupOp] = {}
        self.shares = Shares()
        self.added: dict[GroupOp, bool] = {}
        """Whether the image that a convolution or a pool makes is added to planes (``planes.py``)."""
        count = len(source.args)
        for arg, given in zip(source.args, self.block.args, strict=False):
            self.places[arg] = Place(given, shape(arg), row_major(shape(arg)))
        for value, given in zip(self.returned.arguments, self.block.args[count:], strict=True):
            if not is_flags(given.type):
                self.outputs.setdefault(value, given)
            given.name_hint = value.name_hint
        for arg, given in zip(source.args, self.block.args, strict=False):
            given.name_hint = arg.name_hint

    def module(self) -> ModuleOp:
        """The module of the lowered function."""
        constants = 0
        for op in self.func.body.block.ops:
            self.lowered = op
            if isinstance(op, GetWeightOp):
                self.weights[op.result] = op.symbol.root_reference.data
            elif isinstance(op, ConstantOp):
                self.weights[op.result] = constant_name(constants)
                constants += 1
            elif isinstance(op, (GroupOp, SchemaOp)) and self._is_mask(op):
                self._later[op.results[0]] = op
            elif isinstance(op, (GroupOp, SchemaOp)):
                self._lower(op)
        self._return()
        self.block.add_op(ReturnOp())
        types = [arg.type for arg in self.block.args]
        func = FuncOp(self.func.sym_name.data, (types, []), Region(self.block), visibility="private")
        func.attributes[OUTPUTS] = IntegerAttr(len(self.returned.arguments), i64)
        func.attributes |= {name: self.func.attributes[name] for name in (SAVES, LATE) if name in self.func.attributes}
        func.location = self.func.location
        return ModuleOp([func])

    def _lower(self, op: GroupOp | SchemaOp) -> None:
        """A group, or what stands between groups."""
        if isinstance(op, GroupOp):
            outside: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, op.inputs, strict=True))
            GROUPS[op.kind.data](self, op, outside)
        elif operator_of(op) != SIZE:
            MOVES[operator_of(op)](self, op)

    def _is_mask(self, op: GroupOp | SchemaOp) -> bool:
        """Whether an operation makes numbers of truth values and constants alone, or is a view of such ones: it is done
        right before what reads it, since truth values take a fourth of the memory, and those of keys less.
        """
        if op.results[0] in self.outputs:
            return False
        if isinstance(op, SchemaOp):
            return is_view(op) and (op.operands[0] in self._later or is_given_flags(op.operands[0]))
        if op.kind.data != "map" and operator_of(op.root) not in QUANTIFIERS:
            return False
        if not all(isinstance(v.type, TensorType) for v in op.inputs):
            return False
        known = [v in self.weights or v in self._later or is_given_flags(v) for v in op.inputs]
        return all(known) and not all(v in self.weights for v in op.inputs)

    def has_room(self) -> bool:
        """Not where memory asks for rows side by side."""
        return not saves(self.func, "close")

    # --- places -----------------------------------------------------------------------------------------------------

    def place(self, value: SSAValue) -> Place:
        """Where a tensor is; a weight that is read as it lies is one of the program's. Truth values become floats, and
        masks are made, for the group that is lowered.
        """
        if value in self._later and (value not in self.places or saves(self.func, "masks")):
            reader = self.lowered
            self.lowered = self._later[value]
            self._lower(self._later[value])
            self.lowered = reader
        if value in self.places and is_flags(self.places[value].base.type):
            made = self.dense_buffer(shape(value))
            self.add(FlagsOp(self.places[value].base, made.base))
            return made
        if value in self.batches and value not in self.places:
            self.places[value] = self.viewed(self.batches[value], shape(value))
        if value not in self.places:
            dims = shape(value)
            base = self.weight(self.weights[value], memref(dims))
            self.places[value] = Place(base, dims, row_major(dims))
        return self.places[value]

    def result(self, value: SSAValue, wanted: Sequence[int] | None = None) -> Place:
        """Where a group writes: the output that it is, its part of a whole, or a buffer.

        The place has the dims ``wanted``, by default those of the tensor; elements of its last dim lie side by side.
        """
        dims = shape(value)
        wanted = dims if wanted is None else tuple(wanted)
        found: Place | None = None
        if value in self.outputs:
            found = Place(self.outputs[value], dims, row_major(dims))
        else:
            found = self.joined(value) or self._through_views(value)
        seen = None if found is None else found.viewed(wanted)
        if found is None or seen is None or (seen.shape[-1:] != (1,) and seen.strides[-1:] not in ((), (1,))):
            seen = self.buffer(wanted)
            found = seen.viewed(dims)
            if found is None:  # rows have gaps
                seen = Place(self.add(BufferOp(memref(wanted))).results[0], wanted, row_major(wanted))
                found = seen.viewed(dims)
                assert found is not None
        self.places[value] = found
        return seen

    def has_place(self, value: SSAValue) -> bool:
        """Whether a tensor is an output, or a part of a whole, perhaps under other dims."""
        return value in self.outputs or self.joined(value) is not None or self._through_views(value) is not None

    def image(self, value: SSAValue) -> Place:
        """Where a group writes an image: channels side by side, with the border of zeros that its readers want."""
        place = self.joined(value, as_image=True)
        if place is None or not is_image(place):
            dims = shape(value)
            whole = dims if len(dims) == 4 else (*dims[:2], 1, dims[2])
            border, number = border_of(value, self.reads_no_border)
            if self._is_late(bytes_in(whole, border)):
                border = (0, 0)
            is_read = any(border)
            border = border if is_read else border_after(value, self.reads_no_border, self.adds_over)
            place = self.new_image((whole[0], whole[1], whole[2], whole[3]), border, number, filled=is_read)
            place = place if len(dims) == 4 else place.selected(2, 0)
        self.places[value] = place
        return place

    def is_cut(self, op: SchemaOp) -> bool:
        """Whether a convolution or a pool reads an image without a border."""
        is_tried = self.least_cut is not None and image_bytes(op) >= self.least_cut
        return has_small_groups(op) or counts_inside(op) or (is_tried and can_be_cut(op))

    def against_winograd(self, group: GroupOp) -> str | None:
        """Why a group is no convolution by Winograd's algorithm, as :func:`reason_for_all`."""
        if group not in self._against:
            root = group.root
            is_one = isinstance(root, SchemaOp)
            self._against[group] = reason_for_all(group, root, self) if is_one else ""
        return self._against[group]

    def room(self, group: Operation | None = None) -> int:
        """Bytes for what a group, by default the one that is lowered, needs besides what it reads and makes; 0 where
        nothing says so.
        """
        found, group = self.func.attributes.get(ROOM), group or self.lowered
        if not isinstance(found, IntegerAttr) or group is None:
            return 0
        if self._live is None:
            self._live = live_bytes_at(self.func)
        return max(0, found.value.data - self._live[group])

    def reads_no_border(self, group: GroupOp) -> bool:
        """Whether a convolution or a pool reads an image without a border, in parts or by Winograd's algorithm."""
        return self.is_cut(cast(SchemaOp, group.root)) or self.against_winograd(group) is None

    def adds_over(self) -> bool:
        """Whether what is added to an image has its border where that saves memory: the sum may lie over it then."""
        return saves(self.func, SUMS)

    def joined(self, value: SSAValue, as_image: bool = False) -> Place | None:
        """The part of a tensor that joins ``value`` to others, if nothing else reads it, or nothing else joins it
        where that saves memory; of an image, if what else joins it there is part of that.
        """
        uses = list(value.uses)
        if value in self.outputs:
            return None
        if len(uses) > 1 and as_image:
            shared = self.shares.of(value)
            if shared is None or not self.is_shared(shared[0]) or self.is_unjoined(shared[0]):
                return None
            return JOINS[operator_of(shared[0])](self, shared[0], True)[shared[1]]
        if len(uses) > 1:
            joins = [use for use in uses if isinstance(use.operation, SchemaOp) and is_join(use.operation)]
            uses = joins if len(joins) == 1 and saves(self.func, "parts") else []
        if len(uses) != 1 or not isinstance(uses[0].operation, SchemaOp):
            return None
        join = uses[0].operation
        if self.is_unjoined(join):
            return None
        if operator_of(join) in JOINS and self._is_late(bytes_in(shape(join.results[0]))):
            return None
        parts = JOINS.get(operator_of(join))
        return None if parts is None else parts(self, join, as_image)[uses[0].index]

    def is_shared(self, join: SchemaOp) -> bool:
        """Whether a join has memory for images that others read, too."""
        return not self._is_late(bytes_in(shape(join.results[0]))) and saves(self.func, SHARED)

    def is_unjoined(self, join: SchemaOp) -> bool:
        """Whether a convolution is a sum of those of what would be joined for it, which saves memory."""
        reader = convolution_of(join)
        return reader is not None and self.against_winograd(reader) is not None and saves(self.func, UNJOINED)

    def _is_late(self, size: int) -> bool:
        """Whether memory of so many bytes gets what it has as late as it can."""
        return self.least_late is not None and size >= self.least_late

    def _through_views(self, value: SSAValue) -> Place | None:
        """The output that a tensor is after reshapes alone."""
        current = value
        while True:
            users = list(dict.fromkeys(use.operation for use in current.uses))
            if len(users) > 1:
                reshapes = [op for op in users if isinstance(op, SchemaOp) and operator_of(op) in RESHAPES]
                users = reshapes if len(reshapes) == 1 and saves(self.func, "parts") else []
            if len(users) != 1 or not isinstance(users[0], SchemaOp) or operator_of(users[0]) not in RESHAPES:
                return None
            current = users[0].results[0]
            whole = self.joined(current)
            if current in self.outputs:
                whole = Place(self.outputs[current], shape(current), row_major(shape(current)))
            if whole is not None:
                return whole.viewed(shape(value))

    def dense(self, place: Place, like: Operation | None = None) -> Place:
        """A copy in row-major order without gaps."""
        return self.copy(place, self.dense_buffer(place.shape), like)

    def dense_buffer(self, dims: tuple[int, ...]) -> Place:
        """New memory in row-major order without gaps."""
        return Place(self.add(BufferOp(memref(dims))).results[0], dims, row_major(dims))

    def viewed(self, place: Place, dims: Sequence[int], like: Operation | None = None) -> Place:
        """The place under other dims, of a copy if strides cannot say it."""
        found = place.viewed(dims) or self.dense(place, like).viewed(dims)
        assert found is not None
        return found

    def _return(self) -> None:
        """Copy to the outputs what no group has written there."""
        count = len(self.func.body.block.args)
        for value, target in zip(self.returned.arguments, self.block.args[count:], strict=True):
            place = self.place(value)
            to = Place(target, shape(value), row_major(shape(value)))
            if is_flags(target.type):
                found = place if place.is_dense else self.dense(place)
                self.add(FlagsOp(self.memref(found), target))
            elif not place.is_same(to):
                self.copy(place, to)

    # --- bodies -----------------------------------------------------------------------------------------------------

    def extras(self, group: GroupOp, known: Sequence[SSAValue], some: Sequence[SchemaOp]) -> list[SSAValue]:
        """The tensors from outside that operators read, each once, as arguments of the group's block."""
        inside = {result for op in group.body.block.ops for result in op.results} | {*known}
        found = dict.fromkeys(v for op in some for v in op.operands if v not in inside)
        return [v for v in found if isinstance(v.type, TensorType)]


def body(
    values: Mapping[SSAValue, int],
    count: int,
    some: Sequence[SchemaOp],
    first: SSAValue | None = None,
    after: Callable[[Body, Sequence[SSAValue]], SSAValue] | None = None,
) -> Region:
    """A body of elementwise operators; ``values`` are the arguments by tensor.

    ``first`` is the tensor that the template computes, argument 0 after what ``after`` does to it.
    """
    region = body_of(count)
    args = region.block.args
    made = Body(region.block, {v: args[i] for v, i in values.items()})
    result: SSAValue = args[0] if count else SSAValue.get(made.constant(0.0))
    if first is not None:
        result = made.values[first] = after(made, args) if after is not None else args[0]
    for op in some:
        made.lowered = op
        result = made.values[op.results[0]] = ELEMENTWISE[operator_of(op)](made, op)
    region.block.add_op(YieldOp(result))
    return region


def is_join(op: SchemaOp) -> bool:
    """Whether an operator joins tensors to one."""
    return operator_of(op) in JOINS


def bytes_in(dims: Sequence[int], border: tuple[int, int] = (0, 0)) -> int:
    """Bytes of a tensor, or of an image in a border, at most."""
    sizes = [most(n) for n in dims]
    if any(border):
        sizes[-2:] = [sizes[-2] + 2 * border[0], sizes[-1] + 2 * border[1]]
    return 4 * math.prod(sizes)


def border_of(value: SSAValue, without: Callable[[GroupOp], bool]) -> tuple[tuple[int, int], float]:
    """The border that the convolutions and pools which read an image want around it, the most of any but those that do
    ``without``, and the number in it. Where they want different numbers it is what the first one wants: the others copy
    the image.
    """
    most, number = (0, 0), 0.0
    for use in value.uses:
        group = use.operation
        if isinstance(group, GroupOp) and group.kind.data in WITH_WINDOWS:
            root = cast(SchemaOp, group.root)
            if root.arg("self" if group.kind.data == "pool" else "input") is not group.body.block.args[use.index]:
                continue
            if without(group):
                continue
            border, wanted = border_for(root)
            if any(most) and wanted != number:
                continue
            number = wanted if any(border) else number
            most = (max(most[0], border[0]), max(most[1], border[1]))
    return most, number


FLOAT_BY_FLOAT = ("map", "group_norm", "batch_norm")
"""Kinds of groups that write each float of an image of what they read there last, and nothing else."""
IMAGES = ("convolution", "depthwise", "grouped")
"""Kinds of groups that write each float of an image of what is added there, and of others of what their root reads."""


def border_after(
    value: SSAValue, without: Callable[[GroupOp], bool], adds_over: Callable[[], bool] = lambda: False
) -> tuple[int, int]:
    """The border that an image wants which is made of this one float by float, when that is the last to read it: with
    the same strides both can be in one memory. What a convolution adds to its own result counts if ``adds_over`` says
    so.
    """
    last = _last_reader(value)
    if not isinstance(last, GroupOp) or last.kind.data not in (*FLOAT_BY_FLOAT, *IMAGES) or value not in last.inputs:
        return (0, 0)
    result = last.outputs[0]
    if shape(result) != shape(value) or _first_alike(last) is not value:
        return (0, 0)
    own, _ = border_of(result, without)
    found = own if any(own) else border_after(result, without, adds_over)
    return found if not any(found) or last.kind.data in FLOAT_BY_FLOAT or adds_over() else (0, 0)


def _first_alike(group: GroupOp) -> SSAValue | None:
    """The first input of the result's shape; of a convolution, that its root does not read."""
    root = group.root if group.kind.data in IMAGES else None
    for value, arg in zip(group.inputs, group.body.block.args, strict=True):
        if shape(value) == shape(group.outputs[0]) and (root is None or arg not in root.operands):
            return value
    return None


def _last_reader(value: SSAValue) -> Operation | None:
    """The last operation that reads a tensor or a view of it."""
    found: Operation | None = None
    values = [value]
    while values:
        for use in values.pop().uses:
            op = use.operation
            if found is None or (op is not found and found.is_before_in_block(op)):
                found = op
            if isinstance(op, SchemaOp):
                values += op.results
    return found


# --- tables -----------------------------------------------------------------------------------------------------------

LowerGroup = Callable[[Lowering, GroupOp, Outside], None]
LowerMove = Callable[[Lowering, SchemaOp], None]
Parts = Callable[[Lowering, SchemaOp, bool], "list[Place]"]
GROUPS: dict[str, LowerGroup] = {}
"""Kind of a group to what lowers it."""
MOVES: dict[str, LowerMove] = {}
"""Operator that moves elements to what lowers it."""
JOINS: dict[str, Parts] = {}
"""Operator that joins its operands to what says where each of them is in the whole, in memory of an image or not."""


def lowers(*kinds: str) -> Callable[[LowerGroup], LowerGroup]:
    """Register a function for kinds of groups."""

    def register(function: LowerGroup) -> LowerGroup:
        GROUPS.update(dict.fromkeys(kinds, function))
        return function

    return register


def moves(*operators: str) -> Callable[[LowerMove], LowerMove]:
    """Register a function for operators that stand between groups."""

    def register(function: LowerMove) -> LowerMove:
        MOVES.update(dict.fromkeys(operators, function))
        return function

    return register
