"""Scores of few texts are those of all of them, most being 0: to the last bit those of dense arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from storage.lexical_view import LexicalView
from storage.live_words import LiveWords
from storage.postings import Postings, build_postings
from storage.text_scores import TextScores

Float32 = NDArray[np.float32]

numbered = st.dictionaries(st.integers(0, 99), st.integers(-2, 4), max_size=40)


def scores_of(values: dict[int, int]) -> TextScores:
    """Scores by number."""
    numbers = np.array(sorted(values), dtype=np.int64)
    return TextScores(numbers, np.array([values[each] for each in numbers.tolist()], dtype=np.float32))


@settings(max_examples=100, deadline=None)
@given(values=numbered, wanted=st.lists(st.integers(0, 110), max_size=30), k=st.integers(0, 50))
def test_looked_up_and_ranked_as_in_a_dense_array(values: dict[int, int], wanted: list[int], k: int) -> None:
    """In any order, also for numbers that have none; of equal scores the lower number is better."""
    found, dense = scores_of(values), scores_of(values).dense(120)
    assert found.of(np.array(wanted, dtype=np.int64)).tolist() == dense[wanted].tolist()
    order = np.argsort(-dense, kind="stable")
    assert found.best(k).tolist() == order[dense[order] > 0][:k].tolist()


@settings(max_examples=40, deadline=None)
@given(values=numbered, cuts=st.sets(st.integers(0, 100), max_size=6), added=st.integers(-3, 3))
def test_what_is_added_to_ranges_is_added_to_each_of_them(values: dict[int, int], cuts: set[int], added: int) -> None:
    """Also to numbers that had no score."""
    bounds = sorted(cuts)
    first, stop = np.array(bounds[0:-1:2], dtype=np.int64), np.array(bounds[1::2], dtype=np.int64)
    dense = scores_of(values).dense(120)
    for begin, end in zip(first, stop, strict=True):
        dense[begin:end] += added
    got = scores_of(values).with_ranges(first, stop, np.full(len(first), added, dtype=np.float32))
    assert got.dense(120).tolist() == dense.tolist()


def dense_scores(part: Postings, hashes: NDArray[np.uint64], is_title: list[bool], factors: Float32) -> Float32:
    """BM25 with an array as long as there are passages, term by term."""
    average = part.passage_lengths.mean()
    k1, b = 0.9, 0.4
    norms = (k1 * (1 - b) + (k1 * b / average) * part.passage_lengths.astype(np.float32)).astype(np.float32)
    scores = np.zeros(part.n_passages, dtype=np.float32)
    for term, of_title, factor in zip(hashes, is_title, factors, strict=True):
        (at,) = np.flatnonzero(part.terms == term)
        where = slice(*part.posting_starts[at : at + 2])
        passages = np.asarray(part.posting_passages)[where]
        counts = np.asarray(part.posting_counts)[where].astype(np.float32)
        scores[passages] += factor if of_title else counts / (counts + norms[passages]) * factor
    return scores


def dense_document_scores(part: Postings, hashes: NDArray[np.uint64], factors: Float32, numbers: NDArray[np.int64]):
    """The same of documents, whose counts are those of their passages added up."""
    lengths = np.bincount(numbers, weights=part.passage_lengths)
    norms = (0.9 * 0.6 + 0.9 * 0.4 * (lengths / lengths.mean())).astype(np.float32)
    scores = np.zeros(len(lengths), dtype=np.float32)
    for term, factor in zip(hashes, factors, strict=True):
        (at,) = np.flatnonzero(part.terms == term)
        where = slice(*part.posting_starts[at : at + 2])
        counts = np.bincount(
            numbers[np.asarray(part.posting_passages)[where]],
            weights=np.asarray(part.posting_counts)[where],
            minlength=len(lengths),
        ).astype(np.float32)
        has = counts > 0
        scores[has] += factor * counts[has] / (counts[has] + norms[has])
    return scores


def test_bm25_is_to_the_last_bit_that_of_dense_arrays() -> None:
    """Of rare and frequent terms, over many windows of passages, in one part or two."""
    rng = np.random.default_rng(5)
    vocabulary = [f"word{number}" for number in range(40)]
    chances = 1.0 / np.arange(1, 41) ** 2
    n = 10_000
    texts = [("", " ".join(rng.choice(vocabulary, 12, p=chances / chances.sum()))) for _ in range(n)]
    numbers = np.cumsum(rng.random(n) < 0.3)
    numbers -= numbers[0]
    cut = int(np.flatnonzero(np.diff(numbers))[2500]) + 1
    whole, parts = build_postings(texts), [build_postings(texts[:cut]), build_postings(texts[cut:])]
    hashes = rng.permutation(whole.terms)[:12]
    is_title = [number % 4 == 0 for number in range(len(hashes))]
    factors = rng.normal(size=len(hashes)).astype(np.float32)
    wanted = dense_scores(whole, hashes, is_title, factors)
    average = float(whole.passage_lengths.mean())
    wanted_of_documents = dense_document_scores(whole, hashes, factors, numbers)
    for divided in ([whole], parts):
        view = LexicalView(divided)
        found = view.scores(hashes, np.array(is_title), factors, average)
        assert found.dense(n).tobytes() == wanted.tobytes()
        assert (np.diff(found.numbers) > 0).all()
        assert len(found.numbers) < n
        words = LiveWords(view, numbers, np.ones(n, dtype=np.bool_))
        n_documents = words.counts.n_documents
        of_documents = words.document_scores(hashes, factors, words.counts.n_terms / n_documents)
        assert of_documents.dense(n_documents).tobytes() == wanted_of_documents.tobytes()


def test_nothing_is_found_without_terms_that_occur() -> None:
    """Neither for no term at all."""
    view = LexicalView([build_postings([("", "gold")])])
    for hashes in (np.zeros(0, dtype=np.uint64), np.array([1], dtype=np.uint64)):
        n = len(hashes)
        found = view.scores(hashes, np.zeros(n, dtype=np.bool_), np.ones(n, dtype=np.float32), 1.0)
        assert not len(found.numbers) and not len(found.best(3)) and not found.of(np.array([0])).any()
