"""What annotating takes and gives over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from web import limits
from web.models.base import AddressFilter, Body, Filter
from web.models.queries import Milliseconds

LongText = Annotated[str, StringConstraints(min_length=1, max_length=limits.ANNOTATED_CHARS, pattern=r"\S")]


class AnnotateQuery(Body):
    """A text without marks, and how to link its mentions."""

    text: LongText
    threshold: float = Field(
        0.5, ge=0, le=1, allow_inf_nan=False, description="The probability that a link has to reach."
    )
    candidates: int = Field(3, ge=1, le=10, description="Documents given with each mention.")
    unlinked: bool = Field(True, description="Also give names that have no link, with the reason.")
    where: Filter | None = Field(None, description="Link only to documents whose fields pass this.")
    stream: bool = Field(
        False,
        description="Answer with JSON lines as they are found: an `annotation` each, and how far it is (`progress`). "
        "For texts that take longer than the deadline.",
    )
    deadline_ms: Milliseconds | None = Field(
        None, description="Answer 504 after this time; the service's own deadline counts too. Streams have none."
    )


class TextToAnnotate(Body):
    """One of many texts to annotate, a line each."""

    id: str | int | None = Field(None, description="Comes back with its mentions.")
    text: LongText


class AnnotateManyQuery(Body):
    """How many texts are annotated; parameters of an address are text, so values are read from it."""

    model_config = ConfigDict(strict=False)

    threshold: float = Field(
        0.5, ge=0, le=1, allow_inf_nan=False, description="The probability that a link has to reach."
    )
    candidates: int = Field(3, ge=1, le=10, description="Documents given with each mention.")
    unlinked: bool = Field(True, description="Also give names that have no link, with the reason.")
    where: AddressFilter | None = Field(None, description="Link only to documents whose fields pass this.")


class LinkedDocument(Body):
    """The document that a mention means."""

    id: str
    title: str
    url: str | None


class CandidateBody(Body):
    """A document that a mention may mean."""

    document: LinkedDocument
    probability: float


class AnnotationBody(Body):
    """One mention; offsets count Unicode code points of the text."""

    span: list[int] = Field(min_length=2, max_length=2)
    text: str
    link: CandidateBody | None
    reason: Literal["unknown_name", "below_threshold"] | None = Field(description="Why there is no link.")
    candidates: list[CandidateBody] = Field(description="The most probable first.")


class AnnotatedBody(Body):
    """A text's mentions in order; no two overlap."""

    characters: int
    annotations: list[AnnotationBody]
