"""The server over HTTP: OpenAI's own client, every address, who may call, limits, the end."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from etir.diagnostics import EtirError
from etir.llm.sampling import Sampling
from etir.llm.serve import server as server_module
from etir.llm.serve.app import HttpLimits
from etir.llm.serve.guard import host_of
from etir.llm.serve.server import Address, listen, url
from etir.llm.serve.service import Limits

from etir_testing.llm.engine import ByteModel, answer_of
from etir_testing.llm.serving import NAME, Running, events, said, serving

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MODEL = ByteModel(context=1000)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(MODEL) as server:
        yield server


@pytest.fixture(scope="module")
def client(running: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{running.url}v1", api_key="none", max_retries=0)


def expected(content: str, settings: Sampling | None = None, most: int = 10_000) -> tuple[list[int], str]:
    prompt = MODEL.tokenizer.encode(MODEL.render([{"role": "user", "content": content}]))
    return answer_of(prompt, settings, most)


# --- OpenAI's client --------------------------------------------------------------------------------------------------


def test_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "héllo"}], seed=1)
    ids, text = expected("héllo")
    assert answer.choices[0].message.content == text and answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None and answer.usage.completion_tokens == len(ids)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + len(ids)


def test_a_streamed_chat(client: openai.OpenAI) -> None:
    settings = Sampling(temperature=1.5, seed=7)
    chunks = list(
        client.chat.completions.create(
            model=NAME, messages=[{"role": "user", "content": "a"}], stream=True, max_completion_tokens=30,
            temperature=1.5, seed=7, stream_options={"include_usage": True},
        )
    )  # fmt: skip
    ids, text = expected("a", settings, 30)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == ("length" if len(ids) == 30 else "stop")
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == len(ids)
    assert {(c.id, c.created) for c in chunks} == {(chunks[0].id, chunks[0].created)}


def test_completions(client: openai.OpenAI) -> None:
    whole = client.completions.create(model=NAME, prompt="abc", max_tokens=25, logprobs=2)
    ids, text = answer_of(list(b"abc"), most=25)
    assert whole.choices[0].text == text
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None and logprobs.token_logprobs is not None and len(logprobs.token_logprobs) == len(ids)
    # One logit of 10 among 259 of 0: -ln(1 + 259 / e^10).
    assert logprobs.token_logprobs[0] == pytest.approx(-0.011690, abs=1e-5)
    parts = client.completions.create(model=NAME, prompt=list(b"abc"), max_tokens=25, stream=True)  # type: ignore[arg-type]
    assert "".join(part.choices[0].text for part in parts) == text
    assert client.completions.create(model=NAME, prompt="abc").usage.completion_tokens <= 16  # type: ignore[union-attr]


def test_logprobs_of_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": "b"}], logprobs=True, top_logprobs=2, max_tokens=40
    )
    listed = answer.choices[0].logprobs
    assert listed is not None and listed.content is not None
    assert [len(entry.top_logprobs) for entry in listed.content] == [2] * len(listed.content)
    assert all(entry.top_logprobs[0].token == entry.token for entry in listed.content)
    plain = next(entry for entry in listed.content if entry.bytes is not None)
    assert bytes(plain.bytes or ()).decode() == plain.token


def test_a_stop_string_ends_an_answer(client: openai.OpenAI) -> None:
    text = expected("c")[1]
    stop = text[4:6]
    answer = client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "c"}], stop=stop)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == text[: text.index(stop)]


def test_json(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": "c"}], response_format={"type": "json_object"}
    )
    assert answer.choices[0].message.content == "{}"


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).owned_by == "etir"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_errors_are_openai_s(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "a"}], n=2)
    assert bad.value.param == "n" and bad.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "a" * 1000}])
    assert long.value.code == "context_length_exceeded" and long.value.body["id"] == "E1749"  # type: ignore[index]
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "<|nan|>"}])


# --- every address ----------------------------------------------------------------------------------------------------


def test_health_and_metrics(running: Running) -> None:
    assert running.json("/health") == {"status": "ok"}
    before = running.metric("generated_tokens_total")
    running.json(TEXT, {"prompt": "x", "max_tokens": 5})
    assert running.metric("generated_tokens_total") == before + 5
    assert running.metric("resident_bytes") > 1e6
    text = running.call("/metrics")[2].decode()
    assert 'etir_llm_memory_bytes{part="weights"} 0' in text


def test_an_error_after_the_first_chunk_is_an_event(running: Running) -> None:
    status, headers, data = running.call(CHAT, said("<|nan|>", stream=True))
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    first, last = events(data)
    assert first["choices"][0]["delta"]["role"] == "assistant" and last["error"]["id"] == "E1751"


def test_token_ids_outside_of_the_vocabulary(running: Running) -> None:
    assert running.refused(TEXT, {"prompt": [1, 260]})[1]["param"] == "prompt"
    assert running.refused(TEXT, {"prompt": [-1]})[1]["id"] == "E1744"
    assert "no token" in running.refused(TEXT, {"prompt": ""})[1]["message"]


@pytest.mark.parametrize("path", ["/v1", "/v1/chat/completions/", "/../etc/passwd", "/%00", "/health/x"])
def test_an_address_that_is_not_there(running: Running, path: str) -> None:
    status, error = running.refused(path, None)
    assert (status, error["id"]) == (404, "E1754")


def test_a_method_that_is_not_there(running: Running) -> None:
    status, headers, data = running.call(CHAT)
    assert status == 405 and headers["allow"] == "POST" and json.loads(data)["error"]["id"] == "E1754"


# --- who may call -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8080"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "localhost/x"},
        {"Host": "localhost:x"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_are_kept_out(running: Running, headers: dict[str, str]) -> None:
    for path, body in (("/", None), ("/health", None), (CHAT, said("a"))):
        status, error = running.refused(path, body, headers)
        assert (status, error["id"]) == (403, "E1746")
    assert not any(name.startswith("access-control-") for name in running.call("/health", headers=headers)[1])


def test_its_own_page_and_programs_may_call(running: Running) -> None:
    own = f"127.0.0.1:{running.port}"
    for headers in (
        {"Host": "localhost"},
        {"Host": f"[::1]:{running.port}"},
        {"Host": own, "Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert running.call("/health", headers=headers)[0] == 200
    assert running.call("/health", method="OPTIONS")[0] == 405


@pytest.mark.parametrize(
    ("authority", "host"),
    [("a:1", "a"), ("A", "a"), ("[::1]:2", "::1"), ("a:", "a"), ("u@a", None), ("a?b", None), ("[::1", None)],
)
def test_hosts(authority: str, host: str | None) -> None:
    assert host_of(authority) == host


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
def test_only_json_is_read(running: Running, kind: str) -> None:
    status, error = running.refused(CHAT, said("a"), {"Content-Type": kind})
    assert (status, error["id"]) == (415, "E1744")


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_other_machines_are_asked_for(host: str) -> None:
    with pytest.raises(EtirError, match="(?s)E1743.*--allow-remote"):
        listen(Address(host, 0))
    with listen(Address(host, 0, remote=True)) as bound:
        assert bound.getsockname()[1]


def test_addresses_that_cannot_be_listened_at() -> None:
    with listen(Address(port=0)) as taken, pytest.raises(EtirError, match="E1742"):
        listen(Address(port=taken.getsockname()[1]))
    with pytest.raises(EtirError, match="E1742"):
        listen(Address("no such host", 0))
    assert url("::1", 1) == "http://[::1]:1/"
    assert Address("10.0.0.1", hosts=("box",)).accepted == ("localhost", "127.0.0.1", "::1", "10.0.0.1", "box")


# --- limits -----------------------------------------------------------------------------------------------------------


def whole(raw: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    while part := raw.recv(65536):
        found += part
    return found


def test_large_bodies_are_refused_before_they_are_read(running: Running) -> None:
    status, error = running.refused(CHAT, b" " * ((1 << 20) + 1))
    assert (status, error["id"]) == (413, "E1745")
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        raw.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert b"413" in whole(raw)
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(100):
            raw.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        raw.sendall(b"0\r\n\r\n")
        assert b"413" in whole(raw)
    assert running.call("/health")[0] == 200


def test_bodies_that_do_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.2)
    with serving(ByteModel(), http_limits=HttpLimits(seconds=0.2)) as running:
        with socket.create_connection(("127.0.0.1", running.port)) as raw:
            raw.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode())
            raw.sendall(b"Content-Length: 9\r\n\r\n{")
            raw.settimeout(10)
            answer = whole(raw)
            assert b"408" in answer and b"connection: close" in answer.lower() and "E1753" in answer.decode()
        for beginning in (b"", b"GET / HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", running.port)) as raw:
                raw.sendall(beginning)
                raw.settimeout(10)
                if b"\r\n\r\n" in beginning:
                    assert raw.recv(1000).startswith(b"HTTP/1.1 200")
                    raw.sendall(b"GET")
                while raw.recv(1000):
                    pass


def test_a_full_line_says_when_to_come_again() -> None:
    with serving(ByteModel(delay=0.05), Limits(sessions=1, queue=1)) as running:
        body = json.dumps(said("a", stream=True)).encode()
        request = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        request += f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        raws = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(2)]
        for raw in raws:
            raw.sendall(request)
            assert b"200 OK" in raw.recv(100)
        status, headers, data = running.call(CHAT, said("b"))
        assert status == 429 and int(headers["retry-after"]) >= 1 and json.loads(data)["error"]["id"] == "E1748"
        for raw in raws:
            raw.close()
        _until(lambda: running.metric("requests_running") == 0 and running.metric("requests_waiting") == 0)
        assert running.metric("requests_refused_total") == 1 and running.metric("requests_canceled_total") == 2


def _until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_stream_that_waits_says_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etir.llm.serve.app.ALIVE_SECONDS", 0.02)
    with serving(ByteModel(delay=0.1)) as running:
        data = running.call(CHAT, said("a", stream=True, max_tokens=2))[2]
        assert b": waiting\n\n" in data and len(events(data)) >= 3


def test_a_stream_that_is_cut_short_by_the_end_says_so() -> None:
    body = json.dumps(said("a", stream=True, temperature=1)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with (
        serving(ByteModel(delay=0.02), grace=0.1) as running,
        socket.create_connection(("127.0.0.1", running.port)) as raw,
    ):
        raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        raw.settimeout(20)
        data = raw.recv(65536)
        running.server.stop()
        while part := raw.recv(65536):
            data += part
    assert b'"E1752"' in data and data.rstrip().endswith(b"0")
