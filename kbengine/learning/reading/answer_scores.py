"""EM and F1 of one answer, as SQuAD's and KILT's evaluators compute them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kbengine.corpus.normalise import norm


def exact_match(guess: str, answer: str) -> bool:
    """Return whether two texts are equal after `norm`."""
    return norm(guess) == norm(answer)


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


def best_exact_match(guess: str, answers: Collection[str]) -> float:
    """1.0 when the guess equals one of the gold answers after `norm`, else 0.0; no answer equals no answer."""
    if not answers:
        return float(not guess)
    return float(any(exact_match(guess, answer) for answer in answers))


def best_f1(guess: str, answers: Collection[str]) -> float:
    """Return the best F1 over the gold answers; without gold answers 1.0 for the empty guess, else 0.0."""
    if not answers:
        return float(not guess)
    return max(f1_score(guess, answer) for answer in answers)
