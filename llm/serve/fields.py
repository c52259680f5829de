"""What a request may say: every field of OpenAI's two requests, with its values, as a table.

A field that would change the answer and that the server does not have is refused unless it asks for nothing (``n: 1``,
``presence_penalty: 0``): an answer that passes over a wish is a wrong answer. A name that nobody knows is refused with
the names that are like it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BOTH, CHAT, TEXT = "both", "chat", "text"
"""Requests that have a field: ``/v1/chat/completions`` and ``/v1/completions``."""


@dataclass(frozen=True)
class Number:
    """A number field of ``low`` to ``high``; ``open`` leaves ``low`` itself out; ``null`` says nothing."""

    low: float
    high: float
    integer: bool = False
    open: bool = False
    where: str = BOTH

    def problem(self, value: Any) -> str | None:
        """Why ``value`` is none of them."""
        kind = "an integer" if self.integer else "a number"
        if isinstance(value, bool) or not isinstance(value, int if self.integer else (int, float)):
            return f"is not {kind}"
        if not (self.low < value if self.open else self.low <= value) or not value <= self.high:
            low = f"above {self.low:g}" if self.open else f"{self.low:g}"
            return f"is not {kind} from {low} to {self.high:g}"
        return None


NUMBERS: dict[str, Number] = {
    "temperature": Number(0, 2),
    "top_p": Number(0, 1, open=True),
    "top_k": Number(0, 2**31 - 1, integer=True),
    "min_p": Number(0, 1),
    "repetition_penalty": Number(0, 10, open=True),
    "seed": Number(-(2**63), 2**63 - 1, integer=True),
    "max_tokens": Number(1, 2**31 - 1, integer=True),
    "max_completion_tokens": Number(1, 2**31 - 1, integer=True, where=CHAT),
    "top_logprobs": Number(0, 20, integer=True, where=CHAT),
}
"""Fields that hold a number; ``repetition_penalty``, ``top_k`` and ``min_p`` are not OpenAI's, but common."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
}
"""Fields that the server does not have, to the values with which they ask for nothing; null always does."""

IGNORED = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "verbosity",
    }
)
"""Fields that say nothing about the text for a model of this kind."""

OWN: dict[str, str] = {
    "model": BOTH,
    "stream": BOTH,
    "stream_options": BOTH,
    "stop": BOTH,
    "logprobs": BOTH,
    "user": BOTH,
    "messages": CHAT,
    "response_format": BOTH,
    "prompt": TEXT,
}
"""Fields that :mod:`etir.llm.serve.requests` reads one by one."""

ROLES = ("system", "developer", "user", "assistant", "tool")
"""Who speaks in a message; ``developer`` is OpenAI's newer word for ``system``."""

STOPS = 16
"""Most stop strings of a request; OpenAI takes 4."""

STOP_LENGTH = 1000
"""Most characters of a stop string."""

PROMPT_TOKENS = 16
"""Tokens that ``/v1/completions`` generates when the request does not say how many: OpenAI's number."""


def known(where: str) -> list[str]:
    """Every field of a request, in order."""
    numbers = [name for name, field in NUMBERS.items() if field.where in (BOTH, where)]
    own = [name for name, of in OWN.items() if of in (BOTH, where)]
    return sorted([*numbers, *own, *NEUTRAL, *IGNORED])
