"""ROUGE-L as the PyPI package `rouge` 1.0.1 computes it, which KILT uses (Google's `rouge_score` is another metric).

One documented divergence: the package backtracks recursively and dies with a RecursionError at about 1,000 steps;
this one iterates, so long answers are scored too.
"""

from __future__ import annotations

from collections.abc import Sequence

_EPSILON = 1e-8  # keeps a perfect match at 0.999999995: part of the published scores


def rouge_l(hypothesis: str, reference: str) -> float:
    """F score of the summary-level ROUGE-L of two texts, 0.0 when either has no sentence.

    Case-sensitive, unstemmed, over sets of distinct words: word order matters only inside the sentence pairs
    whose common subsequences are united.
    """
    hypothesis_sentences = _sentences(hypothesis)
    reference_sentences = _sentences(reference)
    if not hypothesis_sentences or not reference_sentences:
        return 0.0
    hypothesis_words = {word for sentence in hypothesis_sentences for word in sentence}
    reference_words = {word for sentence in reference_sentences for word in sentence}
    union: set[str] = set()
    for x in reference_sentences:
        for y in hypothesis_sentences:
            union.update(_common_words(x, y))
    recall = len(union) / len(reference_words)
    precision = len(union) / len(hypothesis_words)
    return 2.0 * ((precision * recall) / (precision + recall + _EPSILON))


def _sentences(text: str) -> list[list[str]]:
    """Words of each sentence; a sentence of blanks has one word, the empty string, as in the package."""
    return [" ".join(piece.split()).split(" ") for piece in text.split(".") if piece]


def _common_words(x: Sequence[str], y: Sequence[str]) -> set[str]:
    """Return the distinct words of the longest common subsequence that the package's backtrack finds.

    Row i of the length table T is kept as the bits of one integer (Hyyrö 2004): bit j - 1 is clear exactly where
    T[i][j] = T[i][j-1] + 1. At a mismatch, T[i-1][j] > T[i][j-1] holds exactly when that bit is clear, which is all
    the backtrack asks; so a row costs one addition instead of len(y) comparisons.
    """
    places: dict[str, int] = {}
    for j, word in enumerate(y):
        places[word] = places.get(word, 0) | 1 << j
    if places.keys().isdisjoint(x):
        return set()
    full = (1 << len(y)) - 1
    row = full
    rows = [row]
    for word in x:
        matches = row & places.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
        rows.append(row)
    taken: set[str] = set()
    i, j = len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            taken.add(x[i - 1])
            i -= 1
            j -= 1
        elif rows[i] >> (j - 1) & 1:
            j -= 1
        else:
            i -= 1
    return taken
