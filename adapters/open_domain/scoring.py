"""Accuracy of answers and of passages as the papers report it.

Passages (DPR; DensePhrases as passage retrieval, Table 1): top-k is the share of questions with an answer's string in
one of the first k passages, MRR@20 the mean of 1 / rank of the first one among 20 (0 without), P@20 how many of the
first 20 hold an answer, over 20 however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.open_domain.matching import AnswerMatcher
from kbengine.learning.reading.answer_scores import best_f1

DEPTHS = (1, 5, 20, 100)
"""The k of top-k that the papers report."""
RANKED = 20
"""The k of MRR and P."""
TOP_ANSWERS = 10
"""Answers looked at for exact match at k, as in DensePhrases."""


@dataclass(frozen=True)
class PassageScores:
    """Where the answers of one question stand: ranks from 1 of the passages that hold one."""

    ranks: tuple[int, ...]

    @classmethod
    def of(cls, matcher: AnswerMatcher, passages: Sequence[str]) -> PassageScores:
        """Return the scores of a question's passages, best first."""
        return cls(tuple(rank for rank, text in enumerate(passages, start=1) if matcher.is_in(text)))

    def measures(self) -> dict[str, float]:
        """Return every measure from 0 to 1 by its name."""
        first = self.ranks[0] if self.ranks else None
        values: dict[str, float] = {f"top-{k}": float(first is not None and first <= k) for k in DEPTHS}
        values[f"MRR@{RANKED}"] = 0.0 if first is None or first > RANKED else 1 / first
        values[f"P@{RANKED}"] = sum(rank <= RANKED for rank in self.ranks) / RANKED
        return values


@dataclass(frozen=True)
class AnswerScores:
    """How good the answers to one question are: the best one, and any of the first ten."""

    em: bool
    em_at_k: bool
    f1: float | None

    @classmethod
    def of(cls, matcher: AnswerMatcher, gold: Sequence[str], guesses: Sequence[str]) -> AnswerScores:
        """Return the scores of a question's answers, best first; F1 compares with texts, so patterns have none."""
        right = [matcher.is_right(guess) for guess in guesses[:TOP_ANSWERS]]
        best = guesses[0] if guesses else ""
        return cls(bool(right) and right[0], any(right), best_f1(best, gold) if gold else None)

    def measures(self) -> dict[str, float]:
        """Return every measure from 0 to 1 by its name."""
        values: dict[str, float] = {"EM@1": float(self.em), f"EM@{TOP_ANSWERS}": float(self.em_at_k)}
        return values if self.f1 is None else values | {"F1@1": self.f1}


def mean_percent(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each measure in percent; one that some rows lack is left out."""
    names = [name for name in rows[0] if all(name in row for row in rows)] if rows else []
    return {name: 100 * sum(row[name] for row in rows) / len(rows) for name in names}
