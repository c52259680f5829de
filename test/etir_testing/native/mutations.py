"""Functions of ``tile`` with one number changed: what ``verify-tile`` has to refuse, or code has to survive."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.backends.native.tile import BufferOp, TemplateOp, WeightOp, memref, row_major, strides_of

_NUMBER = re.compile(r"(?<![A-Za-z_%@^.\d])\d+|(?<=\dx)\d+")


@dataclass(frozen=True)
class Mutation:
    """A change: ``what`` says where, ``apply`` changes a copy of the function."""

    what: str
    apply: Callable[[FuncOp], None]


def changed(value: int, chance: random.Random) -> int:
    """Another number than ``value``: near it, a multiple, a sign, a large one."""
    near = [value - 1, value + 1, value + 4, value * 2, value // 2, value + chance.randint(-64, 64)]
    far = [0, 1, 2, 3, 16, 64, -1, -value, 1 << 16, 1 << 31, (1 << 32) - 4, 1 << 40]
    while True:
        found = chance.choice(near if chance.random() < 0.7 else far)
        if found != value:
            return found


def of_text(text: str, seed: int) -> Iterator[tuple[str, str]]:
    """Texts with one integer literal changed, and what was changed."""
    chance = random.Random(seed)
    places = list(_NUMBER.finditer(text))
    while True:
        place = chance.choice(places)
        new = changed(int(place[0]), chance)
        line = text.count("\n", 0, place.start()) + 1
        yield f"line {line}: {place[0]} -> {new}", text[: place.start()] + str(new) + text[place.end() :]


def of_function(func: FuncOp, seed: int) -> Iterator[Mutation]:
    """Changes of one number where it stands in the IR: in a type and in every other place that says the same, so that
    it does not contradict itself.
    """
    chance = random.Random(seed)
    ops = [op for op in func.body.block.ops if isinstance(op, (ReinterpretCastOp, BufferOp, WeightOp, TemplateOp))]
    while True:
        number = chance.randrange(-2, len(ops))
        if number < 0:
            yield _argument(len(func.body.block.args), chance)
            continue
        found = _operation(ops[number], ops.index(ops[number]), chance)
        if found is not None:
            yield found


def _argument(count: int, chance: random.Random) -> Mutation:
    which, seed = chance.randrange(count), chance.random()

    def apply(func: FuncOp) -> None:
        arg = func.body.block.args[which]
        _retype(arg, _dim_changed(arg.type, random.Random(seed)))
        types = [a.type for a in func.body.block.args]
        func.properties["function_type"] = FunctionType.from_lists(types, [])

    return Mutation(f"a dim of argument {which}", apply)


def _retype(value: SSAValue, type: Attribute) -> None:
    object.__setattr__(value, "_type", type)


def _dim_changed(type: Attribute, chance: random.Random) -> Attribute:
    assert isinstance(type, MemRefType)
    shape = [*type.get_shape()]
    if not shape:
        return type
    which = chance.randrange(len(shape))
    was_dense = strides_of(type) == row_major(shape)
    strides = strides_of(type)
    shape[which] = changed(shape[which], chance)
    return memref(shape, None if was_dense else strides)


def _operation(op: Operation, index: int, chance: random.Random) -> Mutation | None:
    seed = chance.random()

    def at(func: FuncOp) -> Operation:
        kinds = (ReinterpretCastOp, BufferOp, WeightOp, TemplateOp)
        return [o for o in func.body.block.ops if isinstance(o, kinds)][index]

    if isinstance(op, ReinterpretCastOp):
        which = chance.choice(["offset", "size", "stride", "stride"])

        def cast(func: FuncOp) -> None:
            _change_cast(at(func), which, random.Random(seed))

        return Mutation(f"the {which} of cast {index}", cast)
    if isinstance(op, BufferOp) and chance.random() < 0.5:

        def place(func: FuncOp) -> None:
            buffer = at(func)
            assert isinstance(buffer, BufferOp) and buffer.at is not None
            new = changed(buffer.at.value.data // 64, random.Random(seed)) * 64 + random.Random(seed).choice([0, 0, 4])
            buffer.properties["at"] = IntegerAttr(new, i64)

        return Mutation(f"the place of buffer {index}", place)
    if isinstance(op, WeightOp) and op.panel is not None and chance.random() < 0.3:

        def panel(func: FuncOp) -> None:
            weight = at(func)
            assert isinstance(weight, WeightOp) and weight.panel is not None
            weight.properties["panel"] = IntegerAttr(changed(weight.panel.value.data, random.Random(seed)), i64)

        return Mutation(f"the panel of weight {index}", panel)
    if isinstance(op, (BufferOp, WeightOp)):

        def dim(func: FuncOp) -> None:
            result = at(func).results[0]
            _retype(result, _dim_changed(result.type, random.Random(seed)))

        return Mutation(f"a dim of memory {index}", dim)
    assert isinstance(op, TemplateOp)
    return _of_template(op, index, at, chance)


def _of_template(
    op: TemplateOp, index: int, at: Callable[[FuncOp], Operation], chance: random.Random
) -> Mutation | None:
    seed = chance.random()
    if op.schedule is not None and chance.random() < 0.9:
        name = chance.choice(list(op.schedule.data))

        def schedule(func: FuncOp) -> None:
            found = at(func)
            assert isinstance(found, TemplateOp) and found.schedule is not None
            entry = found.schedule.data[name]
            items = [*entry] if isinstance(entry, ArrayAttr) else [entry]
            inner = random.Random(seed)
            which = inner.randrange(len(items))
            assert isinstance(items[which], IntegerAttr)
            items[which] = IntegerAttr(changed(items[which].value.data, inner), i64)
            new = ArrayAttr(items) if isinstance(entry, ArrayAttr) else items[0]
            found.properties["schedule"] = DictionaryAttr({**found.schedule.data, name: new})

        return Mutation(f"'{name}' of the schedule of {op.name} {index}", schedule)
    constants = [o for region in op.regions for o in region.block.ops if isinstance(o, arith.ConstantOp)]
    if not constants or chance.random() < 0.9:
        return None

    def constant(func: FuncOp) -> None:
        found = [o for region in at(func).regions for o in region.block.ops if isinstance(o, arith.ConstantOp)][0]
        assert isinstance(found.value, FloatAttr)
        found.properties["value"] = FloatAttr(float(changed(3, random.Random(seed))), found.value.type)

    return Mutation(f"a number in the body of {op.name} {index}", constant)


def _change_cast(op: Operation, which: str, chance: random.Random) -> None:
    assert isinstance(op, ReinterpretCastOp)
    result = op.results[0]
    assert isinstance(result.type, MemRefType)
    offsets, shape, strides = (
        [*array.get_values()] for array in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    numbers = {"offset": offsets, "size": shape, "stride": strides}[which]
    if not numbers:
        return
    place = chance.randrange(len(numbers))
    numbers[place] = changed(numbers[place], chance)
    for name, values in (("static_offsets", offsets), ("static_sizes", shape), ("static_strides", strides)):
        op.properties[name] = DenseArrayBase.from_list(i64, values)
    _retype(result, memref(shape, strides))
