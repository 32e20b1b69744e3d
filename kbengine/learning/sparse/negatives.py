"""Negative passages for sparse training: of similar questions, disturbed now and then, with a lexical bonus."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbengine.learning.data.examples import TrainingExample
from storage.terms import terms_of

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

_BLOCK_ROWS: Final = 1024
_TRIED: Final = 16
"""Most similar questions looked at until one has a passage that does not answer this one."""


def similar_questions(
    vectors: Float32, examples: Sequence[TrainingExample], *, pool: int, rng: np.random.Generator
) -> Int64:
    """Return for each example the most similar other one whose passage may serve as negative, int64 (n,); −1: none.

    Similar is what has the largest inner product of query vectors. The passage must be another one and hold none of the
    answers: it could answer the question, too.

    Args:
        vectors: float32 (n, D), of the examples' queries, L2-normalised.
        examples: In the same order.
        pool: At most so many of the examples are looked at, a random sample.
        rng: Draws the sample.
    """
    n = len(examples)
    candidates = np.arange(n) if n <= pool else np.sort(rng.choice(n, size=pool, replace=False))
    of_pool = vectors[candidates]
    found = np.full(n, -1, dtype=np.int64)
    n_tried = min(_TRIED, len(candidates))
    for begin in range(0, n, _BLOCK_ROWS):
        scores = vectors[begin : begin + _BLOCK_ROWS] @ of_pool.T  # (rows, pool)
        best = np.argpartition(-scores, n_tried - 1, axis=1)[:, :n_tried]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        ranked = candidates[np.take_along_axis(best, order, axis=1)]
        for row, others in enumerate(ranked.tolist(), start=begin):
            found[row] = next((other for other in others if not answers_it(examples[other], examples[row])), -1)
    return found


def answers_it(other: TrainingExample, example: TrainingExample) -> bool:
    """Return whether the other example's passage is this one's own or holds one of its answers: no negative then."""
    if other.passage == example.passage:
        return True
    text = other.passage.casefold()
    return any(answer.casefold() in text for answer in example.answer_texts)


class TfIdf:
    """tf-idf of a collection of passages (DrQA's: log(1 + tf) · log((N − n + ½) / (n + ½)), not below 0)."""

    def __init__(self, passages: Sequence[str]) -> None:
        frequencies = Counter(term for text in passages for term in set(terms_of(text)))
        n = len(passages)
        self._idf = {term: max(0.0, math.log((n - count + 0.5) / (count + 0.5))) for term, count in frequencies.items()}
        self._unseen = math.log((n + 0.5) / 0.5)

    def cosine(self, left: str, right: str) -> float:
        """Return the cosine of the tf-idf vectors of two texts, 0 to 1; 0 when either has no telling term."""
        first, second = self._vector(left), self._vector(right)
        norms = math.sqrt(sum(w * w for w in first.values()) * sum(w * w for w in second.values()))
        return sum(weight * second.get(term, 0.0) for term, weight in first.items()) / norms if norms else 0.0

    def _vector(self, text: str) -> dict[str, float]:
        counts = Counter(terms_of(text))
        return {term: math.log1p(count) * self._idf.get(term, self._unseen) for term, count in counts.items()}


def disturbed(ids: Int64, others: Int64, *, rate: float, rng: np.random.Generator) -> Int64:
    """Return the token ids of a negative passage disturbed in one of three ways, chosen at random.

    The last ones are cut off, or some are replaced by tokens of other passages, or some change places among themselves:
    a share `rate` of them each time. (SPARC's code names these noises; its paper does not speak of them.)

    Args:
        ids: int64 (t,).
        others: int64 (m,), tokens to draw replacements from, m ≥ 1.
        rate: Share of the tokens.
        rng: Draws.
    """
    n = round(rate * len(ids))
    if not n:
        return ids
    kind = int(rng.integers(3))
    if kind == 0:
        return ids[: max(1, len(ids) - n)]
    chosen = rng.choice(len(ids), size=n, replace=False)
    noisy = ids.copy()
    noisy[chosen] = rng.choice(others, size=n) if kind == 1 else ids[rng.permutation(chosen)]
    return noisy
