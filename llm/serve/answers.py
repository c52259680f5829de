"""What comes back, in OpenAI's form: one JSON object, or a chunk for each token as server-sent events.

``chat.completion`` and ``text_completion`` hold the same in two shapes; :class:`Answer` knows the shape, so that
nothing else does.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from etir.llm.serve.engine import Tokenizer
from etir.llm.serve.jobs import Done, Piece, Usage
from etir.llm.serve.logprobs import Logprob
from etir.llm.serve.refusals import Refusal
from etir.llm.serve.requests import Request

DONE = b"data: [DONE]\n\n"
"""The event after the last one."""

ALIVE = b": waiting\n\n"
"""A comment, which clients pass over; it keeps a connection open while a request waits."""


@dataclass(frozen=True)
class Answer:
    """The answer to one request, whole or in chunks."""

    request: Request
    tokenizer: Tokenizer
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def first(self) -> bytes:
        """The chunk that says who speaks: a chat's only."""
        if not self.request.chat:
            return b""
        return self._event([self._choice({"role": "assistant", "content": ""})])

    def pieces(self, pieces: Sequence[Piece]) -> bytes:
        """The chunk of some tokens; nothing while they are no whole character."""
        text = "".join(piece.text for piece in pieces)
        logprobs = self._logprobs(pieces)
        if not text and logprobs is None:
            return b""
        return self._event([self._choice({"content": text}, logprobs=logprobs)])

    def last(self, done: Done) -> bytes:
        """The chunk with the reason of the end, that with the numbers if they were asked for, and the end."""
        events = [self._event([self._choice({}, finish=done.finish)])]
        if self.request.include_usage:
            events.append(self._event([], usage=done.usage))
        return b"".join([*events, DONE])

    def failed(self, refusal: Refusal) -> bytes:
        """The event of an error after the first chunk, when the status has gone out already."""
        return _sse(refusal.body()) + DONE

    def whole(self, pieces: Sequence[Piece], done: Done) -> dict[str, Any]:
        """The answer that is not streamed."""
        text = "".join(piece.text for piece in pieces)
        choice: dict[str, Any] = {"index": 0, "logprobs": self._logprobs(pieces), "finish_reason": done.finish}
        if self.request.chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        return self._body([choice], chunk=False) | {"usage": _usage(done.usage), "timings": _timings(done.usage)}

    # --- shapes ------------------------------------------------------------------------------------------------------

    def _body(self, choices: list[dict[str, Any]], *, chunk: bool) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if self.request.chat else "text_completion"
        prefix = "chatcmpl" if self.request.chat else "cmpl"
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.request.model,
            "choices": choices,
        }

    def _event(self, choices: list[dict[str, Any]], *, usage: Usage | None = None) -> bytes:
        body = self._body(choices, chunk=True)
        if usage is not None:
            body |= {"usage": _usage(usage), "timings": _timings(usage)}
        elif self.request.include_usage:
            body["usage"] = None
        return _sse(body)

    def _choice(
        self, delta: dict[str, Any], *, logprobs: dict[str, Any] | None = None, finish: str | None = None
    ) -> dict[str, Any]:
        shaped = {"delta": delta} if self.request.chat else {"text": delta.get("content", "")}
        return {"index": 0, **shaped, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, pieces: Sequence[Piece]) -> dict[str, Any] | None:
        entries = [piece.logprob for piece in pieces if piece.logprob is not None]
        if self.request.logprobs is None or not entries:
            return None
        if self.request.chat:
            return {"content": [self._entry(entry) for entry in entries], "refusal": None}
        return {
            "tokens": [self._text(entry.id) for entry in entries],
            "token_logprobs": [entry.value for entry in entries],
            "top_logprobs": [{self._text(i): value for i, value in entry.top} for entry in entries],
            "text_offset": None,
        }

    def _entry(self, entry: Logprob) -> dict[str, Any]:
        return self._named(entry.id, entry.value) | {"top_logprobs": [self._named(i, v) for i, v in entry.top]}

    def _named(self, id: int, value: float) -> dict[str, Any]:
        text = self._text(id)
        # A part of a character has no text; what its bytes are, the tokenizer does not say.
        known = "\ufffd" not in text
        return {"token": text, "logprob": value, "bytes": list(text.encode("utf-8")) if known else None}

    def _text(self, id: int) -> str:
        return self.tokenizer.decode([id], skip_special_tokens=False)


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
    }


def _timings(usage: Usage) -> dict[str, float]:
    """Not OpenAI's: milliseconds from the request's arrival."""
    return {
        "queued_ms": round(usage.waited_seconds * 1e3, 3),
        "first_token_ms": round(usage.first_token_seconds * 1e3, 3),
        "total_ms": round(usage.total_seconds * 1e3, 3),
    }


def _sse(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode("utf-8", "replace") + b"\n\n"
