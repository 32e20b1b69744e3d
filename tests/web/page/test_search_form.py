"""The state of the search page: from an address and back, and into requests."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from kbengine.errors import TaskInputError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.span import Span
from web import limits
from web.page.marked_text import marked_text
from web.page.search_form import SearchForm, read_form


def reread(form: SearchForm) -> SearchForm:
    """The state that the address of a state holds."""
    return read_form(MultiDict(parse_qsl(urlsplit(form.address()).query, keep_blank_values=True)))


LINES = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=40).map(str.strip)
FILLED = LINES.filter(bool)
FORMS = st.one_of(
    st.builds(SearchForm, q=LINES),
    st.builds(SearchForm, task=st.just("slot-filling"), subject=LINES, relation=LINES, object=LINES),
    st.builds(SearchForm, task=st.just("entity-linking"), text=LINES),
    st.builds(SearchForm, task=st.just("dialogue"), turns=st.lists(FILLED, max_size=4).map(tuple)),
)


@given(
    FORMS,
    st.sampled_from([None, "sentence", "passage"]),
    st.integers(1, 1000),
    st.sampled_from(["low", "normal", "high", "exact"]),
    st.sampled_from([None, 0.0, 0.25, 0.875, 1.0]),
    st.sampled_from([None, "dense", "dfs", "sfs", "hybrid"]),
    st.sampled_from([None, "questions-2"]),
)
def test_an_address_holds_the_whole_state(form, unit, k, effort, threshold, strategy, encoder):
    """Reading the address of a state gives the state back, whatever was typed."""
    form = replace(form, unit=unit, k=k, effort=effort, threshold=threshold, strategy=strategy, encoder=encoder)

    assert reread(form) == form


@pytest.mark.parametrize(("state", "k"), [({"page": 3}, 30), ({"k": 400, "page": 2}, 800), ({"sort": "title"}, 100)])
def test_programs_are_given_the_answers_up_to_the_end_of_the_page(state, k):
    """JSON, curl and Python know no pages; what is sorted are the best hundred."""
    form = SearchForm(q="x", **state)

    assert reread(form) == form and form.body()["k"] == k


def test_an_address_leaves_defaults_out():
    """A permalink is as short as it can be."""
    assert SearchForm(q="Who dug it?").address() == "/?task=question&q=Who+dug+it%3F"


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"k": "0"}, "number of answers"),
        ({"k": "9" * 500}, "number of answers"),
        ({"k": "١"}, "number of answers"),
        ({"threshold": "1.5"}, "threshold"),
        ({"threshold": "nan"}, "threshold"),
        ({"unit": "<b>"}, "unit"),
        ({"effort": "exhausting"}, "effort"),
        ({"strategy": "words"}, "strategy"),
        ({"encoder": "../secrets"}, "encoder's name"),
        ({"task": "poetry"}, "task"),
    ],
)
def test_a_wrong_parameter_is_named_and_nothing_is_asked(parameters, told):
    """No silent default: the reader is told what was wrong."""
    form = read_form(MultiDict({"q": "x", **parameters}))

    with pytest.raises(TaskInputError, match=told):
        form.query().requests()


def test_each_task_asks_for_its_own_request():
    """Forms become the requests that all other ways of form use."""
    marked = "By [START_ENT] Rook [END_ENT]."

    assert SearchForm(q="Who?").query().requests() == [Question("Who?")]
    assert SearchForm(task="slot-filling", subject="Vell", relation="P17").query().requests() == [Slot("Vell", "P17")]
    backwards = SearchForm(task="slot-filling", relation="P19", object="Warsaw")
    assert backwards.query().requests() == [Slot.backwards("P19", "Warsaw")]
    assert backwards.shown_unit == "document"
    assert SearchForm(task="dialogue", turns=("a", "b")).query().requests() == [Dialogue(("a", "b"))]
    assert SearchForm(task="entity-linking", text=marked).query().requests() == [Mention("By Rook.", Span(3, 7))]


@pytest.mark.parametrize(
    ("marked", "text", "mentions"),
    [
        ("on [START_ENT] Vell [END_ENT] today", "on Vell today", ["Vell"]),
        ("([START_ENT] Vell [END_ENT])", "(Vell)", ["Vell"]),
        ("[START_ENT]Vell[END_ENT]", "Vell", ["Vell"]),
        (
            "[START_ENT] Ines Rook [END_ENT], of [START_ENT] Vell [END_ENT].",
            "Ines Rook, of Vell.",
            ["Ines Rook", "Vell"],
        ),
    ],
)
def test_marks_vanish_without_a_trace(marked, text, mentions):
    """The text reads as it did before it was marked."""
    found = marked_text(marked)

    assert found.text == text
    assert [found.text[span.start : span.end] for span in found.mentions] == mentions


@pytest.mark.parametrize(
    "marked",
    [
        "[START_ENT] a",
        "a [END_ENT]",
        "[START_ENT] [END_ENT]",
        "[START_ENT] a [START_ENT] b [END_ENT] [END_ENT]",
        "[END_ENT] a [START_ENT]",
    ],
)
def test_marks_that_make_no_sense_are_refused(marked):
    """Unclosed, unopened, empty and nested marks each get an error that says what to do."""
    with pytest.raises(TaskInputError):
        marked_text(marked)


@pytest.mark.parametrize(
    "form",
    [
        SearchForm(q="x" * (limits.TEXT_CHARS + 1)),
        SearchForm(task="dialogue", turns=("x",) * (limits.TURNS + 1)),
        SearchForm(task="entity-linking", text="[START_ENT] x [END_ENT] " * (limits.SPANS + 1)),
        SearchForm(task="entity-linking", text="nothing is marked"),
        SearchForm(task="slot-filling", subject="Vell"),
        SearchForm(task="slot-filling", subject="Vell", relation="P17", object="Germany"),
        SearchForm(task="slot-filling", relation="country"),
    ],
)
def test_too_much_and_too_little_are_refused(form):
    """The page has the limits of the API; a half-filled form is no request."""
    with pytest.raises(TaskInputError):
        form.query().requests()


def test_limits_are_inclusive():
    """What is at the limit is taken, one more is not."""
    assert SearchForm(q="x" * limits.TEXT_CHARS).query().requests()
    assert (
        len(SearchForm(task="entity-linking", text="[START_ENT] x [END_ENT] " * limits.SPANS).query().requests())
        == limits.SPANS
    )
