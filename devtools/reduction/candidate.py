"""A program of which is asked whether it still fails, and what every step of a reduction needs of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from etir.devtools.checks import Answer
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.program import ConstantOp, GetWeightOp, NoneOp, StringOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.passes.infra.base import is_private

CONSTANTS = (GetWeightOp, ConstantOp, NoneOp, StringOp, SymConstantOp)
"""Operations that are copied to wherever they are read."""

T = TypeVar("T")


@dataclass
class Candidate:
    """A program, and inputs for its only method, for each sample; no samples where nothing is run."""

    module: ModuleOp
    samples: list[list[Any]] = field(default_factory=list["list[Any]"])


StillFails = Callable[[Candidate], Answer]
"""The question: bad is what still fails."""


@dataclass(frozen=True)
class Reduced:
    """The smallest program that was found; ``before`` and ``after`` count operations, ``checks`` questions."""

    candidate: Candidate
    before: int
    after: int
    checks: int

    def __str__(self) -> str:
        return f"{self.before:,} operations became {self.after:,}, {self.checks} checks"


def function_of(module: ModuleOp, name: str) -> FuncOp | None:
    """The method of that name above the executable level."""
    return next(
        (
            op
            for op in module.body.block.ops
            if isinstance(op, FuncOp) and op.sym_name.data == name and not is_private(op)
        ),
        None,
    )


def counts(op: Operation) -> bool:
    """Whether an operation counts: it is no constant and ends no block."""
    return not isinstance(op, CONSTANTS) and not op.has_trait(IsTerminator)


def count_of(module: ModuleOp, name: str) -> int:
    """How many operations a method above the executable level consists of, without itself and its end."""
    func = function_of(module, name)
    return 0 if func is None else sum(1 for _ in func.walk()) - 2


def ddmin(items: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A subset that fails, of which no element can be left out; ``items`` as a whole does."""
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        pieces = [items[i : i + size] for i in range(0, len(items), size)]
        for number, piece in enumerate(pieces):
            rest = [op for i, other in enumerate(pieces) if i != number for op in other]
            if len(pieces) > 1 and fails(piece):
                items, parts = piece, 2
                break
            if len(pieces) > 2 and fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(items))
    return items


def without(items: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """What is left of ``items`` when as many as possible are taken away, halves first; ``fails`` is asked of the rest.

    Unlike :func:`ddmin` nothing may be left, and an item that had to stay is not asked for again.
    """
    size = len(items)
    while size:
        start = 0
        while start < len(items):
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items


def around(module: ModuleOp, func: FuncOp | MethodOp) -> ModuleOp:
    """A module of one method and the symbols that it names, in their order."""
    wanted = _named(func)
    tops = {_symbol(op): op for op in module.body.block.ops if _symbol(op)}
    waiting = list(wanted)
    while waiting:
        op = tops.get(waiting.pop())
        for name in _named(op) if op is not None else ():
            if name not in wanted:
                wanted[name] = None
                waiting.append(name)
    others = [
        op.clone()
        for op in module.body.block.ops
        if op.name in ("sym.dim", "et.schema") or (_symbol(op) in wanted and _symbol(op) != _symbol(func))
    ]
    return ModuleOp([*others, func])


def _symbol(op: Operation) -> str:
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return name.data if isinstance(name, StringAttr) else ""


def _named(op: Operation) -> dict[str, None]:
    found: dict[str, None] = {}
    for inner in op.walk():
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            if isinstance(attribute, SymbolRefAttr):
                found[attribute.root_reference.data] = None
    return found
