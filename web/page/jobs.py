"""The page of the jobs: each with its bar and the time left, cancelled and removed there, its result downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from web.api.jobs import cancel_or_remove
from web.guards import FORM_TYPES, access, body
from web.service import current_service
from web.submitting import job_json, only_of, own_job

if TYPE_CHECKING:
    from web.jobs.job import Job

LISTED = 50
_KINDS = {
    "upload": "Add documents",
    "annotate": "Annotate texts",
    "fill": "Fill a table",
    "backup": "Back up",
    "export": "Export",
}
_STATES = {
    "queued": "waiting",
    "running": "running",
    "succeeded": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}


@dataclass(frozen=True)
class JobLine:
    """One job as the page shows it.

    Attributes:
        job: The job.
        kind: What it does.
        state: Where it stands, in a word.
        percent: How far its stage is; None while that is not known.
        count: How much of its stage is done.
        left: The time left; empty while that is not known.
        facts: What was done.
        problem: Why it failed.
        result: Where its result is.
    """

    job: Job
    kind: str
    state: str
    percent: int | None
    count: str
    left: str
    facts: str
    problem: str
    result: str | None


def jobs() -> Response:
    """Return the page of the newest jobs."""
    found = current_service().jobs.store.newest(LISTED, owner=only_of())
    lines = [_line(job) for job in found]
    values = {
        "section": "page.jobs",
        "lines": lines,
        "is_active": any(not job.is_finished for job in found),
        "keep_days": current_service().settings.job_days,
    }
    return make_response(render_template("page/jobs.html", **values))


@access("read")
@body(*FORM_TYPES)
def stop() -> BaseResponse:
    """Cancel the job, or remove one that is finished, and lead back."""
    job = cancel_or_remove(own_job(request.form.get("id", "")))
    return redirect(url_for("page.jobs", _anchor=None if job.state != "running" else job.id), 303)


def readable_seconds(seconds: float) -> str:
    """Return a time as people read it, such as 3 min."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _line(job: Job) -> JobLine:
    progress = job.progress if not job.is_finished else None
    fraction = progress.fraction if progress is not None else None
    count = left = ""
    if progress is not None:
        of = "" if progress.total is None else f" of {progress.total:,}"
        count = f"{progress.done:,}{of} {progress.stage}"
        if progress.seconds_left is not None and job.state == "running":
            left = f"about {readable_seconds(progress.seconds_left)} left"
    facts = "" if job.outcome is None else ", ".join(_fact(*fact) for fact in job.outcome.facts.items())
    state = "being cancelled" if job.is_cancelling and not job.is_finished else _STATES[job.state]
    return JobLine(
        job,
        _KINDS.get(job.kind, job.kind),
        state,
        None if fraction is None else int(100 * fraction),
        count,
        left,
        facts,
        "" if job.problem is None else str(job.problem["detail"]),
        job_json(job)["result"],
    )


def _fact(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"generation {value}" if name == "generation" else f"{value:,} {words}"
    return f"{words}: {value}"
