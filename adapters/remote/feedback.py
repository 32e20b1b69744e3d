"""What people say about answers, kept by a service: said, listed, deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from storage.feedback_records import FeedbackRecord, NewFeedback, Verdict

if TYPE_CHECKING:
    from kbengine.inputs import Task
    from kbengine.terminal.service import Service

PAGE = 200
"""How much is listed at once."""


def add_feedback(service: Service, new: Sequence[NewFeedback]) -> tuple[list[int], int]:
    """Say something about answers, one after the other; return the numbers it has and the last generation.

    Raises:
        ServiceRefusedError: the service is not there, or refuses one; what came before it is said.
    """
    ids: list[int] = []
    generation = 0
    for each in new:
        body = {
            "task": each.task,
            "input": each.input,
            "answer": each.answer,
            "verdict": each.verdict,
            "document": each.doc_id,
            "paragraph": each.paragraph,
        }
        said = service.post("/v1/feedback", body)
        ids += said["ids"]
        generation = said["generation"]
    return ids, generation


def list_feedback(
    service: Service, task: Task | None, verdict: Verdict | None, *, after: int = 0, limit: int | None = None
) -> list[FeedbackRecord]:
    """Return what people said about answers, oldest first.

    Args:
        service: Who keeps it.
        task: Only what is on this task.
        verdict: Only what was found right, or wrong.
        after: Only what has a larger number.
        limit: How much at most.

    Raises:
        ServiceRefusedError: the service is not there, or refuses.
    """
    found: list[FeedbackRecord] = []
    token = ""
    while limit is None or len(found) < limit:
        asked = {"task": task, "verdict": verdict, "limit": PAGE, "page_token": token}
        page = service.get(f"/v1/feedback?{urlencode({name: value for name, value in asked.items() if value})}")
        found += [
            FeedbackRecord(
                each["id"],
                each["task"],
                each["input"],
                each["answer"],
                each["verdict"],
                each["document"],
                each["paragraph"],
                each["at"],
            )
            for each in page["feedback"]
            if each["id"] > after
        ]
        token = page["next_page_token"]
        if not token:
            break
    return found[:limit]


def delete_feedback(service: Service, ids: Sequence[int]) -> tuple[list[int], int]:
    """Delete what was said under these numbers; return them and the generation; raises as `list_feedback` does."""
    deleted = service.post("/v1/feedback:delete", {"ids": list(ids)})
    return deleted["ids"], deleted["generation"]


def titles_of(service: Service, doc_ids: Collection[str]) -> dict[str, str]:
    """Return the titles of the documents that are there, by id; raises as `list_feedback` does."""
    from kbengine.terminal.service import RefusedInputError

    titles: dict[str, str] = {}
    for doc_id in sorted(doc_ids):
        try:
            titles[doc_id] = service.get(f"/v1/documents/{quote(doc_id)}")["title"]
        except RefusedInputError:
            continue  # deleted since
    return titles
