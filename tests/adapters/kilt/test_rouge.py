"""ROUGE-L of the package `rouge` 1.0.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kilt.rouge import rouge_l


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("foo bar. baz", "baz foo. bar", 0.999999995),
        ("b a", "a b", 0.4999999950000001),
        ("b a. c a", "a b. a c", 0.999999995),
        ("x x x", "x", 0.999999995),
        ("x. . y", "x y", 0.7999999952000001),
        ("one two three four", "one three two four", 0.749999995),
        ("Ulm Germany", "Ulm, Germany", 0.4999999950000001),
        ("U.S.A.", "U S A", 0.999999995),
        ("a flood", "flood", 0.6666666622222223),
        ("the cat sat on the mat. it slept", "on the mat sat the cat. it slept well", 0.5333333283555556),
        ("Ulm", "ulm", 0.0),
        ("Ulm", "x", 0.0),
        ("...", "x", 0.0),
        ("x", "...", 0.0),
        ("", "", 0.0),
    ],
)
def test_known_pairs_have_the_official_score(hypothesis: str, reference: str, expected: float) -> None:
    """The table of reference values, to the last bit."""
    assert rouge_l(hypothesis, reference) == expected


def _slow_rouge_l(hypothesis: str, reference: str) -> float:
    """The definition written down plainly: full table, step-by-step backtrack."""

    def sentences(text: str) -> list[list[str]]:
        return [" ".join(piece.split()).split(" ") for piece in text.split(".") if len(piece) > 0]

    h, r = sentences(hypothesis), sentences(reference)
    if not h or not r:
        return 0.0
    union: set[str] = set()
    for x in r:
        for y in h:
            table = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
            for i in range(1, len(x) + 1):
                for j in range(1, len(y) + 1):
                    if x[i - 1] == y[j - 1]:
                        table[i][j] = table[i - 1][j - 1] + 1
                    else:
                        table[i][j] = max(table[i - 1][j], table[i][j - 1])
            i, j = len(x), len(y)
            while i > 0 and j > 0:
                if x[i - 1] == y[j - 1]:
                    union.add(x[i - 1])
                    i, j = i - 1, j - 1
                elif table[i - 1][j] > table[i][j - 1]:
                    i -= 1
                else:
                    j -= 1
    recall = len(union) / len({word for sentence in r for word in sentence})
    precision = len(union) / len({word for sentence in h for word in sentence})
    return 2.0 * ((precision * recall) / (precision + recall + 1e-8))


_TEXT = st.lists(st.sampled_from(["a", "b", "c", "d", "e", ".", " ", "\t"]), max_size=30).map(" ".join)


@given(hypothesis=_TEXT, reference=_TEXT)
def test_any_pair_equals_the_plain_definition(hypothesis: str, reference: str) -> None:
    """The bit-parallel table takes the same words as the quadratic one."""
    assert rouge_l(hypothesis, reference) == _slow_rouge_l(hypothesis, reference)


def test_long_texts_do_not_hit_a_recursion_limit() -> None:
    """Sentences of thousands of words are scored; the official backtrack dies at about 1,000 steps."""
    words = [f"w{number}" for number in range(3000)]
    assert rouge_l(" ".join(words), " ".join(words)) == 0.999999995
