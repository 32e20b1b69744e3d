"""The tasks' input formats: each turns what a user types or a record's `input` into a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from adapters.errors import TaskInputError
from kbengine.encoders.query_input import DialogueInput, MentionInput, QuestionInput, SlotInput
from kbengine.query import Query, Weights

Task = Literal["question", "slot-filling", "entity-linking", "dialogue"]
TASKS: tuple[Task, ...] = get_args(Task)

SEPARATOR = "[SEP]"
START_MENTION = "[START_ENT]"
END_MENTION = "[END_ENT]"

# One set of weights per task, chosen by macro score on development sets (docs/decisions/0009-fusion-weights.md).
QUESTION_WEIGHTS = Weights(phrase=1.0, passage=10.0, lexical=2.0)
SLOT_FILLING_WEIGHTS = Weights(phrase=1.0, passage=10.0, lexical=2.0)
ENTITY_LINKING_WEIGHTS = Weights(phrase=1.0, passage=20.0, lexical=0.25)
DIALOGUE_WEIGHTS = Weights(phrase=1.0, passage=20.0, lexical=1.5)

TURN_DECAY = 0.85
"""Weight of a turn's words against those of the turn after it."""

CONTEXT_CHARS = 200
"""Characters on either side of a mention that are matched lexically, with a small weight."""


def question(text: str) -> Query:
    """Return the query of a question."""
    return Query(input=QuestionInput(text), lexical=((text, 1.0),), weights=QUESTION_WEIGHTS, unit="phrase")


def slot_filling(text: str) -> Query:
    """Return the query of "subject [SEP] relation".

    Raises:
        TaskInputError: there is not exactly one separator with text on both sides.
    """
    subject, found, relation = (part.strip() for part in text.partition(SEPARATOR))
    if not found or not subject or not relation or SEPARATOR in relation:
        raise TaskInputError(
            f"slot filling got {text!r}, wanted 'subject {SEPARATOR} relation' with both sides and one separator"
        )
    return Query(
        input=SlotInput(subject, relation),
        lexical=((subject, 1.0), (relation, 1.0)),
        names=((subject, 1.0),),
        weights=SLOT_FILLING_WEIGHTS,
        unit="phrase",
    )


def entity_linking(text: str) -> Query:
    """Return the query of a text with one mention marked `[START_ENT] mention [END_ENT]`.

    Raises:
        TaskInputError: no mark, an unclosed or empty one, or more than one.
    """
    starts, ends = text.count(START_MENTION), text.count(END_MENTION)
    if starts != 1 or ends != 1:
        raise TaskInputError(
            f"entity linking got {starts} {START_MENTION} and {ends} {END_MENTION}, wanted one of each around the "
            "mention; for several mentions ask once for each"
        )
    left, _, rest = text.partition(START_MENTION)
    mention, closed, right = rest.partition(END_MENTION)
    if not closed:
        raise TaskInputError(f"{END_MENTION} stands before {START_MENTION} in {text!r}; put it after the mention")
    if not mention.strip():
        raise TaskInputError(f"the mention between {START_MENTION} and {END_MENTION} is empty; mark at least one word")
    left, mention, right = left.strip(), mention.strip(), right.strip()
    return Query(
        input=MentionInput(left, mention, right),
        lexical=((f"{left[-CONTEXT_CHARS:]} {right[:CONTEXT_CHARS]}", 0.2),),
        titles=((mention, 0.5),),
        names=((mention, 1.0),),
        weights=ENTITY_LINKING_WEIGHTS,
        unit="document",
    )


def dialogue(text: str) -> Query:
    """Return the query of a conversation, one turn a line, the newest last.

    Raises:
        TaskInputError: no line has any text.
    """
    turns = tuple(turn.strip() for turn in text.split("\n") if turn.strip())
    if not turns:
        raise TaskInputError("the dialogue has no turn with text, wanted one turn a line, the newest last")
    newest_first = turns[::-1]
    lexical = tuple((turn, TURN_DECAY**age) for age, turn in enumerate(newest_first))
    return Query(input=DialogueInput(turns), lexical=lexical, weights=DIALOGUE_WEIGHTS, unit="document")


_PARSERS: dict[Task, Callable[[str], Query]] = {
    "question": question,
    "slot-filling": slot_filling,
    "entity-linking": entity_linking,
    "dialogue": dialogue,
}


def task_query(task: Task, text: str) -> Query:
    """Return the query that `text` is for the task.

    Raises:
        TaskInputError: the text has not the task's form.
    """
    return _PARSERS[task](text)
