"""Answer scores of the KILT evaluator: strict accuracy, EM, F1 and ROUGE-L of one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from adapters.kilt.normalise import norm
from adapters.kilt.rouge import rouge_l


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """The four scores of one answer, each the best over the gold answers."""

    accuracy: int
    em: int
    f1: float
    rougel: float


NO_ANSWER = AnswerScores(accuracy=0, em=0, f1=0.0, rougel=0.0)


def f1_score(guess: str, answer: str) -> float:
    """Token-bag F1 of two texts after `norm`; 0.0 when no token is shared, even if both normalise to nothing."""
    guess_tokens = norm(guess).split()
    answer_tokens = norm(answer).split()
    shared = sum((Counter(guess_tokens) & Counter(answer_tokens)).values())
    if shared == 0:
        return 0.0
    precision = 1.0 * shared / len(guess_tokens)
    recall = 1.0 * shared / len(answer_tokens)
    # This order of the operations gives the official bits; do not rearrange.
    return (2 * precision * recall) / (precision + recall)


def exact_match(guess: str, answer: str) -> bool:
    """Whether two texts are equal after `norm`."""
    return norm(guess) == norm(answer)


def answer_scores(guess: str, answers: Collection[str]) -> AnswerScores:
    """Scores of a stripped guess against stripped gold answers; all zero for an empty guess.

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
