"""A request's bytes become a :class:`Request`, or a :class:`~etir.llm.serve.refusals.Refusal` that names the place."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from etir.diagnostics import did_you_mean
from etir.llm.errors import E1744, E1747
from etir.llm.sampling import Sampling
from etir.llm.serve.fields import (
    CHAT,
    IGNORED,
    NEUTRAL,
    NUMBERS,
    PROMPT_TOKENS,
    ROLES,
    STOP_LENGTH,
    STOPS,
    TEXT,
    known,
)
from etir.llm.serve.refusals import Refusal

T = TypeVar("T")


@dataclass(frozen=True)
class Defaults:
    """What the server adds to a request: its model's name and settings, and how many messages one may have."""

    model: str
    settings: Sampling = Sampling()
    messages: int = 1000


@dataclass(frozen=True)
class Request:
    """One request that is understood. ``prompt`` is None for a chat, ``messages`` is empty for a completion.

    ``logprobs`` is how many alternatives of each token are wanted besides it, None for no logarithms at all.
    """

    chat: bool
    model: str
    settings: Sampling
    messages: tuple[dict[str, Any], ...] = ()
    prompt: str | tuple[int, ...] | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    logprobs: int | None = None
    json: bool = False
    user: str = ""


def parse(data: bytes, chat: bool, defaults: Defaults) -> Request:
    """The request of a body. Raises E1744 for whatever is not understood and E1747 for another model."""
    body = _object(data)
    where = CHAT if chat else TEXT
    names = known(where)
    for name, value in body.items():
        if name not in names:
            _wrong(f"there is no field '{_short(name)}'{did_you_mean(name[:64], names)}", _short(name))
        _check_neutral(name, value)
    numbers = {name: _number(name, body[name]) for name in NUMBERS if body.get(name) is not None}
    model = _given(body, "model", str, defaults.model)
    if model != defaults.model:
        raise Refusal(E1747, f"there is no model '{_short(model)}', there is '{defaults.model}'", param="model")
    options = _given(body, "stream_options", dict[str, Any], {})
    stream = _given(body, "stream", bool, False)
    if options and not stream:
        _wrong("stream_options are given, but stream is not true", "stream_options")
    limit = numbers.get("max_completion_tokens", numbers.get("max_tokens", None if chat else PROMPT_TOKENS))
    return Request(
        chat=chat,
        model=model,
        settings=_settings(numbers, defaults.settings),
        messages=_messages(body.get("messages"), defaults.messages) if chat else (),
        prompt=None if chat else _prompt(body.get("prompt")),
        max_tokens=None if limit is None else int(limit),
        stop=_stop(body.get("stop")),
        stream=stream,
        include_usage=_given(options, "include_usage", bool, False, "stream_options."),
        logprobs=_logprobs(body, chat, numbers),
        json=_is_json(body.get("response_format")),
        user=_text(_given(body, "user", str, ""), "user")[:256],
    )


def _wrong(message: str, param: str | None = None) -> NoReturn:
    raise Refusal(E1744, message, param=param)


def _short(text: str) -> str:
    """Text of a stranger in a message: readable, and not long."""
    return "".join(c if c.isprintable() else "?" for c in text[:64]) + ("..." if len(text) > 64 else "")


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        _wrong(f"the body is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}")
    except json.JSONDecodeError as error:
        _wrong(f"the body is not JSON: {error.msg} in line {error.lineno}, column {error.colno}")
    except RecursionError:
        _wrong("the body is nested too deeply")
    except ValueError:
        _wrong("the body has a number that is too long, or NaN or Infinity, which JSON does not have")
    if not isinstance(body, dict):
        _wrong("the body is not an object")
    return body


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _given(body: Mapping[str, Any], name: str, kind: type[T], default: T, prefix: str = "") -> T:
    """The field's value, ``default`` where there is none or null."""
    value = body.get(name)
    if value is None:
        return default
    plain = getattr(kind, "__origin__", kind)
    if not isinstance(value, plain):
        names = {str: "a string", bool: "true or false", dict: "an object"}
        _wrong(f"'{prefix}{name}' is not {names[plain]}", f"{prefix}{name}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _check_neutral(name: str, value: Any) -> None:
    if name in IGNORED or name not in NEUTRAL or value is None:
        return
    # 1 == True in Python, and not in JSON.
    if not any(value == ok and isinstance(value, bool) == isinstance(ok, bool) for ok in NEUTRAL[name]):
        allowed = " or ".join(["null", *(json.dumps(ok) for ok in NEUTRAL[name])])
        _wrong(f"this server does not have '{name}': leave it out, or pass {allowed}", name)


def _number(name: str, value: Any) -> float:
    problem = NUMBERS[name].problem(value)
    if problem is not None:
        _wrong(f"'{name}' {problem}", name)
    return value


def _settings(numbers: Mapping[str, float], defaults: Sampling) -> Sampling:
    seed = numbers.get("seed")
    return Sampling(
        temperature=float(numbers.get("temperature", defaults.temperature)),
        top_k=int(numbers.get("top_k", defaults.top_k)),
        top_p=float(numbers.get("top_p", defaults.top_p)),
        min_p=float(numbers.get("min_p", defaults.min_p)),
        repetition_penalty=float(numbers.get("repetition_penalty", defaults.repetition_penalty)),
        repetition_window=defaults.repetition_window,
        seed=secrets.randbits(63) if seed is None else int(seed) & (2**63 - 1),
    )


def _text(value: Any, param: str) -> str:
    """A string that is Unicode text: JSON can write halves of a surrogate pair, which are none."""
    if not isinstance(value, str):
        _wrong(f"'{param}' is not a string", param)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        _wrong(f"'{param}' has half of a surrogate pair, which is no character", param)
    return value


def _messages(value: Any, most: int) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not value:
        _wrong("'messages' is not a list of at least one message", "messages")
    if len(value) > most:
        _wrong(f"'messages' has {len(value)} messages, more than {most}", "messages")
    return tuple(_message(item, f"messages[{i}]") for i, item in enumerate(value))


def _message(value: Any, param: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _wrong(f"'{param}' is not an object", param)
    role = value.get("role")
    if role not in ROLES:
        _wrong(f"'{param}.role' is none of {', '.join(ROLES)}", f"{param}.role")
    for wish in ("tool_calls", "function_call", "audio"):
        if value.get(wish):
            _wrong(f"this server does not have '{param}.{wish}'", f"{param}.{wish}")
    # Other keys ("name", "refusal") are not passed on: the template is the model's, its variables are ours to give.
    return {"role": "system" if role == "developer" else role, "content": _content(value.get("content"), role, param)}


def _content(value: Any, role: str, param: str) -> str:
    place = f"{param}.content"
    if value is None and role == "assistant":
        return ""
    if isinstance(value, str):
        return _text(value, place)
    if not isinstance(value, list) or not value:
        _wrong(f"'{place}' is neither a string nor a list of parts", place)
    texts: list[str] = []
    for i, part in enumerate(value):
        if not isinstance(part, dict) or part.get("type") != "text":
            _wrong(f"'{place}[{i}]' is no part of type text: the model reads nothing else", f"{place}[{i}]")
        texts.append(_text(part.get("text"), f"{place}[{i}].text"))
    return "".join(texts)


def _prompt(value: Any) -> str | tuple[int, ...]:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list)):
        value = value[0]
    if isinstance(value, str):
        return _text(value, "prompt")
    if isinstance(value, list) and value and all(isinstance(i, int) and not isinstance(i, bool) for i in value):
        return tuple(value)
    _wrong("'prompt' is neither a string nor a list of token ids; several prompts are several requests", "prompt")


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or len(listed) > STOPS:
        _wrong(f"'stop' is neither a string nor a list of up to {STOPS}", "stop")
    texts = [_text(item, f"stop[{i}]") for i, item in enumerate(listed)]
    if any(not 0 < len(text) <= STOP_LENGTH for text in texts):
        _wrong(f"a stop string is empty, or longer than {STOP_LENGTH} characters", "stop")
    return tuple(texts)


def _logprobs(body: Mapping[str, Any], chat: bool, numbers: Mapping[str, float]) -> int | None:
    """OpenAI's chat says ``logprobs: true, top_logprobs: 5``, its completions ``logprobs: 5``."""
    value = body.get("logprobs")
    if not chat:
        if value is None or value is False:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 20:
            _wrong("'logprobs' is not an integer from 0 to 20", "logprobs")
        return value
    wanted = _given(body, "logprobs", bool, False)
    if "top_logprobs" in numbers and not wanted:
        _wrong("top_logprobs is given, but logprobs is not true", "top_logprobs")
    return int(numbers.get("top_logprobs", 0)) if wanted else None


def _is_json(value: Any) -> bool:
    if value is None:
        return False
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in ("text", "json_object"):
        _wrong("'response_format.type' is neither 'text' nor 'json_object'", "response_format.type")
    return kind == "json_object"
