"""What a backend is told where the memory that its delegates take decides, and what it says of it.

A program may have to be planned several times before it is known what is left to the kernels
(``etir/memory_bound.py``). Its code is made once: a backend that finds :class:`PlansOnly` in a compilation's context
only plans, unless what it plans is below a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Need:
    """What a step of a delegate needs: bytes of its workspace, the operators that it computes, by their numbers in
    their method (pass `partition` counts them), and about how many operations on floats they are.
    """

    bytes: int
    operators: tuple[int, ...]
    work: int


@dataclass(frozen=True)
class InputNeed:
    """The bytes of an input of a delegate that the kernels make for it, and the numbers of the first operator that
    reads it and, where that is another one, of the last.
    """

    bytes: int
    operator: int
    last: int | None = None


@dataclass(frozen=True)
class DelegateNeeds:
    """The bytes of a delegate's workspace, and its steps; where it has inputs that may be made later, these, and the
    steps of the kernels that may run in its place.
    """

    bytes: int
    steps: Sequence[Need]
    kernels: Sequence[Need] = ()
    inputs: Sequence[InputNeed] = ()


@dataclass
class Effort:
    """What it took to plan a program, again and again: operations of a backend's own IR that were looked at. They are
    counted, and not timed, since the same program gives the same code everywhere.
    """

    spent: int = 0


@dataclass
class PlansOnly:
    """An attachment of a compilation's context: code is made only where the workspaces of all delegates are at most
    ``most`` bytes (None: never). The memory of methods has to be what it would be with code.
    """

    most: int | None = None
    known: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """What a backend has found out that it will need again when the same function is planned once more."""
    needs: dict[str, DelegateNeeds] = field(default_factory=dict[str, DelegateNeeds])
    """By the name of a delegate, what it needs; where code is never made."""
    is_above: bool = False
    """A delegate needs more than ``most``."""
    room: dict[str, int] = field(default_factory=dict[str, int])
    """By the name of a method, the bytes that it is to need at most: it is worth while to look for such a plan."""
    less: int = 0
    """Bytes by which delegates are to need less than the kernels in their place, where they can: inputs and outputs
    have one place for both, so that a program may need more although neither of them does."""
    effort: Effort = field(default_factory=Effort)
    """What has been spent on all plans of the program so far."""

    def makes_code(self, workspace: int) -> bool:
        """Whether code is made of a delegate with a workspace of so many bytes."""
        self.is_above = self.is_above or (self.most is not None and workspace > self.most)
        return self.most is not None and not self.is_above
