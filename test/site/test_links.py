"""Links of the built site lead somewhere, generated parts and figures included, and reading it needs no network."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from etir_testing.site import Html

_ADDRESS = re.compile(r"(?i)^(https?:)?//")
_STYLE_FETCH = re.compile(r"""@import|url\(\s*["']?(?:https?:)?//""")


def test_every_link_has_a_page_and_an_anchor(site: Path, html: dict[Path, Html]) -> None:
    wrong: list[str] = []
    count = 0
    for path, page in html.items():
        for link in page.links:
            if _ADDRESS.match(link) or link.startswith(("mailto:", "javascript:")):
                continue
            count += 1
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name)).resolve() if name else path
            if target.is_dir():
                target /= "index.html"
            where = f"{path.relative_to(site)} links to {link}"
            if not target.is_file():
                wrong.append(f"{where}, which is no file of the site")
            elif anchor and unquote(anchor) not in html[target].anchors:
                wrong.append(f"{where}, which has no such anchor")
    assert wrong == []
    assert count > 1000, "the links were not found"


def test_nothing_is_fetched_from_elsewhere(site: Path, html: dict[Path, Html]) -> None:
    for path, page in html.items():
        assert [address for address in page.fetched if _ADDRESS.match(address)] == [], path
        for address in page.fetched:
            assert address.startswith("data:") or (path.parent / address.partition("?")[0]).resolve().is_file(), address
    for style in sorted(site.rglob("*.css")):
        assert _STYLE_FETCH.search(style.read_text(encoding="utf-8")) is None, style


def test_every_error_has_an_anchor(site: Path, html: dict[Path, Html]) -> None:
    """Texts outside of the site point to `errors.html#E0603`."""
    from etir.diagnostics import REGISTRY
    from etir.tools.docs.error_ids import import_error_modules

    import_error_modules()
    assert set(REGISTRY) <= html[site / "reference" / "errors.html"].anchors


def test_generated_parts_are_in_the_pages(site: Path) -> None:
    for path in sorted(site.rglob("*.html")):
        assert "begin generated: " not in re.sub(r"<pre>.*?</pre>", "", path.read_text(encoding="utf-8"), flags=re.S), (
            path
        )
