"""A request on its way through the model, and what it tells the event loop."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from etir.llm.serve.logprobs import Logprob
from etir.llm.serve.refusals import Refusal
from etir.llm.serve.requests import Request


@dataclass(frozen=True)
class Piece:
    """One token: the text that it adds (empty while a character is not whole) and its logarithms, if asked for."""

    text: str
    logprob: Logprob | None = None


@dataclass(frozen=True)
class Usage:
    """What an answer took: tokens, and seconds from the request's arrival."""

    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int
    waited_seconds: float
    first_token_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class Done:
    """The end of an answer: ``stop`` or ``length``."""

    finish: str
    usage: Usage


Event = Piece | Done | Refusal


@dataclass(eq=False)
class Job:
    """A request with its prompt as token ids. ``tell`` is called by the service's thread, with one event at a time."""

    request: Request
    ids: list[int]
    tell: Callable[[Event], None]
    arrived: float = field(default_factory=time.monotonic)
    started: float | None = None
    first_token: float | None = None
    reused: int = 0
    generated: int = 0
    canceled: bool = False

    def usage(self) -> Usage:
        """What it has taken until now."""
        now = time.monotonic()
        return Usage(
            prompt_tokens=len(self.ids),
            reused_tokens=self.reused,
            generated_tokens=self.generated,
            waited_seconds=(self.started or now) - self.arrived,
            first_token_seconds=(self.first_token or now) - self.arrived,
            total_seconds=now - self.arrived,
        )


class Waiting:
    """Jobs in line. Users (the request's ``user``) take turns, so that one with many requests delays nobody else's;
    those of one user keep their order."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Job]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: Job) -> None:
        """At the end of its user's line."""
        self._lines.setdefault(job.request.user, deque()).append(job)
        self._count += 1

    def pop(self) -> Job:
        """The next one. Raises ``StopIteration`` when nobody waits."""
        user = next(iter(self._lines))
        line = self._lines.pop(user)
        job = line.popleft()
        if line:
            self._lines[user] = line
        self._count -= 1
        return job

    def remove(self, job: Job) -> bool:
        """Whether it was in line."""
        line = self._lines.get(job.request.user)
        if line is None or job not in line:
            return False
        line.remove(job)
        if not line:
            del self._lines[job.request.user]
        self._count -= 1
        return True

    def drain(self) -> Iterator[Job]:
        """All of them, in the order of their turns."""
        while self._count:
            yield self.pop()
