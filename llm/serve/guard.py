"""Who may call: nobody but programs of this machine, and pages that this server gave.

A page of any site can make a browser send requests to 127.0.0.1. Three checks keep it out: the ``Host`` header has to
name this server, or a site whose name was pointed at 127.0.0.1 (DNS rebinding) would count as the same origin; a
request with an ``Origin`` has to come from such a host, too; and ``Sec-Fetch-Site`` may not say that it comes from
elsewhere. No answer has headers of CORS, so that no browser gives one to another site's page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from etir.llm.errors import E1746
from etir.llm.serve.refusals import Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine for itself."""

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
"""Headers of every answer."""


def host_of(authority: str) -> str | None:
    """The host of ``host[:port]`` in lower case, None when it is neither a name nor an address."""
    try:
        parts = urlsplit(f"//{authority}")
        parts.port  # noqa: B018  Raises for a port that is none.
    except ValueError:
        return None
    plain = not parts.path and not parts.query and not parts.fragment and parts.username is None
    return parts.hostname if plain else None


class Guard:
    """Middleware that refuses requests for other hosts and from other pages (E1746), and adds :data:`HEADERS`."""

    def __init__(self, app: Any, hosts: Iterable[str], refuse: Callable[[Refusal, Send], Awaitable[None]]):
        self._app = app
        self._hosts = frozenset(host.strip("[]").lower() for host in hosts)
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        message = self._problem(scope["headers"])
        if message is not None:
            await self._refuse(Refusal(E1746, message), with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _problem(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        values: dict[bytes, list[str]] = {}
        for name, value in headers:
            values.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = values.get(b"host", [])
        if len(hosts) != 1 or host_of(hosts[0]) not in self._hosts:
            return "the header Host does not name this server"
        origins = values.get(b"origin", [])
        if any(not self._is_ours(origin, hosts[0]) for origin in origins):
            return "the request comes from a page that this server did not give"
        if any(site not in ("same-origin", "none") for site in values.get(b"sec-fetch-site", [])):
            return "the request comes from a page of another site"
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether an origin is this server's page: http (or https, through a proxy) and the host that was called."""
        scheme, separator, authority = origin.partition("://")
        return bool(separator) and scheme in ("http", "https") and authority.lower() == host.lower()
