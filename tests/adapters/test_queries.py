"""From requests to queries: fields, relations by id, context, turns, and limits."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.errors import UnknownRelationError
from adapters.tasks.defaults import MAX_INPUT_CHARS, MAX_TURNS, TURN_DECAY
from adapters.tasks.queries import left_out_turns, query_of, task_query
from adapters.tasks.wording import relation_words
from kbengine.errors import TaskInputError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.span import Span
from kbengine.text_form import mention_of, mentions_of


def test_a_question_is_encoded_and_matched_as_it_is() -> None:
    """One text for both."""
    query = query_of(Question("Where is Ulm?"))
    assert (query.input, query.lexical, query.unit) == (
        Question("Where is Ulm?"),
        (("Where is Ulm?", 1.0),),
        "phrase",
    )
    assert query == task_query("question", "Where is Ulm?")


@pytest.mark.parametrize("relation", ["P19", "wdt:P19", "https://www.wikidata.org/wiki/Property:P19", "place of birth"])
def test_a_relation_is_text_or_a_wikidata_id(relation) -> None:
    """The id's name is what is searched with, in fields and in the record's text form."""
    query = query_of(Slot(" Marie Curie ", relation))
    assert query.input == Slot("Marie Curie", "place of birth")
    assert query.lexical == (("Marie Curie", 1.0), ("place of birth", 1.0))
    assert query.names == (("Marie Curie", 1.0),)
    assert query == task_query("slot-filling", f"Marie Curie [SEP] {relation}")
    assert relation_words(relation) == "place of birth"


@pytest.mark.parametrize("relation", ["instrument that X plays", "instrument that {} plays"])
def test_an_own_wording_is_read_with_the_subject_in_its_place(relation) -> None:
    """Its other words are matched beside the subject, which is looked for among names."""
    query = query_of(Slot(" Yo-Yo Ma ", relation))
    assert query.input == Question("What is the instrument that Yo-Yo Ma plays?")
    assert query.lexical == (("Yo-Yo Ma", 1.0), ("instrument that plays", 1.0))
    assert query.names == (("Yo-Yo Ma", 1.0),)
    assert query.weights == query_of(Slot("Yo-Yo Ma", "instrument")).weights
    assert query == task_query("slot-filling", f"Yo-Yo Ma [SEP] {relation}")


@pytest.mark.parametrize("relation", ["P19", "place of birth"])
def test_a_relation_is_asked_backwards_for_documents(relation) -> None:
    """The object's words are matched beside the relation's; no name is looked for."""
    query = query_of(Slot.backwards(relation, " Warsaw "))
    assert query.input == Question("Who or what has place of birth Warsaw?")
    assert query.lexical == (("Warsaw", 1.0), ("place of birth", 1.0))
    assert (query.names, query.unit) == ((), "document")
    assert query == task_query("slot-filling", f"? [SEP] {relation} [SEP] Warsaw")


def test_an_unknown_relation_id_is_an_error() -> None:
    """It is never searched with as a word."""
    with pytest.raises(UnknownRelationError, match="P99999"):
        query_of(Slot("Ulm", "P99999"))
    with pytest.raises(UnknownRelationError, match="P99999"):
        task_query("slot-filling", "Ulm [SEP] P99999")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Slot("", "country"), "the subject is blank"),
        (Slot("Ulm", " "), "the relation is blank"),
        (Slot("Ulm [SEP] country", "river"), r"without \[SEP\]"),
        (Slot("Ulm", None), "the relation is NoneType"),
        (Slot.backwards("country", " "), "the object is blank"),
        (Slot("Ulm", "country", "Germany"), "'Ulm' and the object 'Germany' are both given"),
        (Slot("Ulm", " X?"), "the relation is 'X\\?', the subject's place alone"),
        (Question(5), "the question is int 5"),
        (Question("x" * (MAX_INPUT_CHARS + 1)), "100,001 characters, at most 100,000"),
        (Mention("x" * (1 << 20), Span(0, 4)), "1,048,576 characters"),
        (Mention("in Ulm", Span(3, 9)), "3:9 is not within"),
        (Mention("in [START_ENT] Ulm [END_ENT]", Span(15, 18)), "not both"),
        (Dialogue("one text"), "wanted a list of texts"),
        (Dialogue(()), "no turn with text"),
        (Dialogue(("", " ")), "no turn with text"),
        (Dialogue(("Hi.", None)), "a turn is NoneType"),
        (Dialogue(["y" * 60_000] * 2), "the dialogue has 120,000 characters"),
    ],
)
def test_requests_that_cannot_be_asked_are_named(request_, message) -> None:
    """Blank fields, other types, texts too long, spans beyond the text."""
    with pytest.raises(TaskInputError, match=message):
        query_of(request_)


def test_a_marked_text_and_its_span_are_the_same_query() -> None:
    """White space around mention and context does not count."""
    marked = "They met in [START_ENT] Lincoln [END_ENT] , Nebraska."
    (spanned,) = mentions_of("They met in Lincoln , Nebraska.", [(12, 19)])
    assert query_of(mention_of(marked)) == query_of(spanned) == task_query("entity-linking", marked)
    assert query_of(spanned).input == spanned
    assert query_of(spanned).names == (("Lincoln", 1.0),)


def test_a_mention_is_kept_wherever_it_stands_in_a_long_text() -> None:
    """The context is cut around it, on both sides."""
    text = "left " * 9_000 + "Ulm" + " right" * 9_000
    start = text.index("Ulm")
    query = query_of(Mention(text, Span(start - 1, start + 3)))
    assert isinstance(query.input, Mention)
    assert query.input.name == "Ulm"
    assert 4096 <= len(query.input.left) < 10_000 and query.input.left.endswith("left ")
    assert 4096 <= len(query.input.right) < 10_000 and query.input.right.startswith(" right")


def test_newer_turns_count_more() -> None:
    """The encoder gets them in the order they were said."""
    query = query_of(Dialogue(["Hi.", " ", "Where is Ulm?"]))
    assert query.input == Dialogue(("Hi.", "Where is Ulm?"))
    assert [text for text, _ in query.lexical] == ["Where is Ulm?", "Hi."]
    assert query.lexical[1][1] == pytest.approx(TURN_DECAY * query.lexical[0][1])
    assert query == task_query("dialogue", "Hi.\n\nWhere is Ulm?")


def test_of_many_turns_the_newest_are_looked_at() -> None:
    """300 turns are answered; how many were left out is known."""
    request = Dialogue([f"turn {i}" for i in range(300)])
    query = query_of(request)
    assert isinstance(query.input, Dialogue)
    assert len(query.input.turns) == MAX_TURNS and query.input.turns[-1] == "turn 299"
    assert left_out_turns(request) == 300 - MAX_TURNS
    assert left_out_turns(Question("Who?")) == left_out_turns(Dialogue(["Hi."])) == 0


def test_a_gate_decides_about_talks_of_several_turns() -> None:
    """A single turn has the task's own lexical weight: there is no subject to have changed."""
    assert query_of(Dialogue(["Where is Ulm?"])).gate is None
    assert query_of(Dialogue([" ", "Where is Ulm?"])).gate is None
    gate = query_of(Dialogue(["Hi.", "Where is Ulm?"])).gate
    # A page that stands out is trusted more than one of many alike.
    assert gate is not None and gate.factor(np.asarray([0.4, 0.7])) > 1 > gate.factor(np.asarray([0.05, 0.2])) > 0
    assert query_of(Question("Where is Ulm?")).gate is None
