"""What the statements of a generated block can name: tensors with their storages, numbers, and what may be changed.

A scope holds one namespace of meta tensors for each of the sizes that a program is called at, the smallest first: a
statement is kept when torch takes it in all of them, so that no program depends on one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

LARGEST = 64
"""Elements of the largest tensor at the smallest sizes."""


def storage_of(tensor: torch.Tensor) -> int:
    """What tell storages apart."""
    return tensor.untyped_storage()._cdata


def has_overlap(tensor: torch.Tensor) -> bool:
    """Whether two indices may name one element."""
    reach = 0
    for step, count in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if step <= reach:
            return True
        reach += step * (count - 1)
    return False


def same_place(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one storage are the same elements in the same order."""
    return a.stride() == b.stride() and a.shape == b.shape and a.storage_offset() == b.storage_offset()


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the strides are exactly those of a new tensor: torch compares those of dims of size 1 too."""
    return tensor.stride() == torch.empty(tensor.shape, device="meta").stride()


@dataclass
class Scope:
    """What statements of a block can name."""

    worlds: list[dict[str, Any]]
    """One namespace for each of the program's sizes."""
    tensors: dict[str, torch.Tensor]
    """The tensors of the first one."""
    frozen: set[int] = field(default_factory=set[int])
    """Storages that may not be changed."""
    made: set[int] | None = None
    """The only storages that may be changed, where nothing from outside may."""
    numbers: dict[str, str] = field(default_factory=dict)
    """The kinds (``int``, ``float``) of numbers."""
    constants: tuple[str, ...] = ()
    """Those of them that functions of control flow can use too."""
    depth: int = 0
    own: list[str] = field(default_factory=list)
    """Names that this block defined."""
    calls: list[str] = field(default_factory=list)
    """One result of each control flow in this block."""
    parts: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    """Tensors (by identity) that are part of one whose elements overlap: changes of them are not supported."""

    passed: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    """Storages of what control flow passes on or gives: their layout is not the program's, so nothing reads it."""

    def inner(self, *, closed: bool) -> Scope:
        """The scope of a function: it sees everything; ``closed`` says that it changes nothing from outside."""
        made: set[int] | None = set() if closed or self.made is not None else None
        numbers = {name: self.numbers[name] for name in self.constants}
        worlds = [dict(world) for world in self.worlds]
        inner = Scope(worlds, dict(self.tensors), set(self.frozen), made, numbers, self.constants, self.depth + 1)
        inner.parts, inner.passed = self.parts, self.passed
        return inner

    def may_change(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` may be written."""
        key = storage_of(tensor)
        if key in self.frozen or id(tensor) in self.parts or has_overlap(tensor):
            return False
        return self.made is None or key in self.made

    def add(self, name: str, values: Sequence[torch.Tensor]) -> None:
        """A tensor that the block has now, by world."""
        for world, value in zip(self.worlds, values, strict=True):
            world[name] = value
        tensor = self.tensors[name] = values[0]
        self.own.append(name)
        if self.made is not None and all(
            storage_of(tensor) != storage_of(t) for n, t in self.tensors.items() if n not in self.own
        ):
            self.made.add(storage_of(tensor))

    def value(self, text: str) -> list[torch.Tensor]:
        """A tensor expression, by world."""
        return [eval(text, world) for world in self.worlds]

    def is_shared(self, name: str) -> bool:
        """Whether another name has the same storage."""
        key = storage_of(self.tensors[name])
        return any(n != name and storage_of(t) == key for n, t in self.tensors.items())


def new_like(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same types with storage of their own, by world."""
    return [torch.empty(v.shape, dtype=v.dtype, device="meta") for v in values]
