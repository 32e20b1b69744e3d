"""Evidence and hard negatives that BM25 finds."""

from __future__ import annotations

import pytest

from kbengine.errors import TrainingDataError
from kbengine.learning.data.mining import mine_negatives
from kbengine.learning.data.passage_index import IndexedPassage
from kbengine.learning.data.reading import DataOptions, read_training_files
from tests.kbengine.learning.phrases.small_training import example
from tests.kbengine.learning.phrases.test_data import OSLO, PAGES, write_lines


def test_questions_without_passages_find_evidence_in_the_corpus(tmp_path):
    """NQ-open: the best BM25 passage with an answer; excluded pages are no evidence."""
    pages = write_lines(tmp_path / "pages.jsonl", PAGES)
    rows = [
        {"question": "when was the castle built by a king", "answer": ["around 1300", "1299"]},
        {"question": "when was the castle built", "answer": ["2024"]},
        {"question": "", "answer": ["x"]},
    ]
    file = write_lines(tmp_path / "open.jsonl", rows)
    data = read_training_files([file], DataOptions(pages=(pages,)))

    (example,) = data.examples
    assert example.passage == OSLO and example.answer_texts == ("around 1300",) and example.doc_id == "1"
    assert data.report.unusable == {"answer in none of the best passages": 1, "no question": 1}
    with pytest.raises(TrainingDataError, match="questions without passages; give the corpus with --pages"):
        read_training_files([file])
    with pytest.raises(TrainingDataError, match="none of 3 rows"):
        read_training_files([file], DataOptions(pages=(pages,), exclude=frozenset({"1"})))


def test_bm25_negatives_have_the_words_but_not_the_answer_and_same_phrase_ones_have_it():
    """Two ways to look right and be wrong; the own document is never mined."""
    passages = [
        IndexedPassage("France", "France", "The capital of France is Paris."),
        IndexedPassage("a", "A", "The capital of France was moved once."),
        IndexedPassage("b", "B", "Paris was founded by a family."),
        IndexedPassage("c", "C", "Water boils."),
    ]
    (near,) = mine_negatives([example(0)], passages, "bm25", n=2)
    (same,) = mine_negatives([example(0, negatives=("given",))], passages, "same-phrase", n=2)

    assert near.negatives == ("The capital of France was moved once.",) and near.negative_titles == ("A",)
    assert same.negatives == ("given", "Paris was founded by a family.") and same.negative_titles == ("", "B")
