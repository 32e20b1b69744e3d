"""Annotating through a service: its mentions wait in the same queue as everybody's queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adapters.annotating.annotator import Annotator, annotator_for

if TYPE_CHECKING:
    from adapters.tasks.answerer import AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from web.deadline import Deadline
    from web.service import Service


def annotator_of(service: Service, deadline: Callable[[], Deadline]) -> Annotator:
    """Return what annotates texts for one request.

    Args:
        service: whose knowledge base it is.
        deadline: gives the time by which each batch of mentions has to be answered.
    """
    engine = service.engine

    def ask(requests: Sequence[TaskInput], options: AnswerOptions) -> list[TaskAnswer]:
        return engine.ask(requests, options, deadline())

    return annotator_for(engine.answerer, engine.knowledge_base, ask)
