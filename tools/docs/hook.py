"""The mkdocs hook of the site: generated parts, the examples' info strings, links that leave ``docs/``.

mkdocs loads this file by its path (``hooks`` in ``mkdocs.yml``), in the root of a checkout.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pygments.lexers
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from etir.tools.docs import fill
from etir.tools.docs.decisions import records

LEXERS = {
    "MlirLexer": ("etir.tools.docs.lexer", "MLIR", ("mlir",), ("*.mlir",), ()),
    "TranscriptLexer": ("etir.tools.docs.lexer", "Transcript", ("transcript",), (), ()),
}
"""What the site adds to Pygments, in the form of its own table."""

SECTIONS = {"guide": "Guide", "tutorial": "Tutorials", "reference": "Reference", "internals": "Internals"}
"""Folder of ``docs/`` to the section of the menu that its pages are in."""

LOOKED_UP = ("reference/errors.md", "reference/passes.md")
"""Pages that the search prefers: who types an error's id or a pass's name wants its entry, not a mention of it."""

_FENCE = re.compile(r"^( *)(`{3,})([a-z]+) +([^\n`]+)$", re.MULTILINE)
_CONSOLE = re.compile(r"^( *)(`{3,})console$", re.MULTILINE)
_BLOCK = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]\[]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_SITE_LINK = re.compile(r'href="site:([^"#]+)(#[^"]*)?"')

log = logging.getLogger("mkdocs.hooks.etir")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the lexers known to Pygments, and complete the menu.

    ``mkdocs.yml`` gives the order; a page that it does not name comes last in its folder's section.
    """
    os.chdir(Path(config.config_file_path).parent)
    lexers: dict[str, Any] = cast(Any, pygments.lexers).LEXERS
    lexers.update(LEXERS)
    menu: list[Any] = cast(Any, config).nav
    sections: dict[str, list[Any]] = {}
    for entry in menu:
        if isinstance(entry, dict):
            sections |= cast(dict[str, list[Any]], entry)
    sections["Decisions"].append({"Records": [f"decisions/{record.file}" for record in records()]})
    named = set(_pages(menu))
    for path in sorted(Path("docs").rglob("*.md")):
        page = path.relative_to("docs").as_posix()
        if page not in named:
            sections.get(SECTIONS.get(page.partition("/")[0], ""), menu).append(page)
    menu.append({"Project": list(root_pages().values())})
    return config


def _pages(menu: Any) -> Iterator[str]:
    """The pages that a part of the menu names."""
    match menu:
        case str():
            yield menu
        case list() | dict():
            for entry in cast(Any, menu if isinstance(menu, list) else menu.values()):
                yield from _pages(entry)
        case _:
            pass


def root_pages() -> dict[str, str]:
    """The documents at the root of the repository that are pages of the site, too: all but the README."""
    return {path.name: f"{path.stem.lower()}.md" for path in sorted(Path().glob("*.md")) if path.stem != "README"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the root of the repository."""
    for name, page in root_pages().items():
        text = Path(name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the generated parts into their places and adapt what only the repository's readers and tests need."""
    if page.file.src_uri in LOOKED_UP:
        page.meta["search"] = {"boost": 4}
    text = _CONSOLE.sub(r"\1\2transcript", _FENCE.sub(_fence, fill(markdown)))
    pieces: list[str] = []
    end = 0
    for block in _BLOCK.finditer(text):
        pieces += [_adapt_links(text[end : block.start()], page.file), block[0]]
        end = block.end()
    return "".join([*pieces, _adapt_links(text[end:], page.file)])


def _fence(fence: re.Match[str]) -> str:
    """The info string of an example as mkdocs has it: ``file=`` and its like become the block's title."""
    indent, ticks, language, words = fence.groups()
    title = ""
    for word in words.split():
        name, _, value = word.partition("=")
        match name:
            case "file":
                title = value
            case "error":
                title = f"fails with {value.replace(',', ', ')}"
            case "pipeline":
                title = f"-p '{value}'"
            case "result":
                title = "becomes"
            case "output":
                title = "prints"
            case _:  # For the runner of examples alone: what has to be installed.
                pass
    return f'{indent}{ticks}{language} title="{title}"' if title else f"{indent}{ticks}{language}"


def _adapt_links(text: str, file: File) -> str:
    """Links to files outside of ``docs/`` become text, but for those that are pages of the site."""

    def adapt(link: re.Match[str]) -> str:
        label, target, anchor = link[1], link[2], link[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = os.path.normpath(os.path.join("docs", os.path.dirname(file.src_uri), target))
        if path.startswith("docs/"):
            return link[0]
        if path in root_pages():
            there = os.path.relpath(root_pages()[path], os.path.dirname(file.src_uri) or ".")
            return f"[{label}]({there}{anchor})"
        if not Path(path).exists():
            log.warning("%s links to '%s', which is not there", file.src_uri, target)
        return label

    return _LINK.sub(adapt, text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of figures, ``site:reference/passes.md#cse``, become relative ones."""

    def relative(link: re.Match[str]) -> str:
        target = files.get_file_from_path(link[1])
        if target is None:
            log.warning("%s: a figure links to '%s', which is not there", page.file.src_uri, link[1])
            return link[0]
        return f'href="{target.url_relative_to(page.file)}{link[2] or ""}"'

    return _SITE_LINK.sub(relative, html)


def on_post_build(config: MkDocsConfig) -> None:
    """Say where the site is."""
    log.info("the site is %s", os.path.relpath(os.path.join(config.site_dir, "index.html")))


__all__: list[Any] = ["on_config", "on_files", "on_page_content", "on_page_markdown", "on_post_build"]
