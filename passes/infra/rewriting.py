"""The one rewrite driver: patterns that keep locations, converge or say why not, and can explain themselves.

A :class:`Pattern` says with the annotation of its method which operations it starts from, and rewrites one of them
through a :class:`PatternRewriter`::

    def rewrite(self, op: edge.aten.sum.dim_IntList | edge.aten.mean.dim, rewriter: PatternRewriter) -> None: ...

The driver visits every operation once in order, then whatever a rewrite touched, until nothing changes. Compared with
xDSL's walker it

* gives every new operation the location of the operation it was made for, so that no pass can lose one;
* looks patterns up by operation name, so that a pass costs what it changes, not patterns times operations;
* stops a set of patterns that does not converge, and names the patterns that keep firing;
* tells an observer of every rewrite and of every near miss (:meth:`PatternRewriter.notify_match_failure`), which
  is what ``--trace-op``, ``--explain-match`` and the pass statistics print;
* erases pure operations whose results are not used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, ModuleOp, NoneAttr, UnknownLoc
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, Pure

from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.annotations import annotated_operations, is_named
from etir.dialects.context import EtContext
from etir.dialects.et.origin import give_marks, handed_on, plain, united, with_origins
from etir.dialects.text import source_location
from etir.passes.errors import E0501

OpT = TypeVar("OpT", bound=Operation)

MAX_REWRITES_PER_OPERATION = 64
"""Rewrites allowed, per operation of the module, before a set of patterns counts as not converging."""


class Pattern(ABC):
    """One rewrite. Subclasses set ``name`` (kebab-case, unique within its pass) and annotate ``op`` of :meth:`rewrite`.

    The annotation is a class of operations or a union of several, whose names become ``roots``. A base class without a
    name (``Operation``, ``SchemaOp``) stands for any operation of its kind. Patterns that take their roots from a table
    set ``roots`` themselves.
    """

    name: ClassVar[str]
    roots: ClassVar[tuple[str, ...]] = ()
    """Names of the operations the pattern may start from; empty for any of ``kind``."""
    kind: ClassVar[type[Operation]] = Operation
    """What an operation has to be when there are no roots."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "rewrite" in cls.__dict__ and "roots" not in cls.__dict__:
            classes = annotated_operations(cls.__dict__["rewrite"], 1)
            bases = [member for member in classes if not is_named(member)]
            if not bases:
                cls.roots = tuple(member.name for member in classes)
            elif len(classes) == 1:
                cls.kind = bases[0]
            else:
                raise TypeError(
                    f"pattern {cls.__name__}: {bases[0].__name__} in a union of roots is no single operation"
                )

    @abstractmethod
    def rewrite(self, op: Any, rewriter: PatternRewriter) -> None:
        """Rewrite ``op`` through ``rewriter``, or return (ideally after ``rewriter.notify_match_failure(reason)``)."""


class PatternError(Exception):
    """What a pattern raised (the ``__cause__``), with what it was looking at; the manager makes a diagnostic of it."""

    def __init__(self, pattern: Pattern, op_name: str, location: LocationAttr):
        super().__init__(f"pattern '{pattern.name}' failed on '{op_name}'")
        self.pattern, self.op_name, self.location = pattern, op_name, location


class Observer:
    """Hears of rewrites and near misses. The base class counts rewrites by pattern."""

    def __init__(self) -> None:
        self.applied: Counter[str] = Counter()

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """``pattern`` replaced or changed an operation."""
        self.applied[pattern.name] += 1

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """``pattern`` looked at ``op`` and gave ``reason`` for leaving it alone."""

    def on_refused(self, backend: str, op: Operation, reason: str) -> None:
        """``backend`` was offered ``op`` and gave ``reason`` for leaving it outside of its delegates."""


@dataclass
class RewriteLimit:
    """How many rewrites the driver may still do in a context that has one attached; then it leaves everything alone.

    What is dead is erased all the same. This is how a single rewrite is found that makes a program wrong.
    """

    left: int
    last: str = ""
    """The last rewrite that was done: the pattern, and the operation."""
    place: SourceLocation | None = None
    """Where that operation is in the source."""
    function: str = ""
    """The symbol, where a whole function was rewritten."""

    def count_function(self, symbol: str, location: LocationAttr) -> None:
        """A pass that takes functions one by one, whose parts mean nothing alone, has taken one more."""
        self.left -= 1
        if not self.left:
            self.place, self.last, self.function = source_location(location), f"delegate @{symbol}", symbol

    def count(self, pattern: Pattern, op_name: str, location: LocationAttr) -> None:
        """One more was done."""
        self.left -= 1
        if not self.left:
            self.place = source_location(location)
            self.last = f"'{pattern.name}' on {op_name}"


def fuse_locations(ops: Iterable[Operation]) -> LocationAttr:
    """The location of an operation that stands for several: theirs, each once, unknown ones left out.

    It has the origins of all of them, with their marks: :meth:`PatternRewriter.insert_op` takes the marks away again,
    since an operation that is new is none of them.
    """
    every = [op.location for op in ops]
    known = list(dict.fromkeys(p for location in every if not isinstance(p := plain(location), UnknownLoc)))
    fused = UnknownLoc() if not known else known[0] if len(known) == 1 else FusedLoc(ArrayAttr(known), NoneAttr())
    return with_origins(fused, united(every))


@dataclass
class PatternRewriter:
    """What a pattern changes the program with. One is made for each operation that a pattern looks at."""

    root: Operation
    location: LocationAttr
    insertion_point: InsertPoint
    reason: str | None = None
    new_ops: list[Operation] = field(default_factory=list)
    touched: list[Operation] = field(default_factory=list)
    erased: list[Operation] = field(default_factory=list)
    changed: bool = False

    def notify_match_failure(self, reason: str) -> None:
        """Say why the pattern leaves the root alone; the last reason counts."""
        self.reason = reason

    def take_back(self) -> None:
        """Erase what was inserted by a pattern that left the root alone in the end, unless something reads it: nothing
        has changed then, and nothing has to be looked at again.
        """
        made = dict.fromkeys(self.new_ops)
        readers = (use.operation for op in made for result in op.results for use in result.uses)
        if self.touched or self.erased or not all(reader in made for reader in readers):
            return
        for op in reversed(self.new_ops):
            Rewriter.erase_op(op)
        self.new_ops, self.changed = [], False

    def insert_op(self, op: OpT, before: Operation | None = None) -> OpT:
        """Insert a new operation before ``before`` (default: the root); it takes the root's location if it has none.

        It comes from where the root comes from; whose value it computes, the methods that replace values say.
        """
        self.changed = True
        op.location = handed_on(op.location)
        for nested in op.walk():
            if isinstance(nested.location, UnknownLoc):
                nested.location = handed_on(self.location)
        Rewriter.insert_op(op, self.insertion_point if before is None else InsertPoint.before(before))
        self.new_ops.append(op)
        return op

    def replace_op(self, op: Operation, new: Operation | Sequence[SSAValue]) -> None:
        """Replace ``op`` by an operation (inserted before it) or by existing values, and erase it.

        Name hints are handed on. Raises ``ValueError`` when the number of results differs.
        """
        self.changed = True
        if isinstance(new, Operation):
            if new.parent is None:
                self.insert_op(new, before=op)
            values: Sequence[SSAValue] = new.results
        else:
            values = new
        if len(values) != len(op.results):
            raise ValueError(f"{op.name} has {len(op.results)} results, the replacement {len(values)}")
        for old, value in zip(op.results, values, strict=True):
            if old is value:
                continue
            self.touched.extend(use.operation for use in old.uses)
            if value.name_hint is None and old.name_hint is not None:
                value.name_hint = old.name_hint
            give_marks(old, value)
            old.replace_all_uses_with(value)
        self.erase_op(op)

    def replace_all_uses_with(self, old: SSAValue, new: SSAValue) -> None:
        """Use ``new`` wherever ``old`` is used."""
        self.changed = True
        self.touched.extend(use.operation for use in old.uses)
        give_marks(old, new)
        old.replace_all_uses_with(new)

    def erase_op(self, op: Operation) -> None:
        """Erase an operation whose results are not used."""
        self.changed = True
        self.touched.extend(o.owner for o in op.operands if isinstance(o.owner, Operation))
        self.erased.extend(op.walk())
        Rewriter.erase_op(op)

    def notify_op_modified(self, op: Operation) -> None:
        """Say that ``op`` was changed in place."""
        self.changed = True
        self.touched.append(op)


def is_trivially_dead(op: Operation) -> bool:
    """Whether an operation has no effect and none of its results is used."""
    return (
        all(result.first_use is None for result in op.results)
        and op.has_trait(Pure, value_if_unregistered=False)
        and not op.has_trait(IsTerminator)
        and op.parent is not None
        and not isinstance(op, ModuleOp)
    )


def apply_patterns_greedily(
    ctx: EtContext,
    root: Operation | Region | Block,
    patterns: Sequence[Pattern],
    *,
    erase_dead: bool = True,
) -> bool:
    """Rewrite everything below ``root`` until no pattern applies. Returns whether anything changed.

    Patterns are tried in the given order. Raises error E0501 when they do not converge, and ``PatternError`` for an
    exception in a pattern.
    """
    by_name: dict[str, list[Pattern]] = {}
    anywhere = [p for p in patterns if not p.roots]
    for pattern in patterns:
        for name in pattern.roots:
            by_name.setdefault(name, []).append(pattern)
    if anywhere:
        by_name = {n: [p for p in patterns if not p.roots or n in p.roots] for n in by_name}
    observer = ctx.attachments.get(Observer)
    limit = ctx.attachments.get(RewriteLimit)
    queue: deque[Operation] = deque(op for op in root.walk() if op is not root)
    queued = dict.fromkeys(queue)
    budget = MAX_REWRITES_PER_OPERATION * (len(queue) + 16)
    fired: Counter[str] = Counter()
    changed = False
    while queue:
        op = queue.popleft()
        queued.pop(op, None)
        if op.parent is None:
            continue
        if erase_dead and is_trivially_dead(op):
            owners = [o.owner for o in op.operands if isinstance(o.owner, Operation)]
            Rewriter.erase_op(op)
            _push(queue, queued, owners)
            changed = True
            continue
        if limit is not None and limit.left <= 0:
            continue
        for pattern in by_name.get(op.name, anywhere):
            if not pattern.roots and not isinstance(op, pattern.kind):
                continue
            rewriter = PatternRewriter(op, op.location, InsertPoint.before(op))
            name, location = op.name, op.location
            try:
                pattern.rewrite(op, rewriter)
            except EtirError:
                raise
            except Exception as error:
                raise PatternError(pattern, name, location) from error
            if rewriter.reason is not None and rewriter.new_ops:
                rewriter.take_back()
            if not rewriter.changed:
                if observer is not None and rewriter.reason is not None:
                    observer.on_match_failure(pattern, op, rewriter.reason)
                continue
            changed = True
            fired[pattern.name] += 1
            if limit is not None:
                limit.count(pattern, name, location)
            if observer is not None:
                observer.on_rewrite(pattern, name, location, rewriter.new_ops)
            if fired.total() > budget:
                busiest = ", ".join(f"'{n}' ({count} times)" for n, count in fired.most_common(3))
                raise E0501.error(
                    f"{fired.total()} rewrites of {budget // MAX_REWRITES_PER_OPERATION} operations; the busiest "
                    f"patterns are {busiest}, the last one rewrote '{name}'",
                    source_location(location),
                )
            gone = dict.fromkeys(rewriter.erased)
            _push(queue, queued, [o for new in rewriter.new_ops if new not in gone for o in new.walk()])
            _push(queue, queued, [o for o in rewriter.touched if o not in gone])
            if op not in gone:
                _push(queue, queued, [op])
            break
    return changed


def _push(queue: deque[Operation], queued: dict[Operation, None], ops: Iterable[Operation]) -> None:
    for op in ops:
        if op not in queued:
            queued[op] = None
            queue.append(op)
