"""EM and F1 over a data set, with and without answers: SQuAD 1.1's figures and SQuAD 2.0's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbengine.errors import UsageError
from kbengine.learning.reading.answer_scores import best_exact_match, best_f1


@dataclass(frozen=True, slots=True)
class Guess:
    """What was read for one question: the best answer's text and how sure it is (higher is surer).

    `in_gold_passage` tells, where many passages were searched, whether the answer was found in the gold one.
    """

    text: str
    score: float
    in_gold_passage: bool = True


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """What a guess is compared with: gold answers, none of them when the question has no answer."""

    id: str
    source: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadingRecord:
    """One question's part of the figures. `answer` is empty when the guess did not reach the threshold."""

    question: ScoredQuestion
    guess: Guess
    answer: str
    em: float
    f1: float

    def to_json(self) -> dict[str, Any]:
        """Return one line of the per-record report."""
        return {
            "id": self.question.id,
            "source": self.question.source,
            "answers": list(self.question.answers),
            "answer": self.answer,
            "guess": self.guess.text,
            "score": self.guess.score,
            "in_gold_passage": self.guess.in_gold_passage,
            "em": self.em,
            "f1": self.f1,
        }


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The threshold that would have given the best figure on these very questions, as SQuAD 2.0's script finds it."""

    value: float
    threshold: float


@dataclass(frozen=True)
class ReadingScores:
    """Figures in percent over n questions.

    Attributes:
        n: Questions.
        n_answerable: Those with an answer.
        em: Exact match after normalisation.
        f1: Token-bag F1 after normalisation.
        has_answer_em: EM over the answerable ones; None without any. The next three likewise.
        has_answer_f1: F1 over the answerable ones.
        no_answer_em: Share of the unanswerable ones for which no answer was given.
        in_gold_passage: Share of the answerable ones whose guess was found in the gold passage.
        threshold: What a guess's score had to reach; None when every guess counts.
        best_em: Over all thresholds; None when every question is answerable.
        best_f1: Over all thresholds; None when every question is answerable.
        records: One for each question, in order.
    """

    n: int
    n_answerable: int
    em: float
    f1: float
    has_answer_em: float | None
    has_answer_f1: float | None
    no_answer_em: float | None
    in_gold_passage: float | None
    threshold: float | None
    best_em: BestThreshold | None
    best_f1: BestThreshold | None
    records: tuple[ReadingRecord, ...]

    def by_source(self) -> dict[str, ReadingScores]:
        """Return the figures of each source's questions alone, in the order in which sources come."""
        of_source: dict[str, list[ReadingRecord]] = {}
        for record in self.records:
            of_source.setdefault(record.question.source, []).append(record)
        return {
            source: score_guesses([r.question for r in own], [r.guess for r in own], threshold=self.threshold)
            for source, own in of_source.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values, without the records."""
        names = ("em", "f1", "has_answer_em", "has_answer_f1", "no_answer_em", "in_gold_passage", "threshold")
        values: dict[str, Any] = {"questions": self.n, "answerable": self.n_answerable}
        values |= {name: getattr(self, name) for name in names}
        for name, best in (("best_em", self.best_em), ("best_f1", self.best_f1)):
            values[name] = None if best is None else best.value
            values[f"{name}_threshold"] = None if best is None else best.threshold
        return values


def score_guesses(
    questions: Sequence[ScoredQuestion], guesses: Sequence[Guess], *, threshold: float | None = None
) -> ReadingScores:
    """Return the figures of one guess a question.

    Args:
        questions: with their gold answers.
        guesses: in the same order.
        threshold: a guess below it counts as "no answer"; None counts every guess.

    Raises:
        UsageError: there is no question, or not one guess for each.
    """
    if not questions or len(questions) != len(guesses):
        raise UsageError(f"{len(questions)} questions came with {len(guesses)} guesses, wanted at least one of each")
    records = tuple(_record(question, guess, threshold) for question, guess in zip(questions, guesses, strict=True))
    answerable = [record for record in records if record.question.answers]
    unanswerable = [record for record in records if not record.question.answers]
    best: list[BestThreshold | None] = [None, None]
    if unanswerable:
        pairs = [(record.guess.text, record.question.answers) for record in records]
        best = [_best_threshold(records, [of(*pair) for pair in pairs]) for of in (best_exact_match, best_f1)]
    return ReadingScores(
        n=len(records),
        n_answerable=len(answerable),
        em=_percent([record.em for record in records]) or 0.0,
        f1=_percent([record.f1 for record in records]) or 0.0,
        has_answer_em=_percent([record.em for record in answerable]),
        has_answer_f1=_percent([record.f1 for record in answerable]),
        no_answer_em=_percent([record.em for record in unanswerable]),
        in_gold_passage=_percent([float(record.guess.in_gold_passage) for record in answerable]),
        threshold=threshold,
        best_em=best[0],
        best_f1=best[1],
        records=records,
    )


def _record(question: ScoredQuestion, guess: Guess, threshold: float | None) -> ReadingRecord:
    answer = guess.text if threshold is None or guess.score >= threshold else ""
    return ReadingRecord(
        question, guess, answer, best_exact_match(answer, question.answers), best_f1(answer, question.answers)
    )


def _best_threshold(records: Sequence[ReadingRecord], answered: Sequence[float]) -> BestThreshold:
    """Return the best figure over all thresholds; `answered` are the records' scores when their guesses count.

    Guesses of one score stand or fall together, so only the places between different scores are thresholds.
    """
    # Nothing answered: every unanswerable question is right, every other wrong.
    total = float(sum(1 for record in records if not record.question.answers))
    best, threshold = total, math.inf
    order = sorted(range(len(records)), key=lambda i: -records[i].guess.score)
    for position, i in enumerate(order):
        abstained = 0.0 if records[i].question.answers else 1.0
        total += answered[i] - abstained
        last_of_score = position + 1 == len(order) or records[order[position + 1]].guess.score < records[i].guess.score
        if last_of_score and total > best:
            best, threshold = total, records[i].guess.score
    return BestThreshold(100 * best / len(records), threshold)


def _percent(values: Sequence[float]) -> float | None:
    return 100 * sum(values) / len(values) if values else None
