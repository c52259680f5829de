"""The page in headless Chromium: chat, stop, settings, errors, hostile text, keys, narrow and wide, light and dark."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from etir.llm.serve.service import Limits

from etir_testing.devtools.browser import Browser
from etir_testing.llm.engine import ByteModel, answer_of
from etir_testing.llm.serving import NAME, Running, serving

MODEL = ByteModel(context=2000, delay=0.002)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(MODEL, Limits(sessions=2)) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, running: Running) -> Iterator[Browser]:
    """The page, anew, with nothing remembered; it may not complain, nor ask anybody else."""
    browser.size(1280, 800)
    browser.dark(False)
    for _ in range(2):
        browser.call("Page.navigate", url=running.url)
        until(browser, "document.body?.dataset.ready === '1'")
        browser.evaluate("localStorage.clear()")
    browser.complaints.clear()
    browser.requests.clear()
    yield browser
    assert browser.complaints == []
    assert {url for url in browser.requests if not url.startswith((running.url, "data:"))} == set()


def until(browser: Browser, condition: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not browser.evaluate(condition):
        assert time.monotonic() < end, f"{condition}: {browser.complaints}"
        time.sleep(0.02)


def write(browser: Browser, text: str) -> None:
    browser.evaluate("document.getElementById('input').focus()")
    browser.call("Input.insertText", text=text)


def press(browser: Browser, key: str, modifiers: int = 0) -> None:
    code = {"Enter": 13, "Escape": 27, "n": 78}[key]
    extra: dict[str, Any] = {"text": "\r"} if key == "Enter" and not modifiers else {}
    for kind in ("keyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **extra
        )


def ask(browser: Browser, text: str) -> None:
    write(browser, text)
    press(browser, "Enter")
    until(browser, "document.querySelector('.message:last-child .foot') !== null")


def text_of(browser: Browser, selector: str) -> Any:
    return browser.evaluate(f"document.querySelector({selector!r})?.textContent")


def shot(browser: Browser, name: str) -> None:
    """A picture for a person, where ``ETIR_SHOTS`` names a folder."""
    folder = os.environ.get("ETIR_SHOTS")
    if folder:
        browser.screenshot(Path(folder) / f"{name}.png")


def said_after(*messages: tuple[str, str]) -> str:
    """What the model has to answer to a conversation."""
    prompt = MODEL.render([{"role": role, "content": text} for role, text in messages])
    return answer_of(MODEL.tokenizer.encode(prompt))[1].strip("\n")


def set_value(browser: Browser, id: str, value: Any) -> None:
    browser.evaluate(
        f"(() => {{ const e = document.getElementById({id!r}); e.value = {value!r};"
        " e.dispatchEvent(new Event('input')); })()"
    )


def test_a_conversation(page: Browser) -> None:
    assert text_of(page, "#model") == NAME and page.evaluate("document.title") == NAME
    assert page.evaluate("document.activeElement.id") == "input"
    shot(page, "empty")
    ask(page, "hello")
    first = said_after(("user", "hello"))
    assert text_of(page, ".user .body") == "hello" and text_of(page, ".assistant .body") == first
    write(page, "more")
    page.evaluate("document.getElementById('send').click()")
    until(page, "document.querySelectorAll('.foot').length === 2")
    second = said_after(("user", "hello"), ("assistant", first), ("user", "more"))
    assert text_of(page, ".message:last-child .body") == second
    assert float(text_of(page, "#rate")) > 1 and text_of(page, "#first").endswith(("ms", "s"))
    prompt, reused = map(int, re.findall(r"\d+", text_of(page, "#prompt")))
    assert 0 < reused < prompt
    assert text_of(page, "#memory").endswith("MB") and text_of(page, "#context").endswith("of 2000")
    shot(page, "conversation")


def test_the_stop_button_and_escape_stop(page: Browser, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etir_testing.llm.engine._next", lambda last, state, settings, count: 97 + count % 26)
    for stop in ("document.getElementById('send').click()", None):
        set_value(page, "set-temperature", 2)
        write(page, "tell me a long story")
        press(page, "Enter")
        until(page, "document.querySelector('.message:last-child.assistant .body')?.textContent.length > 5")
        assert text_of(page, "#send") == "Stop" and text_of(page, "#state") == "writing"
        shot(page, "writing")
        if stop:
            page.evaluate(stop)
        else:
            press(page, "Escape")
        until(page, "document.getElementById('send').textContent === 'Send'")
        assert "stopped" in text_of(page, ".message:last-child .facts")
        until(page, "document.querySelector('.writing') === null")
        end = time.monotonic() + 20
        while running.metric("requests_running"):
            assert time.monotonic() < end
        press(page, "n", modifiers=1)
        assert page.evaluate("document.querySelectorAll('.message').length") == 0


def test_settings_are_sent_kept_and_reset(page: Browser, running: Running) -> None:
    set_value(page, "system", "be brief")
    set_value(page, "set-max_tokens", 3)
    ask(page, "hello")
    expected = said_after(("system", "be brief"), ("user", "hello"))
    assert text_of(page, "#tokens") == "3" and expected.startswith(text_of(page, ".assistant .body"))
    assert "cut" in text_of(page, ".facts")
    page.call("Page.navigate", url=running.url)
    until(page, "document.body?.dataset.ready === '1'")
    assert page.evaluate("document.getElementById('system').value") == "be brief"
    assert page.evaluate("document.getElementById('set-max_tokens').value") == "3"
    page.evaluate("document.getElementById('reset').click()")
    assert page.evaluate("document.getElementById('set-max_tokens').value") == ""
    assert page.evaluate("document.getElementById('set-temperature').value") == "0"


def test_again_asks_the_same_once_more(page: Browser) -> None:
    ask(page, "hello")
    page.evaluate("document.querySelector('.message:last-child').remove = function () {"
                  " window.replaced = true; Element.prototype.remove.call(this); }")  # fmt: skip
    page.evaluate("document.querySelector('.again').click()")
    until(page, "window.replaced && document.querySelector('.message:last-child .foot') !== null")
    assert text_of(page, ".assistant .body") == said_after(("user", "hello"))
    assert page.evaluate("document.querySelectorAll('.message').length") == 2


def test_an_error_is_shown_and_the_conversation_goes_on(page: Browser) -> None:
    ask(page, "x" * 2500)
    assert "context" in text_of(page, ".error")
    shot(page, "error")
    page.complaints.clear()  # The browser reports the status 400 itself.
    page.evaluate("document.getElementById('new').click()")
    ask(page, "hello")
    assert text_of(page, ".assistant .body") == said_after(("user", "hello"))


EVIL = '<img src=x onerror="window.evil=1"><script>window.evil=1</script> **b** [l](javascript:alert(1))'


def test_text_stays_text(page: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model says what it was asked, in prose, in a block and in a block that never ends."""
    answer = f"{EVIL} and `{EVIL}`:\n\n```html\n{EVIL}\n```\nthen\n~~~\n{EVIL}"
    monkeypatch.setattr("etir_testing.llm.engine._next", lambda last, state, settings, count: _said(answer, count))
    ask(page, EVIL)
    assert text_of(page, ".user .body") == EVIL
    assert page.evaluate("document.querySelectorAll('#log img, #log script, #log a, #log b').length") == 0
    blocks = page.evaluate("[...document.querySelectorAll('.assistant pre')].map((e) => e.textContent)")
    assert blocks == [EVIL, EVIL]
    assert page.evaluate("[...document.querySelectorAll('.assistant p')].map((e) => e.textContent)") == [
        f"{EVIL} and {EVIL}:",
        "then",
    ]
    assert page.evaluate("window.evil") is None
    shot(page, "code")


def _said(answer: str, count: int) -> int:
    data = answer.encode()
    return data[count] if count < len(data) else 257


@pytest.mark.parametrize(("width", "height", "dark"), [(390, 800, False), (390, 800, True), (1280, 800, True)])
def test_narrow_and_dark(page: Browser, width: int, height: int, dark: bool) -> None:
    page.size(width, height)
    page.dark(dark)
    until(page, f"document.getElementById('panel').hidden === {'true' if width < 820 else 'false'}")
    ask(page, "hello " * 30)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shot(page, f"{width}-{'dark' if dark else 'light'}")
    if width < 820:
        page.evaluate("document.getElementById('toggle').click()")
        assert page.evaluate("document.getElementById('panel').getBoundingClientRect().right") <= width
        shot(page, f"{width}-{'dark' if dark else 'light'}-panel")
        press(page, "Escape")
        assert page.evaluate("document.getElementById('panel').hidden")


def test_everything_can_be_reached_with_keys_and_has_a_name(page: Browser) -> None:
    names = page.evaluate(
        "[...document.querySelectorAll('button, input, textarea')].filter((e) => !(e.textContent || e.ariaLabel ||"
        " e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert names == []
    assert page.evaluate("document.querySelectorAll('[tabindex]:not([tabindex=\"-1\"])').length") == 0
