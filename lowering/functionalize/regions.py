"""Changes inside of control flow: what a region changes leaves it as a further result.

A branch of ``control.cond`` yields the contents of every outer storage that either branch changes. A loop carries them:
both regions get a further argument for each, the body yields the contents on its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, YieldOp
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.build.builder import is_tensor
from etir.lowering.errors import E0413
from etir.lowering.functionalize.aliases import AliasSets, Storage
from etir.lowering.functionalize.mutations import written_tensors
from etir.lowering.functionalize.views import viewed_argument

CONTROL = (CondOp, WhileOp, ScanOp)


def changed_storages(aliases: AliasSets, regions: Sequence[Region]) -> list[Storage]:
    """The storages from outside of ``regions`` that operations inside may change, in the order of the first change.

    Whatever may be a view counts as one: a storage too many costs a result, not a wrong one.
    """
    roots: dict[SSAValue, SSAValue] = {}
    inside: dict[SSAValue, None] = {}
    found: dict[Storage, None] = {}
    for region in regions:
        _note_arguments(region, inside)
        for op in region.walk():
            for nested in op.regions:
                _note_arguments(nested, inside)
            for result in op.results:
                inside[result] = None
            if not isinstance(op, SchemaOp):
                continue
            written = written_tensors(op)
            for value in written:
                root = roots.get(value, value)
                if root not in inside:
                    found[aliases.alias(root).storage] = None
            _note_views(op, written, roots)
    return list(found)


def _note_arguments(region: Region, inside: dict[SSAValue, None]) -> None:
    for block in region.blocks:
        inside.update(dict.fromkeys(block.args))


def _note_views(op: SchemaOp, written: Sequence[SSAValue], roots: dict[SSAValue, SSAValue]) -> None:
    """Which values the results of ``op`` share storage with."""
    source = viewed_argument(op.SCHEMA)
    if source is not None:
        viewed = op.arg(source)
        if is_tensor(viewed):
            assert isinstance(viewed, SSAValue)
            root = roots.get(viewed, viewed)
            for result in op.results:
                roots[result] = root
        return
    changed = iter(written)
    results = iter(op.results)
    for returned in op.SCHEMA.returns:
        if not returned.is_write:
            next(results, None)
            continue
        for value, result in zip(changed, results, strict=False):
            roots[result] = roots.get(value, value)


def _detached(op: Operation) -> list[Region]:
    """The regions of ``op``, detached from it."""
    return [op.detach_region(region) for region in list(op.regions)]


class Regions:
    """Rewrites the control flow of one method; ``block`` functionalizes the operations of a block."""

    def __init__(
        self,
        aliases: AliasSets,
        claim: Callable[[Storage], None],
        block: Callable[[Block], None],
    ):
        self.aliases = aliases
        self._claim = claim
        self._block = block

    def replace(self, op: Operation) -> None:
        """Functionalize the regions of ``op`` and hand out what they change. Raises error E0413."""
        aliases = self.aliases
        aliases.refresh(op)
        changed = changed_storages(aliases, op.regions)
        for storage in changed:
            self._claim(storage)
        match op:
            case CondOp():
                for region in op.regions:
                    self._run(region, changed, [])
                if not changed:
                    return
                position = len(op.outputs)
                types = [*op.outputs.types, *(s.root.type for s in changed)]
                new: Operation = CondOp(op.predicate, types, *_detached(op))
            case WhileOp():
                if changed_storages(aliases, [op.condition]):
                    raise E0413.error(
                        "the condition of a loop changes a tensor",
                        source_location(op.location),
                        help="change it in the body",
                    )
                inits = [*op.inits, *(s.root.value for s in changed)]
                position = len(op.inits)
                self._run(op.condition, [], self._arguments(op.condition, changed, position))
                self._run(op.body, changed, self._arguments(op.body, changed, position))
                if not changed:
                    return
                new = WhileOp(inits, *_detached(op))
            case ScanOp():
                inits = [*op.inits, *(s.root.value for s in changed)]
                position = len(op.inits)
                self._run(
                    op.body,
                    changed,
                    self._arguments(op.body, changed, position),
                    position,
                )
                if not changed:
                    return
                types = [*(v.type for v in inits), *op.outputs.types[position:]]
                new = ScanOp(inits, list(op.inputs), types, *_detached(op))
            case _:
                raise TypeError(f"{op.name} is not control flow")
        self._finish(op, new, changed, position)

    def _finish(self, op: Operation, new: Operation, changed: Sequence[Storage], position: int) -> None:
        new.attributes.update(op.attributes)
        new.location = op.location
        self.aliases.emit.at(op)
        self.aliases.emit.insert(new)
        results = [*new.results[:position], *new.results[position + len(changed) :]]
        for old, value in zip(op.results, results, strict=True):
            value.name_hint = old.name_hint
            old.replace_all_uses_with(value)
        self.aliases.removed.append(op)
        for storage, value in zip(changed, new.results[position : position + len(changed)], strict=True):
            self.aliases.store(storage, [(storage.root, value)])

    def _arguments(self, region: Region, changed: Sequence[Storage], position: int) -> list[tuple[Storage, SSAValue]]:
        block = region.block
        return [(s, block.insert_arg(s.root.type, position + i)) for i, s in enumerate(changed)]

    def _run(
        self,
        region: Region,
        changed: Sequence[Storage],
        arguments: Sequence[tuple[Storage, SSAValue]],
        position: int | None = None,
    ) -> None:
        """Functionalize one region and append (or insert at ``position``) what ``changed`` hold on its end."""
        block = region.block
        self.aliases.enter()
        for storage, value in arguments:
            self.aliases.store(storage, [(storage.root, value)])
        self._block(block)
        last = block.last_op
        if changed and isinstance(last, YieldOp):
            given = list(last.arguments)
            at = len(given) if position is None else position
            contents = [s.root.value for s in changed]
            replacement = YieldOp([*given[:at], *contents, *given[at:]])
            replacement.location = last.location
            block.insert_op_before(replacement, last)
            block.erase_op(last)
        self.aliases.leave()
