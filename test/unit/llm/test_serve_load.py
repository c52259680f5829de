"""Many at once: 32 clients with the right text each, clients that go in mid-stream, thousands of broken requests.

After each the server answers as before: no job is left, no generator is open, no task waits, and the memory is steady.
"""

from __future__ import annotations

import gc
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from etir.llm.serve.metrics import resident_bytes
from etir.llm.serve.service import Limits

from etir_testing.llm.engine import ByteModel, answer_of
from etir_testing.llm.serving import Running, events, said, serving

CHAT = "/v1/chat/completions"
CLIENTS = 32
STATUSES = {0, 200, 400, 403, 404, 405, 408, 413, 415, 431, 500}
"""What a broken request may get; 0 is a closed connection, 500 what the model says of ``<|nan|>``."""


@pytest.fixture
def running() -> Iterator[Running]:
    model = ByteModel(context=2000, delay=0.0002)
    with serving(model, Limits(sessions=4, queue=64)) as server:
        yield server
    assert model.open == 0


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """The results of calls from as many threads, in their order; raises what one of them raised."""
    results: list[Any] = [None] * count
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = call(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]
    return results


def is_idle(running: Running) -> None:
    """Waits until nothing runs."""
    end = time.monotonic() + 20
    while running.service.running or running.service.waiting:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert running.call("/health")[0] == 200


def expected(running: Running, content: str, most: int) -> str:
    model = running.service.model
    prompt = model.tokenizer.encode(model.render([{"role": "user", "content": content}]))
    return answer_of(prompt, most=most)[1]


def test_32_clients_get_each_its_own_text(running: Running) -> None:
    def call(i: int) -> list[str]:
        texts: list[str] = []
        for turn in range(3):
            body = said(f"client {i}, turn {turn}", max_tokens=40, stream=bool(i % 2))
            status, _, data = running.call(CHAT, body)
            assert status == 200, data
            if i % 2:
                texts.append("".join(e["choices"][0]["delta"].get("content", "") for e in events(data)))
            else:
                texts.append(json.loads(data)["choices"][0]["message"]["content"])
        return texts

    results = at_once(CLIENTS, call)
    for i, texts in enumerate(results):
        assert texts == [expected(running, f"client {i}, turn {turn}", 40) for turn in range(3)]
    assert running.metric("requests_completed_total") == 3 * CLIENTS
    assert running.metric("sessions") == 4


def raw_request(body: bytes, headers: str = "") -> bytes:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_clients_that_go_in_mid_stream_cost_nothing(running: Running) -> None:
    def call(i: int) -> str | None:
        chance = random.Random(i)
        if i % 4 == 0:
            return running.json(CHAT, said(f"stays {i}", max_tokens=60))["choices"][0]["message"]["content"]
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", running.port)) as raw:
                request = raw_request(json.dumps(said("goes " * 50, stream=i % 2 == 0, temperature=2)).encode())
                kind = chance.randrange(4)
                raw.sendall(request[: chance.randrange(1, len(request))] if kind == 0 else request)
                if kind > 1:
                    raw.recv(chance.randrange(1, 500))
                if kind == 3:  # RST instead of FIN.
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return None

    for i, text in enumerate(at_once(CLIENTS, call)):
        assert text == (expected(running, f"stays {i}", 60) if i % 4 == 0 else None)
    is_idle(running)
    counters = running.service.counters
    assert counters.canceled > 0 and counters.failed == 0
    assert counters.requests == counters.completed + counters.canceled


def broken_request(chance: random.Random) -> bytes:
    """A request with something wrong in it: in its bytes, its head, its JSON or its meaning."""
    good = said("hi", max_tokens=2, temperature=0.5, stop=["x"], stream=False)
    kind = chance.randrange(8)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200)) + b"\r\n\r\n"
    if kind == 1:  # One byte of the whole request is another one.
        request = bytearray(raw_request(json.dumps(good).encode()))
        request[chance.randrange(len(request))] = chance.randrange(256)
        return bytes(request)
    if kind == 2:  # The body ends too early.
        body = json.dumps(good).encode()
        return raw_request(body[: chance.randrange(len(body))])
    if kind == 3:
        return raw_request(chance.choice((b"[" * 5000, b"nul", b'"', b"\xff\xfe", b"1e999999", b"{}" * 100)))
    if kind == 4:
        name = chance.choice((*good, "n", "tools", "logprobs", "top_k", "seed", "model", "response_format", "x"))
        value = chance.choice((None, -1, 10**400, 1e400, "", [], {}, [[]], "\ud800", True, {"a": [None]}, "\0"))
        return raw_request(json.dumps({**good, name: value}).encode())
    if kind == 5:
        message = {
            "role": chance.choice(("user", "", 1, None)),
            "content": chance.choice((1, None, [], {}, [{}], "<|nan|>")),
        }
        return raw_request(json.dumps({**good, "messages": [message] * chance.randrange(3)}).encode())
    if kind == 6:
        odd = (
            "Host: x\r\n",
            "Origin: null\r\n",
            "Transfer-Encoding: chunked\r\n",
            "A: " + "b" * 40_000 + "\r\n",
            "\0: \r\n",
        )
        return raw_request(json.dumps(good).encode(), chance.choice(odd))
    method, path = (
        chance.choice(("PUT", "GET", "BREW", "CONNECT")),
        chance.choice((CHAT, "*", "//", "/%2e%2e", "http://a")),
    )
    return f"{method} {path} HTTP/1.{chance.randrange(3)}\r\nHost: localhost\r\n\r\n".encode()


def send_broken(running: Running, count: int, seed: int) -> dict[int, int]:
    """Statuses and how often they came; 0 when the connection was closed without a word."""
    found: dict[int, int] = {}
    chance = random.Random(seed)
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", running.port)) as raw:
            raw.settimeout(20)
            data = b""
            try:
                raw.sendall(broken_request(chance))
                raw.shutdown(socket.SHUT_WR)
                while part := raw.recv(65536):
                    data += part
            except (ConnectionResetError, BrokenPipeError):
                pass
        status = int(data.split(b" ", 2)[1]) if data else 0
        found[status] = found.get(status, 0) + 1
    return found


def check_broken(running: Running, count: int) -> None:
    """Broken requests from four clients at once, after as many as fill every cache."""
    send_broken(running, 400, 1)
    gc.collect()
    before, tasks = resident_bytes(), threading.active_count()
    found = at_once(4, lambda i: send_broken(running, count // 4, 100 + i))
    statuses = sorted({status for each in found for status in each})
    assert {400, 403, 404, 405} <= set(statuses) <= STATUSES
    is_idle(running)
    gc.collect()
    assert resident_bytes() - before < 12e6
    assert threading.active_count() <= tasks
    assert running.json(CHAT, said("after", max_tokens=30))["choices"][0]["message"]["content"] == expected(
        running, "after", 30
    )


def test_broken_requests(running: Running) -> None:
    check_broken(running, 800)


@pytest.mark.nightly
def test_ten_thousand_broken_requests(running: Running) -> None:
    check_broken(running, 10_000)
