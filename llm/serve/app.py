"""The routes: models, chat, completions, health, metrics, and the page."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Http
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from etir.diagnostics import EtirError
from etir.llm.errors import E1744, E1745, E1747, E1749, E1751, E1753, E1754
from etir.llm.serve.answers import ALIVE, Answer
from etir.llm.serve.guard import LOOPBACK, Guard, Receive, Scope, Send
from etir.llm.serve.jobs import Done, Event, Job, Piece
from etir.llm.serve.metrics import metrics_text
from etir.llm.serve.page import page_response
from etir.llm.serve.refusals import Refusal
from etir.llm.serve.requests import Defaults, Request, parse
from etir.llm.serve.service import Service

ALIVE_SECONDS = 10.0
"""After how many seconds without a token a stream says that it is alive."""
DRAINED, DRAIN_SECONDS = 8 << 20, 1.0
"""Of a body that is too large, the bytes that are read and forgotten, and for how long."""


@dataclass(frozen=True)
class HttpLimits:
    """Bytes of a request's body, and seconds that it may take to arrive."""

    body: int = 1 << 20
    seconds: float = 30.0


async def _drain(stream: AsyncIterator[bytes]) -> None:
    """Read on for a while and keep nothing: a client that is still sending when its connection closes gets an error for
    that and may never see the answer.
    """
    left = DRAINED
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for part in stream:
                left -= len(part)
                if left < 0:
                    return


class Api:
    """The handlers of one model."""

    def __init__(self, service: Service, defaults: Defaults, limits: HttpLimits | None = None, created: int = 0):
        self.service = service
        self.defaults = defaults
        self.limits = limits or HttpLimits()
        self._created = created
        self._preparing = 0
        # One thread, as templates and tokenizers promise nothing about several; the event loop goes on meanwhile.
        self._preparer = ThreadPoolExecutor(1, "etir-llm-prepare")

    def close(self) -> None:
        """Ends the thread that renders prompts."""
        self._preparer.shutdown(wait=False, cancel_futures=True)

    def app(self, hosts: tuple[str, ...] = LOOPBACK) -> Any:
        """The ASGI application, which answers requests to ``hosts``."""
        routes = [
            Route("/", page_response, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            Route("/v1/chat/completions", self._endpoint(chat=True), methods=["POST"]),
            Route("/v1/completions", self._endpoint(chat=False), methods=["POST"]),
        ]
        app = Starlette(
            routes=routes, exception_handlers={Refusal: _refused, HTTPException: _no_route, Exception: _bug}
        )
        app.router.redirect_slashes = False
        return Guard(app, hosts, _send_refusal)

    # --- what is there -----------------------------------------------------------------------------------------------

    async def _health(self, http: Http) -> Response:
        stopping = self.service.stopping
        return JSONResponse({"status": "stopping" if stopping else "ok"}, 503 if stopping else 200)

    async def _metrics(self, http: Http) -> Response:
        return PlainTextResponse(metrics_text(self.service), media_type="text/plain; version=0.0.4")

    async def _models(self, http: Http) -> Response:
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def _model(self, http: Http) -> Response:
        if http.path_params["name"] != self.defaults.model:
            raise Refusal(E1747, f"there is no such model, there is '{self.defaults.model}'", param="model")
        return JSONResponse(self._card())

    def _card(self) -> dict[str, Any]:
        model = self.service.model
        card = {"id": self.defaults.model, "object": "model", "created": self._created, "owned_by": "etir"}
        settings = vars(self.defaults.settings)
        shown = {name: value for name, value in settings.items() if name not in ("seed", "repetition_window")}
        return card | {"context_length": model.context, "vocabulary_size": model.vocabulary_size, "defaults": shown}

    # --- answers -----------------------------------------------------------------------------------------------------

    def _endpoint(self, *, chat: bool) -> Callable[[Http], Awaitable[Response]]:
        async def endpoint(http: Http) -> Response:
            request = parse(await self._body(http), chat, self.defaults)
            ids = await self._prepared(request)
            return _JobResponse(self.service, request, ids)

        return endpoint

    async def _body(self, http: Http) -> bytes:
        """The bytes of a body that says it is JSON. Raises E1744, E1745 and E1753."""
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            message = f"the body is not JSON: Content-Type is '{kind[:64]}'"
            raise Refusal(E1744, message, help="send the header Content-Type: application/json", status=415)
        # A connection whose body nobody will read cannot be used again.
        too_large = Refusal(E1745, f"the body has more than {self.limits.body} bytes", headers={"Connection": "close"})
        stream = http.stream()
        length = http.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.limits.body:
            if int(length[:20]) <= DRAINED:
                await _drain(stream)
            raise too_large
        data = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in stream:
                    data += part
                    if len(data) > self.limits.body:
                        await _drain(stream)
                        raise too_large
        except TimeoutError:
            message = f"the body did not arrive within {self.limits.seconds:g} seconds"
            raise Refusal(E1753, message, headers={"Connection": "close"}) from None
        return bytes(data)

    async def _prepared(self, request: Request) -> list[int]:
        """The prompt as token ids. Raises E1744, E1748, E1749 and E1752."""
        self.service.check_room(self._preparing)
        self._preparing += 1
        try:
            ids = await asyncio.get_running_loop().run_in_executor(self._preparer, self._encode, request)
        finally:
            self._preparing -= 1
        context = self.service.model.context
        if len(ids) >= context:
            message = f"the prompt has {len(ids)} tokens, and the context of {context} has to hold an answer, too"
            raise Refusal(E1749, message, param="messages" if request.chat else "prompt")
        return ids

    def _encode(self, request: Request) -> list[int]:
        model = self.service.model
        param = "messages" if request.chat else "prompt"
        if isinstance(request.prompt, tuple):
            ids = list(request.prompt)
            if any(not 0 <= i < model.vocabulary_size for i in ids):
                raise Refusal(E1744, f"a token id is not in the vocabulary of {model.vocabulary_size}", param=param)
            return ids
        try:
            if request.prompt is None:
                ids = model.tokenizer.encode(model.render(request.messages, add_generation_prompt=True))
            else:
                ids = model.tokenizer.encode(request.prompt, add_special_tokens=True)
        except EtirError as error:
            first = error.diagnostics[0]
            raise Refusal(E1744, first.message, param=param, help=first.help) from None
        if not ids:
            raise Refusal(E1744, "the prompt has no token", param=param)
        return ids


class _JobResponse(Response):
    """Runs a job and sends what it tells, until it ends or the client is gone; then the job is canceled."""

    def __init__(self, service: Service, request: Request, ids: list[int]):
        self._service = service
        self._answer = Answer(request, service.model.tokenizer)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            loop.call_soon_threadsafe(self._events.put_nowait, event)

        self._job = Job(request, ids, tell)
        service.submit(self._job)
        self.background = None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """ASGI."""
        sending = asyncio.ensure_future(self._send(scope, receive, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._service.cancel(self._job)
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._job.request.stream:
            await self._stream(send)
        else:
            response = await self._whole()
            await response(scope, receive, send)

    async def _whole(self) -> Response:
        pieces: list[Piece] = []
        while True:
            event = await self._events.get()
            if isinstance(event, Refusal):
                return _refusal(event)
            if isinstance(event, Done):
                return JSONResponse(self._answer.whole(pieces, event))
            pieces.append(event)

    async def _stream(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send_part(send, self._answer.first())
        while True:
            pieces, end = await self._next()
            await _send_part(send, self._answer.pieces(pieces) if pieces or end else ALIVE)
            if end is not None:
                last = self._answer.last(end) if isinstance(end, Done) else self._answer.failed(end)
                await send({"type": "http.response.body", "body": last})
                return

    async def _next(self) -> tuple[list[Piece], Done | Refusal | None]:
        """The tokens that are there, at least one unless the answer ends or nothing comes for a while."""
        pieces: list[Piece] = []
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                event = await self._events.get()
        except TimeoutError:
            return pieces, None
        while isinstance(event, Piece):
            pieces.append(event)
            if self._events.empty():
                return pieces, None
            event = self._events.get_nowait()
        return pieces, event


async def _send_part(send: Send, body: bytes) -> None:
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# --- what goes wrong -------------------------------------------------------------------------------------------------


def _refusal(refusal: Refusal) -> Response:
    return JSONResponse(refusal.body(), refusal.status, refusal.headers)


async def _send_refusal(refusal: Refusal, send: Send) -> None:
    response = _refusal(refusal)
    await send({"type": "http.response.start", "status": refusal.status, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": bytes(response.body)})


async def _refused(http: Http, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _refusal(error)


async def _bug(http: Http, error: Exception) -> Response:
    return _refusal(Refusal(E1751, f"{type(error).__name__}: {error}"))


async def _no_route(http: Http, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers: Mapping[str, str] = error.headers or {}
    message = f"there is no {http.method} of this address" if error.status_code == 405 else "there is no such address"
    return _refusal(Refusal(E1754, message, status=error.status_code, headers=dict(headers)))
