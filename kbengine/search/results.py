"""What comes back: hits with the text found, where it stands and why it was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kbengine.search.query import Unit
from kbengine.span import Span
from storage.json_value import JSON


@dataclass(frozen=True)
class DocumentRef:
    """The document a hit stands in, under the user's own id; `meta` holds the fields that filters ask for."""

    doc_id: str
    title: str
    url: str | None
    meta: Mapping[str, JSON] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain JSON values."""
        return {"id": self.doc_id, "title": self.title, "url": self.url, "meta": dict(self.meta)}


@dataclass(frozen=True)
class PassageRef:
    """The passage a hit stands in.

    Attributes:
        passage_id: Ours.
        ordinal: The paragraph's number in the user's document.
        text: As stored.
        section: The heading it stands under, None without one.
        char_offset: Where `text` begins in its paragraph: 0 unless the paragraph was too long to be one passage.
    """

    passage_id: int
    ordinal: int
    text: str
    section: str | None = None
    char_offset: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the passage as plain JSON values."""
        return {
            "id": self.passage_id,
            "ordinal": self.ordinal,
            "section": self.section,
            "char_offset": self.char_offset,
            "text": self.text,
        }


@dataclass(frozen=True)
class ScoreParts:
    """The parts of a score, already weighted: they sum to it.

    Of a place that the reader found, all but `reader` are those of the best phrase of its passage.
    """

    start: float
    end: float
    passage: float
    lexical: float
    sparse: float = 0.0
    name: float = 0.0
    reader: float = 0.0


@dataclass(frozen=True)
class Hit:
    """One answer: `text` is the unit asked for, `phrase` the best phrase in it (spans are into `passage.text`).

    The token ids are those of the first and the last stored token in the phrase, None where none of them is stored.
    """

    rank: int
    unit: Unit
    text: str
    score: float
    document: DocumentRef
    passage: PassageRef
    span: Span
    phrase: Span
    first_token_id: int | None
    last_token_id: int | None
    parts: ScoreParts | None = None

    @property
    def phrase_text(self) -> str:
        """Return the best phrase, with its case and punctuation as stored."""
        return self.passage.text[self.phrase.start : self.phrase.end]

    def to_json(self) -> dict[str, Any]:
        """Return the hit as plain JSON values, the same for command line and service."""
        record: dict[str, Any] = {
            "rank": self.rank,
            "unit": self.unit,
            "text": self.text,
            "score": self.score,
            "document": self.document.to_json(),
            "passage": self.passage.to_json(),
            "span": [self.span.start, self.span.end],
            "phrase": {"text": self.phrase_text, "span": [self.phrase.start, self.phrase.end]},
            "tokens": None if self.first_token_id is None else [self.first_token_id, self.last_token_id],
        }
        if self.parts is not None:
            record["parts"] = asdict(self.parts)
        return record


def with_reader_part(hit: Hit, part: float) -> Hit:
    """Return the hit with what the reader says of it, weighted, in its score."""
    parts = None if hit.parts is None else replace(hit.parts, reader=part)
    return replace(hit, score=hit.score + part, parts=parts)


@dataclass(frozen=True)
class ShardCount:
    """How many shards a cluster has, and how many of them an answer is from."""

    answered: int
    all: int

    @property
    def degraded(self) -> bool:
        """Whether some did not answer, so that what they hold is missing."""
        return self.answered < self.all


@dataclass(frozen=True)
class SearchResult:
    """The answer to one query: hits best first, and what was answered from.

    `round_ends` are the numbers of hits at the end of each round of the search: a further round is made only when more
    answers are wanted than the rounds before found, and what it finds stands after theirs. `lexical_factor` is what
    the lexical weight was multiplied by for this query, None where nothing decided about it
    (`kbengine.search.lexical_gate`). `shards` tells how many parts of a cluster answered, None on one machine.
    """

    hits: tuple[Hit, ...]
    generation: int
    encoder: str
    n_query_tokens: int
    truncated: bool
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    round_ends: tuple[int, ...] = ()
    lexical_factor: float | None = None
    shards: ShardCount | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "hits": [hit.to_json() for hit in self.hits],
            "generation": self.generation,
            "encoder": self.encoder,
            "query_tokens": self.n_query_tokens,
            "truncated": self.truncated,
            "lexical_factor": self.lexical_factor,
            "timings_ms": {name: round(value, 3) for name, value in self.timings_ms.items()},
            **shards_json(self.shards),
        }


def shards_json(shards: ShardCount | None) -> dict[str, Any]:
    """Return what an answer says of the shards that it is from, as plain JSON values; nothing on one machine."""
    return {} if shards is None else {"shards_answered": shards.answered, "degraded": shards.degraded}
