"""What comes back from a task: answers with their evidence, or no answer and why; the same for every way of asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from adapters.kilt.submission import PageProvenance
from adapters.tasks import Task
from kbengine.query import Unit
from kbengine.results import DocumentRef, PassageRef, ScoreParts, Span

Status = Literal["answered", "no_answer"]
NoAnswerReason = Literal["nothing_found", "below_threshold"]


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


@dataclass(frozen=True)
class Answer:
    """One answer: its text and the places that speak for it, best first (never empty).

    Attributes:
        rank: From 1.
        text: A phrase, a title, a sentence or a passage, as stored.
        unit: What `text` is.
        score: Of the best place.
        probability: That the answer is right, calibrated; None while the task has no calibration.
        evidence: Best first; grouped answers (the same normalised string) have several.
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


@dataclass(frozen=True)
class TaskAnswer:
    """The answer to one request.

    Attributes:
        task: The task.
        status: `no_answer` when nothing was found, or nothing reached the threshold.
        reason: Why there is no answer; None when there is one.
        answers: Best first. With `no_answer` below the threshold these are the candidates that did not reach it.
        threshold: The probability that the best answer had to reach; None when none was asked for.
        generation: Of the knowledge base that was searched.
        encoder: Fingerprint of the encoder.
        n_query_tokens: Tokens the encoder read.
        truncated: Whether some of the input was left out (older turns, far context).
        timings_ms: Of the whole call.
        mention: Entity linking: where the mention stands in the text.
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
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    mention: Span | None = None

    @property
    def best(self) -> Answer | None:
        """Return the answer that counts; None when there is no answer."""
        return self.answers[0] if self.status == "answered" else None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values, the same for command line and service."""
        raise NotImplementedError
