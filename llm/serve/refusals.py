"""What the server says when it does not answer: an error id, the HTTP status that goes with it, OpenAI's form of it.

``{"error": {"message", "type", "param", "code", "id"}}``; ``id`` is etir's own, clients of OpenAI pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from etir.diagnostics import Diagnostic, ErrorId
from etir.llm.errors import E1744, E1745, E1746, E1747, E1748, E1749, E1750, E1751, E1752, E1753, E1754


@dataclass(frozen=True)
class Kind:
    """HTTP status, OpenAI's ``type`` and ``code``."""

    status: int
    type: str
    code: str | None = None


KINDS: dict[str, Kind] = {
    E1744.id: Kind(400, "invalid_request_error"),
    E1745.id: Kind(413, "invalid_request_error", "request_too_large"),
    E1746.id: Kind(403, "invalid_request_error", "forbidden"),
    E1747.id: Kind(404, "invalid_request_error", "model_not_found"),
    E1748.id: Kind(429, "rate_limit_error", "rate_limit_exceeded"),
    E1749.id: Kind(400, "invalid_request_error", "context_length_exceeded"),
    E1750.id: Kind(504, "timeout_error", "timeout"),
    E1751.id: Kind(500, "server_error"),
    E1752.id: Kind(503, "server_error", "stopping"),
    E1753.id: Kind(408, "invalid_request_error", "request_timeout"),
    E1754.id: Kind(404, "invalid_request_error"),
}
"""Error id to how it goes out."""


class Refusal(Exception):
    """A request that gets no answer. ``param`` is the place in it, ``status`` replaces that of the id."""

    def __init__(
        self,
        id: ErrorId,
        message: str,
        *,
        param: str | None = None,
        help: str | None = None,
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message)
        self.diagnostic: Diagnostic = id.diagnostic(message, help=help)
        self.param = param
        self.status = status or KINDS[id.id].status
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        kind = KINDS[self.diagnostic.id.id]
        text = f"{self.diagnostic.message} ({self.diagnostic.help})"
        return {
            "error": {
                "message": text,
                "type": kind.type,
                "param": self.param,
                "code": kind.code,
                "id": self.diagnostic.id.id,
            }
        }
