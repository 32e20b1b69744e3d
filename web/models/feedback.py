"""What people say about answers, as bodies."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from kbengine.inputs import Task
from storage.feedback_records import MAX_ANSWER_CHARS, MAX_INPUT_CHARS, Verdict
from web import limits
from web.models.base import Body, DocumentId, Whole

Number = Annotated[int, Field(ge=1, le=(1 << 63) - 1), Whole]
Paragraph = Annotated[int, Field(ge=0, le=(1 << 31) - 1), Whole]
Asked = Annotated[str, StringConstraints(min_length=1, max_length=MAX_INPUT_CHARS, pattern=r"\S")]
JudgedAnswer = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ANSWER_CHARS, pattern=r"\S")]


class NewFeedbackBody(Body):
    """What somebody says about an answer; of the same answer to the same input the last word counts."""

    task: Task = Field("question", description="What kind of input it is.")
    input: Asked = Field(
        description="What was asked, in the task's text form: a question, `subject [SEP] relation`, a text with its "
        "mention marked `[START_ENT] mention [END_ENT]`, a dialogue's turns a line each."
    )
    answer: JudgedAnswer = Field(description="The answer, as it was shown or as it should have been.")
    verdict: Verdict = Field(description="Whether it is right or wrong.")
    document: DocumentId | None = Field(
        None, description="The document that it is or stands in; needed for the right answer to a mention or dialogue."
    )
    paragraph: Paragraph | None = Field(None, description="The number of its paragraph in the document.")


class FeedbackToDelete(Body):
    """Numbers of feedback to delete, all of it or none."""

    ids: list[Number] = Field(min_length=1, max_length=limits.PAGE_ITEMS)


class FeedbackCommitted(Body):
    """A change of feedback that is durable."""

    generation: int
    ids: list[int] = Field(description="The numbers of the feedback that it touched.")
    repeated: bool = Field(description="Whether an earlier request with the same Idempotency-Key had done it already.")


class FeedbackEntry(Body):
    """What somebody said about an answer."""

    id: int = Field(description="Its number, never used twice.")
    task: str
    input: str
    answer: str
    verdict: str
    document: str | None
    paragraph: int | None
    at: str = Field(description="When it was given, in UTC.")


class FeedbackList(Body):
    """One page of feedback, oldest first."""

    feedback: list[FeedbackEntry]
    next_page_token: str | None
    generation: int


class FeedbackQuery(Body):
    """What a listing of feedback may be asked."""

    model_config = ConfigDict(strict=False)

    task: Task | None = Field(None, description="Only what is on this task.")
    verdict: Verdict | None = Field(None, description="Only what was found right, or wrong.")
    limit: int = Field(50, ge=1, le=limits.PAGE_ITEMS)
    page_token: str = Field("", max_length=limits.TOKEN_CHARS, description="Of the page before; empty for the first.")
