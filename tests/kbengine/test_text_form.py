"""Text forms of the tasks: slots, marked mentions, spans, dialogues."""

from __future__ import annotations

import pytest

from kbengine.errors import TaskInputError
from kbengine.inputs import TASKS, Dialogue, Mention, Question, Slot, task_of
from kbengine.span import Span
from kbengine.text_form import dialogue_of, input_of, mention_of, mentions_of, slot_of

TEXT = "From Lincoln to Omaha by train."


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("question", "Who?"),
        ("slot-filling", "Ulm [SEP] country"),
        ("entity-linking", "in [START_ENT] Ulm [END_ENT]"),
        ("dialogue", "Hello.\nWhere is Ulm?"),
    ],
)
def test_each_task_has_a_text_form(task, text) -> None:
    """The request is of the task whose form the text has."""
    assert task in TASKS
    assert task_of(input_of(task, text)) == task


def test_a_question_is_its_text() -> None:
    """Marks of other tasks mean nothing in it."""
    assert input_of("question", "what does [SEP] do") == Question("what does [SEP] do")


def test_a_slot_is_subject_and_relation() -> None:
    """White space around the separator does not count."""
    assert slot_of(" Ulm  [SEP] country\n") == Slot("Ulm", "country")


@pytest.mark.parametrize("text", ["Ulm country", "Ulm [SEP] ", " [SEP] country", "Ulm [SEP] a [SEP] b", ""])
def test_a_slot_has_two_sides_and_one_separator(text) -> None:
    """The message shows what was given and what is wanted."""
    with pytest.raises(TaskInputError, match=r"wanted 'subject \[SEP\] relation'"):
        slot_of(text)


@pytest.mark.parametrize(
    ("text", "plain", "mention"),
    [
        ("From [START_ENT] Lincoln [END_ENT] to Omaha.", "From Lincoln to Omaha.", "Lincoln"),
        ("[START_ENT] Lincoln [END_ENT]", "Lincoln", "Lincoln"),
        ("From[START_ENT]Lincoln[END_ENT]to", "FromLincolnto", "Lincoln"),
    ],
)
def test_a_marked_mention_becomes_a_span_of_the_text_without_marks(text, plain, mention) -> None:
    """The span holds exactly the mention."""
    request = mention_of(text)
    assert " ".join(request.text.split()) == plain
    assert request.name == mention


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no mark", "got 0 .* and 0"),
        ("in [START_ENT] Ulm", "got 1 .* and 0"),
        ("in Ulm [END_ENT]", "got 0 .* and 1"),
        ("[START_ENT] a [END_ENT] [START_ENT] b [END_ENT]", "got 2 .* and 2.*spans"),
        ("in [END_ENT] Ulm [START_ENT]", "stands before"),
        ("in [START_ENT] \t [END_ENT] Ulm", "is empty"),
    ],
)
def test_wrong_marks_are_named(text, message) -> None:
    """None, unclosed, twice, reversed or around nothing."""
    with pytest.raises(TaskInputError, match=message):
        mention_of(text)


def test_several_mentions_of_one_text_are_several_requests() -> None:
    """In the order given; they may overlap; pairs and spans are the same."""
    requests = mentions_of(TEXT, [(16, 21), Span(5, 12), (5, 21)])
    assert requests == [
        Mention(TEXT, Span(16, 21)),
        Mention(TEXT, Span(5, 12)),
        Mention(TEXT, Span(5, 21)),
    ]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([], "no span was given"),
        ([(5, 5)], "5:5 is empty"),
        ([(12, 5)], "12:5 is empty"),
        ([(5, 12), (25, 40)], r"25:40 is not within the text of 31 characters"),
        ([(-3, 4)], r"-3:4 is not within"),
        ([(4, 5)], "nothing but white space"),
        ([(5.0, 12)], "offset 5.0, wanted whole numbers"),
        ([(True, 12)], "offset True"),
        ([(5,)], "wanted two offsets"),
        (["5:12"], "wanted two offsets"),
    ],
)
def test_spans_that_hold_no_mention_are_named(spans, message) -> None:
    """Beyond the text, empty, reversed, blank or no numbers."""
    with pytest.raises(TaskInputError, match=message):
        mentions_of(TEXT, spans)


def test_a_dialogue_is_one_turn_a_line() -> None:
    """Blank lines are no turns."""
    assert dialogue_of("Hi. \n\n  Where is Ulm?\n") == Dialogue(("Hi.", "Where is Ulm?"))
    with pytest.raises(TaskInputError, match="no turn with text"):
        dialogue_of(" \n ")


def test_messages_show_the_beginning_of_a_long_text() -> None:
    """A megabyte in a message helps nobody."""
    with pytest.raises(TaskInputError) as caught:
        slot_of("x" * (1 << 20))
    assert len(str(caught.value)) < 300
