"""Documents as JSON lines: what goes out can be read in again, here or by any other program.

One object a line: {"doc_id", "title", "url", "meta", "passages": [{"ordinal", "text"}, …]}, with "section" and
"char_offset" where it has them, "aliases": [{"alias", "source"}, …] with "prior" and "uses" where they were given, and
"links": [{"text", "doc_id" or "title"}, …] with "count" where it is not 1. Aliases that are counted from links do not
travel: they follow from the links. Nor do vectors: whoever reads the lines (`kbengine.corpus.exported`) encodes the
passages with an encoder of their own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import IO

from storage.alias_records import NewAlias, NewLink
from storage.reader import KBReader
from storage.records import JSON

__all__ = ["PlainDocument", "PlainPassage", "export_documents"]


@dataclass(frozen=True)
class PlainPassage:
    """A passage without vectors."""

    ordinal: int
    text: str
    section: str | None = None
    char_offset: int = 0

    def to_json(self) -> dict[str, JSON]:
        """Return the passage as a JSON object; what is not there is left out."""
        value: dict[str, JSON] = {"ordinal": self.ordinal, "text": self.text}
        if self.section is not None:
            value["section"] = self.section
        if self.char_offset:
            value["char_offset"] = self.char_offset
        return value


@dataclass(frozen=True)
class PlainDocument:
    """A document without vectors, as it stands on a line."""

    doc_id: str
    title: str
    url: str | None = None
    meta: dict[str, JSON] = field(default_factory=dict)
    passages: tuple[PlainPassage, ...] = ()
    aliases: tuple[NewAlias, ...] = ()
    links: tuple[NewLink, ...] = ()

    def to_json(self) -> str:
        """Return the document as one line of JSON, without the line feed."""
        value: dict[str, JSON] = {
            "doc_id": self.doc_id,
            "title": self.title,
            "url": self.url,
            "meta": self.meta,
            "passages": [passage.to_json() for passage in self.passages],
        }
        if self.aliases:
            value["aliases"] = [_alias_to_json(alias) for alias in self.aliases]
        if self.links:
            value["links"] = [_link_to_json(link) for link in self.links]
        return json.dumps(value, ensure_ascii=False)


def _alias_to_json(alias: NewAlias) -> dict[str, JSON]:
    value: dict[str, JSON] = {"alias": alias.alias, "source": alias.source}
    if alias.prior is not None:
        value["prior"] = alias.prior
    if alias.uses:
        value["uses"] = alias.uses
    return value


def _link_to_json(link: NewLink) -> dict[str, JSON]:
    value: dict[str, JSON] = {"text": link.text, "title" if link.by_title else "doc_id": link.target}
    return value if link.count == 1 else {**value, "count": link.count}


def export_documents(reader: KBReader, file: IO[str]) -> int:
    """Write the live documents of one generation to `file`, one a line, and return how many."""
    count = 0
    for document, passages, names in reader.iterate_with_names():
        plain = PlainDocument(
            document.doc_id,
            document.title,
            document.url,
            dict(document.meta),
            tuple(PlainPassage(p.ordinal, p.text, p.section, p.char_offset) for p in passages),
            names.aliases,
            names.links,
        )
        file.write(plain.to_json() + "\n")
        count += 1
    return count
