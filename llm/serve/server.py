"""The socket: loopback unless asked, uvicorn on it, an end that lets answers end.

Two things uvicorn leaves open. It waits for the head of a request for ever, so that connections that send a byte an
hour would take all places: :class:`PatientProtocol` ends them. And on a signal it waits for open connections without
telling the model: :class:`LlmServer` gives answers a grace, after which they get an error instead of a cut line.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from etir.llm.errors import E1742, E1743
from etir.llm.serve.app import Api
from etir.llm.serve.guard import LOOPBACK

HEAD_SECONDS = 10.0
"""How long the head of a request may take to arrive after its first byte, or a new connection to send one."""

HEAD_BYTES = 32 << 10
"""Most bytes of a request's head."""

CONNECTIONS = 512
"""Most connections at once; more get 503."""


@dataclass(frozen=True)
class Address:
    """Where to listen; ``remote`` says that other machines may reach it, ``hosts`` are further names of it."""

    host: str = "127.0.0.1"
    port: int = 8080
    remote: bool = False
    hosts: tuple[str, ...] = ()
    accepted: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        own = () if self.host in ("0.0.0.0", "::", "") else (self.host,)
        object.__setattr__(self, "accepted", tuple(dict.fromkeys((*LOOPBACK, *own, *self.hosts))))


def listen(address: Address) -> socket.socket:
    """A listening socket. Raises E1743 for an address that is not loopback, E1742 when the system refuses it."""
    try:
        found = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise E1742.error(f"'{address.host}' is no address of this machine: {error}") from None
    family, kind, protocol, _, where = found[0]
    if not address.remote and not all(_is_loopback(str(entry[4][0])) for entry in found):
        raise E1743.error(f"'{address.host}' is not a loopback address")
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(CONNECTIONS)
    except OSError as error:
        bound.close()
        raise E1742.error(f"cannot listen at {url(str(where[0]), int(where[1]))}: {error.strerror}") from None
    return bound


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def url(host: str, port: int) -> str:
    """``http://host:port/``."""
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class PatientProtocol(H11Protocol):
    """Closes connections whose request does not begin, or whose head does not end, within :data:`HEAD_SECONDS`."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request, or of several."""
        super().data_received(data)
        waits = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not waits:
            self._forget()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._forget()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


class LlmServer(uvicorn.Server):
    """Serves an :class:`~etir.llm.serve.app.Api` on a socket until a signal comes, or :meth:`stop`."""

    def __init__(self, api: Api, bound: socket.socket, hosts: tuple[str, ...] = LOOPBACK, grace: float = 5.0):
        config = uvicorn.Config(
            api.app(hosts),
            http=PatientProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=math.ceil(grace) + 2,
        )
        super().__init__(config)
        self._api = api
        self._bound = bound
        self._grace = grace

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._bound.getsockname()[:2]
        return url(host, port)

    def serve_until_stopped(self) -> None:
        """Blocks; Ctrl-C and SIGTERM end it, a second one at once."""
        self._api.service.start()
        try:
            asyncio.run(self.serve([self._bound]))
        except KeyboardInterrupt:
            # uvicorn raises the signal again when everything has ended.
            pass
        finally:
            self._api.service.stop()
            self._api.service.join()
            self._api.close()
            self._bound.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answers end within the grace, then connections."""
        self._api.service.stop(self._grace)
        await super().shutdown(sockets)

    def stop(self) -> None:
        """End :meth:`serve_until_stopped`, from another thread."""
        self.should_exit = True


def in_thread(server: LlmServer) -> threading.Thread:
    """Serve in a thread, for a notebook or a test; returns when requests are answered."""
    thread = threading.Thread(target=server.serve_until_stopped, name="etir-llm-server", daemon=True)
    thread.start()
    while thread.is_alive() and not server.started:
        thread.join(0.01)
    return thread
