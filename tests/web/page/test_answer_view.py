"""Answers as the page shows them: nothing is lost, nothing is clickable that should not be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbengine.inputs import Question
from kbengine.search.results import DocumentRef, PassageRef, ScoreParts
from kbengine.span import Span
from tests.web.page.fake_engine import TEXT, answer, evidence, task_answer
from web.page.answer_view import answer_list, safe_source, timing_bars
from web.page.passages import marked_pieces, pieces, sentence_pieces


@given(st.text(max_size=60), st.integers(-3, 70), st.integers(-3, 70), st.integers(-3, 70), st.integers(-3, 70))
def test_pieces_give_the_text_back(text, a, b, c, d):
    """Whatever the spans, joined pieces are the passage, and the mark is what the span says."""
    mark, sentence = Span(min(a, b), max(a, b)), Span(min(c, d), max(c, d))
    found = pieces(text, mark=mark, sentence=sentence)

    assert "".join(piece.text for piece in found) == text
    assert "".join(piece.text for piece in found if piece.kind == "mark") == text[max(mark.start, 0) : max(mark.end, 0)]


def test_a_very_long_sentence_is_cut_between_words_around_its_mark():
    """A sentence of thousands of characters shows what is near the answer."""
    text = "word " * 400 + "ANSWER" + " word" * 400
    start = text.index("ANSWER")
    found = sentence_pieces(text, mark=Span(start, start + 6), sentence=Span(0, len(text)), context_chars=50)
    shown = "".join(piece.text for piece in found)

    assert len(shown) < 130
    assert shown.startswith("… word") and shown.endswith("word …")
    assert {word for word in shown.split() if word != "…"} == {"word", "ANSWER"}


def test_a_sentence_without_blanks_is_cut_too():
    """Text of scripts without spaces between words."""
    text = "字" * 900
    found = sentence_pieces(text, mark=Span(400, 402), sentence=Span(0, 900), context_chars=50)

    assert 100 < len("".join(piece.text for piece in found)) < 120
    assert [piece.text for piece in found if piece.kind == "mark"] == ["字字"]


def test_several_marks_in_one_text():
    """Examples of entity linking show each mention."""
    found = marked_pieces("a b c", [Span(0, 1), Span(4, 5)])

    assert [(piece.text, piece.kind) for piece in found] == [("a", "mark"), (" b ", "around"), ("c", "mark")]


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "//example.org/x",
        "/relative",
        "https://",
        "http:javascript",
        "https://[::1",
        "https://a b.org",
        "\x01https://example.org",
        "",
        None,
    ],
)
def test_only_web_addresses_become_links(url):
    """Anything else is no link, whatever a document says its source is."""
    assert safe_source(url) is None


@pytest.mark.parametrize("url", ["https://example.org/a?b=c#d", "HTTP://EXAMPLE.ORG", "https://例え.jp/あ"])
def test_web_addresses_are_links(url):
    """Both http and https, also with other letters."""
    assert safe_source(url) == url


def test_offsets_count_in_the_paragraph_of_the_users_document():
    """A part of a very long paragraph tells where it begins there."""
    place = evidence(passage=PassageRef(1, 2, TEXT, None, char_offset=100_000))
    card = answer_list(task_answer(Question("q"), answer("Ines Rook", place)), kb_name="kb").cards[0]

    assert card.best.start == 100_000 + TEXT.index("Ines Rook")
    assert f"characters {card.best.start}–{card.best.end}" in card.best.citation


def test_kilt_provenance_is_what_a_submission_holds():
    """Copied JSON can be pasted into a submission."""
    card = answer_list(task_answer(Question("q"), answer()), kb_name="kb").cards[0]

    assert json.loads(card.best.kilt_json) == evidence().provenance.to_json()


def test_parts_of_a_score_join_without_gaps_also_when_one_is_negative():
    """Each bar begins where the one before ended; their values sum to the score."""
    place = evidence(parts=ScoreParts(20.0, 21.5, 3.5, -5.0), score=40.0)
    bars = answer_list(task_answer(Question("q"), answer("x", place)), kb_name="kb").cards[0].best.parts

    assert sum(bar.value for bar in bars) == pytest.approx(40.0)
    assert bars[1].start_percent == pytest.approx(bars[0].start_percent + bars[0].width_percent, abs=0.02)
    assert bars[3].start_percent + bars[3].width_percent == pytest.approx(100, abs=0.02)
    assert all(0 <= bar.start_percent <= 100 and bar.width_percent >= 0 for bar in bars)


@pytest.mark.parametrize("scores", [(40.0, 10.0), (-1.0, -5.0), (0.0, 0.0)])
def test_score_bars_stay_within_their_frame(scores):
    """Scores may be negative; bars may not."""
    answers = [answer(str(rank), rank=rank, score=score) for rank, score in enumerate(scores, start=1)]
    cards = answer_list(task_answer(Question("q"), *answers), kb_name="kb").cards

    assert all(0 <= card.score_percent <= 100 for card in cards)


def test_stages_fill_the_total():
    """What no stage accounts for is shown as 'other'."""
    result = task_answer(Question("q"), answer(), timings_ms={"encode": 10.0, "rescore": 2.5, "total": 20.0})
    bars = timing_bars([result])

    assert [bar.name for bar in bars] == ["encode", "rescore", "other"]
    assert sum(bar.width_percent for bar in bars) == pytest.approx(100, abs=0.1)


def test_the_total_counts_the_wait_for_a_batch():
    """The number shown is the sum of the stages beside it."""
    result = task_answer(Question("q"), answer(), timings_ms={"encode": 10.0, "total": 11.0, "queue": 5.0})

    assert answer_list(result, kb_name="kb").total_ms == pytest.approx(15.0)
    assert [bar.name for bar in timing_bars([result])] == ["encode", "queue"]


def test_a_title_without_text_is_shown_by_its_id():
    """A document without a title can still be opened."""
    place = evidence(document=DocumentRef("id-1", "", None))
    card = answer_list(task_answer(Question("q"), answer("x", place)), kb_name="kb").cards[0]

    start, end = card.best.start, card.best.end
    assert card.best.address_from(None) == f"/document?id=id-1&mark=2:{start}-{end}#mark"
