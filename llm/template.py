"""Chat templates: a conversation as the text that the model was trained on.

A template is a program that comes with a model, from anybody. Jinja runs it in its immutable sandbox, in which it
reaches no attribute that leads out of it and changes nothing that it is given; a loop or a text without an end is
stopped by limits on the time and on the text.

A phone has no Jinja. Most templates only put fixed texts around each message: :func:`compile_template` finds them by
rendering conversations with markers in place of the contents, and compares the compiled form with Jinja on many more
conversations before it gives it away. What does not fit is refused (E1714), never rendered in another way.
"""

from __future__ import annotations

import datetime
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from types import FrameType
from typing import Any, cast

from etir.diagnostics import EtirError
from etir.llm.chat_description import ChatDescription
from etir.llm.errors import E1711, E1714

MOST_CHARACTERS = 16_000_000
"""Of a rendered prompt."""
MOST_SECONDS = 5.0
"""For one prompt."""
MOST_TEMPLATE = 1_000_000
"""Characters of a template."""

Messages = Sequence[Mapping[str, Any]]


def render(chat: ChatDescription, messages: Messages, *, add_generation_prompt: bool = True) -> str:
    """The prompt of a conversation, which begins with the token for that where the model wants it, though its template
    may not write it. Raises EtirError (E1711) for a template that fails or takes too long.
    """
    text = _Template(chat.chat_template or "").render(
        messages=[dict(message) for message in messages],
        add_generation_prompt=add_generation_prompt,
        bos_token=chat.bos_token or "",
        eos_token=chat.eos_token or "",
        tools=None,
        documents=None,
    )
    begin = chat.bos_token if chat.add_bos and chat.bos_token else ""
    return text if text.startswith(begin) else begin + text


class _Template:
    """A template in its sandbox."""

    def __init__(self, text: str):
        self._template = _compiled(text)

    def render(self, **names: Any) -> str:
        from jinja2 import TemplateError

        parts: list[str] = []
        try:
            size = 0
            for part in _limited(self._template.generate(**names)):
                size += len(part)
                if size > MOST_CHARACTERS:
                    raise E1711.error(f"the prompt has more than {MOST_CHARACTERS} characters")
                parts.append(part)
        except TemplateError as error:
            raise E1711.error(str(error) or type(error).__name__) from None
        except (
            ArithmeticError,
            LookupError,
            MemoryError,
            RecursionError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:
            raise E1711.error(f"{type(error).__name__}: {error}") from None
        return "".join(parts)


def _limited(parts: Iterator[str]) -> Iterator[str]:
    """The parts, as long as making them takes no more than the limit. Loops that print nothing count, too."""
    import sys
    import time

    end = time.monotonic() + MOST_SECONDS

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        if time.monotonic() > end:
            raise E1711.error(f"the template takes more than {MOST_SECONDS:g} seconds")
        return watch

    # Only frames of the template are watched line by line; what it calls is short.
    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return watch(frame, event, argument) if frame.f_code.co_filename == "<template>" else None

    before = sys.gettrace()
    if before is not None:  # a debugger or a measurement of coverage has the hook
        yield from parts
        return
    try:
        while True:
            sys.settrace(enter)
            try:
                part = next(parts)
            except StopIteration:
                return
            finally:
                sys.settrace(None)
            yield part
    finally:
        sys.settrace(before)


_PERCENT = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(?:\*|\d{4}|\d*\.(?:\*|\d{4}))")
_BRACES = re.compile(r":[^{}]*(?:\{|\d{4})")
"""Directives of both forms of formatting that make more than 999 characters of one, or as many as an argument says."""


def _check_widths(text: Any, wide: re.Pattern[str], refused: type[Exception]) -> None:
    if not isinstance(text, str) or wide.search(text):
        raise refused("a text of a width that is not small and fixed")


def _check_width(values: Iterable[Any], refused: type[Exception]) -> None:
    """Of texts that are filled up, and of what is put between parts."""
    if any(
        (isinstance(value, int) and value > 1000) or (isinstance(value, str) and len(value) > 16) for value in values
    ):
        raise refused("a text that is too wide")


_COMPILING = threading.Lock()


@lru_cache(maxsize=16)
def _compiled(text: str) -> Any:
    """Compiled in a sandbox that has what templates of transformers have. Raises EtirError (E1711)."""
    from jinja2 import TemplateError, nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.filters import do_batch, do_format, do_indent, sync_do_slice
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.visitor import NodeTransformer

    class Sandbox(ImmutableSandboxedEnvironment):
        """Texts and numbers have to stay small, too: one operator can make gigabytes of them."""

        intercepted_binops = frozenset({"*", "**", "%", "+"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" and (abs(left) > 1000 or abs(right) > 100):
                raise SecurityError("a power that is too large")
            if operator in "*%" and not (isinstance(left, int | float) and isinstance(right, int | float)):
                if operator == "%":
                    _check_widths(left, _PERCENT, SecurityError)
                elif len(str(left)) * len(str(right)) > 1000:
                    raise SecurityError(f"the operator {operator} on texts or lists")
                count = right if isinstance(right, int) else left
                if isinstance(count, int) and count > 1000:
                    raise SecurityError("a text or a list that is repeated too often")
            result = super().call_binop(context, operator, left, right)
            if isinstance(result, str | list | tuple) and len(result) > MOST_CHARACTERS:
                raise SecurityError("a text that is too long")
            if isinstance(result, int) and result.bit_length() > 4096:
                raise SecurityError("a number that is too large")
            return result

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            wide = (
                (isinstance(obj, str) and attr in ("format_map", "expandtabs", "translate"))
                or (isinstance(obj, bytes) and attr not in ("decode", "hex"))
                or (isinstance(obj, int) and attr == "to_bytes")
            )
            return not wide and super().is_safe_attribute(obj, attr, value)

        def wrap_str_format(self, value: Any) -> Any:
            text = getattr(value, "__self__", None)
            if isinstance(text, str):
                _check_widths(text, _BRACES, SecurityError)
            return super().wrap_str_format(value)

        def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
            name, text = getattr(obj, "__name__", ""), getattr(obj, "__self__", None)
            if isinstance(text, str) and name == "replace" and len(args) > 1:
                replace(text, *args)
            elif isinstance(text, str) and name == "join" and args:
                join(args[0], text)
            elif isinstance(text, str) and name in ("center", "ljust", "rjust", "zfill"):
                _check_width((*args, *kwargs.values()), SecurityError)
            return super().call(context, obj, *args, **kwargs)

    def replace(text: Any, old: Any, new: Any, count: Any = None) -> str:
        text, old, new = str(text), str(old), str(new)
        if text.count(old) * len(new) > MOST_CHARACTERS:
            raise SecurityError("a text that is too long")
        return text.replace(old, new, -1 if count is None else count)

    def join(parts: Any, between: str = "", attribute: str | None = None) -> str:
        if attribute is not None:
            parts = [part[attribute] for part in parts]
        texts = [str(part) for part in parts]
        if sum(map(len, texts)) + len(texts) * len(between) > MOST_CHARACTERS:
            raise SecurityError("a text that is too long")
        return between.join(texts)

    def indent(text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
        _check_width((width,), SecurityError)
        if str(text).count("\n") * (width if isinstance(width, int) else len(width)) > MOST_CHARACTERS:
            raise SecurityError("a text that is too long")
        return do_indent(str(text), width, first, blank)

    def batch(values: Any, count: int, fill: Any = None) -> Any:
        _check_width((count,), SecurityError)
        return do_batch(values, count, fill)

    def sliced(values: Any, count: int, fill: Any = None) -> Any:
        _check_width((count,), SecurityError)
        return sync_do_slice(values, count, fill)

    def formatted(text: Any, *args: Any, **kwargs: Any) -> str:
        _check_widths(str(text), _PERCENT, SecurityError)
        return do_format(str(text), *args, **kwargs)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        _check_width((indent, *(separators or ())), SecurityError)
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    class Generation(Extension):
        """``{% generation %}`` marks what a model is trained to write; it changes no text."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

        def _text(self, caller: Any) -> str:
            return caller()

    if len(text) > MOST_TEMPLATE:
        raise E1711.error(f"the template has more than {MOST_TEMPLATE} characters")
    sandbox = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    sandbox.globals["raise_exception"] = raise_exception
    sandbox.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)  # pyright: ignore
    for name in ("lipsum", "cycler", "joiner"):
        sandbox.globals.pop(name, None)
    for name in ("center", "pprint", "wordwrap", "filesizeformat", "random"):
        sandbox.filters.pop(name, None)
    sandbox.filters |= {"tojson": tojson, "replace": replace, "join": join, "indent": indent, "format": formatted}
    sandbox.filters |= {"batch": batch, "slice": sliced}

    class Joins(NodeTransformer):
        """``a ~ b`` is the filter ``join`` of both: the sandbox sees no operator ``~``."""

        def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
            items = nodes.List(node.nodes, lineno=node.lineno)
            found = nodes.Filter(items, "join", [], [], None, None, lineno=node.lineno)
            return cast(nodes.Filter, self.generic_visit(found).set_environment(sandbox))

    try:
        with _COMPILING:
            return sandbox.from_string(Joins().visit(sandbox.parse(text)))
    except TemplateError as error:
        raise E1711.error(f"{error} (line {getattr(error, 'lineno', 0)} of the template)") from None
    except (RecursionError, SyntaxError, MemoryError, OverflowError, ValueError) as error:
        raise E1711.error(f"the template cannot be compiled: {error}") from None


# --- the compiled form ----------------------------------------------------------------------------------------------

ROLES = ("system", "user", "assistant")


def compile_template(chat: ChatDescription) -> dict[str, Any]:
    """The compiled form of a template, for ``segments`` of ``model.chat.json``.

    ``begin`` is what a prompt begins with and ``first`` what comes before the first message when it is of no system;
    ``roles`` has the texts before and after the messages of each role, and whether the content is stripped;
    ``generation`` is what makes the model answer.

    Raises EtirError (E1714) for a template that does more than that, E1711 for one that fails.
    """

    def prompt(*messages: tuple[str, str], generate: bool = False) -> str:
        rows = [{"role": role, "content": content} for role, content in messages]
        return render(chat, rows, add_generation_prompt=generate)

    def between(text: str, *marks: str) -> list[str]:
        """The texts around the marks, each of which is there once."""
        parts: list[str] = []
        for mark in marks:
            before, found, text = text.partition(mark)
            if not found or mark in text:
                raise E1714.error("a message is there twice or not at all")
            parts.append(before)
        return [*parts, text]

    one, two, three, four = "\u2460one\u2460", "\u2461two\u2461", "\u2462three\u2462", "\u2463four\u2463"
    # u a u a: what stands between an answer and the next question is the end of one and the begin of the other. The
    # prompt of the question alone ends with what ends a question.
    ahead, after_user = between(prompt(("user", one)), one)
    plain = between(prompt(("user", one), ("assistant", two), ("user", three)), one, two, three)
    after_second = plain[3]
    if after_second != after_user or plain[0] != ahead:
        raise E1714.error("what stands around a question depends on where it is")
    if not plain[1].startswith(after_user):
        raise E1714.error("what ends a question depends on what comes next")
    before_assistant = plain[1][len(after_user) :]
    ended = between(prompt(("user", one), ("assistant", two)), one, two)[2]
    if not plain[2].startswith(ended):
        raise E1714.error("what ends an answer depends on what comes next")
    before_user = plain[2][len(ended) :]
    if not ahead.endswith(before_user):
        raise E1714.error("the first question begins in another way than the others")
    first = ahead[: len(ahead) - len(before_user)]
    roles: dict[str, dict[str, Any]] = {
        "user": {"before": before_user, "after": after_user},
        "assistant": {"before": before_assistant, "after": ended},
    }
    begin = first
    try:
        system = between(prompt(("system", four), ("user", one)), four, one)
    except EtirError:
        system = []  # templates may have no system message
    if system and system[1].endswith(before_user):
        begin = _common(first, system[0])
        roles["system"] = {"before": system[0][len(begin) :], "after": system[1][: len(system[1]) - len(before_user)]}
        # The longest common begin may have taken a part of what begins a message.
        if begin and not first[len(begin) :] and first != begin:
            raise E1714.error("the begin of a prompt is not certain")
    generation = prompt(("user", one), generate=True)
    if not generation.startswith(prompt(("user", one))):
        raise E1714.error("the generation prompt changes what is before it")
    for role, texts in roles.items():
        padded = {"system": [("system", f" \n{four}\n "), ("user", one)], "user": [("user", f" \n{four}\n ")]}
        rows = padded.get(role, [("user", one), ("assistant", f" \n{four}\n ")])
        texts["strip"] = f" \n{four}\n " not in prompt(*rows)
    found = {
        "begin": begin,
        "first": first[len(begin) :],
        "roles": roles,
        "generation": generation[len(prompt(("user", one))) :],
    }
    _compare(chat, found)
    return found


def _common(a: str, b: str) -> str:
    size = 0
    while size < min(len(a), len(b)) and a[size] == b[size]:
        size += 1
    return a[:size]


def render_segments(segments: Mapping[str, Any], messages: Messages, *, add_generation_prompt: bool = True) -> str:
    """What C++ renders (``runtime/llm/chat.h``), in Python. Raises EtirError (E1714) for a role that is not there."""
    text = segments["begin"]
    if not messages or messages[0]["role"] != "system":
        text += segments["first"]
    for index, message in enumerate(messages):
        texts = segments["roles"].get(message["role"])
        if texts is None or (message["role"] == "system" and index > 0):
            raise E1714.error(f"the compiled template has no place for message {index} of role '{message['role']}'")
        content = message["content"].strip() if texts["strip"] else message["content"]
        text += texts["before"] + content + texts["after"]
    return text + (segments["generation"] if add_generation_prompt else "")


def _compare(chat: ChatDescription, segments: Mapping[str, Any]) -> None:
    """Renders conversations of all lengths up to six messages both ways. Raises EtirError (E1714) where they differ."""
    contents = (
        "Hello",
        "  spaces \n",
        "",
        "{{ x }} <b>&amp;</b>",
        "<|im_start|>",
        "ünïcode 😀\n\nlines",
        "[/INST]</think>x",
    )
    number = 0
    for length, with_system, generate in product(range(1, 7), (False, True), (False, True)):
        if with_system and "system" not in segments["roles"]:
            continue
        rows = [{"role": "system", "content": "Be brief. "}] if with_system else []
        for index in range(length):
            rows.append({"role": ROLES[1 + index % 2], "content": contents[number % len(contents)]})
            number += 1
        try:
            expected = render(chat, rows, add_generation_prompt=generate)
        except EtirError as error:
            raise E1714.error(
                f"the template refuses a conversation of {length} messages: {error.diagnostics[0].message}"
            ) from None
        if expected != render_segments(segments, rows, add_generation_prompt=generate):
            raise E1714.error(f"a conversation of {length} messages is more than its messages one after the other")
