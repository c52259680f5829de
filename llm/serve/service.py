"""Runs jobs: one thread, a token of each running job in turn.

A job waits until a session is free, computes its prompt in pieces, then token by token; between two of them the thread
looks for jobs that were canceled or that take too long. What a job generates is told to it at once. Nothing that a
request holds can end the thread: a model that fails ends its job, with the reason, and its session.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from etir.diagnostics import EtirError
from etir.llm.errors import E1748, E1750, E1751, E1752
from etir.llm.prefix import common
from etir.llm.serve.engine import Model, Session, Token
from etir.llm.serve.jobs import Done, Job, Piece, Waiting
from etir.llm.serve.logprobs import Recorder
from etir.llm.serve.pool import Pool, Slot, prefill
from etir.llm.serve.refusals import Refusal

FINISH = {"stop": "stop", "stop_string": "stop", "length": "length", "context": "length"}
"""Why a session ends an answer, in OpenAI's words."""

RATE_SECONDS = 10.0
"""How long ago generated tokens count for the rate."""


@dataclass(frozen=True)
class Limits:
    """Sessions (caches in memory), requests that may wait for one, and seconds that an answer may take to compute."""

    sessions: int = 4
    queue: int = 64
    seconds: float = 600.0


@dataclass
class Counters:
    """What has happened since the start."""

    requests: int = 0
    completed: int = 0
    canceled: int = 0
    failed: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    busy_seconds: float = 0.0
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=4096))


class Service:
    """A model that answers many at once."""

    def __init__(self, model: Model, limits: Limits | None = None, session: Callable[[], Session] | None = None):
        """``session`` makes sessions of the model, by default as the model itself does."""
        self.model = model
        self.limits = limits or Limits()
        self.counters = Counters()
        self._pool = Pool(session or model.session, self.limits.sessions)
        self._waiting = Waiting()
        self._running: deque[_Run] = deque()
        self._wake = threading.Condition()
        self._stop_at: float | None = None
        self._thread = threading.Thread(target=self._loop, name="etir-llm-service", daemon=True)

    # --- from any thread ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to run jobs."""
        self._thread.start()

    def stop(self, grace: float = 0.0) -> None:
        """Take no more jobs; those that have not ended after ``grace`` seconds are told so (E1752)."""
        with self._wake:
            self._stop_at = time.monotonic() + grace
            self._wake.notify()

    def join(self) -> None:
        """Wait until the thread has ended; :meth:`stop` comes first."""
        self._thread.join()

    @property
    def stopping(self) -> bool:
        """Whether no more jobs are taken."""
        return self._stop_at is not None

    @property
    def running(self) -> int:
        """Jobs that have a session."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Jobs in line."""
        return len(self._waiting)

    @property
    def sessions(self) -> int:
        """Sessions that were made."""
        return self._pool.sessions

    def check_room(self, more: int = 0) -> None:
        """Raises E1748 when the line is full, ``more`` being on the way to it, and E1752 when the server stops."""
        if self.stopping:
            raise Refusal(E1752, "the server is stopping")
        if self.waiting + self.running + more >= self.limits.queue + self.limits.sessions:
            self.counters.refused += 1
            wait = {"Retry-After": str(self._seconds_to_wait())}
            raise Refusal(E1748, f"{self.waiting} requests are waiting, and no more may", headers=wait)

    def submit(self, job: Job) -> None:
        """Put a job in line. Raises E1748 and E1752."""
        with self._wake:
            self.check_room()
            self.counters.requests += 1
            self.counters.prompt_tokens += len(job.ids)
            self._waiting.add(job)
            self._wake.notify()

    def cancel(self, job: Job) -> None:
        """Nobody waits for the job any more; it tells nothing from now on and ends before its next token."""
        with self._wake:
            job.canceled = True
            if self._waiting.remove(job):
                self.counters.canceled += 1
            self._wake.notify()

    def rate(self) -> float:
        """Tokens per second that were generated lately, for all jobs together."""
        now = time.monotonic()
        recent = [(at, count) for at, count in list(self.counters.recent) if now - at < RATE_SECONDS]
        if len(recent) < 2:
            return 0.0
        return sum(count for _, count in recent[1:]) / max(now - recent[0][0], 1e-9)

    def _seconds_to_wait(self) -> int:
        """A guess of when there is room again: the mean seconds of a job, at least 1 and at most a minute."""
        ended = self.counters.completed + self.counters.canceled + self.counters.failed
        return max(1, min(60, round(self.counters.busy_seconds / ended))) if ended else 1

    # --- the thread --------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not self._running and not self._waiting and self._stop_at is None:
                    self._wake.wait()
                late = self._stop_at is not None and time.monotonic() >= self._stop_at
                ready = [] if late else self._admitted()
            if late or (self._stop_at is not None and not ready and not self._running):
                break
            for job in ready:
                self._begin(job)
            if self._running:
                began = time.monotonic()
                if self._step(self._running[0]):
                    self._running.rotate(-1)
                else:
                    self._running.popleft()
                self.counters.busy_seconds += time.monotonic() - began
        self._end_all()

    def _admitted(self) -> list[Job]:
        """The next job in line when a session is free for it."""
        return [self._waiting.pop()] if self._waiting and self._pool.has_free else []

    def _begin(self, job: Job) -> None:
        job.started = time.monotonic()
        try:
            slot = self._pool.take(job.ids)
        except EtirError as error:
            self._fail(job, Refusal(E1751, error.diagnostics[0].message, help=error.diagnostics[0].help))
            return
        self._running.append(_Run(job, slot))

    def _step(self, run: _Run) -> bool:
        """One token, or one piece of a prompt; whether there is more."""
        job = run.job
        if job.canceled:
            self.counters.canceled += 1
            return self._leave(run)
        if job.started is not None and time.monotonic() - job.started > self.limits.seconds:
            self._fail(job, Refusal(E1750, f"the answer took longer than {self.limits.seconds:g} seconds"))
            return self._leave(run)
        try:
            token = run.advance()
        except EtirError as error:
            self._fail(job, Refusal(E1751, error.diagnostics[0].message, help=error.diagnostics[0].help))
            return self._leave(run, broken=True)
        except Exception as error:  # A bug of the engine: the request hears of it, the others go on.
            self._fail(job, Refusal(E1751, f"{type(error).__name__}: {error}"))
            return self._leave(run, broken=True)
        if token is None:
            return True
        return self._tell(run, token)

    def _tell(self, run: _Run, token: Token) -> bool:
        job = run.job
        if job.first_token is None:
            job.first_token = time.monotonic()
            self.counters.reused_tokens += job.reused
        job.generated += 1
        self.counters.generated_tokens += 1
        self.counters.recent.append((time.monotonic(), 1))
        logprob = None if run.recorder is None else run.recorder.of(token.id)
        job.tell(Piece(token.text, logprob))
        if token.finish is None:
            return True
        self._leave(run)
        self.counters.completed += 1
        job.tell(Done(FINISH[token.finish], job.usage()))
        return False

    def _fail(self, job: Job, refusal: Refusal) -> None:
        self.counters.failed += 1
        job.tell(refusal)

    def _leave(self, run: _Run, *, broken: bool = False) -> bool:
        """Close the session's generator and give it back; always False, there is no more."""
        with suppress(EtirError):
            run.close()
        self._pool.give(run.slot, broken=broken)
        return False

    def _end_all(self) -> None:
        """The thread ends: whoever is left hears of it."""
        refusal = Refusal(E1752, "the server has stopped before the answer was complete")
        for run in self._running:
            self._leave(run)
            self._fail(run.job, refusal)
        self._running.clear()
        with self._wake:
            left = list(self._waiting.drain())
        for job in left:
            self._fail(job, refusal)


class _Run:
    """A job on its session."""

    def __init__(self, job: Job, slot: Slot):
        self.job = job
        self.slot = slot
        top = job.request.logprobs
        self.recorder = None if top is None else Recorder(top)
        job.reused = min(common(slot.held, job.ids), len(job.ids) - 1)
        self._prefill: Iterator[None] = prefill(slot, job.ids)
        self._tokens: Iterator[Token] | None = None

    def advance(self) -> Token | None:
        """The next token, or None when a piece of the prompt was computed instead."""
        if self._tokens is None:
            if next(self._prefill, _END) is not _END:
                return None
            request = self.job.request
            self._tokens = self.slot.session.generate(
                self.job.ids,
                request.settings,
                request.max_tokens,
                request.stop,
                None if self.recorder is None else self.recorder.see,
                grammar="json" if request.json else None,
            )
        return next(self._tokens)

    def close(self) -> None:
        """Cancel what is left of it."""
        close = getattr(self._tokens, "close", None)
        if close is not None:
            close()


_END = object()
