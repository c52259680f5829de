"""A profile as rows, whichever runtime it is from.

An instruction in a loop has a row for each time that it ran: they have the same ``chain`` and ``instruction`` and count
their ``occurrence``. Rows are in the order in which things ended, as in the file: the operations inside of a delegate
come before its call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from etir.emit.etdump.model import Value

LOADING = -1
"""The run of rows about loading."""


class Kind(Enum):
    """What a row is about."""

    LOAD = "load"
    """Loading: ``Method::init`` and ``Program::load_method``, which has the first in it."""
    RUN = "run"
    """A whole run: ``Method::execute``."""
    OPERATOR = "operator"
    """An instruction that calls a kernel."""
    DELEGATE = "delegate"
    """An instruction that calls a delegate."""
    NODE = "node"
    """An operation inside of a delegate."""
    MOVE = "move"
    JUMP = "jump"
    FREE = "free"
    OTHER = "other"
    """An event that the runtime's user made."""

    @property
    def is_instruction(self) -> bool:
        """Whether the rows are instructions: their times add up to that of the run, but for what is between them."""
        return self in _INSTRUCTIONS


_INSTRUCTIONS = frozenset({Kind.OPERATOR, Kind.DELEGATE, Kind.MOVE, Kind.JUMP, Kind.FREE})


@dataclass(frozen=True, slots=True)
class Row:
    """Something that took time.

    Attributes:
        run: which run, from 0; :data:`LOADING` for what came before.
        chain: index of the chain; -1 for what is no instruction.
        instruction: index in the chain; for a :attr:`Kind.NODE` that of the call; -1 for what is no instruction.
        occurrence: how often the instruction has run before in this run; for a node that of the call.
        name: the operator (``aten::linear.out``; without its namespace where only a stock profile is there),
            the name of the event otherwise; empty for a node.
        start, end: in ticks of the runtime's clock.
        delegate: index of the delegate in the method, where the program was given.
        id: what the backend calls a node, a number or a text.
        metadata: what the backend says of a node besides.
    """

    run: int
    chain: int
    instruction: int
    occurrence: int
    kind: Kind
    name: str
    start: int
    end: int
    delegate: int | None = None
    id: int | str | None = None
    metadata: bytes | None = None

    @property
    def ticks(self) -> int:
        """How long it took; clocks of 32 bits may have started over."""
        return self.end - self.start if self.end >= self.start else self.end - self.start + (1 << 32)


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """A value that was there after an instruction, an operation in a delegate, or the run.

    ``position`` counts the values of one occurrence of an instruction (of outputs: of the run), in the order of the
    file. Those of a delegate's call are all of its arguments, inputs first, as far as they are tensors or numbers.
    ``value`` is None where the stock runtime could not write it. Outputs have chain and instruction -1.
    """

    run: int
    chain: int
    instruction: int
    occurrence: int
    position: int
    value: Value | None
    id: int | str | None = None
    output: bool = False


@dataclass(frozen=True)
class Profile:
    """Rows and values of all runs in a file.

    Attributes:
        rows: in the order of the file.
        values: in the order of the file.
        runs: how many there are.
        method: the method's name, where it is known. An ETDump of the stock runtime does not say it.
        dropped: records that the recorder had no room for: what is after them is missing.
        program: SHA-256 of the program's bytes as hexadecimal text, where the runtime said it.
        name: of the file, for messages.
    """

    rows: tuple[Row, ...]
    values: tuple[LoggedValue, ...]
    runs: int
    method: str | None = None
    dropped: int = 0
    program: str | None = None
    name: str = "<profile>"

    def instructions(self, run: int | None = None) -> Iterator[Row]:
        """The rows that are instructions, of one run or of all."""
        return (row for row in self.rows if row.kind.is_instruction and run in (None, row.run))
