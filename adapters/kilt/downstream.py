"""Answer scores of the KILT evaluator: strict accuracy, EM, F1 and ROUGE-L of one answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from adapters.kilt.rouge import rouge_l
from kbengine.learning.reading.answer_scores import exact_match, f1_score


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """The four scores of one answer, each the best over the gold answers."""

    accuracy: int
    em: int
    f1: float
    rougel: float


NO_ANSWER = AnswerScores(accuracy=0, em=0, f1=0.0, rougel=0.0)


def answer_scores(guess: str, answers: Collection[str]) -> AnswerScores:
    """Return scores of a stripped guess against stripped gold answers; all zero for an empty guess.

    Raises:
        ValueError: a guess that is not empty meets no gold answer (the official evaluator stops there too).
    """
    if not guess:
        return NO_ANSWER
    if not answers:
        raise ValueError("no gold answer to compare with")
    return AnswerScores(
        accuracy=int(guess in answers),
        em=int(any(exact_match(guess, answer) for answer in answers)),
        f1=max(f1_score(guess, answer) for answer in answers),
        rougel=max(rouge_l(guess, answer) for answer in answers),
    )
