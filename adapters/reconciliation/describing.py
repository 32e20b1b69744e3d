"""Documents as people tell them apart: title and one sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbengine.corpus.sentences import sentence_spans

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.records import JSON

DESCRIPTION_CHARS = 200


@dataclass(frozen=True)
class Described:
    """A document with what it is, in a few words.

    Attributes:
        document_id: Ours.
        doc_id: The user's.
        title: Never empty: a document without one is called by its id.
        description: What its field `description` says, else its first sentence, cut.
        url: Where it is from.
        meta: Its fields.
    """

    document_id: int
    doc_id: str
    title: str
    description: str
    url: str | None
    meta: Mapping[str, JSON]


def described(reader: KBReader, doc_ids: Collection[str]) -> dict[str, Described]:
    """Return the live documents among these ids, by id."""
    records = reader.live_documents(list(dict.fromkeys(doc_ids)))
    firsts = reader.first_passages(list(records))
    found = {}
    for doc_id, record in records.items():
        given = record.meta.get("description")
        text = given if isinstance(given, str) and given.strip() else _first_sentence(firsts.get(doc_id, ""))
        found[doc_id] = Described(
            record.document_id, doc_id, record.title or doc_id, _cut(text), record.url, record.meta
        )
    return found


def _first_sentence(text: str) -> str:
    spans = sentence_spans(text)
    return text[spans[0].start : spans[0].end] if spans else ""


def _cut(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= DESCRIPTION_CHARS:
        return text
    return text[: DESCRIPTION_CHARS - 1].rpartition(" ")[0].rstrip(",;:") + "…"
