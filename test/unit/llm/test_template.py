"""Chat templates: against transformers, and hostile ones; the compiled form in C++ against Jinja."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etir.diagnostics import EtirError
from etir.llm import ChatDescription, template
from etir.llm.template import compile_template, render, render_segments

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are SmolLM<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    " + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' ~ role ~ '\n' ~ message['content'] | trim ~ '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] "
    "+ eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}"
    "\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "gemma": GEMMA, "zephyr": ZEPHYR}


def chat(text: str) -> ChatDescription:
    return ChatDescription(chat_template=text, bos_token="<s>", eos_token="</s>")


def raised(id: str, call: Callable[[], Any]) -> str:
    with pytest.raises(EtirError) as error:
        call()
    assert error.value.ids == (id,)
    return str(error.value)


def conversation(count: int, system: bool) -> list[dict[str, str]]:
    contents = ["Hello", " spaces\u2003\n", "", "{{ 7 * 7 }} <b>", "ünï 😀\n\nlines", "</s>\x1c"]
    rows = [{"role": "system", "content": "Be brief.\n"}] if system else []
    return [*rows, *({"role": ("user", "assistant")[i % 2], "content": contents[i % 6]} for i in range(count))]


@pytest.mark.parametrize("name", TEMPLATES)
def test_prompts_are_those_of_transformers(name: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    described = chat(TEMPLATES[name])
    for count in range(1, 6):
        for generate in (False, True):
            rows = conversation(count, name not in ("gemma",))
            expected, _ = render_jinja_template(
                [rows],
                chat_template=described.chat_template,
                add_generation_prompt=generate,
                bos_token="<s>",
                eos_token="</s>",
            )
            assert render(described, rows, add_generation_prompt=generate) == expected[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_compiled_form_is_the_template(name: str) -> None:
    from etir.runtime.library import native

    described = chat(TEMPLATES[name])
    segments = compile_template(described)
    data = json.dumps({"segments": segments}).encode()
    assert ("system" in segments["roles"]) == (name != "gemma")
    for count in range(1, 7):
        for system in (False, True)[: 2 if "system" in segments["roles"] else 1]:
            for generate in (False, True):
                rows = conversation(count, system)
                expected = render(described, rows, add_generation_prompt=generate)
                assert render_segments(segments, rows, add_generation_prompt=generate) == expected
                pairs = [(row["role"], row["content"]) for row in rows]
                assert native().render_chat(data, pairs, generate) == expected
    raised("E1714", lambda: native().render_chat(data, [("tool", "x")], True))
    raised("E1714", lambda: native().render_chat(data, [("user", "x"), ("system", "x")], True))
    raised("E1714", lambda: native().render_chat(b"{}", [("user", "x")], True))
    raised("E1713", lambda: native().render_chat(b"[", [], True))
    raised("E1714", lambda: render_segments(segments, [{"role": "tool", "content": "x"}]))


@pytest.mark.parametrize(
    "text",
    [
        "{% for m in messages %}{{ loop.index }}{{ m.role }}{{ m.content }}{% endfor %}",  # counts
        "{% for m in messages %}{{ m.role }}{{ m.content | upper }}{% endfor %}",  # changes the text
        "{% for m in messages %}{{ m.role }}{{ m.content.split('</think>')[-1] }}{% endfor %}",
        "{{ messages[-1].content }}",  # forgets
        "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if loop.length > 4 %}{{ 'long' }}{% endif %}{% endfor %}",
        "nothing",
    ],
)
def test_templates_without_a_compiled_form(text: str) -> None:
    raised("E1714", lambda: compile_template(chat(text)))


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ 'a' * 100000000000 }}",
        "{{ [[1] * 900] * 900 * 9000 }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ '%0999999999d' % 5 }}",
        "{{ 'a'.rjust(99999999999) }}",
        "{{ '%*d' % (99999999999, 1) }}",
        "{{ '%.99999999f' | format(1.0) }}",
        "{{ '{:{w}}'.format(1, w=99999999999) }}",
        "{{ 'a\nb' | indent(99999999999) }}",
        "{{ messages | tojson(indent=99999999999) }}",
        "{{ [1] | slice(99999999999) | list }}",
        "{{ [1] | batch(99999999999, 0) | list }}",
        "{{ ('x' * 999).translate({120: 'y' * 999}) }}",
        "{{ 'a'.encode().ljust(99999999999) }}",
        "{{ (1).to_bytes(99999999999, 'big') }}",
        "{{ '{:>99999999999}'.format(1) }}",
        "{% set n = namespace(x='a' * 9) %}{% for i in range(90) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='a' * 9) %}{% for i in range(90) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='aa') %}{% for i in range(90) %}{% set n.x = n.x.replace('a', n.x) %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(90) %}{% set n.x = [n.x, n.x] | join %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='aa') %}{% for i in range(90) %}{% set n.x = n.x.join([n.x, n.x, n.x]) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for %}",
        "{{ raise_exception('no') }}",
        "{{ undefined.member }}",
        "{{ 1 // 0 }}",
        "{{ messages[9].role }}",
        "{% include 'etc/passwd' %}",
        "x" * 1_000_001,
        "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    ],
    ids=lambda text: text[:30],
)
def test_hostile_templates(text: str) -> None:
    raised("E1711", lambda: render(chat(text), conversation(2, False)))


@pytest.mark.parametrize(
    "text",
    [
        "{%- for m in messages -%}{%- generation -%}\n{{ m.content }}\n{%- endgeneration -%}{%- endfor -%}",
        "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}",
        "{{ messages | tojson(separators=(',', ':'), sort_keys=True) }}{{ messages[0] | tojson(indent=4) }}",
        "{{ 'a\nb' | indent(2) }}{{ '%s-%03d' | format('a', 2) }}{{ '%s' % 'a' }}{{ '{:>3}'.format(7) }}",
        "{{ 'a'.ljust(3) }}|{{ [1, 2, 3] | batch(2, 0) | list }}{{ [1, 2, 3] | slice(2) | list }}",
    ],
)
def test_what_transformers_gives_templates(text: str) -> None:
    pytest.importorskip("transformers")
    from transformers.utils.chat_template_utils import render_jinja_template

    rows = conversation(3, True)
    expected = render_jinja_template([rows], chat_template=text, add_generation_prompt=True)[0][0]
    assert render(chat(text), rows) == expected


def test_a_template_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "MOST_SECONDS", 0.2)
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = 1 %}{% endfor %}{% endfor %}"
    assert "more than 0.2 seconds" in raised("E1711", lambda: render(chat(loops), []))
    monkeypatch.setattr(template, "MOST_CHARACTERS", 1000)
    assert "characters" in raised("E1711", lambda: render(chat("{% for i in range(999) %}abc{% endfor %}"), []))


def test_descriptions(tmp_path: Path) -> None:
    path = tmp_path / "model.chat.json"
    described = replace(chat(CHATML), eos_ids=(2, 0), context=99, name="x")
    path.write_text(json.dumps({"chat_template": CHATML, "bos_token": "<s>", "eos_token": "</s>", "eos_ids": [2, 0],
                                "context": 99, "name": "x", "more": 1}))  # fmt: skip
    assert ChatDescription.load(path) == described
    raised("E1713", lambda: ChatDescription.load(tmp_path / "none"))
    for text in ("", "[]", '{"eos_ids": 3}', '{"eos_ids": [-1]}', '{"name": 1}', "[" * 99999):
        path.write_text(text)
        raised("E1713", lambda: ChatDescription.load(path))
