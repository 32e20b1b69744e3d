"""What can be asked: one frozen request per task, the same for command line, Python and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.tasks.task import Task
from kbengine.corpus.span import Span


@dataclass(frozen=True)
class QuestionRequest:
    """A question, or any short text."""

    text: str


@dataclass(frozen=True)
class SlotRequest:
    """A subject whose objects of a relation are wanted; the relation is free text or a Wikidata id such as P19."""

    subject: str
    relation: str


@dataclass(frozen=True)
class LinkingRequest:
    """A text and one mention in it, as half-open character offsets."""

    text: str
    mention: Span


@dataclass(frozen=True)
class DialogueRequest:
    """A conversation whose last turn wants grounding: turns oldest first."""

    turns: Sequence[str]


TaskRequest = QuestionRequest | SlotRequest | LinkingRequest | DialogueRequest


def task_of(request: TaskRequest) -> Task:
    """Return the name of the task that a request belongs to."""
    match request:
        case QuestionRequest():
            return "question"
        case SlotRequest():
            return "slot-filling"
        case LinkingRequest():
            return "entity-linking"
        case DialogueRequest():
            return "dialogue"
