"""From token rows to text: passages, documents and exact characters, in one read of the metadata store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from kbengine.corpus.sentences import covering_sentence, sentence_spans
from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.boundaries import Place, are_names, may_be_shown, names_asked
from kbengine.search.query import Unit
from kbengine.search.replacing import Texts, without
from kbengine.search.results import DocumentRef, Hit, PassageRef, ScoreParts
from kbengine.search.shard_answers import ResolveAnswer
from kbengine.search.shard_requests import ResolveRequest
from kbengine.span import Span
from storage.languages import language_of

if TYPE_CHECKING:
    from kbengine.search.live_records import LiveRecords
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

PARTS = tuple(each.name for each in fields(ScoreParts) if each.name != "reader")
"""What a phrase is found by; the reader's part comes after it is resolved."""

Places = Mapping[tuple[int, int], Place]
"""The characters of phrases by their first and last rows."""


class SnapshotOutdatedError(Exception):
    """Another commit, perhaps of another process, forgot what the snapshot still shows. Never leaves search."""


def resolve(records: KBReader | LiveRecords, snapshot: Snapshot, request: ResolveRequest) -> ResolveAnswer:
    """Return the hits of each query, best first; one look-up of texts for a whole batch.

    Phrases have no stray punctuation, and those that may not be shown give way (`kbengine.search.replacing`) to others
    of up to the longest phrase. Whether one is a name may be known elsewhere only: then that is asked first.

    Raises:
        SnapshotOutdatedError: a compaction has forgotten documents of the snapshot, or a filter tokens; search a
            newer one.
    """
    chosen = [query.phrases for query in request.queries]
    passage_ids = {int(p) for phrases in chosen for p in snapshot.passage_ids[phrases.passages]}
    texts = Texts(*records.passages_with_documents(sorted(passage_ids)))
    if len(texts.passages) < len(passage_ids):
        raise SnapshotOutdatedError(snapshot.generation)
    shown, places = chosen, [_places(snapshot, phrases, texts, {}) for phrases in chosen]
    if request.max_phrase_tokens is not None:
        wrong = [[i for i, place in enumerate(own) if not may_be_shown(place)] for own in places]
        doubtful = [own[i] for own, some in zip(places, wrong, strict=True) for i in some]
        asked = names_asked(doubtful)
        known: Collection[str] = request.known_names or ()
        if asked and request.scope.is_alone:
            known = records.known_names(asked)
        elif asked and request.known_names is None:
            return ResolveAnswer((), (), (), (), tuple(sorted(asked)))
        is_name = iter(are_names(doubtful, known))
        shown = []
        for query, some in zip(request.queries, wrong, strict=True):
            at = [i for i in some if not next(is_name)]
            shown.append(
                without(snapshot, texts, query, at, max_phrase_tokens=request.max_phrase_tokens)
                if at
                else query.phrases
            )
    return ResolveAnswer(
        tuple(
            _hits(snapshot, phrases.firsts(query.n_hits), query.unit, texts, known_places, explain=request.explain)
            for phrases, query, known_places in zip(shown, request.queries, map(_by_rows, chosen, places), strict=True)
        ),
        tuple(phrases.score for phrases in shown),
        tuple(snapshot.token_ids_of_rows(phrases.first_rows) for phrases in shown),
        tuple(snapshot.token_ids_of_rows(phrases.last_rows) for phrases in shown),
    )


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
) -> tuple[Hit, ...]:
    hits: list[Hit] = []
    first_tokens = snapshot.token_ids_of_rows(phrases.first_rows)
    last_tokens = snapshot.token_ids_of_rows(phrases.last_rows)
    for i, (_, text, phrase, _) in enumerate(_places(snapshot, phrases, texts, known)):
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
    return tuple(hits)


def unit_span(text: str, phrase: Span, unit: Unit, language: str) -> Span:
    """Return the characters of the passage, whose language is given, that the unit stands for."""
    if unit == "phrase":
        return phrase
    if unit == "sentence":
        return covering_sentence(sentence_spans(text, language), phrase)
    return Span(0, len(text))
