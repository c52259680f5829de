"""Which values share storage, and what each of them holds at the current point.

The standard functionalization scheme: every storage has one root; every other tensor on it is an :class:`Alias`, a view
of its parent. A write to an alias is put back through its views into the root, and gives the storage a new version. The
other aliases are stale then; one that is used again is recomputed from the root, by repeating its view operators. So
the cost is linear in the operations plus the views that are really read after a write.

Values made inside of a region cannot be used outside: what changes between :meth:`AliasSets.enter` and
:meth:`AliasSets.leave` is undone, and ``regions.py`` hands the new contents out as results.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from xdsl.dialects.builtin import LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from etir.dialects.et.layout import dims_of
from etir.dialects.et.origin import handed_on
from etir.dialects.et.program import GetWeightOp, ReadStateOp
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0413
from etir.lowering.functionalize.emitter import Emitter, Tensor, tensor_of


class Origin(Enum):
    """Where a storage comes from, which says what becomes of a change."""

    FRESH = "made by the program"
    INPUT = "an input of the method"
    STATE = "a mutable buffer"
    WEIGHT = "a weight"


class Storage:
    """Memory that several tensors share.

    ``original`` is the root's value on entry; ``version`` changes with each write.
    """

    __slots__ = (
        "declared",
        "doubts",
        "location",
        "may_doubt",
        "origin",
        "original",
        "root",
        "version",
    )

    def __init__(self, value: SSAValue, origin: Origin):
        self.original = value
        self.origin = origin
        self.version = 0
        self.root = Alias(self, value)
        self.location: LocationAttr = UnknownLoc()
        self.declared: Operation | None = None
        """The ``et.write_state`` or ``et.update_input`` that the program already had."""
        self.may_doubt = False
        self.doubts: dict[tuple[int, ...], int] = {}
        """Writes to a storage whose aliases are uncertain: by the doubts of the writer, the last version."""

    @property
    def is_changed(self) -> bool:
        """Whether the storage holds something else than on entry."""
        return self.root.value is not self.original


class View:
    """One call of a view operator: its parent and the aliases that are its results."""

    __slots__ = ("aliases", "op", "operand", "parent", "same")

    def __init__(self, op: SchemaOp, parent: Alias, operand: int, same: bool):
        self.op = op
        self.parent = parent
        self.operand = operand
        """Index of the operand that is viewed."""
        self.same = same
        """Whether the result is the parent under another name (``detach``)."""
        self.aliases: list[Alias] = []


class Alias:
    """One tensor on a storage; ``value`` is what it holds as of ``version``.

    ``doubts`` numbers the operators between the root and this alias of which it is not known whether they give a view.
    """

    __slots__ = (
        "created",
        "depth",
        "doubts",
        "handles",
        "index",
        "storage",
        "strides",
        "type",
        "value",
        "version",
        "view",
    )

    def __init__(
        self,
        storage: Storage,
        value: SSAValue,
        view: View | None = None,
        index: int = 0,
        depth: int = 0,
    ):
        self.storage = storage
        self.value = value
        self.type: Tensor = tensor_of(value)
        self.view = view
        self.index = index
        self.version = self.created = storage.version
        self.depth = depth
        self.doubts: tuple[int, ...] = ()
        self.strides: object = None
        """Filled in by ``strides.py``."""
        self.handles: list[SSAValue] = []
        """The values of the program that are this tensor."""


def _is_same_but_order(a: Attribute, b: Attribute) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return False
    return a.encoding != b.encoding and a.element_type == b.element_type and dims_of(a) == dims_of(b)


class AliasSets:
    """The aliases of one method."""

    def __init__(self, emit: Emitter, entry: Block):
        self.emit = emit
        self.entry = entry
        self.of: dict[SSAValue, Alias] = {}
        self.storages: list[Storage] = []
        self.stands_for: dict[SSAValue, Alias] = {}
        """Which tensor a new value is the contents of."""
        self.before: dict[SSAValue, Alias] = {}
        """Which tensor a value was before it got other sizes and strides: what was computed of it saw that one."""
        self.removed: list[Operation] = []
        self.depth = 0
        self._version = 0
        self._doubt = 0
        self._journal: list[list[tuple[Alias | Storage, SSAValue | None, int]]] = []

    # --- making -----------------------------------------------------------------------------------------------------

    def alias(self, value: SSAValue) -> Alias:
        """The alias of a tensor of the program; the root of a new storage for one that is no view."""
        known = self.of.get(value)
        if known is None:
            storage = Storage(value, self._origin(value))
            self.storages.append(storage)
            known = storage.root
            known.depth = self._depth(value)
            self.bind(value, known)
        return known

    def _depth(self, value: SSAValue) -> int:
        """In how many regions ``value`` is made, which may be less than those it is seen in for the first time."""
        owner, depth = value.owner, 0
        block = owner if isinstance(owner, Block) else owner.parent
        while block is not None and block is not self.entry:
            around = block.parent_op()
            block, depth = None if around is None else around.parent, depth + 1
        return depth

    def bind(self, value: SSAValue, alias: Alias) -> None:
        """``value`` of the program is the tensor ``alias``."""
        self.of[value] = alias
        alias.handles.append(value)

    def _origin(self, value: SSAValue) -> Origin:
        if isinstance(value, OpResult):
            if isinstance(value.op, ReadStateOp):
                return Origin.STATE
            return Origin.WEIGHT if isinstance(value.op, GetWeightOp) else Origin.FRESH
        return Origin.INPUT if value.owner is self.entry else Origin.FRESH

    def view(
        self,
        op: SchemaOp,
        parent: Alias,
        operand: int,
        results: Sequence[SSAValue],
        *,
        same: bool,
        certain: bool,
    ) -> View:
        """``results`` are views of ``parent``, made by ``op`` from its operand number ``operand``."""
        view = View(op, parent, operand, same)
        doubts = parent.doubts
        if not certain:
            self._doubt += 1
            doubts = (*doubts, self._doubt)
            parent.storage.may_doubt = True
        for index, result in enumerate(results):
            alias = Alias(parent.storage, result, view, index, self.depth)
            alias.doubts = doubts
            view.aliases.append(alias)
            self.bind(result, alias)
        return view

    def rebind(self, alias: Alias, new: Alias) -> None:
        """The tensor ``alias`` got other sizes and strides: every value of the program that is it is ``new`` now."""
        for handle in alias.handles:
            self.before.setdefault(handle, alias)
            self.of[handle] = new
            new.handles.append(handle)
        alias.handles = []

    # --- reading ----------------------------------------------------------------------------------------------------

    def current(self, alias: Alias) -> SSAValue:
        """What the tensor holds now. A stale view is recomputed before the current operation."""
        storage = alias.storage
        if storage.doubts:
            self._check_doubts(alias)
        if alias.version == storage.version:
            return alias.value
        stale: list[Alias] = []
        nearest: Alias = alias
        while nearest.version != storage.version:
            stale.append(nearest)
            assert nearest.view is not None, "a root is never stale"
            nearest = nearest.view.parent
        for one in reversed(stale):
            if one.version != storage.version:
                assert one.view is not None
                self._regenerate(one.view, storage.version)
        return alias.value

    def _regenerate(self, view: View, version: int) -> None:
        parent = view.parent
        if view.same and view.aliases[0].type == parent.type:
            self._set(view.aliases[0], parent.value, version)
            return
        op = view.op
        operands = list(op.operands)
        operands[view.operand] = parent.value
        again = type(op).create(
            operands=operands,
            result_types=[r.type for r in op.results],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            location=handed_on(op.location),
        )
        self.emit.insert(again)
        for alias in view.aliases:
            if alias.version != version:
                result = again.results[alias.index]
                result.name_hint = op.results[alias.index].name_hint
                self._set(alias, result, version)

    def refresh(self, op: Operation, start: int = 0) -> None:
        """Make the operands of ``op`` what its tensors hold now.

        Where the types of results or of regions are bound to those of operands, a dim order that only the changed
        tensor has is undone.
        """
        of = self.of
        bound = not isinstance(op, SchemaOp)
        operands = op.operands
        for index in range(start, len(operands)):
            operand = operands[index]
            alias = of.get(operand)
            if alias is not None:
                value = self.current(alias)
                if value is not operand:
                    if bound and _is_same_but_order(value.type, operand.type):
                        value = self.emit.ordered(value, tensor_of(operand))
                    operands[index] = value

    def any_value(self, op: Operation) -> None:
        """Make the operands of ``op`` values of the right tensors, stale or not: for operators that only read sizes."""
        for index, operand in enumerate(op.operands):
            alias = self.of.get(operand)
            if alias is not None and alias.value is not operand:
                op.operands[index] = alias.value

    def _check_doubts(self, alias: Alias) -> None:
        for doubts, version in alias.storage.doubts.items():
            if version > alias.created and doubts != alias.doubts:
                self._raise_doubt(alias)

    def _raise_doubt(self, alias: Alias) -> None:
        assert self.emit.point is not None
        reader = "the result" if self.emit.point.name == "func.return" else f"'{self.emit.point.name}'"
        raise E0413.error(
            f"{reader} reads a tensor after a change that may or may not have reached it: it "
            "depends on strides that are not known here whether 'reshape', 'contiguous' or 'to' gave a view "
            f"({alias.type})",
            # A result has no line of its own: the change has.
            source_location(self.emit.location) or source_location(alias.storage.location),
            help="use view() for a view, clone() for a copy",
        )

    # --- writing ----------------------------------------------------------------------------------------------------

    def _set(self, alias: Alias, value: SSAValue, version: int) -> None:
        if self._journal:
            self._journal[-1].append((alias, alias.value, alias.version))
        alias.value = value
        alias.version = version
        self.stands_for.setdefault(value, alias)

    def next_version(self, storage: Storage) -> int:
        """Give the storage a new version: all its aliases are stale until they are set."""
        if self._journal:
            self._journal[-1].append((storage, None, storage.version))
        self._version += 1
        storage.version = self._version
        storage.location = self.emit.location
        if storage.declared is not None:
            self.removed.append(storage.declared)
            storage.declared = None
        return self._version

    def store(
        self,
        storage: Storage,
        values: Sequence[tuple[Alias, SSAValue]],
        doubts: tuple[int, ...] = (),
    ) -> None:
        """After a write ``values`` are what these aliases hold, the root's among them."""
        version = self.next_version(storage)
        if storage.may_doubt:
            storage.doubts[doubts] = version
        for alias, value in values:
            self._set(alias, value, version)

    # --- regions ----------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Begin a region."""
        self._journal.append([])
        self.depth += 1

    def leave(self) -> None:
        """End a region: every alias holds again what it held before."""
        self.depth -= 1
        for item, value, version in reversed(self._journal.pop()):
            item.version = version
            if isinstance(item, Alias):
                assert value is not None
                item.value = value
