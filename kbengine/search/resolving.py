"""From token rows to text: passages, documents and exact characters, in one read of the metadata store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from kbengine.corpus.sentences import covering_sentence, language_of, sentence_spans
from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.boundaries import Place
from kbengine.search.pool import Pool
from kbengine.search.query import Unit
from kbengine.search.replacing import Texts, replaced
from kbengine.search.results import DocumentRef, Hit, PassageRef, ScoreParts
from kbengine.span import Span

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

PARTS = tuple(each.name for each in fields(ScoreParts) if each.name != "reader")
"""What a phrase is found by; the reader's part comes after it is resolved."""

Places = Mapping[tuple[int, int], Place]
"""The characters of phrases by their first and last rows."""


class SnapshotOutdatedError(Exception):
    """Another commit, perhaps of another process, forgot what the snapshot still shows. Never leaves search."""


class Resolver:
    """Turns chosen phrases into hits; one look-up of texts for a whole batch."""

    def __init__(self, reader: KBReader) -> None:
        self._reader = reader

    def resolve(
        self,
        snapshot: Snapshot,
        pools: Sequence[Pool],
        chosen: Sequence[ScoredPhrases],
        *,
        max_phrase_tokens: int | None,
        explain: bool,
    ) -> list[list[Hit]]:
        """Return the hits of each query, best first, with the parts of their scores for `explain`.

        Phrases have no stray punctuation, and those that may not be shown give way (`kbengine.search.replacing`) to
        others of up to `max_phrase_tokens`; with None they stay.

        Raises:
            SnapshotOutdatedError: a compaction has forgotten documents of the snapshot, or a filter tokens; search a
                newer one.
        """
        passage_ids = {int(p) for phrases in chosen for p in snapshot.passage_ids[phrases.passages]}
        texts = Texts(*self._reader.passages_with_documents(sorted(passage_ids)))
        if len(texts.passages) < len(passage_ids):
            raise SnapshotOutdatedError(snapshot.generation)
        shown, places = chosen, [_places(snapshot, phrases, texts, {}) for phrases in chosen]
        if max_phrase_tokens is not None:
            shown = replaced(snapshot, self._reader, texts, pools, chosen, places, max_phrase_tokens=max_phrase_tokens)
        return [
            _hits(snapshot, phrases, pool.unit, texts, known, explain=explain)
            for phrases, pool, known in zip(shown, pools, map(_by_rows, chosen, places), strict=True)
        ]


def _by_rows(phrases: ScoredPhrases, places: Sequence[Place]) -> Places:
    """Return the places by their phrases' rows."""
    return dict(zip(zip(phrases.first_rows.tolist(), phrases.last_rows.tolist(), strict=True), places, strict=True))


def _places(snapshot: Snapshot, phrases: ScoredPhrases, texts: Texts, known: Places) -> list[Place]:
    """Return the trimmed characters of each phrase, those that are known as they are."""
    first_tokens = snapshot.token_ids_of_rows(phrases.first_rows).tolist()
    last_tokens = snapshot.token_ids_of_rows(phrases.last_rows).tolist()
    places = []
    for passage_id, first_row, last_row, first, last in zip(
        snapshot.passage_ids[phrases.passages].tolist(),
        phrases.first_rows.tolist(),
        phrases.last_rows.tolist(),
        first_tokens,
        last_tokens,
        strict=True,
    ):
        place = known.get((first_row, last_row))
        if place is None:
            characters = texts.passages[passage_id].characters(first, last)
            if characters is None:
                raise SnapshotOutdatedError(snapshot.generation)
            place = texts.place(passage_id, Span(*characters))
        places.append(place)
    return places


def _hits(
    snapshot: Snapshot, phrases: ScoredPhrases, unit: Unit, texts: Texts, known: Places, *, explain: bool
) -> list[Hit]:
    hits: list[Hit] = []
    first_tokens = snapshot.token_ids_of_rows(phrases.first_rows)
    last_tokens = snapshot.token_ids_of_rows(phrases.last_rows)
    for i, (_, text, phrase) in enumerate(_places(snapshot, phrases, texts, known)):
        passage = texts.passages[int(snapshot.passage_ids[phrases.passages[i]])]
        document = texts.documents[passage.document_id]
        span = unit_span(text, phrase, unit, language_of(document.meta))
        hits.append(
            Hit(
                rank=len(hits) + 1,
                unit=unit,
                text=document.title if unit == "document" else text[span.start : span.end],
                score=float(phrases.score[i]),
                document=DocumentRef(document.doc_id, document.title, document.url, document.meta),
                passage=PassageRef(passage.passage_id, passage.ordinal, text, passage.section, passage.char_offset),
                span=span,
                phrase=phrase,
                first_token_id=int(first_tokens[i]),
                last_token_id=int(last_tokens[i]),
                parts=ScoreParts(**{name: float(getattr(phrases, name)[i]) for name in PARTS}) if explain else None,
            )
        )
    return hits


def unit_span(text: str, phrase: Span, unit: Unit, language: str) -> Span:
    """Return the characters of the passage, whose language is given, that the unit stands for."""
    if unit == "phrase":
        return phrase
    if unit == "sentence":
        return covering_sentence(sentence_spans(text, language), phrase)
    return Span(0, len(text))
