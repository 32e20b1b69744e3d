"""Where an answer stands, as KILT writes it down: the page, the paragraph and the characters that speak for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from kbengine.search.results import Hit
from kbengine.span import Span


@dataclass(frozen=True, slots=True)
class PageProvenance:
    """One page with the passage that speaks for it; `None` fields are left out of the file.

    Offsets are half-open character offsets into the paragraph as stored.
    """

    wikipedia_id: str
    title: str | None = None
    section: str | None = None
    start_paragraph_id: int | None = None
    start_character: int | None = None
    end_paragraph_id: int | None = None
    end_character: int | None = None
    text: str | None = None
    score: float | None = None

    @classmethod
    def of_hit(cls, hit: Hit, span: Span | None) -> Self:
        """Return the place of a hit; `span` counts characters of its passage, None names the paragraph alone."""
        ordinal, shift = hit.passage.ordinal, hit.passage.char_offset
        return cls(
            wikipedia_id=hit.document.doc_id,
            title=hit.document.title,
            section=hit.passage.section,
            start_paragraph_id=ordinal,
            start_character=None if span is None else shift + span.start,
            end_paragraph_id=ordinal,
            end_character=None if span is None else shift + span.end,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a submission holds it, `wikipedia_id` first."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}
