"""Jobs as bodies."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from adapters.exporting.export import ExportForm
from adapters.exporting.ntriples import BASE
from web import limits
from web.jobs.job import Kind, State
from web.models.base import Body


class ExportQuery(Body):
    """How a knowledge base is exported."""

    model_config = ConfigDict(strict=False)

    form: ExportForm = Field(
        description="JSON lines that kbengine reads, SQLite for sqlite3 and Datasette, Parquet, or N-Triples."
    )
    base: str = Field(
        BASE,
        max_length=limits.TITLE_CHARS,
        pattern=r"^https?://[^\s<>\"{}|^`\\\\]*$",
        description="Of N-Triples: begins the IRI of each document.",
    )


class JobProgress(Body):
    """How far a job is."""

    stage: str = Field(description="What is being counted, such as `passages added`.")
    done: int
    total: int | None = Field(description="Null while it is not known.")
    fraction: float | None = Field(description="Share of the stage that is done, 0 to 1.")
    seconds_left: float | None = Field(description="Of the stage, by its rate so far; null while that is not known.")


class JobBody(Body):
    """One job."""

    id: str
    kind: Kind
    title: str
    state: State
    cancelling: bool = Field(description="Whether it was told to stop and has not yet.")
    created_at: str
    started_at: str | None
    finished_at: str | None
    expires_at: str | None = Field(description="When it is forgotten, with its result.")
    progress: JobProgress | None
    facts: dict[str, Any] | None = Field(description="What was done, once it succeeded: counts by name.")
    problem: dict[str, Any] | None = Field(description="Why it failed, as a problem document.")
    address: str = Field(description="Its own address.")
    result: str | None = Field(description="Where its result is fetched; null while there is none.")


class JobList(Body):
    """One page of jobs, the newest first."""

    jobs: list[JobBody]
    next_page_token: str | None = Field(description="Send it as `page_token` for the next page; null on the last.")


class JobsQuery(Body):
    """What a listing of jobs may be asked; parameters of an address are text, so numbers are read from it."""

    model_config = ConfigDict(strict=False)

    state: Literal["", "queued", "running", "succeeded", "failed", "cancelled"] = Field(
        "", description="Only jobs in this state; empty for all."
    )
    limit: int = Field(50, ge=1, le=limits.PAGE_ITEMS)
    page_token: str = Field("", max_length=limits.TOKEN_CHARS, description="Of the page before; empty for the first.")
