"""From requests to queries: what the encoder reads, what is matched lexically and with which weights, for each task."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.tasks.defaults import (
    CONTEXT_CHARS,
    MAX_INPUT_CHARS,
    MAX_TURNS,
    SAID_WEIGHT,
    TASK_WEIGHTS,
    TITLE_DECAY,
    TURN_DECAY,
)
from adapters.tasks.dialogue_gate import gate_of
from adapters.tasks.wording import in_words, own_form, relation_words
from kbengine.errors import TaskInputError
from kbengine.inputs import END_MENTION, SEPARATOR, START_MENTION, Dialogue, Mention, Question, Slot, Task, TaskInput
from kbengine.search.query import Forwards, Query
from kbengine.text_form import check_span, input_of

_SIDE_CHARS = 8192
"""Characters on either side of a mention that are handed on: more than any encoder reads."""


def query_of(request: TaskInput) -> Query:
    """Return the query of a request, with the task's default weights and unit.

    Raises:
        TaskInputError: a text is blank, too long or no text, a span is not within its text, or no turn has text.
        UnknownRelationError: a slot's relation is a Wikidata id that the table of relations lacks.
    """
    match request:
        case Question(text):
            return _question(_text(text, "the question"))
        case Slot(subject, relation, None):
            return _slot_filling(_field(subject, "the subject"), _field(relation, "the relation"))
        case Slot():
            return _subjects(request)
        case Mention(text, _):
            return _entity_linking(request)
        case Dialogue(turns):
            return _dialogue(turns)


def task_query(task: Task, text: str) -> Query:
    """Return the query of what `text` asks for the task, with the task's default weights and unit.

    Raises:
        TaskInputError: the text has not the task's form.
        UnknownRelationError: a relation is a Wikidata id that the table of relations lacks.
    """
    return query_of(input_of(task, text))


def left_out_turns(request: TaskInput) -> int:
    """Return how many of a dialogue's turns are too old to be looked at; 0 for other tasks."""
    return max(0, len(request.turns) - MAX_TURNS) if isinstance(request, Dialogue) else 0


def _question(text: str) -> Query:
    return Query(input=Question(text), lexical=((text, 1.0),), weights=TASK_WEIGHTS["question"], unit="phrase")


def _slot_filling(subject: str, relation: str) -> Query:
    words = relation_words(relation)
    is_worded = own_form(relation) is not None
    return Query(
        input=in_words(Slot(subject, relation)) if is_worded else Slot(subject, words),
        lexical=((subject, 1.0), (words, 1.0)),
        documents=((subject, 1.0), (words, 1.0)),
        names=((subject, 1.0),),
        said=((subject, SAID_WEIGHT),),
        weights=TASK_WEIGHTS["slot-filling"],
        unit="phrase",
    )


def _subjects(request: Slot) -> Query:
    """Return the query for the documents about what stands in the relation to the object."""
    if request.subject:
        raise TaskInputError(
            f"the subject {request.subject!r} and the object {request.object!r} are both given; leave out the one that "
            "is wanted"
        )
    wanted, relation = _field(request.object, "the object"), _field(request.relation, "the relation")
    words = relation_words(relation)
    return Query(
        input=in_words(Slot.backwards(relation, wanted)),
        lexical=((wanted, 1.0), (words, 1.0)),
        weights=TASK_WEIGHTS["slot-filling"],
        unit="document",
        forwards=Forwards(words, wanted),
    )


def _entity_linking(request: Mention) -> Query:
    text, span = _text(request.text, "the text"), request.place
    for mark in (START_MENTION, END_MENTION):
        if mark in text:
            raise TaskInputError(
                f"the text holds the mark {mark} beside the span {span.start}:{span.end}; mark the mention or give "
                "its span, not both"
            )
    check_span(text, span)
    name = request.name
    mention = name.strip()
    left = request.left[-_SIDE_CHARS:] + name[: len(name) - len(name.lstrip())]
    right = name[len(name.rstrip()) :] + request.right[:_SIDE_CHARS]
    return Query(
        input=Mention.from_parts(left, mention, right),
        lexical=((f"{left.strip()[-CONTEXT_CHARS:]} {right.strip()[:CONTEXT_CHARS]}", 0.4),),
        names=((mention, 1.0),),
        weights=TASK_WEIGHTS["entity-linking"],
        unit="document",
    )


def _dialogue(turns: Sequence[str]) -> Query:
    if isinstance(turns, str):
        raise TaskInputError("the turns are one text, wanted a list of texts, the newest last")
    spoken = [turn.strip() for turn in turns if _text(turn, "a turn").strip()]
    if not spoken:
        raise TaskInputError("the dialogue has no turn with text, wanted one turn or more, the newest last")
    _check_chars(sum(len(turn) for turn in spoken), "the dialogue")
    spoken = spoken[-MAX_TURNS:]
    newest_first = list(enumerate(reversed(spoken)))
    return Query(
        input=Dialogue(tuple(spoken)),
        # A conversation keeps to its subject, which is often named once, at its beginning: the page as a whole is
        # matched against all turns alike, and the recent turns only choose the passage of it. In a talk that wanders
        # this misleads: the gate says how much words count.
        documents=tuple((turn, 1.0) for turn in spoken),
        lexical=tuple((turn, 0.1 * TURN_DECAY**age) for age, turn in newest_first),
        spotted=tuple((turn, 0.67 * TITLE_DECAY**age) for age, turn in newest_first),
        weights=TASK_WEIGHTS["dialogue"],
        unit="document",
        gate=gate_of(len(spoken)),
    )


def _field(value: str | None, name: str) -> str:
    text = _text(value, name).strip()
    if not text:
        raise TaskInputError(f"{name} is blank; slot filling wants a relation, and a subject or an object")
    if SEPARATOR in text:
        raise TaskInputError(f"{name} is {text!r}, wanted without {SEPARATOR}; give subject and relation apart")
    return text


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TaskInputError(f"{name} is {type(value).__name__} {value!r:.80}, wanted a text")
    _check_chars(len(value), name)
    return value


def _check_chars(n_chars: int, name: str) -> None:
    if n_chars > MAX_INPUT_CHARS:
        raise TaskInputError(
            f"{name} has {n_chars:,} characters, at most {MAX_INPUT_CHARS:,} are taken; send the question, the text "
            "around the mention or the newest turns"
        )
