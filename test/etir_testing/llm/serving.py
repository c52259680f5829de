"""A server on a free port of the loopback address, and clients that speak HTTP to it over real sockets."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from etir.llm.sampling import Sampling
from etir.llm.serve.app import Api, HttpLimits
from etir.llm.serve.engine import Model
from etir.llm.serve.requests import Defaults
from etir.llm.serve.server import Address, LlmServer, in_thread, listen
from etir.llm.serve.service import Limits, Service

NAME = "bytes"


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    server: LlmServer
    service: Service
    port: int

    @property
    def url(self) -> str:
        """With the slash at its end."""
        return self.server.url

    def call(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (names in lower case) and body of one request; ``body`` is JSON unless it is bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            given = {} if data is None else {"Content-Type": "application/json"}
            connection.request(method or ("GET" if data is None else "POST"), path, data, given | (headers or {}))
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str, body: Any = None) -> Any:
        """The JSON of an answer with status 200."""
        status, _, data = self.call(path, body)
        assert status == 200, data
        return json.loads(data)

    def refused(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """The status and OpenAI's error object of a request that is refused."""
        status, _, data = self.call(path, body, headers)
        assert status >= 400, data
        return status, json.loads(data)["error"]

    def metric(self, name: str) -> float:
        """One number of ``/metrics``."""
        lines = self.call("/metrics")[2].decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"etir_llm_{name} "))


@contextmanager
def serving(
    model: Model,
    limits: Limits | None = None,
    http_limits: HttpLimits | None = None,
    settings: Sampling | None = None,
    grace: float = 0.0,
) -> Iterator[Running]:
    """A server of ``model`` until the end of the block."""
    service = Service(model, limits)
    bound = listen(Address(port=0))
    api = Api(service, Defaults(NAME, settings or Sampling()), http_limits)
    server = LlmServer(api, bound, grace=grace)
    thread = in_thread(server)
    try:
        yield Running(server, service, bound.getsockname()[1])
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive(), "the server does not end"


def events(data: bytes) -> list[Any]:
    """The JSON of the events of a stream that ended as it has to."""
    lines = [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", lines[-3:]
    return [json.loads(line) for line in lines[:-1]]


def said(content: str, **more: Any) -> dict[str, Any]:
    """A chat request with one message of the user."""
    return {"messages": [{"role": "user", "content": content}], **more}
