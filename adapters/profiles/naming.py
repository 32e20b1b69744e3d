"""Which document a name means: the one, or those that it can mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.profiles.card import EntityRef
from adapters.profiles.usual_relations import first_sentence
from kbengine.search.meanings import LEAST_SHARE, meanings_of, named_by

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.records import DocumentRecord

LEAST_LEAD = 3.0
"""How many times as often a name has to mean one document as any other to be taken for it."""
SHOWN = 8
"""Meanings, or documents with similar words, that are given to choose from."""
DESCRIPTION_CHARS = 400


@dataclass(frozen=True)
class Meaning:
    """What a name means.

    Attributes:
        document: The document; None where the name is nobody's, or means several about as often.
        others: What else it can mean, the most probable first.
        is_known: Whether any document is called so.
    """

    document: DocumentRecord | None
    others: tuple[DocumentRecord, ...]
    is_known: bool


def meaning_of(reader: KBReader, name: str) -> Meaning:
    """Return which document the name means: by title or alias, else by the user's own id."""
    scores = meanings_of(named_by(reader, name), name, in_text=False)
    documents = reader.documents(scores.keys())
    ranked = sorted(scores.keys() & documents.keys(), key=lambda each: (-scores[each], documents[each].doc_id))
    found = [documents[each] for each in ranked]
    if not found:
        by_id = reader.live_documents([name])
        return Meaning(by_id.get(name), (), bool(by_id))
    leads = len(found) == 1 or _lead(scores[ranked[0]], scores[ranked[1]]) >= LEAST_LEAD
    if leads:
        return Meaning(found[0], tuple(found[1 : SHOWN + 1]), True)
    return Meaning(None, tuple(found[:SHOWN]), True)


def similar_documents(reader: KBReader, name: str) -> list[DocumentRecord]:
    """Return documents to offer for a name that none has: titles that begin so, then those with its words."""
    found = reader.list_documents(title_prefix=name, limit=SHOWN) if name.strip() else []
    found += [document for document, _ in reader.lexical_documents(name, limit=SHOWN)]
    return list({each.doc_id: each for each in found}.values())[:SHOWN]


def entities(reader: KBReader, documents: Sequence[DocumentRecord]) -> list[EntityRef]:
    """Return the documents as entities, each with its first sentence."""
    texts = reader.first_passages([each.doc_id for each in documents])
    return [
        EntityRef(each.doc_id, each.title, each.url, description_of(texts.get(each.doc_id, ""))) for each in documents
    ]


def description_of(text: str) -> str:
    """Return the first sentence of a text, a very long one cut at a word."""
    start, end = first_sentence(text)
    sentence = " ".join(text[start:end].split())
    if len(sentence) <= DESCRIPTION_CHARS:
        return sentence
    return sentence[:DESCRIPTION_CHARS].rpartition(" ")[0] + " …"


def _lead(best: float, second: float) -> float:
    """Return how many times as often the name means the best as the second: scores are log shares."""
    return math.exp(min(700.0, -math.log(LEAST_SHARE) * (best - second)))
