"""Reading before answering: the best passages of a search, read together with the query by a cross-encoder.

A question or slot is answered by spans, which keep to `kbengine.search.boundaries` as phrases do. The score of a span
is the search score of its passage, that of the best phrase found there, and, weighted, how much better the reader likes
the span than "no answer here" and how well the passage fits; a place that the search did not find counts a little less.

Mentions and dialogues are answered by documents, which are ranked: what the reader says of one of its passages counts
for all that was found in it. Of a relation asked backwards the reader is asked forwards, each document's title being
the subject: how well it likes the object for an answer there is what it says of the document.

What was not read is scored as if it had been read as badly as the worst that was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kbengine.encoders.encoder import PassageText
from kbengine.inputs import Dialogue, Mention, Slot, TaskInput
from kbengine.reading.spans import RELEVANCE_WEIGHT, PassageLogits
from kbengine.search.boundaries import Place, bounded_spans, trimmed_span
from kbengine.search.query import Forwards, Query, Unit
from kbengine.search.resolving import unit_span
from kbengine.search.results import Hit, with_reader_part
from kbengine.span import Span
from storage.languages import language_of

if TYPE_CHECKING:
    from kbengine.reading.reader import Reader
    from kbengine.search.records import Records
    from storage.records import PassageRecord

SPANS_OF_A_PASSAGE = 5
"""Places offered from each passage that was read, besides the phrases found in it."""
MOST_BEHIND = 1.0
"""How much less than the passage's best phrase a place counts that the search did not find, in points of the score, and
the most by which another phrase of the passage does; chosen with the reader's weight (`recipes/reading_weights.py`)."""


@dataclass(frozen=True)
class Asked:
    """One query whose best passages are read.

    Attributes:
        input: What the reader reads of it.
        weight: Of what the reader says.
        unit: What a hit is.
        hits: What the search found, best first.
        to_read: The best hit of each passage to read; one a document where documents are ranked.
        max_tokens: The longest span that counts; None: as long as the reader was trained for.
        forwards: What is asked of each document, where the relation is asked backwards.
    """

    input: TaskInput
    weight: float
    unit: Unit
    hits: Sequence[Hit]
    to_read: Sequence[Hit]
    max_tokens: int | None = None
    forwards: Forwards | None = None

    def input_for(self, hit: Hit) -> TaskInput:
        """Return what the reader reads together with the passage of a hit."""
        return self.input if self.forwards is None else Slot(hit.document.title, self.forwards.relation)


def ranks_documents(query: Query) -> bool:
    """Return whether documents are ranked for it rather than spans read."""
    return isinstance(query.input, Mention | Dialogue) or query.forwards is not None


class Read(NamedTuple):
    """The hits of a query after reading, best first, and the part of the score of what was not read."""

    hits: list[Hit]
    unread_part: float


def read_again(reader: Reader, records: Records, asked: Sequence[Asked]) -> list[Read]:
    """Return the hits of each query after reading: what each would get alone.

    Args:
        reader: the cross-encoder.
        records: where the passages' tokens, and the first passages of documents, are looked up.
        asked: the queries.
    """
    texts = [_texts(each, records) for each in asked]
    queries = [each.input_for(hit) for each in asked for hit in each.to_read]
    together = [text for some in texts for text in some]
    logits = iter(reader.logits(queries, together, truncate=True) if together else [])
    found: list[Read] = []
    for each in asked:
        read = [(hit, next(logits)) for hit in each.to_read]
        if each.forwards is not None:
            found.append(_ranked(each, _confirmed(each.forwards, read)))
        elif isinstance(each.input, Mention | Dialogue):
            found.append(_ranked(each, {hit.document.doc_id: logits.relevance for hit, logits in read}))
        else:
            found.append(_answered(each, read, reader, records))
    return found


def _texts(asked: Asked, records: Records) -> list[PassageText]:
    """Return the passages to read: those of the hits; of a document that may be meant, its first."""
    firsts: dict[str, str] = {}
    if isinstance(asked.input, Mention):
        firsts = records.first_passages([hit.document.doc_id for hit in asked.to_read])
    return [PassageText(hit.document.title, firsts.get(hit.document.doc_id, hit.passage.text)) for hit in asked.to_read]


def _ranked(asked: Asked, said: Mapping[str, float]) -> Read:
    """Return the hits, what is said of each document added to all that was found in it."""
    floor = min(said.values())
    parts = (asked.weight * said.get(hit.document.doc_id, floor) for hit in asked.hits)
    hits = [with_reader_part(hit, part) for hit, part in zip(asked.hits, parts, strict=True)]
    return Read(_in_order(hits), asked.weight * floor)


def _confirmed(forwards: Forwards, read: Sequence[tuple[Hit, PassageLogits]]) -> dict[str, float]:
    """Return how well the reader likes the object for an answer, by document; where it does not stand, the least."""
    said: dict[str, float] = {}
    lacking = []
    name = re.compile(rf"(?<!\w){re.escape(forwards.object)}(?!\w)", re.IGNORECASE)
    for hit, logits in read:
        places = [Span(*found.span()) for found in name.finditer(hit.passage.text)]
        if places:
            said[hit.document.doc_id] = max(_said(logits, score_at(logits, place)) for place in places)
        else:
            lacking.append(hit.document.doc_id)
    return said | dict.fromkeys(lacking, min(said.values(), default=0.0))


def _answered(asked: Asked, read: Sequence[tuple[Hit, PassageLogits]], reader: Reader, records: Records) -> Read:
    """Return the places that the reader and the search found, those of overlapping phrases that score best."""
    stored = records.passages([hit.passage.passage_id for hit, _ in read])
    logits_of = {hit.passage.passage_id: logits for hit, logits in read}
    hits: list[Hit] = []
    longest = min(reader.config.max_answer_tokens, asked.max_tokens or reader.config.max_answer_tokens)
    for (hit, logits), spans in zip(read, _spans(read, longest, records), strict=True):
        record = stored.get(hit.passage.passage_id)
        hits += [_found(hit, place, asked, _said(logits, score), record) for place, score in spans]
    best_of = {hit.passage.passage_id: hit.score for hit, _ in read}
    for hit in asked.hits:
        if hit.passage.passage_id in best_of:
            logits = logits_of[hit.passage.passage_id]
            behind = max(0.0, best_of[hit.passage.passage_id] - MOST_BEHIND - hit.score)
            said = _said(logits, score_at(logits, hit.phrase))
            hits.append(with_reader_part(hit, asked.weight * said + behind))
    unread_part = _least_gain(hits, best_of)
    hits += [with_reader_part(hit, unread_part) for hit in asked.hits if hit.passage.passage_id not in best_of]
    return Read(_distinct(_in_order(hits), asked.unit), unread_part)


def _least_gain(hits: Sequence[Hit], best_of: Mapping[int, float]) -> float:
    """Return what reading added to the best score of the passage to which it added least."""
    gains: dict[int, float] = {}
    for hit in hits:
        passage = hit.passage.passage_id
        gains[passage] = max(gains.get(passage, -math.inf), hit.score - best_of[passage])
    return min(gains.values(), default=0.0)


def _spans(
    read: Sequence[tuple[Hit, PassageLogits]], max_tokens: int, records: Records
) -> list[list[tuple[Span, float]]]:
    """Return the best spans of each passage that may be shown, best first, with the reader's score of each."""
    places: list[Place] = []
    scores: list[list[float]] = []
    for hit, logits in read:
        spans = logits.best(max_tokens=max_tokens, n=2 * SPANS_OF_A_PASSAGE)
        scores.append([span.score for span in spans])
        for span in spans:
            characters = Span(int(logits.starts[span.first]), int(logits.ends[span.last]))
            places.append(Place(hit.document.title, hit.passage.text, characters, language_of(hit.document.meta)))
    bounded = iter(zip(places, bounded_spans(records, places), strict=True))
    found: list[list[tuple[Span, float]]] = []
    for (_, logits), own in zip(read, scores, strict=True):
        kept = []
        for score, (place, shown) in zip(own, bounded, strict=False):
            if shown is not None:
                is_whole = shown == trimmed_span(place.text, place.span)
                kept.append((shown, score if is_whole else score_at(logits, shown)))
        found.append(sorted(kept, key=lambda each: -each[1])[:SPANS_OF_A_PASSAGE])
    return found


def _said(logits: PassageLogits, span_score: float) -> float:
    return span_score - logits.no_answer + RELEVANCE_WEIGHT * logits.relevance


def score_at(logits: PassageLogits, span: Span) -> float:
    """Return the score of the tokens that the characters begin and end with; the lowest logits where there is none."""
    first = int(logits.ends.searchsorted(span.start, side="right"))
    last = int(logits.starts.searchsorted(span.end)) - 1
    if not 0 <= first <= last < len(logits.start):
        return float(logits.start.min(initial=0.0) + logits.end.min(initial=0.0))
    return float(logits.score(np.array([first]), np.array([last]))[0])


def _found(best: Hit, phrase: Span, asked: Asked, said: float, stored: PassageRecord | None) -> Hit:
    """Return the place in a passage that the reader found; what the search says of it is what it says of `best`."""
    text = best.passage.text
    span = unit_span(text, phrase, asked.unit, language_of(best.document.meta))
    tokens = stored.tokens_within(phrase.start, phrase.end) if stored is not None else None
    hit = replace(
        best,
        text=best.text if asked.unit == "document" else text[span.start : span.end],
        span=span,
        phrase=phrase,
        first_token_id=tokens[0] if tokens else None,
        last_token_id=tokens[1] if tokens else None,
    )
    return with_reader_part(hit, asked.weight * said - MOST_BEHIND)


def _in_order(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits best first; of equal ones those that were found first."""
    return sorted(hits, key=lambda hit: -hit.score)


def _distinct(hits: Sequence[Hit], unit: Unit) -> list[Hit]:
    """Return the hits without those whose phrase overlaps a better one's, or that show a unit shown before."""
    taken: dict[int, list[Span]] = {}
    shown: set[tuple[int, Span] | str] = set()
    kept = []
    for hit in hits:
        own = hit.document.doc_id if unit == "document" else (hit.passage.passage_id, hit.span)
        spans = taken.setdefault(hit.passage.passage_id, [])
        if own in shown or any(hit.phrase.start < span.end and span.start < hit.phrase.end for span in spans):
            continue
        shown.add(own)
        spans.append(hit.phrase)
        kept.append(hit)
    return kept
