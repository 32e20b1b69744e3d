"""Cards through a service: their slots wait in the same queue as everybody's queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adapters.profiles.profiler import Profiler

if TYPE_CHECKING:
    from adapters.tasks.answerer import AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from web.deadline import Deadline
    from web.service import Service


def profiler_of(service: Service, deadline: Deadline) -> Profiler:
    """Return what makes cards for one request, whose slots have to be answered by the deadline."""
    engine = service.engine

    def ask(requests: Sequence[TaskInput], options: AnswerOptions) -> list[TaskAnswer]:
        return engine.ask(requests, options, deadline)

    return Profiler(engine.knowledge_base.reader, ask)
