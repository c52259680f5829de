"""What a request may say, and what is said to one that is not understood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.llm.sampling import Sampling
from etir.llm.serve.fields import CHAT, NEUTRAL, TEXT, known
from etir.llm.serve.refusals import KINDS, Refusal
from etir.llm.serve.requests import Defaults, Request, parse

DEFAULTS = Defaults("m", Sampling(temperature=0.7, top_p=0.9), messages=3)
USER = {"role": "user", "content": "hi"}


def chat(**fields: Any) -> Request:
    return parse(json.dumps({"messages": [USER], **fields}).encode(), True, DEFAULTS)


def text(**fields: Any) -> Request:
    return parse(json.dumps({"prompt": "hi", **fields}).encode(), False, DEFAULTS)


def refusal(data: bytes, *, chat: bool = True) -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        parse(data, chat, DEFAULTS)
    return caught.value.body()["error"]


def test_what_is_not_said_is_the_server_s() -> None:
    request = chat(seed=3)
    assert request.settings == Sampling(temperature=0.7, top_p=0.9, seed=3)
    assert (request.max_tokens, request.stream, request.logprobs, request.stop) == (None, False, None, ())
    assert text().max_tokens == 16
    assert chat().settings.seed != chat().settings.seed


def test_what_is_said_counts() -> None:
    request = chat(
        temperature=0, top_k=4, top_p=0.5, min_p=0.1, repetition_penalty=1.2, seed=-1, max_tokens=9, stop=["a", "b"],
        max_completion_tokens=7, stream=True, stream_options={"include_usage": True}, logprobs=True, top_logprobs=3,
        response_format={"type": "json_object"}, user="u", model="m", metadata={"a": "b"}, n=1, logit_bias={},
    )  # fmt: skip
    assert request.settings == Sampling(0.0, 4, 0.5, 0.1, 1.2, 64, 2**63 - 1)
    assert request.max_tokens == 7 and request.stop == ("a", "b") and request.include_usage and request.json
    assert request.logprobs == 3 and request.user == "u"
    assert text(prompt=[1, 2], stop="x", logprobs=2, max_tokens=1).prompt == (1, 2)
    assert text(prompt=["one"]).prompt == "one"


def test_messages() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    said = [{"role": "developer", "content": parts}, {"role": "assistant", "content": None}, USER]
    assert chat(messages=said).messages == (
        {"role": "system", "content": "ab"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "hi"},
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [USER] * 4}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [USER, {"role": "robot", "content": ""}]}, "messages[1].role"),
        ({"messages": [{"role": ["user"], "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "messages[0].tool_calls"),
        ({"model": "gpt"}, "model"),
        ({"model": 1}, "model"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": 1.5}, "top_k"),
        ({"seed": 2**63}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"tools": [{}]}, "tools"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"audio": {}}, "audio"),
        ({"stop": 1}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": "a" * 1001}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream": True, "stream_options": 1}, "stream_options"),
        ({"logprobs": 2}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"response_format": {"type": "json_schema"}}, "response_format.type"),
        ({"response_format": "json"}, "response_format.type"),
        ({"user": "\udc00"}, "user"),
        ({"prompt": "x"}, "prompt"),
        ({"tempreature": 1}, "tempreature"),
    ],
)
def test_a_chat_that_is_not_understood(fields: dict[str, Any], param: str) -> None:
    error = refusal(json.dumps({"messages": [USER], **fields}).encode())
    assert error["param"] == param
    assert error["id"] == ("E1747" if fields.get("model") == "gpt" else "E1744")


@pytest.mark.parametrize("value", [None, 1, [], [True], ["a", "b"], [[1], [2]], [1, "a"], {"a": 1}, "\ud800"])
def test_a_prompt_that_is_not_understood(value: Any) -> None:
    assert refusal(json.dumps({"prompt": value}).encode(), chat=False)["param"] == "prompt"


@pytest.mark.parametrize("value", [True, "2", 21, -1])
def test_logprobs_of_a_completion(value: Any) -> None:
    assert refusal(json.dumps({"prompt": "a", "logprobs": value}).encode(), chat=False)["param"] == "logprobs"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object"),
        (b"\xff", "not UTF-8: byte 0"),
        (b'{"a": NaN}', "NaN"),
        (b'{"seed": ' + b"1" * 5000 + b"}", "too long"),
        (b"[" * 100_000, "too deeply"),
        (b'{"messages":\n!}', "line 2, column 1"),
    ],
)
def test_a_body_that_is_no_object(data: bytes, words: str) -> None:
    assert words in refusal(data)["message"]


def test_a_misspelled_field_has_a_suggestion() -> None:
    assert "did you mean 'temperature'" in refusal(b'{"tempreature": 1}')["message"]


def test_fields_that_are_not_there_ask_for_nothing() -> None:
    for name, values in NEUTRAL.items():
        for value in (None, *values):
            assert chat(**{name: value}) is not None


def test_every_refusal_has_a_status() -> None:
    for id in KINDS:
        assert 400 <= KINDS[id].status < 600, id


WORDS = st.text("a{\n\x00\ud800\U0001f600", max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.booleans(),
    st.dictionaries(st.sampled_from(sorted({*known(CHAT), *known(TEXT), "other"})), json_values, max_size=6),
)
def test_every_object_is_understood_or_refused(is_chat: bool, fields: dict[str, Any]) -> None:
    body = {"messages": [USER], **fields} if is_chat else {"prompt": "hi", **fields}
    try:
        request = parse(json.dumps(body).encode(), is_chat, DEFAULTS)
    except Refusal as refused:
        json.dumps(refused.body()).encode()
        return
    assert request.max_tokens is None or request.max_tokens > 0


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_understood_or_refused(data: bytes) -> None:
    assert refusal(data)["type"] == "invalid_request_error"
