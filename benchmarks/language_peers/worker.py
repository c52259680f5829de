"""The other end of ``language_models.py``: a model in one engine, in a process of its own, asked over standard input.

The first line of its answers has the engine's name and the token that it would write after a prompt, by which one sees
that engines compute the same. Then a line ``N M`` asks for a prompt of N tokens in an empty cache and M more tokens,
one at a time; the answer is a line of JSON: seconds of the prompt, and seconds of each token. No two prompts begin with
the same token, since an engine may keep what it computed of an earlier one. Only the standard library is used here:
engines have interpreters of their own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

PROBE = 128
"""Tokens of the prompt whose next token is told."""
_IDS = 49151
"""Ids of prompts are below it."""


class Engine(Protocol):
    """A model that has been loaded."""

    name: str

    def following(self, prompt: Sequence[int]) -> int:
        """The most likely token after a prompt."""
        ...

    def measure(self, prompt: Sequence[int], tokens: int) -> tuple[float, list[float]]:
        """Seconds of a prompt in an empty cache, and of so many tokens after it."""
        ...


def in_calls(
    begin: Callable[[], object], feed: Callable[[Sequence[int]], object], prompt: Sequence[int], tokens: int
) -> tuple[float, list[float]]:
    """``measure`` of an engine that is called for each piece of a text, after ``begin``, with logits of the last token.

    The tokens are always the same, whatever the model would write.
    """
    begin()
    start = time.perf_counter()
    feed(prompt)
    prefill = time.perf_counter() - start
    decode: list[float] = []
    for index in range(tokens):
        start = time.perf_counter()
        feed([1 + index])
        decode.append(time.perf_counter() - start)
    return prefill, decode


def serve(make: Callable[[str, int], Engine]) -> None:
    """Answer until standard input ends. ``make`` takes the process's arguments: a file and the number of threads."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is no answer
    engine = make(sys.argv[1], int(sys.argv[2]))
    _say(answers, {"name": engine.name, "next": engine.following(_prompt(PROBE))})
    for number, line in enumerate(sys.stdin, 1):
        prompt, tokens = map(int, line.split())
        prefill, decode = engine.measure(_prompt(prompt, number), tokens)
        _say(answers, {"prefill": prefill, "decode": decode, "resident": _resident()})


def _prompt(length: int, number: int = 0) -> list[int]:
    return [1 + (number + index * 7) % _IDS for index in range(length)]


def _say(answers: Any, what: dict[str, Any]) -> None:
    print(json.dumps(what), file=answers, flush=True)


def _resident() -> int:
    """Bytes of this process in memory (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0
