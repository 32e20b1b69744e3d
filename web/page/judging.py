"""What people say about answers, on the page: two buttons at each answer, and what was said before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from flask import redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adapters.tasks.feedback import feedback_on
from kbengine.inputs import TASKS, Task, TaskInput, task_of
from kbengine.text_form import input_of, text_of
from storage.errors import InvalidOptionError
from storage.feedback_records import VERDICTS, Verdict
from web.guards import FORM_TYPES, body
from web.responses import json_response
from web.service import current_service

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase

C = TypeVar("C", bound=str)


@dataclass(frozen=True)
class Said:
    """What was said about one answer, and its number."""

    verdict: Verdict
    feedback_id: int


@dataclass(frozen=True)
class JudgedInput:
    """What was asked, in its text form, and what was said about its answers."""

    task: Task
    text: str
    said: dict[tuple[str, str], Said]

    def of(self, answer: str, doc_id: str) -> Said | None:
        """Return what was said about this answer of this document."""
        return self.said.get((answer.strip(), doc_id))


def judged_input(kb: KnowledgeBase, asked: TaskInput) -> JudgedInput:
    """Return what was asked with what was said about its answers before."""
    task, text = task_of(asked), text_of(asked)
    said = kb.reader.list_feedback(task=task, asked=text.strip())
    return JudgedInput(
        task, text, {(each.answer, each.doc_id or ""): Said(each.verdict, each.feedback_id) for each in said}
    )


@body(*FORM_TYPES)
def judge() -> BaseResponse:
    """Store what was said, or take it back when the same is said again; lead back, or tell a script what is so now."""
    form = request.form
    kb, writes = current_service().engine.knowledge_base, current_service().engine.writes
    asked = input_of(_choice("task", TASKS), form.get("input", ""))
    verdict, answer, doc_id = _choice("verdict", VERDICTS), form.get("answer", ""), form.get("document", "")
    before = judged_input(kb, asked).of(answer, doc_id)
    if before is not None and before.verdict == verdict:
        writes.run(kb.delete_feedback, [before.feedback_id])
        now = ""
    else:
        paragraph = form.get("paragraph", "")
        right, wrong = (answer, None) if verdict == "right" else (None, answer)
        new = feedback_on(
            asked,
            right=right,
            wrong=wrong,
            document=doc_id or None,
            paragraph=int(paragraph) if paragraph.isascii() and paragraph.isdigit() and len(paragraph) < 10 else None,
        )
        writes.run(kb.add_feedback, new)
        now = verdict
    if request.accept_mimetypes.best == "application/json":
        return json_response({"verdict": now})
    back = form.get("back", "")
    # Only addresses of this page's own searches: anything else could lead away.
    search = url_for("page.ask")
    return redirect(back if back.startswith(f"{search}?") else search, 303)


def _choice(name: str, wanted: tuple[C, ...]) -> C:
    value = request.form.get(name, "")
    for each in wanted:
        if each == value:
            return each
    raise InvalidOptionError(f"{name} is {value[:40]!r}, wanted one of {', '.join(wanted)}")
