"""The best passages by words, where whole documents count too, are those of an array of all passages."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kbengine.search.query_vectors import LexicalScores
from storage.lexical_view import LexicalView
from storage.live_words import LiveWords
from storage.postings import build_postings
from storage.text_scores import TextScores

N_PASSAGES = 60
NUMBERS = np.cumsum(np.random.default_rng(2).random(N_PASSAGES) < 0.4)
WORDS = LiveWords(
    LexicalView([build_postings([("", "gold")] * N_PASSAGES)]), NUMBERS, np.ones(N_PASSAGES, dtype=np.bool_)
)
N_DOCUMENTS = int(WORDS.document_numbers[-1]) + 1


def scores_of(values: dict[int, float]) -> TextScores:
    """Scores by number."""
    numbers = np.array(sorted(values), dtype=np.int64)
    return TextScores(numbers, np.array([values[each] for each in numbers.tolist()], dtype=np.float32))


@settings(max_examples=200, deadline=None)
@given(
    own=st.dictionaries(st.integers(0, N_PASSAGES - 1), st.sampled_from([-0.5, 0.0, 0.1, 0.3, 1.0]), max_size=30),
    documents=st.dictionaries(st.integers(0, N_DOCUMENTS - 1), st.sampled_from([0.1, 0.3, 2.0]), max_size=12),
    k=st.integers(0, 40),
)
def test_the_best_are_those_of_all_passages(own: dict[int, float], documents: dict[int, float], k: int) -> None:
    """A passage without a word of its own has its document's score; scores below 0 lessen that of a document."""
    found = LexicalScores(scores_of(own), scores_of(documents), WORDS)
    dense = scores_of(own).dense(N_PASSAGES) + scores_of(documents).dense(N_DOCUMENTS)[WORDS.document_numbers]
    order = np.argsort(-dense, kind="stable")
    assert found.best(k).tolist() == order[dense[order] > 0][:k].tolist()
    everything = np.arange(N_PASSAGES)
    assert found.of(everything).tobytes() == dense.tobytes()


def test_a_gate_lowers_what_counts_and_not_what_is_found() -> None:
    """A factor multiplies scores of passages; which are the best is the same."""
    found = LexicalScores(scores_of({1: 1.0, 4: 2.0}), None, WORDS, factor=0.5)
    assert found.best(2).tolist() == [4, 1]
    assert found.of(np.array([1, 2, 4])).tolist() == [0.5, 0.0, 1.0]
    assert found.before_gate(np.array([4])).tolist() == [2.0]
