"""One HTML file of data and of the scripts in this folder: it needs no network, and asks for none.

The data is JSON, deflated and written in base64 in a script that no browser runs. A policy in the page forbids whatever
is not the one script and the one style sheet in it, by their digests, so that no name in a program can become one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent / "assets"

SCRIPTS = (
    "model.js",
    "dom.js",
    "drag.js",
    "list.js",
    "levels.js",
    "layout.js",
    "graph.js",
    "timeline.js",
    "overview.js",
    "details.js",
    "search.js",
    "main.js",
)
"""Modules in an order in which each comes after what it imports: in the page they are one."""

_IMPORT = re.compile(r"^import [^;]*;\n", flags=re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", flags=re.MULTILINE)


def html_of(data: dict[str, Any]) -> str:
    """The page of what :class:`~etir.devtools.page.data.Collector` has collected; the same for the same data."""
    style = _asset("palette.css") + _asset("page.css")
    return page_of(data, _script(), style, _skeleton())


def page_of(data: dict[str, Any], script: str, style: str, skeleton: str) -> str:
    """One file of a page's data, which has a ``title``, its script, its style sheet and its body."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    packed = base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).decode("ascii")
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(data['title'])}</title>\n<style>{style}</style>\n</head>\n"
        f"{skeleton}"
        f'<script type="text/plain" id="data">{packed}</script>\n<script>{script}</script>\n</html>\n'
    )


@cache
def _script() -> str:
    return '"use strict";(() => {\n' + "\n".join(map(_module, SCRIPTS)) + "\n})();"


def _module(name: str) -> str:
    """A module as a function that gives what it exports: what it does not export stays its own."""
    text = _IMPORT.sub("", _asset(name))
    names = ", ".join(match[2] for match in _EXPORT.finditer(text))
    text = _EXPORT.sub(r"\1", text)
    return f"const {{ {names} }} = (() => {{\n{text}return {{ {names} }};\n}})();" if names else text


@cache
def _skeleton() -> str:
    return _asset("page.html")


def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") + "'"
