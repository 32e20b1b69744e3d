"""Markdown: headings become sections, markup is lightly stripped, the words stay."""

from __future__ import annotations

import html
import re

from kbengine.corpus.paragraphs import Paragraph, Prose

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_ATX_HEADING = re.compile(r"\s{0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*")
_SETEXT_LINE = re.compile(r"\s{0,3}(=+|-+)\s*")
_RULE = re.compile(r"\s{0,3}([-*_])(?:\s*\1){2,}\s*")
_TABLE_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_QUOTE = re.compile(r"(?:\s{0,3}>\s?)+")
_LINK_DEFINITION = re.compile(r"\s{0,3}\[[^\]^][^\]]*\]:\s*\S+.*")
_FRONT_MATTER = re.compile(r"---[^\S\n]*\n(.*?\n)(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[^\S\n]*(.+)$", re.MULTILINE)
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.{1,400}?)(?<!`)\1(?!`)", re.DOTALL)
# Only tags people write inside Markdown: `a<b and c>d` is not one.
_TAG = re.compile(
    r"</?(?:a|abbr|b|blockquote|br|center|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i|img|ins"
    r"|kbd|li|mark|ol|p|picture|pre|q|s|small|source|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)"
    r"(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+))*\s*/?>",
    re.IGNORECASE,
)
# Spans are bounded: a hundred thousand openings that are never closed must not take quadratic time.
_INLINE = (
    (re.compile(r"!\[([^\[\]]*)\]\((?:[^()\n]|\([^()\n]*\))*\)"), r"\1"),
    (re.compile(r"\[([^\[\]]+)\]\((?:[^()\n]|\([^()\n]*\))*\)"), r"\1"),
    (re.compile(r"\[([^\[\]]+)\]\[[^\[\]]*\]"), r"\1"),
    (re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>"), r"\1"),
    (re.compile(r"<br\s*/?>", re.IGNORECASE), "\n"),
    (_TAG, ""),
    (re.compile(r"(?<!\\)(\*{1,3})(?=[^\s*])(.{1,400}?)(?<=[^\s*\\])\1", re.DOTALL), r"\2"),
    (re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])(.{1,400}?)(?<=[^\s_\\])\1(?!\w)", re.DOTALL), r"\2"),
    (re.compile(r"~~(?=\S)(.{1,400}?)~~", re.DOTALL), r"\1"),
    (re.compile(r"\\([\\`*_{}\[\]()#+.!|<>~-])"), r"\1"),
)


def markdown_text(text: str) -> Prose:
    """The paragraphs of a Markdown file; its title is the front matter's or the first heading of level 1.

    A first heading of another level is the title too if no text comes before it. Code keeps its characters,
    lists and tables stay one paragraph, front matter and link definitions are left out.
    """
    title: str | None = None
    front = _FRONT_MATTER.match(text)
    if front and ":" in front[1].partition("\n")[0]:
        text = text[front.end() :]
        named = _FRONT_TITLE.search(front[1])
        title = named[1].strip().strip("\"'") or None if named else None
    return _Blocks(title).prose(text)


class _Blocks:
    """One pass over the lines of a file."""

    def __init__(self, title: str | None) -> None:
        self._title = title
        self._section: str | None = None
        self._lines: list[str] = []
        self._paragraphs: list[Paragraph] = []
        self._in_comment = False

    def prose(self, text: str) -> Prose:
        fence: str | None = None
        for line in text.split("\n"):
            mark = _FENCE.match(line)
            if fence is not None:
                if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                    fence = None
                    self._end(strip_markup=False)
                else:
                    self._lines.append(line)
            elif mark:
                self._end()
                fence = mark[1]
            else:
                self._line(_QUOTE.sub("", line, count=1) if _QUOTE.match(line) else line)
        self._end(strip_markup=fence is None)
        return Prose(self._title, tuple(self._paragraphs))

    def _line(self, line: str) -> None:
        # A comment that opens a paragraph may hold blank lines; one inside a line is dealt with by `_plain`.
        if self._in_comment or (not self._lines and line.lstrip().startswith("<!--")):
            _, closing, line = line.partition("-->")
            self._in_comment = not closing
            if not line.strip():
                return
        heading = _ATX_HEADING.fullmatch(line)
        if heading:
            self._end()
            self._heading(heading[2] or "", len(heading[1]))
        elif self._lines and _SETEXT_LINE.fullmatch(line):
            heading_lines, self._lines = self._lines, []
            self._heading(" ".join(part.strip() for part in heading_lines), 1 if "=" in line else 2)
        elif not line.strip() or _RULE.fullmatch(line):
            self._end()
        elif "|" in line and _TABLE_RULE.fullmatch(line):
            return
        elif self._lines or not _LINK_DEFINITION.fullmatch(line):
            self._lines.append(line)

    def _heading(self, text: str, level: int) -> None:
        name = " ".join(_plain(text).split())
        if self._title is None and (level == 1 or not self._paragraphs):
            self._title = name or None
        self._section = name if name and name != self._title else None

    def _end(self, *, strip_markup: bool = True) -> None:
        text = "\n".join(self._lines).strip("\n")
        self._lines = []
        if strip_markup:
            text = _plain(text)
        if text.strip():
            self._paragraphs.append(Paragraph(text.strip() if strip_markup else text, self._section))


def _plain(text: str) -> str:
    """The text without inline markup; code spans keep every character but their backticks."""
    parts: list[str] = []
    end = 0
    for code in _CODE_SPAN.finditer(text):
        parts += [_strip(text[end : code.start()]), code[2].strip()]
        end = code.end()
    return "".join([*parts, _strip(text[end:])])


def _strip(text: str) -> str:
    text = _without_comments(text)
    for pattern, kept in _INLINE:
        text = pattern.sub(kept, text)
    return html.unescape(text)


def _without_comments(text: str) -> str:
    """The text without `<!-- ... -->`; a regular expression would take quadratic time over unclosed ones."""
    parts: list[str] = []
    end = 0
    while (start := text.find("<!--", end)) >= 0 and (close := text.find("-->", start + 4)) >= 0:
        parts.append(text[end:start])
        end = close + 3
    return "".join([*parts, text[end:]])
