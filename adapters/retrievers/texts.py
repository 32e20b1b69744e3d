"""What every framework's retriever gives: texts of a knowledge base with where they stand, best first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbengine.errors import InvalidOptionError
from kbengine.search.query import UNITS, Unit

if TYPE_CHECKING:
    from adapters.knowledge_base import KnowledgeBase
    from kbengine.search.results import Hit


@dataclass(frozen=True)
class FoundText:
    """A text that was found.

    Attributes:
        id: Of the text: the document's id and the place in it, the same for the same place of the same document.
        text: A passage or a sentence; for phrases and documents the passage that the best phrase stands in.
        score: Higher is better; compares texts of one query.
        metadata: Where it stands: `id`, `title` and `url` of the document, `paragraph`, `section`, `start` and `end` of
            `phrase` in the text's passage, `score`, and the document's own `fields`.
    """

    id: str
    text: str
    score: float
    metadata: Mapping[str, Any]


def checked_unit(unit: str) -> Unit:
    """Return the unit.

    Raises:
        InvalidOptionError: there is none of this name.
    """
    if unit not in UNITS:
        raise InvalidOptionError(f"unit is {unit!r}, wanted one of {', '.join(UNITS)}")
    return unit


def find_texts(
    knowledge_base: KnowledgeBase, query: str, *, k: int, unit: Unit = "passage", where: str | None = None
) -> list[FoundText]:
    """Return the texts that say most about a query, best first; a query that is too long is cut.

    >>> [(each.metadata["title"], each.metadata["phrase"]) for each in find_texts(kb, "Who wrote The Trial?", k=1)]
    [('Franz Kafka', 'Franz Kafka')]

    Args:
        knowledge_base: what is searched.
        query: a question, or any text.
        k: how many are wanted.
        unit: what a text is: `passage`, `sentence`, `document` or `phrase`.
        where: a filter over the fields of documents.

    Raises:
        EmptyQueryError: the query is blank.
        InvalidOptionError: an option is out of its range, or the filter cannot be read.
    """
    found = knowledge_base.search(query, k=k, unit=checked_unit(unit), where=where, truncate=True)
    return [_text_of(hit) for hit in found.hits]


def _text_of(hit: Hit) -> FoundText:
    text = hit.text if hit.unit == "sentence" else hit.passage.text
    place = f"{hit.document.doc_id}#{hit.passage.ordinal}.{hit.passage.char_offset}"
    if hit.unit in ("sentence", "phrase"):
        place += f":{hit.span.start}-{hit.span.end}"
    return FoundText(
        place,
        text,
        hit.score,
        {
            "id": hit.document.doc_id,
            "title": hit.document.title,
            "url": hit.document.url,
            "paragraph": hit.passage.ordinal,
            "section": hit.passage.section,
            "phrase": hit.phrase_text,
            "start": hit.phrase.start,
            "end": hit.phrase.end,
            "score": hit.score,
            "fields": dict(hit.document.meta),
        },
    )
