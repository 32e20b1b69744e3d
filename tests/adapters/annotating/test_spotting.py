"""Which spans of a text may be mentions."""

from __future__ import annotations

import pytest

from adapters.annotating.spotting import spot
from adapters.annotating.words import words_of
from tests.adapters.annotating.scripted_linker import NamesOf


def spotted(text: str, *titles: str) -> list[tuple[str, bool]]:
    """The spans found, and whether each is known."""
    found = spot(text, words_of(text), NamesOf(*titles))
    return [(text[each.span.start : each.span.end], each.is_known) for each in found]


def test_names_that_are_known_are_found_in_any_case_the_longest_of_each() -> None:
    """A title without its qualifier is one, too."""
    found = spotted("In new york city the Statue of Liberty stands.", "New York City", "New York", "Statue of Liberty")

    assert found == [("new york city", True), ("Statue of Liberty", True)]
    assert spotted("It rose in Lincoln.", "Lincoln, Nebraska") == [("Lincoln", True)]


def test_capitalised_words_that_nobody_knows_are_names_all_the_same() -> None:
    """With the small words within them, not with those around them."""
    assert spotted("Yesterday the Bank of Quillmere paid.") == [("Yesterday", False), ("Bank of Quillmere", False)]


@pytest.mark.parametrize("text", ["It rained.", "She said so. The end came.", "Who knows?"])
def test_stop_words_that_begin_a_sentence_are_no_names(text: str) -> None:
    """Although there are works called so."""
    assert spotted(text, "It", "The End (film)", "She", "Who") in ([], [("The end", True)])


def test_stop_words_are_a_name_where_they_have_capitals_in_the_middle() -> None:
    """The band, and the country, but not the pronoun."""
    assert spotted("They saw The Who in the US with us.", "The Who", "US") == [("The Who", True), ("US", True)]


def test_a_company_keeps_its_legal_form_and_is_looked_up_without_it() -> None:
    """As in news."""
    text = "Shares of Texaco Inc fell."

    (found,) = [each for each in spot(text, words_of(text), NamesOf("Texaco")) if each.is_known]

    assert text[found.span.start : found.span.end] == "Texaco Inc" and found.name == "Texaco"


def test_what_somebody_is_called_by_may_stand_before_the_name() -> None:
    """Both are proposed; which it is shows when they are linked."""
    assert spotted("There President Quill spoke.") == [("President Quill", False), ("Quill", False)]
    found = spotted("He saw Paris and London.", "Paris", "London")
    assert ("Paris", True) in found and ("London", True) in found


def test_names_do_not_go_over_the_ends_of_sentences_but_over_abbreviations() -> None:
    """The U.S. is one word, and St. Louis one name."""
    assert spotted("He left Ulm. Berlin was next.", "Ulm. Berlin") == [("Ulm", False), ("Berlin", False)]
    assert spotted("He left St. Louis for the U.S. on foot.", "St. Louis", "U.S.") == [
        ("St. Louis", True),
        ("U.S.", True),
    ]


def test_a_possessive_is_not_part_of_a_name() -> None:
    """Neither with a straight nor with a typographic apostrophe."""
    assert spotted("We saw Ulm's and Paris’s towers.", "Ulm", "Paris") == [("Ulm", True), ("Paris", True)]
