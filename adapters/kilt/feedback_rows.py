"""Feedback as KILT records: the right answers to each input with their pages, for `kbengine tune` to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbengine.errors import InvalidOptionError

if TYPE_CHECKING:
    from storage.feedback_records import FeedbackRecord


def feedback_rows(
    feedback: Iterable[FeedbackRecord], titles: Mapping[str, str], *, notice: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return one KILT record for each input that has a right answer, in the order of their first feedback.

    Wrong answers go under `meta`, where nothing learns from them by itself: among candidates all answers that are not
    right count as wrong.

    Args:
        feedback: of one task.
        titles: of documents, by their ids; those that are gone have none.
        notice: is told of inputs without a right answer, which are left out.

    Raises:
        InvalidOptionError: the feedback is of several tasks, or no input has a right answer.
    """
    by_input: dict[str, list[FeedbackRecord]] = {}
    tasks = set()
    for each in feedback:
        by_input.setdefault(each.input, []).append(each)
        tasks.add(each.task)
    if len(tasks) > 1:
        raise InvalidOptionError(f"the feedback is on {', '.join(sorted(tasks))}; export one of them: --task TASK")
    rows = [_row(text, given, titles) for text, given in by_input.items() if _right(given)]
    if len(rows) < len(by_input):
        notice(f"left out: {len(by_input) - len(rows)} inputs of which only wrong answers are known")
    if not rows:
        raise InvalidOptionError("no input has an answer that was found right, so there is nothing to learn from yet")
    return rows


def _right(given: Sequence[FeedbackRecord]) -> list[FeedbackRecord]:
    return [each for each in given if each.verdict == "right"]


def _row(text: str, given: Sequence[FeedbackRecord], titles: Mapping[str, str]) -> dict[str, Any]:
    output = []
    for each in _right(given):
        entry: dict[str, Any] = {"answer": each.answer}
        if each.doc_id is not None:
            place: dict[str, Any] = {"wikipedia_id": each.doc_id, "title": titles.get(each.doc_id, "")}
            if each.paragraph is not None:
                place |= {"start_paragraph_id": each.paragraph, "end_paragraph_id": each.paragraph}
            entry["provenance"] = [place]
        output.append(entry)
    record: dict[str, Any] = {"id": f"feedback-{given[0].feedback_id}", "input": text, "output": output}
    wrong = [each.answer for each in given if each.verdict == "wrong"]
    return record | ({"meta": {"wrong_answers": wrong}} if wrong else {})
