"""The built site in headless Chromium: no page is wider than a phone, and the search finds what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from etir_testing.devtools.browser import Browser
from etir_testing.site import Html

PHONE = 390
"""Width of a phone in CSS pixels."""

CONTROL = "too-wide.html"
_WIDE = """<!doctype html><body style="margin:0"><article><p style="width:%dpx;margin:0">much too wide</p></article>"""

_MEASURE = """(() => {
  const wide = [...document.querySelectorAll("article *")]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(
      "pre, .figure, .md-typeset__scrollwrap, .md-typeset__table, .highlight"))
    .map((element) => element.tagName + ": " + element.textContent.slice(0, 60));
  return [innerWidth, document.documentElement.scrollWidth, wide.slice(0, 3)];
})()"""

_RESULTS = """[...document.querySelectorAll("a.md-search-result__link")].map((link) => link.getAttribute("href"))"""


@pytest.fixture(scope="module")
def measured(site: Path, html: dict[Path, Html], server: str) -> dict[str, tuple[int, int, list[str]]]:
    """For each page its viewport's width, the width that it takes, and what sticks out of it."""
    pages = [path.relative_to(site).as_posix() for path in html]
    control = site / CONTROL
    control.write_text(_WIDE % (PHONE + 10), encoding="utf-8")
    found: dict[str, tuple[int, int, list[str]]] = {}
    try:
        with Browser(PHONE, 800) as browser:
            for page in [*pages, CONTROL]:
                browser.go(f"{server}/{page}")
                found[page] = browser.evaluate(_MEASURE)
    finally:
        control.unlink()
    return found


def test_what_is_too_wide_is_found(measured: dict[str, tuple[int, int, list[str]]]) -> None:
    viewport, width, wide = measured[CONTROL]
    assert (viewport, width) == (PHONE, PHONE + 10) and wide == ["P: much too wide"]


def test_no_page_is_wider_than_a_phone(measured: dict[str, tuple[int, int, list[str]]]) -> None:
    assert len(measured) > 30
    pages = {page: sizes for page, sizes in measured.items() if page != CONTROL}
    assert {page: sizes for page, sizes in pages.items() if sizes[0] != PHONE} == {}
    assert {page: sizes for page, sizes in pages.items() if sizes[1] > PHONE} == {}


def test_nothing_sticks_out(measured: dict[str, tuple[int, int, list[str]]]) -> None:
    """What is clipped at the edge makes a page no wider, and cannot be read all the same."""
    assert {page: wide for page, (_, _, wide) in measured.items() if wide and page != CONTROL} == {}


@pytest.mark.parametrize(
    ("words", "page"), [("E0603", "reference/errors.html"), ("plan-memory", "reference/passes.html")]
)
def test_the_search_finds_the_entry_first(words: str, page: str, site: Path) -> None:
    """In a folder without a web server, too, where `docs/assets/iframe-worker.js` runs it."""
    with Browser() as browser:
        browser.go(f"{site.as_uri()}/index.html?q={words}")
        browser.wait_for(f"{_RESULTS}.length")
        results = browser.evaluate(_RESULTS)
    assert page in results[0], results[:5]
