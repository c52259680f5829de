"""The built site: `make site` builds it before these tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from etir_testing.site import Html

SITE = Path(__file__).resolve().parents[2] / "build" / "site"


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site."""
    if not (SITE / "index.html").exists():
        pytest.fail("there is no build/site: run `make site`")
    return SITE


@pytest.fixture(scope="session")
def html(site: Path) -> dict[Path, Html]:
    """Every page of the site but the one for unknown addresses, whose links are absolute."""
    found = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
    return {path: Html(path.read_text(encoding="utf-8")) for path in found}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[str]:
    """The address of a web server for the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
