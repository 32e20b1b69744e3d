"""Normalisation and answer scores."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kilt.downstream import answer_scores, f1_score
from kbengine.corpus.normalise import norm


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("U.S.-based", "usbased"),
        ("A's", "as"),
        ("an-droid", "android"),
        ("The  Ulm\tMinster!", "ulm minster"),
        ("the", ""),
        ("“Ulm” – now", "“ulm” – now"),
        ("a\u00a0flood", "flood"),
    ],
)
def test_normalisation_follows_the_official_order(text: str, expected: str) -> None:
    """Lower case, then punctuation, then articles, then blanks."""
    assert norm(text) == expected


@given(text=st.text(alphabet=st.sampled_from("aAnthe U.S'’-\u2028\u00e9\t"), max_size=40))
def test_normalisation_equals_the_plain_definition(text: str) -> None:
    """Character by character, as the definition says it."""
    bare = "".join(character for character in text.lower() if character not in set(string.punctuation))
    assert norm(text) == " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


_WORDS = st.lists(st.sampled_from(["ulm", "Ulm", "the", "a", "red", "red.", "blue"]), max_size=6).map(" ".join)


@given(guess=_WORDS, answer=_WORDS)
def test_f1_equals_the_plain_definition(guess: str, answer: str) -> None:
    """Shared tokens counted with their multiplicity."""
    guessed, wanted = Counter(norm(guess).split()), Counter(norm(answer).split())
    shared = sum(min(guessed[word], wanted[word]) for word in guessed)
    if shared == 0:
        assert f1_score(guess, answer) == 0
    else:
        precision, recall = 1.0 * shared / guessed.total(), 1.0 * shared / wanted.total()
        assert f1_score(guess, answer) == (2 * precision * recall) / (precision + recall)


def test_each_score_takes_its_own_best_answer() -> None:
    """Accuracy, EM, F1 and ROUGE-L may come from different gold answers."""
    scores = answer_scores("the red Ulm", {"red ulm", "the red Ulm of old"})
    assert (scores.accuracy, scores.em, scores.f1) == (0, 1, 1.0)
    assert scores.rougel > 0.7


def test_an_empty_guess_scores_nothing_even_without_gold_answers() -> None:
    """The official evaluator skips such a record before it looks for gold answers."""
    assert answer_scores("", ()).em == 0


def test_a_guess_without_any_gold_answer_is_an_error() -> None:
    """There is nothing to compare with."""
    with pytest.raises(ValueError, match="no gold answer"):
        answer_scores("Ulm", ())
