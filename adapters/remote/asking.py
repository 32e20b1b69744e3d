"""Requests sent to a service: of any task, one or many; texts to annotate; cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adapters.remote.decoding import annotation_of, profile_of, task_answer_of
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput, task_of

if TYPE_CHECKING:
    from adapters.annotating.linked import Annotation
    from adapters.profiles.card import Profile
    from adapters.tasks.answers import TaskAnswer
    from kbengine.terminal.service import Service

BATCH = 64
"""Requests sent at once: few enough for the service's deadline."""


def ask(service: Service, requests: Sequence[TaskInput], options: Mapping[str, Any]) -> list[TaskAnswer]:
    """Return the answer to each request, in order; options are those of the API, None where they are left out.

    Raises:
        ServiceRefusedError: the service is not there, or refuses one of them.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if len(requests) == 1:
        task = task_of(requests[0])
        return [task_answer_of(service.post(f"/v1/{task}", _body(requests[0]) | given))]
    answers: list[TaskAnswer] = []
    for begin in range(0, len(requests), BATCH):
        batch = requests[begin : begin + BATCH]
        queries = [{"task": task_of(each)} | _body(each) | given for each in batch]
        for item in service.post("/v1/batch", {"queries": queries})["items"]:
            if item.get("answer") is None:
                raise service.refused(item.get("problem") or {}, item["status"])
            answers.append(task_answer_of(item["answer"]))
    return answers


def annotate(service: Service, text: str, options: Mapping[str, Any]) -> Iterator[Annotation | tuple[int, int]]:
    """Yield the mentions of a text as they are found, and how many of how many characters are done.

    Raises:
        ServiceRefusedError: the service is not there, refuses, or fails while it works.
    """
    for record in service.lines("/v1/annotate", {"text": text, "stream": True} | dict(options)):
        if "annotation" in record:
            yield annotation_of(record["annotation"])
        elif "progress" in record:
            yield record["progress"]["characters"], record["progress"]["of"]
        else:
            problem = record.get("problem") or {}
            raise service.refused(problem, int(problem.get("status", 500)))


def profile(service: Service, asked: Mapping[str, Any]) -> Profile:
    """Return an entity's card, or what its name can mean; raises as `ask` does."""
    return profile_of(service.post("/v1/profile", {name: value for name, value in asked.items() if value is not None}))


def _body(request: TaskInput) -> dict[str, Any]:
    match request:
        case Question(text):
            return {"text": text}
        case Slot(subject, relation, None):
            return {"subject": subject, "relation": relation}
        case Slot(_, relation, wanted):
            return {"relation": relation, "object": wanted}
        case Mention(text, _):
            return {"text": text, "span": [request.start, request.end]}
        case Dialogue(turns):
            return {"turns": list(turns)}
