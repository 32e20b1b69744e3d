"""What comes back from a task: answers with their evidence, or no answer and why; the same for every way of asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kbengine.search.results import shards_json

if TYPE_CHECKING:
    from adapters.tasks.provenance import PageProvenance
    from adapters.tasks.values import Value
    from kbengine.inputs import Task
    from kbengine.search.query import Unit
    from kbengine.search.results import DocumentRef, PassageRef, ScoreParts, ShardCount
    from kbengine.span import Span

Status = Literal["answered", "no_answer"]
NoAnswerReason = Literal["nothing_found", "unanswerable", "below_threshold"]


@dataclass(frozen=True)
class Evidence:
    """A place that speaks for an answer; spans are half-open character offsets into `passage.text`.

    Attributes:
        document: The document.
        passage: The passage, with its whole text.
        span: The characters that are the answer: a phrase, a grounding sentence, or the title's best phrase.
        sentence: The sentence around `span`, for display.
        score: Of this place; higher is better.
        parts: Of the score, when asked to explain.
        provenance: The same place as a KILT provenance entry.
    """

    document: DocumentRef
    passage: PassageRef
    span: Span
    sentence: Span
    score: float
    parts: ScoreParts | None
    provenance: PageProvenance

    @property
    def text(self) -> str:
        """Return the characters that are the answer."""
        return self.passage.text[self.span.start : self.span.end]

    def to_json(self) -> dict[str, Any]:
        """Return the place as plain JSON values."""
        record: dict[str, Any] = {
            "document": self.document.to_json(),
            "passage": self.passage.to_json(),
            "text": self.text,
            "span": [self.span.start, self.span.end],
            "sentence": [self.sentence.start, self.sentence.end],
            "score": self.score,
            "provenance": self.provenance.to_json(),
        }
        if self.parts is not None:
            record["parts"] = asdict(self.parts)
        return record


@dataclass(frozen=True)
class Answer:
    """One answer: its text and the places that speak for it, best first (never empty).

    Attributes:
        rank: From 1.
        text: A phrase, a title, a sentence or a passage, as stored. Of places that write a phrase with other letter
            case the commonest writing counts.
        unit: What `text` is.
        score: Of the best place.
        probability: That the answer is right, calibrated; None while the task has no calibration.
        evidence: Best first; grouped answers (the same normalised string, or the same document) have several.
    """

    rank: int
    text: str
    unit: Unit
    score: float
    probability: float | None
    evidence: tuple[Evidence, ...]

    @property
    def document(self) -> DocumentRef:
        """Return the document of the best place."""
        return self.evidence[0].document

    @property
    def support(self) -> dict[str, int]:
        """Return how many places, passages and documents speak for the answer."""
        return {
            "places": len(self.evidence),
            "passages": len({each.passage.passage_id for each in self.evidence}),
            "documents": len({each.document.doc_id for each in self.evidence}),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        return {
            "rank": self.rank,
            "text": self.text,
            "unit": self.unit,
            "score": self.score,
            "probability": self.probability,
            "document": self.document.to_json(),
            "support": self.support,
            "evidence": [each.to_json() for each in self.evidence],
        }


@dataclass(frozen=True)
class TaskAnswer:
    """The answer to one request.

    Attributes:
        task: The task.
        status: `no_answer` when nothing was found, when the knowledge base seems to hold no answer, or when nothing
            reached the threshold.
        reason: Why there is no answer; None when there is one.
        answers: Best first. With `no_answer` these are the candidates that were not good enough.
        threshold: The probability that the best answer had to reach; None when none was asked for.
        generation: Of the knowledge base that was searched.
        encoder: Fingerprint of the encoder.
        n_query_tokens: Tokens the encoder read.
        truncated: Whether some of the input was left out (older turns, far context).
        timings_ms: Of the whole call.
        mention: Entity linking: where the mention stands in the text.
        answerable: The probability that the knowledge base holds an answer; None where that is not known.
        lexical_factor: Dialogue: what the lexical weight was multiplied by; None where nothing decided about it.
        values: Slot filling: all values of the relation, and which of them contradict each other; empty without
            probabilities or an answer.
        shards: How many parts of a cluster answered; None on one machine.
    """

    task: Task
    status: Status
    reason: NoAnswerReason | None
    answers: tuple[Answer, ...]
    threshold: float | None
    generation: int
    encoder: str
    n_query_tokens: int
    truncated: bool
    timings_ms: Mapping[str, float] = field(default_factory=dict, compare=False)
    mention: Span | None = None
    answerable: float | None = None
    lexical_factor: float | None = None
    values: tuple[Value, ...] = ()
    shards: ShardCount | None = None

    @property
    def best(self) -> Answer | None:
        """Return the answer that counts; None when there is no answer."""
        return self.answers[0] if self.status == "answered" else None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values, the same for command line and service."""
        return {
            "task": self.task,
            "status": self.status,
            "reason": self.reason,
            "answers": [answer.to_json() for answer in self.answers],
            "values": [value.to_json() for value in self.values],
            "threshold": self.threshold,
            "answerable": self.answerable,
            "mention": None if self.mention is None else [self.mention.start, self.mention.end],
            "generation": self.generation,
            "encoder": self.encoder,
            "query_tokens": self.n_query_tokens,
            "truncated": self.truncated,
            "lexical_factor": self.lexical_factor,
            "timings_ms": {name: round(value, 3) for name, value in self.timings_ms.items()},
            **shards_json(self.shards),
        }
