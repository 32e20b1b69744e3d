"""Terms, postings and BM25."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, UsageError
from storage.lexical_view import LexicalView
from storage.live_words import LiveWords
from storage.postings import (
    Bm25Options,
    Postings,
    build_postings,
    merge_postings,
    term_weights,
    terms_of,
)
from storage.terms import name_term, spotted_name_terms, title_word_terms

WORDS = ["river", "rivers", "Paris", "the", "gold", "golden", "café", "1999", "东京", "of"]
Texts = Sequence[tuple[str, str]]


def plain_bm25(texts: Texts, weights: dict[str, float]) -> list[float]:
    """BM25 as the textbook writes it, one passage at a time."""
    return plain_bm25_of_terms([terms_in(text) for text in texts], weights)


def terms_in(passage: tuple[str, str]) -> list[str]:
    """The terms of a passage's title and text."""
    return terms_of(passage[0]) + terms_of(passage[1])


def plain_bm25_of_terms(
    texts: Sequence[list[str]], weights: dict[str, float], *, k1: float = 0.9, b: float = 0.4
) -> list[float]:
    """BM25 of lists of terms."""
    documents = [Counter(text) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    average = sum(lengths) / len(lengths)
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        score = 0.0
        for term, weight in weights.items():
            frequency = sum(term in other for other in documents)
            idf = math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
            tf = document[term]
            if tf:
                score += weight * idf * tf / (tf + k1 * (1 - b + b * length / average))
        scores.append(score)
    return scores


def as_sets(postings: Postings) -> dict[int, list[tuple[int, int]]]:
    """(passage, count) of each term."""
    bounds = postings.posting_starts
    return {
        int(term): list(
            zip(
                postings.posting_passages[bounds[i] : bounds[i + 1]].tolist(),
                postings.posting_counts[bounds[i] : bounds[i + 1]].tolist(),
                strict=True,
            )
        )
        for i, term in enumerate(postings.terms)
    }


def words_of(parts: list[Postings], numbers: NDArray[np.int64] | None = None) -> LiveWords:
    """The words of passages that are all live; each is a document of its own unless their documents are given."""
    view = LexicalView(parts)
    ids = np.arange(view.n_passages) if numbers is None else numbers
    return LiveWords(view, ids, np.ones(view.n_passages, dtype=np.bool_))


texts_strategy = st.lists(
    st.tuples(st.sampled_from(["", "Paris", "The Who"]), st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(texts=texts_strategy, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), cut=st.integers(0, 12))
def test_scores_are_plain_bm25_however_the_passages_are_divided(
    texts: list[tuple[str, str]], query: list[str], cut: int
) -> None:
    """One segment or two: the scores are those of a BM25 written in plain Python."""
    weights = term_weights(" ".join(query))
    wanted = plain_bm25(texts, weights)
    parts = [build_postings(part) for part in (texts[:cut], texts[cut:]) if part]
    np.testing.assert_allclose(words_of(parts).own_scores(weights), wanted, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    documents=st.lists(texts_strategy, min_size=1, max_size=5),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    data=st.data(),
)
def test_document_scores_are_bm25_of_all_passages_as_one_text(
    documents: list[list[tuple[str, str]]], query: list[str], data: st.DataObject
) -> None:
    """A document scores like the terms of its passages (each with its title) put together, however divided."""
    weights = term_weights(" ".join(query))
    texts = [passage for passages in documents for passage in passages]
    numbers = np.repeat(np.arange(len(documents)), [len(passages) for passages in documents])
    cut = sum(len(passages) for passages in documents[: data.draw(st.integers(0, len(documents)))])
    words = words_of([build_postings(part) for part in (texts[:cut], texts[cut:]) if part], numbers)
    wanted = plain_bm25_of_terms(
        [[term for passage in of_one for term in terms_in(passage)] for of_one in documents], weights
    )
    np.testing.assert_allclose(words.own_document_scores(weights), wanted, rtol=1e-5)


def test_titles_are_spotted_as_wholes_in_running_text() -> None:
    """Every run of up to five words is tried as a title, stop words alone are not."""
    found = spotted_name_terms("have you seen The Secret Garden, it is great")
    assert name_term("The Secret Garden") in found
    assert name_term("garden") in found
    assert name_term("it is") not in found and name_term("it") not in found
    assert len(found) == len(set(found))


def test_large_and_small_segments_mix() -> None:
    """Passages keep their places when small segments between large ones are merged in memory."""
    rng = np.random.default_rng(1)
    vocabulary = [f"word{number}" for number in range(50)]
    sizes = [1500, 3, 5, 1200, 4]
    texts = [("", " ".join(rng.choice(vocabulary, size=5))) for _ in range(sum(sizes))]
    bounds = np.cumsum([0, *sizes])
    parts = [build_postings(texts[start:end]) for start, end in itertools.pairwise(bounds)]
    whole = words_of([build_postings(texts)])
    np.testing.assert_allclose(words_of(parts).own_scores("word1 word7 word7"), whole.own_scores("word1 word7 word7"))


@settings(max_examples=60, deadline=None)
@given(texts=texts_strategy, data=st.data())
def test_merging_equals_building_from_what_is_kept(texts: list[tuple[str, str]], data: st.DataObject) -> None:
    """Postings merged with a mask are those built from the kept passages."""
    cut = data.draw(st.integers(0, len(texts)))
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))), dtype=np.bool_)
    merged = merge_postings([build_postings(texts[:cut]), build_postings(texts[cut:])], [keep[:cut], keep[cut:]])
    wanted = build_postings([text for text, kept in zip(texts, keep, strict=True) if kept])
    assert as_sets(merged) == as_sets(wanted)
    assert merged.passage_lengths.tolist() == wanted.passage_lengths.tolist()


def test_weights_multiply_a_terms_share() -> None:
    """A query's score is the weighted sum over its terms; a weight may be negative."""
    view = words_of([build_postings([("", "gold river"), ("", "gold"), ("", "stone")])])
    gold, river = view.own_scores({"gold": 1.0}), view.own_scores({"river": 1.0})
    np.testing.assert_allclose(view.own_scores({"gold": 2.0, "river": -0.5}), 2 * gold - 0.5 * river, rtol=1e-6)


def test_a_term_counts_at_most_255_times() -> None:
    """Counts are stored in a byte and saturate; lengths stay true."""
    postings = build_postings([("", "gold " * 1000)])
    assert postings.posting_counts.tolist() == [255]
    assert postings.passage_lengths.tolist() == [1000]


def test_the_title_counts_in_its_passages() -> None:
    """A passage is found by its document's title."""
    view = words_of([build_postings([("Danube", "a river"), ("Rhine", "a river")])])
    assert view.own_scores("danube").argmax() == 0
    assert view.own_scores("danube")[1] == 0


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The rivers of Paris", ["river", "pari"]),
        ("CAFÉ Zürich naïve", ["cafe", "zurich", "naiv"]),
        ("Obama's dog didn’t bark", ["obama", "dog", "bark"]),
        ("The Who", ["the", "who"]),
        ("", []),
        ("...", []),
        ("C-3PO & R2D2", ["c", "3po", "r2d2"]),
        ("Москва река", ["москва", "река"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("京", ["京"]),
        ("iPhone発売日", ["iphon", "発売", "売日"]),
        ("ﬁne ™", ["fine", "tm"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
    ],
)
def test_text_becomes_terms(text: str, terms: list[str]) -> None:
    """Lower case, accents folded, stop words dropped unless alone, stemmed; scripts without spaces as pairs."""
    assert terms_of(text) == terms


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_has_terms_that_find_it(text: str) -> None:
    """No text breaks the analysis, and a passage is found by its own text."""
    view = words_of([build_postings([("", text), ("", "something else")])])
    if terms_of(text):
        assert view.own_scores(text)[0] > 0
    else:
        assert not view.own_scores(text).any()


def test_words_nobody_wrote_score_nothing() -> None:
    """Unknown terms, empty queries and an empty index are zeros, not errors."""
    view = words_of([build_postings([("", "gold")])])
    assert view.own_scores("zzz").tolist() == [0.0]
    assert view.own_scores("").tolist() == [0.0]
    assert words_of([]).own_scores("gold").shape == (0,)
    assert words_of([build_postings([("", "")])]).own_scores("gold").tolist() == [0.0]


def test_senseless_weights_and_options_are_refused() -> None:
    """A weight must be a number; k1 and b have their ranges."""
    with pytest.raises(UsageError, match="gold"):
        words_of([build_postings([("", "gold")])]).own_scores({"gold": float("nan")})
    with pytest.raises(InvalidOptionError, match="k1"):
        Bm25Options(k1=-1)
    with pytest.raises(InvalidOptionError, match="b is 2"):
        Bm25Options(b=2)


def test_a_name_finds_titles_that_are_it_with_or_without_a_qualifier():
    """Case, accents and the part in brackets or behind a comma do not count; other words of a title do."""
    titles = ["Mercury (element)", "Mercury", "Freddie Mercury", "Lincoln, Nebraska", "São Paulo"]
    view = words_of([build_postings([(title, "some text") for title in titles])])

    found = {name: np.flatnonzero(view.own_scores({name_term(name): 1.0})).tolist() for name in ("MERCURY", "lincoln")}

    assert found == {"MERCURY": [0, 1], "lincoln": [3]}
    assert np.flatnonzero(view.own_scores({name_term("sao paulo"): 1.0})).tolist() == [4]


def test_title_words_are_matched_against_titles_only():
    """A word of the text is none of the title; a title's match does not depend on the passage's length."""
    view = words_of([build_postings([("Paris", "short"), ("Lyon", "Paris " * 9), ("Paris, Texas", "long " * 90)])])

    scores = view.own_scores(dict.fromkeys(title_word_terms("Paris"), 1.0))

    assert scores[0] == scores[2] > 0 and scores[1] == 0


def test_title_terms_leave_the_scores_of_plain_words_as_they_were():
    """They count neither in the length nor for queries of words."""
    passages = [("Paris", "a city on the Seine"), ("Lyon", "a city on the Rhône")]

    assert build_postings(passages).passage_lengths.tolist() == [len(terms_of(f"{a} {b}")) for a, b in passages]
