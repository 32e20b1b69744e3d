"""Feedback: what somebody says about answers to a question, slot, mention or dialogue, ready to be stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adapters.tasks.answers import Answer
from adapters.tasks.defaults import PHRASE_TASKS
from kbengine.errors import InvalidOptionError
from kbengine.inputs import TaskInput, task_of
from kbengine.text_form import text_of
from storage.feedback_records import NewFeedback, Verdict

Judged = str | Answer
"""An answer that is judged: one that was given, or its text."""


def feedback_on(
    asked: TaskInput,
    *,
    right: Judged | Sequence[Judged] | None = None,
    wrong: Judged | Sequence[Judged] | None = None,
    document: str | None = None,
    paragraph: int | None = None,
) -> list[NewFeedback]:
    """Return what is said about answers to what was asked.

    Args:
        asked: what was asked.
        right: answers that are right, found or not.
        wrong: answers that are wrong.
        document: the document that the answers given as texts are or stand in: the right ones, without any the wrong
            ones.
        paragraph: the ordinal of their paragraph in it.

    Raises:
        InvalidOptionError: nothing is judged, a text cannot be stored, or the right answer to a mention or dialogue
            names no document.
    """
    task = task_of(asked)
    all_right, all_wrong = _each(right), _each(wrong)
    place = (document, paragraph)
    new = [_new(asked, "right", each, place) for each in all_right]
    new += [_new(asked, "wrong", each, (None, None) if all_right else place) for each in all_wrong]
    if not new:
        raise InvalidOptionError("no answer is judged; say which is right or which is wrong")
    if task not in PHRASE_TASKS and any(each.verdict == "right" and each.doc_id is None for each in new):
        raise InvalidOptionError(f"the right answer of {task} is a document; give its id")
    return new


def _each(judged: Judged | Sequence[Judged] | None) -> Iterable[Judged]:
    if judged is None:
        return ()
    return (judged,) if isinstance(judged, str | Answer) else tuple(judged)


def _new(asked: TaskInput, verdict: Verdict, judged: Judged, place: tuple[str | None, int | None]) -> NewFeedback:
    task, text = task_of(asked), text_of(asked)
    if isinstance(judged, str):
        return NewFeedback(task, text, judged, verdict, *place)
    best = judged.evidence[0]
    return NewFeedback(task, text, judged.text, verdict, best.document.doc_id, best.passage.ordinal)
