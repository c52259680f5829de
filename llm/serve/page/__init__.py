"""The page at ``/``: one HTML file, made of the three files of this folder, that asks nothing of any network.

A policy in its head allows the one script and the one style sheet in it, by their digests, and requests to this server;
whatever a model writes stays text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent

SCRIPTS = ("markdown.js", "client.js", "chat.js")
"""In an order in which each comes after what it uses: in the page they are one."""


@cache
def page() -> tuple[bytes, str]:
    """The page and its Content-Security-Policy."""
    text = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *SCRIPTS)}
    script = '"use strict";(() => {\n' + "\n".join(text[name] for name in SCRIPTS) + "\n})();"
    style = text["page.css"]
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    html = text["page.html"].replace("/* style */", style).replace("/* script */", script)
    return html.encode("utf-8"), policy


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


async def page_response(http: Request) -> Response:
    """``GET /``."""
    body, policy = page()
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache"}
    return Response(body, headers=headers, media_type="text/html; charset=utf-8")
