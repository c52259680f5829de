"""What a page of the built site consists of."""

from __future__ import annotations

from html.parser import HTMLParser


class Html(HTMLParser):
    """What a page fetches, where it links, and the anchors that it has."""

    def __init__(self, text: str):
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(found["href"])
        elif "src" in found:
            self.fetched.append(found["src"])
