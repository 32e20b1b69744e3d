"""Markdown (CommonMark with tables): headings become sections, blocks paragraphs of text, front matter facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lxml.html import defs
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from kbengine.corpus.front_matter import split_front_matter
from kbengine.corpus.html import html_text
from kbengine.corpus.paragraphs import Paragraph, Prose
from kbengine.errors import CorpusError

_MAX_NESTING: Final = 100
_LINE_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG: Final = re.compile(r"</?([a-z][a-z0-9-]*)(.*?)/?>", re.IGNORECASE | re.DOTALL)
_TAG_NAMES: Final = defs.tags | {"bdi", "main", "picture"}


def markdown_text(text: str) -> Prose:
    """Return the paragraphs of a Markdown file; its title is the front matter's or the first heading of level 1.

    A first heading of another level is the title too if no text comes before it. Code keeps its characters; a table
    is one paragraph, and so is a list, or each item of one whose items stand apart. Comments are left out.

    Raises:
        CorpusError: the front matter is no YAML, or blocks are nested too deep.
    """
    front, text = split_front_matter(text)
    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
    tokens = parser.parse(text)
    if any(token.level >= _MAX_NESTING - 1 for token in tokens):  # the parser leaves out what is deeper
        raise CorpusError(f"lists or quotes are nested {_MAX_NESTING} deep, wanted fewer levels")
    page = _Page(front.title)
    page.read(SyntaxTreeNode(tokens))
    return Prose(page.title, tuple(page.paragraphs), front.url, front.meta, front.aliases)


class _Page:
    """One pass over the blocks of a file."""

    def __init__(self, title: str | None) -> None:
        self.title = title
        self.paragraphs: list[Paragraph] = []
        self._section: str | None = None

    def read(self, parent: SyntaxTreeNode) -> None:
        """Take the blocks of the file or of a quote."""
        for node in parent.children:
            if node.type == "heading":
                self._heading(" ".join(_text(node).split()), int(node.tag[1]))
            elif node.type == "blockquote":
                self.read(node)
            elif node.type == "html_block":
                self._html(node.content)
            elif _is_loose_list(node):
                for item in node.children:
                    self._end("\n".join(_item_lines(item)))
            else:
                self._end("\n".join(_lines(node)))

    def _heading(self, name: str, level: int) -> None:
        if self.title is None and (level == 1 or not self.paragraphs):
            self.title = name or None
        self._section = name if name and name != self.title else None

    def _html(self, content: str) -> None:
        prose = html_text(content)
        if self.title is None and not self.paragraphs:
            self.title = prose.title
        for paragraph in prose.paragraphs:
            self._end(paragraph.text, paragraph.section)

    def _end(self, text: str, section: str | None = None) -> None:
        if text.strip():
            self.paragraphs.append(Paragraph(text, section or self._section))


def _lines(node: SyntaxTreeNode) -> Iterator[str]:
    """Yield the lines of text of a block."""
    if node.type in ("fence", "code_block"):
        yield from node.content.strip("\n").split("\n")
    elif node.type == "html_block":
        yield from (line for paragraph in html_text(node.content).paragraphs for line in paragraph.text.split("\n"))
    elif node.type == "tr":
        yield "| " + " | ".join(_text(cell) for cell in node.children) + " |"
    elif node.type == "list_item":
        yield from _item_lines(node)
    elif node.type in ("paragraph", "heading"):
        yield from (line.strip() for line in _text(node).strip().split("\n"))
    else:
        for child in node.children:
            yield from _lines(child)


def _item_lines(item: SyntaxTreeNode) -> Iterator[str]:
    """Yield the lines of a list's item behind its mark, those that follow indented."""
    mark = f"{item.info}{item.markup} "
    for n, line in enumerate(line for child in item.children for line in _lines(child)):
        yield f"{mark if n == 0 else ' ' * len(mark)}{line}" if line else ""


def _is_loose_list(node: SyntaxTreeNode) -> bool:
    """Tell whether blank lines part the items of a list."""
    if node.type not in ("bullet_list", "ordered_list"):
        return False
    return any(child.type == "paragraph" and not child.hidden for item in node.children for child in item.children)


def _text(node: SyntaxTreeNode) -> str:
    """Return the words of inline markup; code spans keep their characters, pictures their descriptions."""
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    if node.type == "html_inline":
        return "\n" if _LINE_BREAK.fullmatch(node.content) else "" if _is_markup(node.content) else node.content
    return "".join(map(_text, node.children)) if node.children else node.content


def _is_markup(content: str) -> bool:
    """Tell a comment or tag of HTML from what only looks like one: `a<b and c>d`, `List<String>`."""
    tag = _TAG.fullmatch(content)
    return tag is None or (tag[1].lower() in _TAG_NAMES and (not tag[2].strip() or "=" in tag[2]))
