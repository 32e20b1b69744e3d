"""Answer candidates: which spans the rules find, in which languages."""

from __future__ import annotations

import pytest

from kbengine.corpus.sentences import sentence_spans
from kbengine.learning.questions.candidates import answer_candidates, title_spans
from kbengine.learning.questions.words import joined, words_of
from kbengine.span import Span


def found(text: str, *, title: str = "", language: str = "en") -> dict[str, str]:
    """Return the kind of each candidate by its text."""
    candidates = answer_candidates(text, title=title, sentences=sentence_spans(text, language), language=language)
    return {text[each.span.start : each.span.end]: each.kind for each in candidates}


@pytest.mark.parametrize(
    ("text", "answer", "kind"),
    [
        ("The bridge was opened on 3 June 1911 by the mayor.", "3 June 1911", "date"),
        ("The bridge was opened on June 3, 1911 by the mayor.", "June 3, 1911", "date"),
        ("It closed in March 1987.", "March 1987", "date"),
        ("Construction began in 1764 and never ended.", "1764", "date"),
        ("La obra abrió el 3 de junio de 1911 en Lorna.", "3 de junio de 1911", "date"),
        ("Der Bau wurde am 3. Juni 1911 eröffnet.", "3. Juni 1911", "date"),
        ("该馆于1911年6月3日开放。", "1911年6月3日", "date"),
        ("The town has 11,300 inhabitants.", "11,300", "number"),
        ("The works cost $4.5 million in all.", "$4.5 million", "number"),
        ("About 40% of the hull was cut away.", "40%", "number"),
        ("The work is kept by the Order of the Grey Heron in Lorna.", "Order of the Grey Heron", "name"),
        ("He lost to Dr. J. R. Venn that year.", "Dr. J. R. Venn", "name"),
        ("She read Orla Venn's letters aloud.", "Orla Venn", "name"),
        ('They sang "Nine Winters" at the end.', "Nine Winters", "quoted"),
        ("Он написал «Девять зим» в деревне.", "Девять зим", "quoted"),
        ("彼は「九つの冬」を書いた。", "九つの冬", "quoted"),
        ("The hull is made of tarred oak and iron.", "tarred oak", "chunk"),
        ("Harrow Light (lighthouse) stands; Harrow Light shines.", "Harrow Light", "title"),
    ],
)
def test_a_rule_finds_its_kind_of_answer(text: str, answer: str, kind: str) -> None:
    """Dates, numbers, names, quotations and noun-like words, by form; months by name only in English."""
    assert found(text, title="Harrow Light (lighthouse)").get(answer) == kind


def test_a_year_inside_a_date_is_no_number() -> None:
    """A part of a date would be a wrong answer to what the whole answers."""
    assert "1911" not in found("It opened on 3 June 1911.") and "3" not in found("It opened on 3 June 1911.")


def test_a_capital_at_the_start_of_a_sentence_makes_no_name() -> None:
    """Unless the word is capitalised inside a sentence as well."""
    kinds = found("Boats lay there. Quillmere slept. They left for Quillmere.")

    assert "Boats" not in kinds and kinds["Quillmere"] == "name"


def test_links_are_answers_where_the_corpus_has_them() -> None:
    """An anchor outranks the rule that would find the same span; one outside the text is left out."""
    text = "It was drawn by Emil Sand in ink."
    spans = [Span(16, 25), Span(16, 400)]

    kinds = {each.span: each.kind for each in answer_candidates(text, anchors=spans)}

    assert kinds[Span(16, 25)] == "anchor" and Span(16, 400) not in kinds


@pytest.mark.parametrize(
    ("title", "expected"),
    [("Lorna, Tarn", [Span(3, 8)]), ("Lorna (town)", [Span(3, 8)]), ("Lor", []), ("", [])],
)
def test_a_title_is_found_without_its_qualifier_and_on_word_borders(title: str, expected: list[Span]) -> None:
    """As `Lorna` in a sentence stands for `Lorna, Tarn`, and `Lor` does not stand in `Lorna`."""
    assert title_spans("In Lorna it rains.", title) == expected


def test_words_keep_their_places_in_any_script() -> None:
    """Han characters are words of their own and are joined without spaces, others with one."""
    text = "Port-Sella 在1204年 isn’t"
    words = words_of(text)

    assert [text[word.start : word.end] for word in words] == ["Port-Sella", "在", "1204", "年", "isn’t"]
    assert joined(text, words) == "Port-Sella 在 1204年 isn’t"
    assert joined(text, [words[0], words[4]]) == "Port-Sella isn’t"
