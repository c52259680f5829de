"""Sessions over one set of weights: which of them a prompt goes to, and its prompt in pieces.

A session's cache holds the tokens of the last conversation. A prompt that begins as they do is cheapest there: only the
rest is computed. A prompt that shares little with any takes a session that was never used, then the one that was not
used for the longest time; a few words of a common system prompt are no reason to throw a long conversation away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from etir.llm.prefix import common
from etir.llm.serve.engine import Session

PIECE = 256
"""Tokens of a prompt that are computed at once; the other jobs have their turn after each."""

CONTINUES = 0.5
"""Part of a cache that a prompt has to begin with to count as its continuation."""

REPEATS = 0.9
"""Part of a prompt that a cache has to hold for the prompt to count as one that is asked again."""


@dataclass(eq=False)
class Slot:
    """One session and what its cache held when it was last used."""

    session: Session
    held: list[int] = field(default_factory=list)
    used: int = 0
    busy: bool = False


class Pool:
    """Up to ``limit`` sessions, each made when it is first needed."""

    def __init__(self, session: Callable[[], Session], limit: int):
        self._session = session
        self._limit = limit
        self._slots: list[Slot] = []
        self._clock = 0

    @property
    def sessions(self) -> int:
        """Sessions that were made."""
        return len(self._slots)

    @property
    def has_free(self) -> bool:
        """Whether a job could start."""
        return len(self._slots) < self._limit or any(not slot.busy for slot in self._slots)

    def take(self, ids: Sequence[int]) -> Slot:
        """The session for a prompt, which is busy until :meth:`give`; call it only when one is free."""
        free = [slot for slot in self._slots if not slot.busy]
        best = max(free, key=lambda slot: (common(slot.held, ids), -slot.used), default=None)
        if best is not None:
            shared = common(best.held, ids)
            if shared < CONTINUES * len(best.held) and shared < REPEATS * len(ids) or not shared:
                best = None
        if best is None and len(self._slots) < self._limit:
            best = Slot(self._session())
            self._slots.append(best)
        if best is None:
            best = min(free, key=lambda slot: slot.used)
        best.busy = True
        return best

    def give(self, slot: Slot, *, broken: bool = False) -> None:
        """The job is done; a session that failed is not used again."""
        self._clock += 1
        slot.busy, slot.used = False, self._clock
        if broken:
            self._slots.remove(slot)
        else:
            slot.held = list(slot.session.tokens)


def prefill(slot: Slot, ids: Sequence[int]) -> Iterator[None]:
    """Compute all of a prompt but its last piece, which generating does, a piece for each step.

    The cache keeps what it shares with the prompt; the last token is always computed, as its logits are needed.
    """
    kept = min(common(slot.held, ids), len(ids) - 1)
    while len(ids) - kept > PIECE:
        if len(slot.session.tokens) > kept:
            slot.session.rewind(len(slot.session.tokens) - kept)
        slot.session.prefill(list(ids[kept : kept + PIECE]))
        kept += PIECE
        yield
