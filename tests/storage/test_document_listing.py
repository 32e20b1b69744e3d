"""Listings of documents as people leaf through them: sorted, counted, narrowed by the values of fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.document_listing import field_choices, page_of_documents
from storage.errors import InvalidOptionError
from storage.records import JSON
from storage.where_sql import matching_documents
from tests.storage.field_world import connect, store


def listed(sort: str, metas: Sequence[dict[str, JSON]], **options: object) -> tuple[list[str], int]:
    """The ids of a page and the number of all documents, d1, d2, … with these fields."""
    with connect() as connection:
        store(connection, metas)
        page = page_of_documents(connection, sort=sort, **options)  # type: ignore[arg-type]
    return [each.doc_id for each in page.records], page.total


METAS: list[dict[str, JSON]] = [{"year": 3, "lang": "en"}, {"year": [1, 5]}, {"lang": "de"}, {"year": 2}, {"year": 2}]


@pytest.mark.parametrize(
    ("sort", "wanted"),
    [
        ("id", "d1 d2 d3 d4 d5"),
        ("-id", "d5 d4 d3 d2 d1"),
        ("-added", "d5 d4 d3 d2 d1"),
        ("year", "d2 d4 d5 d1 d3"),
        ("-year", "d2 d1 d4 d5 d3"),
        ("meta.year", "d2 d4 d5 d1 d3"),
        ("-lang", "d1 d3 d2 d4 d5"),
    ],
)
def test_documents_are_sorted_and_those_without_the_field_come_last(sort, wanted):
    """A list counts with its smallest value, or, falling, with its largest; equal ones are in the order of ids."""
    assert listed(sort, METAS) == (wanted.split(), 5)


def test_pages_of_a_listing_are_parts_of_one_order():
    """Whatever filter and order: one after another they are all documents, and each knows how many there are."""
    parts = [listed("-year", METAS, where="year > 1", offset=offset, limit=2) for offset in (0, 2, 4)]

    assert [each for ids, _ in parts for each in ids] == ["d2", "d1", "d4", "d5"]
    assert {total for _, total in parts} == {4}
    assert listed("title", METAS, among=[3, 1]) == (["d1", "d3"], 2)


def test_a_field_that_no_document_has_is_no_order():
    """The message says which there are."""
    with pytest.raises(InvalidOptionError, match=r"'yaer'.*year \(number\).*did you mean 'year'"):
        listed("-yaer", METAS)


VALUES = st.one_of(
    st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["a", "it's", "2020-01-31", ""])
)
NAMES = st.sampled_from(["lang", "or", "last-modified", "title", 'a"b', "x.y", "", "ü"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=12))
def test_the_filter_of_each_value_gives_the_documents_that_are_counted(metas):
    """Whatever a field is called and holds, its value can be asked for."""
    with connect() as connection:
        store(connection, metas)
        for choice in field_choices(connection):
            for value in choice.values:
                assert len(matching_documents(connection, value.where)) == value.count


def test_fields_of_many_values_are_named_without_them():
    """There is nothing to choose from, but they can be sorted by."""
    with connect() as connection:
        store(connection, [{"n": number, "kind": "x"} for number in range(30)])
        kind, n = field_choices(connection)

    assert [each.shown for each in kind.values] == ["x"] and kind.values[0].count == 30
    assert dataclasses.astuple(n) == ("n", ("number",), ())
