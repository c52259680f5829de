"""A model without weights for tests of what is around one: its tokens are bytes, the next follows from all before.

A checksum over the tokens that a session's cache holds chooses the next byte, so that a cache that holds anything but
the prompt gives another text: :func:`answer_of` computes what has to come out, of the prompt alone. It counts what is
open and refuses two threads at once, as a session may.
"""

from __future__ import annotations

import codecs
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from etir.llm.errors import E1723
from etir.llm.sampling import Sampling

START, END, NAN = 256, 257, 258
"""Tokens that are no byte: of a message's begin and end, and one after which the model has only NaN."""

VOCABULARY = 260
SPECIAL = {"<|start|>": START, "<|end|>": END, "<|nan|>": NAN}
_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")
TEXT = b"etaoin shrdlu \xc3 "
"""What an answer is written with; 0xC3 is the first of the two bytes of an accented letter."""


@dataclass(frozen=True)
class ByteToken:
    """A token as ``Session.generate`` yields it."""

    id: int
    text: str
    finish: str | None


class ByteTokenizer:
    """A token for each byte, and three special ones."""

    def encode(self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True) -> list[int]:
        """Token ids."""
        ids: list[int] = []
        for part in re.split(_SPECIAL, text) if parse_special else [text]:
            ids += [SPECIAL[part]] if parse_special and part in SPECIAL else part.encode()
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of whole characters; others are U+FFFD."""
        names = {id: "" if skip_special_tokens else name for name, id in SPECIAL.items()}
        out = bytearray()
        for id in ids:
            out += bytes([id]) if id < 256 else names.get(id, "").encode()
        return out.decode("utf-8", "replace")


def _next(last: int, state: int, settings: Sampling, generated: int) -> int:
    """The token after a cache of checksum ``state``: now and then the end, never before the eighth."""
    if last == 0xC3:
        return 0xA9
    mixed = state if settings.temperature == 0 else zlib.crc32(settings.seed.to_bytes(8, "little"), state)
    if generated >= 8 and mixed % 61 == 0:
        return END
    return TEXT[mixed % len(TEXT)]


def _fed(state: int, ids: Sequence[int]) -> int:
    for id in ids:
        state = zlib.crc32(int(id).to_bytes(2, "little"), state)
    return state


class ByteSession:
    """One cache. ``tokens`` is what it holds."""

    def __init__(self, model: ByteModel):
        self._model = model
        self.tokens: list[int] = []

    def prefill(self, ids: Sequence[int]) -> None:
        """Feed tokens after those that the cache holds."""
        with self._model.computing(len(ids)):
            self.tokens += ids
            self._model.prefilled += len(ids)

    def rewind(self, count: int) -> None:
        """Take the last ``count`` tokens back."""
        del self.tokens[len(self.tokens) - count :]

    def generate(
        self,
        ids: Sequence[int],
        sampling: Any = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        on_logits: Callable[[Any], Any] | None = None,
        *,
        grammar: str | None = None,
    ) -> Iterator[ByteToken]:
        """Tokens after the prompt, of which the cache keeps the longest prefix that it holds; ``{}`` in JSON."""
        self._model.open += 1
        try:
            if grammar == "json":
                yield from (ByteToken(ord("{"), "{", None), ByteToken(ord("}"), "}", None), ByteToken(END, "", "stop"))
                return
            yield from self._generate(list(ids), sampling or Sampling(), max_tokens, stop, on_logits)
        finally:
            self._model.open -= 1

    def _generate(
        self,
        ids: list[int],
        sampling: Sampling,
        max_tokens: int | None,
        stop: Sequence[str],
        on_logits: Callable[[Any], Any] | None,
    ) -> Iterator[ByteToken]:
        same = next((i for i, (a, b) in enumerate(zip(self.tokens, ids, strict=False)) if a != b), len(self.tokens))
        self.rewind(len(self.tokens) - min(same, len(ids) - 1))
        fresh = ids[len(self.tokens) :]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text, given, state, generated = "", 0, 0, 0
        while True:
            with self._model.computing(len(fresh)):
                if NAN in fresh:
                    raise E1723.error("the logits are NaN")
                self.tokens += fresh
                state = _fed(0, self.tokens) if not generated else _fed(state, fresh)
            if generated == 0:
                self._model.prefilled += len(fresh)
            id = self._chosen(_next(self.tokens[-1], state, sampling, generated), on_logits)
            generated += 1
            text += decoder.decode(bytes([id])) if id < 256 else ""
            finish = self._finish(id, generated, text, max_tokens, stop)
            end = _sure(text, stop, finish)
            yield ByteToken(id, text[given:end], finish)
            given = max(given, end)
            if finish is not None:
                return
            fresh = [id]

    def _chosen(self, id: int, on_logits: Callable[[Any], Any] | None) -> int:
        if on_logits is None:
            return id
        logits = np.zeros(VOCABULARY, np.float32)
        logits[id] = 10.0
        on_logits(logits)
        return int(logits.argmax())

    def _finish(self, id: int, generated: int, text: str, most: int | None, stop: Sequence[str]) -> str | None:
        if id == END:
            return "stop"
        if any(s in text for s in stop):
            return "stop_string"
        if most is not None and generated >= most:
            return "length"
        return "context" if len(self.tokens) + 1 >= self._model.context else None


def _sure(text: str, stop: Sequence[str], finish: str | None) -> int:
    """How much of the text is not a stop string's, nor may become one's."""
    if finish == "stop_string":
        return min(text.index(s) for s in stop if s in text)
    begun = [n for s in stop for n in range(1, len(s)) if finish is None and text.endswith(s[:n])]
    return len(text) - max(begun, default=0)


class ByteModel:
    """``delay`` is seconds for each token that is generated or fed. What is open or was done is counted."""

    vocabulary_size = VOCABULARY

    def __init__(self, context: int = 4096, delay: float = 0.0):
        self.context = context
        self.delay = delay
        self.tokenizer = ByteTokenizer()
        self.sessions: list[ByteSession] = []
        self.open = 0
        self.prefilled = 0
        self._busy = threading.Lock()

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        """A chat template with roles and ends."""
        text = "".join(f"<|start|>{m['role']}\n{m['content']}<|end|>\n" for m in messages)
        return text + ("<|start|>assistant\n" if add_generation_prompt else "")

    def session(self) -> ByteSession:
        """A new cache."""
        self.sessions.append(ByteSession(self))
        return self.sessions[-1]

    def memory(self) -> dict[str, int]:
        """Bytes."""
        return {"weights": 0, "caches": sum(8 * len(session.tokens) for session in self.sessions)}

    @contextmanager
    def computing(self, count: int) -> Iterator[None]:
        """Takes the time of ``count`` tokens; fails when another thread computes."""
        assert self._busy.acquire(blocking=False), "two threads use the model at once"
        try:
            if self.delay:
                time.sleep(self.delay * min(count, 8))
            yield
        finally:
            self._busy.release()


def answer_of(ids: Sequence[int], settings: Sampling | None = None, most: int = 10_000) -> tuple[list[int], str]:
    """The tokens and the text that a :class:`ByteModel` has to give after a prompt: the definition, without a cache."""
    state, new = _fed(0, ids), list[int]()
    while len(new) < most and (not new or new[-1] != END):
        new.append(_next([*ids, *new[-1:]][-1], state, settings or Sampling(), len(new)))
        state = _fed(state, new[-1:])
    return new, bytes(i for i in new if i < 256).decode("utf-8", "ignore")
