"""A row to tune on: a query, and what is right about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbengine.learning.tuning.losses import Loss, Right
from kbengine.search.query import Query


@dataclass(frozen=True)
class TuningRow:
    """One query with its gold.

    Attributes:
        id: Of the row, for messages.
        source: The file it is of; rows of one source are sampled together.
        task: What it asks for.
        query: What is asked, with the weights and lexical texts that fused retrieval uses.
        answers: Right answers, as texts.
        doc_ids: Gold documents, by the user's ids.
        passages: Gold passages: document id and the ordinal of the paragraph.
        right: What is right for its task, where the loss is "task".
    """

    id: str
    source: str
    task: str
    query: Query
    answers: frozenset[str] = frozenset()
    doc_ids: frozenset[str] = frozenset()
    passages: frozenset[tuple[str, int]] = frozenset()
    right: Right = "phrase"

    def right_by(self, loss: Loss) -> Right:
        """Return what is right for the row by a loss."""
        return self.right if loss == "task" else loss

    def lacks(self, loss: Loss) -> str | None:
        """Return what the loss needs and the row has not; None when it can be learned from."""
        right = self.right_by(loss)
        if right in ("phrase", "joint") and not self.answers:
            return "no answer text"
        if right in ("doc", "joint") and not self.doc_ids:
            return "no gold document"
        if right == "passage" and not self.passages:
            return "no gold passage"
        return None


def sources_of(rows: Sequence[TuningRow]) -> list[str]:
    """Return the sources of rows, each once, in order."""
    return list(dict.fromkeys(row.source for row in rows))
