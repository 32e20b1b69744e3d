"""Searching in rounds: more is looked for only when more is wanted, and comes after what was found."""

from __future__ import annotations

import pytest

from kbengine.search.query import UNITS, Query, SearchOptions
from kbengine.search.searcher import ROUND_PLACES, Searcher
from storage.reader import KBReader
from tests.kbengine.synthetic_kb import VectorEncoder, write_synthetic_kb

QUERY = Query.question("amber basil heron")


class CountingEncoder(VectorEncoder):
    """Tells how often it encoded queries."""

    calls = 0

    def encode_queries(self, *arguments, **options):
        self.calls += 1
        return super().encode_queries(*arguments, **options)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A synthetic knowledge base, open."""
    path = tmp_path_factory.mktemp("rounds") / "kb"
    write_synthetic_kb(path)
    with KBReader.open(path) as opened:
        yield opened


@pytest.mark.parametrize("unit", UNITS)
def test_a_longer_list_begins_with_the_shorter_one(reader, unit) -> None:
    """Texts, scores and ranks, across the ends of rounds."""
    searcher = Searcher(reader, VectorEncoder())
    lists = {k: searcher.search([QUERY], SearchOptions(k=k, unit=unit))[0].hits for k in (1, 7, 49, 50, 51, 180, 1000)}
    longest = lists[1000]
    for k, hits in lists.items():
        assert hits == longest[: len(hits)]
        assert len(hits) == min(k, len(longest))
    assert [hit.rank for hit in longest] == list(range(1, len(longest) + 1))
    assert len({(hit.passage.passage_id, hit.span) for hit in longest}) == len(longest)


@pytest.mark.parametrize("unit", UNITS)
def test_a_round_finds_as_many_however_few_are_shown(reader, unit) -> None:
    """Only what is shown is resolved in full; where the round ended is told all the same."""
    searcher = Searcher(reader, VectorEncoder())
    few, many = (searcher.search([QUERY], SearchOptions(k=k, unit=unit))[0] for k in (3, 20))
    assert len(few.hits) == 3 and few.round_ends == many.round_ends
    assert few.round_ends[0] >= 20


def test_places_that_are_one_answer_count_once_and_queries_are_encoded_once(reader) -> None:
    """Answers are told apart by the document's first letter: there are few, so all rounds are made."""
    encoder = CountingEncoder()
    options = SearchOptions(k=900, unit="phrase")
    (found,) = Searcher(reader, encoder).search([QUERY], options, key_of=lambda _, hit: hit.document.doc_id[-1])
    assert encoder.calls == 1
    ends = found.round_ends
    assert list(ends) == sorted(ends) and ends[-1] == len(found.hits)
    firsts = {hit.document.doc_id[-1] for hit in found.hits[: ends[0]]}
    assert not firsts & {hit.document.doc_id[-1] for hit in found.hits[ends[0] :]}
    assert ends[0] == ROUND_PLACES


def test_what_is_no_answer_is_left_out(reader) -> None:
    """A key of None; the first round ends sooner then."""
    searcher = Searcher(reader, VectorEncoder())
    (everything,) = searcher.search([QUERY], SearchOptions(k=5), key_of=lambda _, hit: hit.first_token_id)
    worst = everything.hits[0].first_token_id
    (others,) = searcher.search(
        [QUERY], SearchOptions(k=5), key_of=lambda _, hit: None if hit.first_token_id == worst else hit.first_token_id
    )
    assert [hit.first_token_id for hit in others.hits] == [hit.first_token_id for hit in everything.hits[1:]]
    assert [hit.rank for hit in others.hits] == list(range(1, len(others.hits) + 1))
