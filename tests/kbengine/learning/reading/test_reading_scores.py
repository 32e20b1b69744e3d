"""The figures of reading: SQuAD 1.1's, and SQuAD 2.0's with its thresholds, against plain definitions."""

from __future__ import annotations

import math
import random

import pytest

from kbengine.errors import UsageError
from kbengine.learning.reading.answer_scores import best_exact_match, best_f1
from kbengine.learning.reading.scores import Guess, ScoredQuestion, score_guesses


def question(number: int, *answers: str) -> ScoredQuestion:
    """Return a question with these gold answers."""
    return ScoredQuestion(f"q{number}", "toy", answers)


def test_figures_of_a_hand_computed_set() -> None:
    """Normalised equality, partial overlap, nothing in common."""
    questions = [question(0, "The Ulm Minster"), question(1, "in 1377", "1377"), question(2, "Paris")]
    scores = score_guesses(questions, [Guess("ulm minster", 3), Guess("year 1377", 2), Guess("Rome", 1, False)])
    assert scores.em == pytest.approx(100 / 3)
    assert scores.f1 == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    assert scores.in_gold_passage == pytest.approx(200 / 3)
    assert (scores.n, scores.n_answerable, scores.no_answer_em, scores.best_em) == (3, 3, None, None)
    assert [record.em for record in scores.records] == [1, 0, 0]


def test_a_threshold_turns_unsure_guesses_into_no_answer() -> None:
    """Right for a question without answer, wrong for one with."""
    questions = [question(0, "Ulm"), question(1), question(2, "Rome"), question(3)]
    guesses = [Guess("Ulm", 2), Guess("Ulm", -1), Guess("Rome", -2), Guess("Ulm", 1)]
    scores = score_guesses(questions, guesses, threshold=0)
    assert (scores.em, scores.has_answer_em, scores.no_answer_em) == (50, 50, 50)
    assert [record.answer for record in scores.records] == ["Ulm", "", "", "Ulm"]
    assert scores.best_em is not None
    assert (scores.best_em.value, scores.best_em.threshold) == (75, 2)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_threshold_is_that_of_trying_all(seed: int) -> None:
    """With ties among the scores; the figure at that threshold is the best one."""
    rng = random.Random(seed)
    answers = ["one two", "three", "four five six", "seven"]
    questions = [question(i, *(rng.sample(answers, 1) if rng.random() < 0.6 else ())) for i in range(30)]
    guesses = [Guess(rng.choice([*answers, "two", ""]), rng.randint(0, 6)) for _ in questions]
    scores = score_guesses(questions, guesses)
    thresholds = [math.inf, *{guess.score for guess in guesses}]
    for best, measure in ((scores.best_em, best_exact_match), (scores.best_f1, best_f1)):
        tried = {
            t: sum(measure(g.text if g.score >= t else "", q.answers) for q, g in zip(questions, guesses, strict=True))
            for t in thresholds
        }
        assert best is not None
        assert best.value == pytest.approx(100 * max(tried.values()) / 30)
        assert tried[best.threshold] == pytest.approx(max(tried.values()))
        at_best = score_guesses(questions, guesses, threshold=best.threshold)
        assert best.value in (pytest.approx(at_best.em), pytest.approx(at_best.f1))


def test_nothing_to_score_is_an_error() -> None:
    """No question, or a guess too few."""
    with pytest.raises(UsageError):
        score_guesses([], [])
    with pytest.raises(UsageError, match="1 questions came with 0 guesses"):
        score_guesses([question(0)], [])
