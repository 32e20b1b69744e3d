"""Mentions found, linked together, and told apart from what is none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.annotating.annotator import AnnotateOptions, Annotator
from adapters.annotating.windows import windows_of
from kbengine.errors import InvalidOptionError
from tests.adapters.annotating.scripted_linker import NAME_WEIGHT, ScriptedLinker

PLACES = {
    "Lincoln, Nebraska": "Lincoln is the capital of Nebraska; Omaha is its larger neighbour on the Missouri.",
    "Abraham Lincoln": "Abraham Lincoln was president during the Civil War.",
    "Omaha": "Omaha is the largest city of Nebraska, an hour from Lincoln, on the Missouri.",
    "Reading": "Reading is a town. He likes reading, and reading aloud, and reading well.",
    "Ronald Reagan": "Ronald Reagan was an actor and president.",
    "Donald Regan": "Donald Regan was a secretary.",
}


def annotated(text: str, thinks: dict[str, dict[str, float]], **options: object) -> list[tuple[str, str | None]]:
    """The mentions of a text with the titles of their links."""
    linker = ScriptedLinker(PLACES, thinks)
    annotator = Annotator(linker, linker.ask, name_weight=NAME_WEIGHT)  # type: ignore[arg-type]  # a fake reader
    found = list(annotator.annotate(text, AnnotateOptions(**options)))  # type: ignore[arg-type]
    assert all(text[each.span.start : each.span.end] == each.text for each in found)
    assert all(a.span.end <= b.span.start for a, b in itertools.pairwise(found))
    return [(each.text, each.link.title if each.link else None) for each in found]


def test_a_mention_alone_is_what_the_linker_says() -> None:
    """And a name that it knows nothing of has no link, with the reason."""
    thinks = {"Omaha": {"Omaha": 0.95, "Lincoln, Nebraska": 0.02}}

    assert annotated("They live in Omaha with Quill.", thinks) == [("Omaha", "Omaha"), ("Quill", None)]


def test_the_other_mentions_of_a_text_decide_between_two_meanings() -> None:
    """Lincoln is the town where Omaha stands beside it, and the president where it does not."""
    lincoln = {"Abraham Lincoln": 0.55, "Lincoln, Nebraska": 0.45}
    thinks = {"Lincoln": lincoln, "Omaha": {"Omaha": 0.95}}

    (first, *_) = annotated("From Lincoln to Omaha.", thinks, threshold=0.0)

    assert first == ("Lincoln", "Lincoln, Nebraska")
    assert annotated("We speak of Lincoln.", {"Lincoln": lincoln}, threshold=0.0)[0] == ("Lincoln", "Abraham Lincoln")


def test_a_lower_case_word_that_is_a_title_as_well_is_no_mention() -> None:
    """It is not even asked about, unless the threshold is low."""
    thinks = {"reading": {"Reading": 0.9}}

    assert annotated("She is good at reading.", thinks) == []
    linker = ScriptedLinker(PLACES, thinks)
    list(Annotator(linker, linker.ask, name_weight=NAME_WEIGHT).annotate("She is good at reading."))  # type: ignore[arg-type]
    assert linker.asked == []


def test_a_surname_means_whom_the_text_named_in_full() -> None:
    """Also where the linker has not found him by the surname alone."""
    thinks = {"Ronald Reagan": {"Ronald Reagan": 0.97}, "Reagan": {"Donald Regan": 0.3}}

    found = annotated("Once Ronald Reagan came. Later on Reagan spoke.", thinks)

    assert ("Reagan", "Ronald Reagan") in found


def test_names_without_a_link_can_be_left_out() -> None:
    """And then only links come."""
    thinks = {"Omaha": {"Omaha": 0.95}}

    assert annotated("They live in Omaha with Quill.", thinks, unlinked=False) == [("Omaha", "Omaha")]


def test_marks_in_the_text_are_only_characters() -> None:
    """A mention's text may not have them, so the linker does not see them."""
    thinks = {"Omaha": {"Omaha": 0.95}}

    assert ("Omaha", "Omaha") in annotated("[START_ENT] Omaha [END_ENT] is in Nebraska.", thinks)


def test_progress_comes_to_the_end_of_the_text() -> None:
    """Window by window."""
    text = "They live in Omaha.\n\n" * 500
    linker, told = ScriptedLinker(PLACES, {"Omaha": {"Omaha": 0.95}}), []
    annotator = Annotator(linker, linker.ask, name_weight=NAME_WEIGHT)  # type: ignore[arg-type]  # a fake reader

    found = list(annotator.annotate(text, progress=lambda done, of: told.append((done, of))))

    assert len(found) == 500 and len(told) > 2 and told[-1] == (len(text), len(text))
    assert len(linker.asked) == len(told), "each window asks for a name once"


@given(st.text(max_size=300), st.integers(min_value=1, max_value=50))
def test_windows_leave_nothing_out(text: str, max_chars: int) -> None:
    """Whatever the text."""
    windows = list(windows_of(text, max_chars=max_chars))

    assert "".join(window.text for window in windows) == text
    assert all(0 < len(window.text) <= max_chars for window in windows)


@given(st.text(max_size=200))
def test_any_text_can_be_annotated(text: str) -> None:
    """Nothing of it breaks the words apart wrongly."""
    annotated(text, {})


@pytest.mark.parametrize("options", [{"threshold": 1.5}, {"threshold": float("nan")}, {"candidates": 0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    """With the value seen and the range wanted."""
    with pytest.raises(InvalidOptionError, match="wanted"):
        AnnotateOptions(**options)  # type: ignore[arg-type]
