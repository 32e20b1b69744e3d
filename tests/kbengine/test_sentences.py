"""Sentence spans in passages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbengine.corpus.sentences import covering_sentence, sentence_spans
from kbengine.span import Span
from storage.languages import language_of

TEXT = 'Dr. Curie was born in Warsaw. She moved to Paris in 1891; "It was cold," she wrote.\tDid it matter? No.'


def test_abbreviations_do_not_end_a_sentence():
    """Spans cut out whole sentences without the white space between them."""
    assert [TEXT[span.start : span.end] for span in sentence_spans(TEXT)] == [
        "Dr. Curie was born in Warsaw.",
        'She moved to Paris in 1891; "It was cold," she wrote.',
        "Did it matter?",
        "No.",
    ]


def test_the_sentence_of_a_phrase_is_the_one_around_it():
    """A phrase is found in its own sentence."""
    start = TEXT.index("Paris")

    span = covering_sentence(sentence_spans(TEXT), Span(start, start + 5))

    assert TEXT[span.start : span.end].startswith("She moved") and TEXT[span.start : span.end].endswith("wrote.")


def test_a_phrase_over_two_sentences_gets_both():
    """Nothing of the phrase is cut off."""
    start, end = TEXT.index("Warsaw"), TEXT.index("She") + 3

    span = covering_sentence(sentence_spans(TEXT), Span(start, end))

    assert span.start == 0 and TEXT[span.start : span.end].endswith("wrote.")


@pytest.mark.parametrize("text", ["", "   ", "no stop at all", "東京は日本の首都です。京都は古い。"])
def test_any_text_has_at_least_one_span(text):
    """Spans are inside the text, in order."""
    spans = sentence_spans(text)

    assert spans and all(0 <= span.start <= span.end <= len(text) for span in spans)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"language": "de-AT"}, "de"),
        ({"language": "PT_br"}, "pt"),
        ({"language": "German, probably"}, "en"),
        ({"language": ["de"]}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_the_code_of_the_field(meta, code):
    """Without its region; what is no code is English."""
    assert language_of(meta) == code


def test_abbreviations_are_those_of_the_language():
    """A German one ends no sentence of a German text; a language without rules is split as English."""
    text = "Er kam am 3. Mai an. Es war kalt."

    assert len(sentence_spans(text, "de")) == 2 < len(sentence_spans(text))
    assert sentence_spans(TEXT, "zz") == sentence_spans(TEXT)


@given(st.text(max_size=200))
def test_spans_never_overlap_and_lose_only_white_space(text):
    """Between sentences there is nothing but white space."""
    spans = sentence_spans(text)

    covered = [False] * len(text)
    last = 0
    for span in spans:
        assert span.start >= last
        last = span.end
        covered[span.start : span.end] = [True] * (span.end - span.start)
    if text.strip():
        assert all(seen or character.isspace() for seen, character in zip(covered, text, strict=True))
