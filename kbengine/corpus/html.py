"""HTML: the text people read, by paragraphs, with headings as sections; no scripts, styles or navigation."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag

from kbengine.corpus.paragraphs import Paragraph, Prose, plain_text
from storage.records import JSON


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_DROPPED: Final = _names(
    "script style nav noscript template svg math head iframe object canvas audio video select textarea button"
)
_HEADINGS: Final = _names("h1 h2 h3 h4 h5 h6")
_PARAGRAPHS: Final = _names(
    "address article aside blockquote body caption center details dialog div dl fieldset figcaption figure footer form"
    " header hgroup hr html legend main ol p pre search section summary table ul"
)
_LINES: Final = _names("br dd dt li option tr")
_CELLS: Final = _names("td th")
_FACTS: Final = _names("author date description keywords publisher")
_XML_DECLARATION: Final = re.compile(r"\s*<\?xml[^>]*\?>")
_SPACE: Final = re.compile(r"[ \t\r\n\f]+")


def html_text(text: str) -> Prose:
    """Return the paragraphs of an HTML page; its title is `<title>` or else the first `<h1>`.

    A list and a table are one paragraph each, an item or a row a line, cells parted by ` | `. Its language, its
    `<meta>` author, date, description, keywords and publisher are facts; its canonical link is its address.
    """
    if "<" not in text:
        return plain_text(text)
    # Without the declaration the parser takes XHTML for HTML, as browsers do, and does not warn.
    soup = BeautifulSoup(_XML_DECLARATION.sub("", text, count=1), "lxml")
    title: str | None = None
    for name in ("title", "h1"):
        found = soup.find(name)
        if title is None and isinstance(found, Tag):
            title = " ".join(found.get_text(" ").split()) or None
    facts = {"language": _attribute(soup.find("html"), "lang")}
    for tag in soup.find_all("meta"):
        name = _attribute(tag, "name").lower()
        if name in _FACTS:
            facts[name] = _attribute(tag, "content")
    meta: dict[str, JSON] = {name: value for name, value in facts.items() if value}
    if "keywords" in meta:
        meta["keywords"] = [word for part in facts["keywords"].split(",") if (word := part.strip())]
    url = _attribute(soup.find("link", rel="canonical"), "href")
    return replace(_Page(title).prose(soup), url=url or None, meta=meta)


def _attribute(tag: object, name: str) -> str:
    value = tag.get(name) if isinstance(tag, Tag) else None
    return " ".join(value.split()) if isinstance(value, str) else ""


class _Page:
    """One pass over the elements of a page."""

    def __init__(self, title: str | None) -> None:
        self._title = title
        self._section: str | None = None
        self._text: list[str] = []
        self._preformatted = 0
        self._paragraphs: list[Paragraph] = []

    def prose(self, soup: BeautifulSoup) -> Prose:
        # An own stack: pages nested deeper than Python's recursion limit exist. True marks an element's end.
        stack: list[tuple[PageElement, bool]] = [(soup, False)]
        while stack:
            element, is_end = stack.pop()
            if isinstance(element, Tag):
                if is_end:
                    self._close(element.name)
                elif element.name not in _DROPPED:
                    self._open(element.name)
                    stack.append((element, True))
                    stack.extend((child, False) for child in reversed(element.contents))
            elif isinstance(element, NavigableString) and not isinstance(element, PreformattedString):
                # PreformattedString: comments, declarations, CDATA.
                self._text.append(str(element) if self._preformatted else _SPACE.sub(" ", element))
        self._end()
        return Prose(self._title, tuple(self._paragraphs))

    def _open(self, name: str) -> None:
        if name in _PARAGRAPHS or name in _HEADINGS:
            self._end()
        elif name in _LINES:
            self._text.append("\n")
        self._preformatted += name == "pre"

    def _close(self, name: str) -> None:
        if name in _HEADINGS:
            heading = " ".join("".join(self._text).split())
            self._text = []
            if heading:
                self._section = heading if heading != self._title else None
        elif name in _PARAGRAPHS:
            self._end()
        elif name in _CELLS:
            self._text.append(" | ")
        elif name in _LINES and name != "br":
            self._text.append("\n")
        self._preformatted -= name == "pre"

    def _end(self) -> None:
        joined = "".join(self._text)
        self._text = []
        if self._preformatted:
            lines = joined.strip("\n").split("\n")
        else:
            lines = [_SPACE.sub(" ", line).strip(" ") for line in joined.split("\n")]
            lines = [line.removesuffix("|").strip(" ") for line in lines]
            lines = [line for line in lines if line]
        text = "\n".join(lines)
        if text.strip():
            self._paragraphs.append(Paragraph(text, self._section))
