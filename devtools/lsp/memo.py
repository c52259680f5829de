"""What was read before, by the text of its line, so that the next reading need not parse it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation


@dataclass(slots=True)
class Known:
    """An operation that was read: what its text names, with types, and which of that each operand is."""

    op: Operation
    names: tuple[tuple[str, int, Attribute], ...]
    operands: tuple[int, ...]
    results: tuple[tuple[str, int, int], ...]
    written: LocationAttr


@dataclass
class Memo:
    """Operations of the last reading by the text from their beginning to the end of the line."""

    lines: dict[str, list[Known]] = field(default_factory=dict[str, list[Known]])
    schemas: tuple[str, ...] = ()
    reused: int = 0
    """Operations of the last reading that were not parsed."""

    def forget(self) -> None:
        """Let go of operations that nothing asked for: values must not remember uses by them."""
        for known in self.lines.values():
            for one in known:
                one.op.detach()
                one.op.drop_all_references()
        self.lines = {}
