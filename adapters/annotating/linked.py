"""What comes back from a text without marks: its mentions, each linked or not and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kbengine.span import Span

NilReason = Literal["unknown_name", "below_threshold"]


@dataclass(frozen=True)
class LinkCandidate:
    """A document that a mention may mean.

    Attributes:
        doc_id: The document's id.
        title: Its title.
        url: Where it is from, None where that is not known.
        probability: That the span is a mention of it.
    """

    doc_id: str
    title: str
    url: str | None
    probability: float

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as plain JSON values."""
        return {
            "document": {"id": self.doc_id, "title": self.title, "url": self.url},
            "probability": self.probability,
        }


@dataclass(frozen=True)
class Annotation:
    """One mention of a text.

    Attributes:
        span: Where it stands: half-open character offsets into the whole text.
        text: The characters there.
        link: What it means; None for a name that the knowledge base seems to have no document of.
        reason: Why it has no link: no document is called so, or none was probable enough. None with a link.
        candidates: What it may mean, the most probable first; the link is the first of them.
    """

    span: Span
    text: str
    link: LinkCandidate | None
    reason: NilReason | None
    candidates: tuple[LinkCandidate, ...]

    @property
    def probability(self) -> float:
        """Return the probability of the link, or of the best candidate where there is none; 0 without any."""
        return self.candidates[0].probability if self.candidates else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the mention as plain JSON values, the same for command line and service."""
        return {
            "span": [self.span.start, self.span.end],
            "text": self.text,
            "link": None if self.link is None else self.link.to_json(),
            "reason": self.reason,
            "candidates": [each.to_json() for each in self.candidates],
        }


@dataclass(frozen=True)
class AnnotatedText:
    """A text with its mentions in order; no two overlap."""

    text: str
    annotations: tuple[Annotation, ...]

    @property
    def links(self) -> Sequence[Annotation]:
        """Return the mentions that have a link."""
        return [each for each in self.annotations if each.link is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the mentions as plain JSON values, without the text."""
        return {"characters": len(self.text), "annotations": [each.to_json() for each in self.annotations]}
