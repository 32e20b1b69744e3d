"""An index of the documents of a corpus by their names: what a mention in another document should find."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.learning.questions.answers import MARKS
from kbengine.learning.questions.candidates import title_spans
from kbengine.span import Span

MIN_NAME_CHARS: Final = 4
"""Shorter names are abbreviations, and stand for too many things."""
_QUALIFIER: Final = re.compile(r"\s*\([^)]*\)$")


@dataclass(frozen=True, slots=True)
class TitleMention:
    """Where a document's title stands first in its text.

    Attributes:
        document: The document, with this passage alone.
        passage: Where the title stands.
        span: The title in the passage's text.
    """

    document: CorpusDocument
    passage: CorpusPassage
    span: Span


def first_mention(document: CorpusDocument) -> TitleMention | None:
    """Return where the document's title stands first in its text: what a linked mention of it should find."""
    for passage in document.passages:
        spans = title_spans(passage.text, document.title)
        if spans:
            return TitleMention(document, passage, spans[0])
    return None


class NameIndex:
    """Documents by what other documents call them; only names that mean one document alone.

    A name is a title, with or without its qualifier in brackets, or an alias that the corpus gives. One that two
    documents have names neither: "Mercury" does not say which. What a document links by itself is known for certain.
    """

    def __init__(self, documents: Iterable[CorpusDocument], *, exclude: frozenset[str] = frozenset()) -> None:
        """Read the documents once; those to be excluded make names ambiguous but are never what a name means."""
        self._of_document: dict[str, TitleMention] = {}
        self._by_name: dict[str, str | None] = {}
        self._by_title: dict[str, str] = {}
        for document in documents:
            self._by_title.setdefault(document.title, document.doc_id)
            for name in _names(document):
                other = self._by_name.setdefault(name, document.doc_id)
                if other != document.doc_id:
                    self._by_name[name] = None
            found = None if document.doc_id in exclude or _is_marked(document) else first_mention(document)
            if found is not None:
                bare = dataclasses.replace(document, meta={}, passages=(found.passage,), aliases=(), links=())
                self._of_document[document.doc_id] = TitleMention(bare, found.passage, found.span)

    def __len__(self) -> int:
        """Return how many documents have a place to be found at."""
        return len(self._of_document)

    def named(self, name: str, *, within: CorpusDocument) -> TitleMention | None:
        """Return where the other document that a name in a document's text means is first named, or None.

        Args:
            name: As it stands in the text.
            within: The document of the text: its own links decide first, and it is never meant itself.
        """
        linked = {self._target(link.target, link.by_title) for link in within.links if link.text == name}
        doc_id = next(iter(linked)) if len(linked) == 1 else None
        if not linked and len(name) >= MIN_NAME_CHARS:
            doc_id = self._by_name.get(name)
        return self._of_document.get(doc_id) if doc_id is not None and doc_id != within.doc_id else None

    def _target(self, target: str, by_title: bool) -> str | None:
        return self._by_title.get(target) if by_title else target


def _names(document: CorpusDocument) -> set[str]:
    title = document.title.strip()
    return {title, _QUALIFIER.sub("", title), *(alias.alias for alias in document.aliases)} - {""}


def _is_marked(document: CorpusDocument) -> bool:
    return any(mark in text for mark in MARKS for text in (document.title, *(each.text for each in document.passages)))
