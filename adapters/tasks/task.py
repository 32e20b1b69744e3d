"""The tasks: their names, marks, limits and weights, and each task's query from its text form."""

from __future__ import annotations

from typing import Literal, get_args

from kbengine.search.query import Query, Weights

Task = Literal["question", "slot-filling", "entity-linking", "dialogue"]
TASKS: tuple[Task, ...] = get_args(Task)
PHRASE_TASKS: tuple[Task, ...] = ("question", "slot-filling")
"""Tasks whose answers are right when they equal a gold answer; others when they are a gold page."""

SEPARATOR = "[SEP]"
START_MENTION = "[START_ENT]"
END_MENTION = "[END_ENT]"

# One set of weights per task, chosen by macro score on development sets (docs/decisions/0009-fusion-weights.md).
# Beside BM25 sparse vectors help questions a little and mislead mentions (benchmarks/results/sparse.md).
QUESTION_WEIGHTS = Weights(phrase=1.0, passage=5.0, lexical=2.5, sparse=0.25)
SLOT_FILLING_WEIGHTS = Weights(phrase=1.0, passage=10.0, lexical=3.0, sparse=0.0)
ENTITY_LINKING_WEIGHTS = Weights(phrase=1.0, passage=20.0, lexical=0.25, sparse=0.0)
DIALOGUE_WEIGHTS = Weights(phrase=1.0, passage=15.0, lexical=0.75, sparse=0.0)

TURN_DECAY = 0.85
"""Weight of a turn's words against those of the turn after it, where passages are matched."""
TITLE_DECAY = 0.9
"""Weight of a title spotted in a turn against one in the turn after it."""

CONTEXT_CHARS = 200
"""Characters on either side of a mention that are matched lexically, with a small weight."""

MAX_INPUT_CHARS = 100_000
"""Longer inputs are refused: no encoder reads more than a few hundred characters of a question or around a mention."""
MAX_TURNS = 100
"""Turns of a dialogue that are looked at, the newest; older ones are left out and the answer says `truncated`."""


def task_query(task: Task, text: str) -> Query:
    """Return the query that `text` is for the task, with the task's default weights and unit.

    Raises:
        TaskInputError: the text has not the task's form.
        UnknownRelationError: a relation is a Wikidata id that the table of relations lacks.
    """
    # The requests need the names of this module, so their modules are imported here, when they are needed.
    from adapters.tasks.parsing import request_of
    from adapters.tasks.queries import query_of

    return query_of(request_of(task, text))


def question(text: str) -> Query:
    """Return the query of a question."""
    return task_query("question", text)


def slot_filling(text: str) -> Query:
    """Return the query of "subject [SEP] relation"; the relation is any text or a Wikidata id such as P19."""
    return task_query("slot-filling", text)


def entity_linking(text: str) -> Query:
    """Return the query of a text with one mention marked `[START_ENT] mention [END_ENT]`."""
    return task_query("entity-linking", text)


def dialogue(text: str) -> Query:
    """Return the query of a conversation, one turn a line, the newest last."""
    return task_query("dialogue", text)
