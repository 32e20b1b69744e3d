"""From token rows to text: passages, documents and exact characters, in one read of the metadata store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from kbengine.corpus.sentences import covering_sentence, sentence_spans
from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.query import Unit
from kbengine.search.results import DocumentRef, Hit, PassageRef, ScoreParts
from kbengine.span import Span

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.records import DocumentRecord, PassageRecord
    from storage.snapshot import Snapshot

PARTS = tuple(each.name for each in fields(ScoreParts) if each.name != "reader")
"""What a phrase is found by; the reader's part comes after it is resolved."""


class SnapshotOutdatedError(Exception):
    """Another commit, perhaps of another process, forgot what the snapshot still shows. Never leaves search."""


class Resolver:
    """Turns chosen phrases into hits; one look-up of passages and one of documents for a whole batch."""

    def __init__(self, reader: KBReader) -> None:
        self._reader = reader

    def resolve(
        self,
        snapshot: Snapshot,
        chosen: Sequence[ScoredPhrases],
        units: Sequence[Unit],
        *,
        explain: bool,
    ) -> list[list[Hit]]:
        """Return the hits of each query, in the order of its phrases, with the parts of their scores for `explain`.

        Raises:
            SnapshotOutdatedError: a compaction has forgotten documents of the snapshot, or a filter tokens; search a
                newer one.
        """
        passage_ids = {int(p) for phrases in chosen for p in snapshot.passage_ids[phrases.passages]}
        passages, documents = self._reader.passages_with_documents(sorted(passage_ids))
        if len(passages) < len(passage_ids):
            raise SnapshotOutdatedError(snapshot.generation)
        return [
            self._hits(snapshot, phrases, unit, passages, documents, explain=explain)
            for phrases, unit in zip(chosen, units, strict=True)
        ]

    def _hits(
        self,
        snapshot: Snapshot,
        phrases: ScoredPhrases,
        unit: Unit,
        passages: dict[int, PassageRecord],
        documents: dict[int, DocumentRecord],
        *,
        explain: bool,
    ) -> list[Hit]:
        hits: list[Hit] = []
        first_tokens = snapshot.token_ids_of_rows(phrases.first_rows)
        last_tokens = snapshot.token_ids_of_rows(phrases.last_rows)
        for i in range(len(phrases)):
            passage = passages[int(snapshot.passage_ids[phrases.passages[i]])]
            document = documents[passage.document_id]
            first, last = int(first_tokens[i]), int(last_tokens[i])
            characters = passage.characters(first, last)
            if characters is None:
                raise SnapshotOutdatedError(snapshot.generation)
            phrase = Span(*characters)
            span = unit_span(passage.text, phrase, unit)
            hits.append(
                Hit(
                    rank=len(hits) + 1,
                    unit=unit,
                    text=document.title if unit == "document" else passage.text[span.start : span.end],
                    score=float(phrases.score[i]),
                    document=DocumentRef(document.doc_id, document.title, document.url, document.meta),
                    passage=PassageRef(
                        passage.passage_id, passage.ordinal, passage.text, passage.section, passage.char_offset
                    ),
                    span=span,
                    phrase=phrase,
                    first_token_id=first,
                    last_token_id=last,
                    parts=ScoreParts(**{name: float(getattr(phrases, name)[i]) for name in PARTS}) if explain else None,
                )
            )
        return hits


def unit_span(text: str, phrase: Span, unit: Unit) -> Span:
    """Return the characters of the passage that the unit stands for."""
    if unit == "phrase":
        return phrase
    if unit == "sentence":
        return covering_sentence(sentence_spans(text), phrase)
    return Span(0, len(text))
