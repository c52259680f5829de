"""The built site in headless Chromium: no page is wider than a phone, and the search finds what it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path

import pytest

from etir_testing.site import Html

PHONE = 390
"""Width of a phone in CSS pixels."""

ATTEMPTS = 3
"""The browser's virtual clock stops for good once in a while; a page takes 10 seconds where it does not."""

CONTROL = "too-wide.html"
_WIDE = """<!doctype html><body style="margin:0"><article><p style="width:%dpx;margin:0">much too wide</p></article>"""

_HARNESS = """<!doctype html><title>wait</title><body><script>
const pages = %s, width = %d;
(async () => {
  const found = {};
  for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:800px;border:0`;
    const loaded = new Promise((done) => (frame.onload = done));
    frame.src = page;
    document.body.append(frame);
    await loaded;
    await new Promise((done) => setTimeout(done, 30));
    const root = frame.contentDocument.documentElement;
    const wide = [...frame.contentDocument.querySelectorAll("article *")]
      .filter((element) => element.getBoundingClientRect().right > width + 1 && !element.closest(
        "pre, .figure, .md-typeset__scrollwrap, .md-typeset__table, .highlight"))
      .map((element) => element.tagName + ": " + element.textContent.slice(0, 60));
    found[page] = [frame.contentWindow.innerWidth, root.scrollWidth, wide.slice(0, 3)];
    frame.remove();
  }
  document.body.innerHTML = "<pre id='found'></pre>";
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>"""


def browse(address: str, milliseconds: int) -> str:
    """The page as Chromium has it after so many milliseconds of the page's own clock."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed")
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            command = [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", f"--user-data-dir={profile}"),
                *("--window-size=1000,900", f"--virtual-time-budget={milliseconds}", "--dump-dom", address),
            ]
            try:
                return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
            except subprocess.TimeoutExpired:
                if attempt == ATTEMPTS:
                    raise
    raise AssertionError("unreachable")


@pytest.fixture(scope="module")
def measured(site: Path, html: dict[Path, Html], server: str) -> dict[str, tuple[int, int, list[str]]]:
    """For each page its viewport's width, the width that it takes, and what sticks out of it."""
    pages = [path.relative_to(site).as_posix() for path in html]
    harness, control = site / "measure.html", site / CONTROL
    harness.write_text(_HARNESS % (json.dumps([*pages, CONTROL]), PHONE), encoding="utf-8")
    control.write_text(_WIDE % (PHONE + 10), encoding="utf-8")
    try:
        text = browse(f"{server}/measure.html", 120_000)
    finally:
        harness.unlink()
        control.unlink()
    found = re.search(r"<pre id=\"found\">(.*?)</pre>", text, flags=re.DOTALL)
    assert found is not None, "the pages were not measured in time"
    return json.loads(unescape(found[1]))


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
    text = browse(f"{site.as_uri()}/index.html?q={words}", 20_000)
    results = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', text)
    assert results and page in results[0], results[:5]
