"""Copies of operations with all that is in them, and whether two are the same.

xDSL's ``clone`` goes through the constructor of every operation, and twice through all of them; and what uses a value
is in the order of the text afterwards. A rewrite may look at uses in their order, so that a module which stands in for
another one has to have that, too: :func:`exact_copy` and :func:`is_same` are for these.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue, SSAValues, Use

# pyright: reportPrivateUsage=false

_Op = TypeVar("_Op", bound=Operation)


def copy_of(op: _Op) -> _Op:
    """What ``op.clone()`` makes: of a value that is defined around the operation, there are more uses then."""
    copying = _Copying()
    made = copying.operation(op)
    copying.connect()
    return made


def copy_of_region(region: Region) -> Region:
    """What ``region.clone()`` makes, as :func:`copy_of`."""
    copying = _Copying()
    made = copying.region(region, None)
    copying.connect()
    return made


def exact_copy(op: _Op) -> _Op:
    """As :func:`copy_of`, with the uses of all values that are defined inside in the order that they have there."""
    copying = _Copying()
    made = copying.operation(op)
    copying.connect()
    copying.order_uses()
    return made


class _Copying:
    """What stands for what: values and blocks by identity, since they hash in Python."""

    def __init__(self) -> None:
        self.values: dict[int, SSAValue] = {}
        self.blocks: dict[int, Block] = {}
        self.made: list[tuple[Operation, Operation]] = []
        self.held: list[tuple[SSAValue | Block, SSAValue | Block]] = []

    def operation(self, old: _Op) -> _Op:
        """The operation without its operands and successors, which may be made later."""
        new = type(old).__new__(type(old))
        new._operands, new._operand_uses = SSAValues(), ()
        new._successors, new._successor_uses = (), ()
        results: list[OpResult] = []
        for value in old.results:
            result = OpResult(value._type, new, value.index)
            result._name = value._name
            self.values[id(value)] = result
            self.held.append((value, result))
            results.append(result)
        new.results = SSAValues(results)
        new.properties, new.attributes, new.location = old.properties.copy(), old.attributes.copy(), old.location
        self.made.append((old, new))
        new.regions = tuple([self.region(region, new) for region in old.regions])
        return new

    def region(self, old: Region, parent: Operation | None) -> Region:
        """The blocks and their operations, without operands and successors."""
        new = Region()
        new.parent = parent
        pairs = [(block, Block(arg_types=block.arg_types)) for block in old.blocks]
        for block, made in pairs:
            made._name, made.parent = block._name, new
            self.blocks[id(block)] = made
            self.held.append((block, made))
            for value, argument in zip(block._args, made._args, strict=True):
                argument._name, argument.location = value._name, value.location
                self.values[id(value)] = argument
                self.held.append((value, argument))
        for (_, before), (_, after) in pairwise(pairs):
            before._next_block, after._prev_block = after, before
        if pairs:
            new._first_block, new._last_block = pairs[0][1], pairs[-1][1]
        for block, made in pairs:
            last: Operation | None = None
            op = block._first_op
            while op is not None:
                nested = self.operation(op)
                nested.parent, nested._prev_op = made, last
                if last is None:
                    made._first_op = nested
                else:
                    last._next_op = nested
                last, op = nested, op._next_op
            made._last_op = last
        return new

    def connect(self) -> None:
        """Give every operation its operands and successors, in the order of the text."""
        values, blocks = self.values, self.blocks
        for old, new in self.made:
            if old._operands:
                new._operands = SSAValues([values.get(id(value), value) for value in old._operands])
                new._operand_uses = tuple([Use(new, number) for number in range(len(old._operands))])
                for value, use in zip(new._operands, new._operand_uses, strict=True):
                    value.add_use(use)
            if old._successors:
                new.successors = [blocks.get(id(block), block) for block in old._successors]

    def order_uses(self) -> None:
        """Let the uses of what has been copied be in the order of the uses that they were copied from."""
        uses: dict[int, Use] = {}
        for old, new in self.made:
            for given, made in ((old._operand_uses, new._operand_uses), (old._successor_uses, new._successor_uses)):
                uses.update((id(use), copy) for use, copy in zip(given, made, strict=True))
        for old, new in self.held:
            kept = [uses[id(use)] for use in old.uses if id(use) in uses]
            new.first_use = kept[0] if kept else None
            for before, after in zip([None, *kept], [*kept, None], strict=True):
                if before is not None:
                    before._next_use = after
                if after is not None:
                    after._prev_use = before


def is_same(one: Operation, other: Operation) -> bool:
    """Whether two operations have the same in them: all that can be written of them, hints and locations included, and
    all values the same uses, in the same order.
    """
    return described(one) == described(other)


def described(root: Operation, *, with_locations: bool = True) -> list[object]:
    """What there is in an operation, with numbers for operations, values and blocks: equal for those that are the same,
    also after one of them has changed; wherever they come from without locations.
    """
    ops = [*root.walk()]
    blocks = [block for op in ops for region in op.regions for block in region.blocks]
    values: list[SSAValue] = [value for op in ops for value in op.results]
    values += [value for block in blocks for value in block._args]
    numbers = {id(item): number for number, item in enumerate([*ops, *blocks, *values])}
    found: list[object] = [len(ops), len(blocks)]
    for op in ops:
        found += (type(op), *op.properties.items(), *op.attributes.items())
        if with_locations:
            found.append(op.location)
        found += [numbers.get(id(value), id(value)) for value in op._operands]
        found += [numbers.get(id(block), id(block)) for block in op._successors]
        found += [len(op.properties), len(op.attributes), len(op.results), len(op._operands)]
        found += [[[numbers[id(nested)] for nested in block.ops] for block in region.blocks] for region in op.regions]
    for item in (*blocks, *values):
        found.append(item._name)
        found += [(numbers.get(id(use._operation), id(use._operation)), use._index) for use in item.uses]
    for value in values:
        found.append(value._type)
        if isinstance(value, BlockArgument):
            found += (numbers[id(value.block)], value.index, value.location if with_locations else None)
    return found
