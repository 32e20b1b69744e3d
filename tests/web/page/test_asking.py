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
from web.page.asking import Asking, marked_text, read_asking


def reread(asking: Asking) -> Asking:
    """The state that the address of a state holds."""
    return read_asking(MultiDict(parse_qsl(urlsplit(asking.address()).query, keep_blank_values=True)))


LINES = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=40).map(str.strip)
FILLED = LINES.filter(bool)
ASKINGS = st.one_of(
    st.builds(Asking, q=LINES),
    st.builds(Asking, task=st.just("slot-filling"), subject=LINES, relation=LINES),
    st.builds(Asking, task=st.just("entity-linking"), text=LINES),
    st.builds(Asking, task=st.just("dialogue"), turns=st.lists(FILLED, max_size=4).map(tuple)),
)


@given(
    ASKINGS,
    st.sampled_from([None, "sentence", "passage"]),
    st.integers(1, 1000),
    st.sampled_from(["low", "normal", "high", "exact"]),
    st.sampled_from([None, 0.0, 0.25, 0.875, 1.0]),
    st.sampled_from([None, "dense", "dfs", "sfs", "hybrid"]),
    st.sampled_from([None, "questions-2"]),
)
def test_an_address_holds_the_whole_state(asking, unit, k, effort, threshold, strategy, encoder):
    """Reading the address of a state gives the state back, whatever was typed."""
    asking = replace(asking, unit=unit, k=k, effort=effort, threshold=threshold, strategy=strategy, encoder=encoder)

    assert reread(asking) == asking


def test_an_address_leaves_defaults_out():
    """A permalink is as short as it can be."""
    assert Asking(q="Who dug it?").address() == "/?task=question&q=Who+dug+it%3F"


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
    asking = read_asking(MultiDict({"q": "x", **parameters}))

    with pytest.raises(TaskInputError, match=told):
        asking.requests()


def test_each_task_asks_for_its_own_request():
    """Forms become the requests that all other ways of asking use."""
    marked = "By [START_ENT] Rook [END_ENT]."

    assert Asking(q="Who?").requests() == [Question("Who?")]
    assert Asking(task="slot-filling", subject="Vell", relation="P17").requests() == [Slot("Vell", "P17")]
    assert Asking(task="dialogue", turns=("a", "b")).requests() == [Dialogue(("a", "b"))]
    assert Asking(task="entity-linking", text=marked).requests() == [Mention("By Rook.", Span(3, 7))]


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
    "asking",
    [
        Asking(q="x" * (limits.TEXT_CHARS + 1)),
        Asking(task="dialogue", turns=("x",) * (limits.TURNS + 1)),
        Asking(task="entity-linking", text="[START_ENT] x [END_ENT] " * (limits.SPANS + 1)),
        Asking(task="entity-linking", text="nothing is marked"),
        Asking(task="slot-filling", subject="Vell"),
        Asking(task="slot-filling", relation="country"),
    ],
)
def test_too_much_and_too_little_are_refused(asking):
    """The page has the limits of the API; a half-filled form is no request."""
    with pytest.raises(TaskInputError):
        asking.requests()


def test_limits_are_inclusive():
    """What is at the limit is taken, one more is not."""
    assert Asking(q="x" * limits.TEXT_CHARS).requests()
    assert len(Asking(task="entity-linking", text="[START_ENT] x [END_ENT] " * limits.SPANS).requests()) == limits.SPANS
