"""/v1/jobs: long work that is followed, cancelled, and its result fetched; and the routes that begin it."""

from __future__ import annotations

from typing import Any

from apiflask import APIBlueprint
from flask import Response, send_file

from adapters.exporting.export import EXPORT_TYPES
from adapters.filling.table import MEDIA_TYPES
from web import limits
from web.endings import CHANGES, READS, may_end_in
from web.errors import NoJobResultError
from web.guards import LINES_TYPES, access, body
from web.jobs.job import Job
from web.jobs.store import RESULT_NAME
from web.models.annotate import AnnotateManyQuery
from web.models.documents import UploadQuery
from web.models.jobs import JobBody, JobList, JobsQuery
from web.page_tokens import page_position, page_token
from web.responses import json_response
from web.service import current_service
from web.submitting import accepted, file_name, job_json, new_job_folder, only_of, own_job, receive_body, submit
from web.works.backups import ARCHIVE_TYPE

jobs = APIBlueprint("jobs", __name__, url_prefix="/v1", tag="Jobs")

FILE_TYPES = (
    "application/octet-stream",
    "application/json",
    *LINES_TYPES,
    "application/gzip",
    "application/zstd",
    "text/plain",
    "text/html",
    "text/markdown",
    "text/tab-separated-values",
)
LISTING = "jobs"
RESULT_TYPES = ("application/octet-stream", ARCHIVE_TYPE, LINES_TYPES[0], *MEDIA_TYPES.values(), *EXPORT_TYPES.values())
RESULT: dict[int | str, Any] = {
    200: {
        "description": "The job's result as a file: of its kind's own type.",
        "content": {each: {"schema": {"type": "string"}} for each in dict.fromkeys(RESULT_TYPES)},
    }
}


@jobs.get("/jobs")
@jobs.input(JobsQuery, location="query")
@jobs.output(JobList)
@may_end_in(400, of=READS)
@access("read")
def list_jobs(query_data: JobsQuery) -> Response:
    """List jobs.

    The newest first: those of the request's API key, or all where there are no keys or its scope is `admin`.
    """
    listing = f"{LISTING} {query_data.state}"
    before = page_position(listing, query_data.page_token) if query_data.page_token else None
    found = current_service().jobs.store.newest(
        query_data.limit + 1,
        before=before if isinstance(before, int) else None,
        owner=only_of(),
        state=query_data.state or None,
    )
    listed = found[: query_data.limit]
    more = page_token(listing, listed[-1].number) if len(found) > len(listed) else None
    return json_response({"jobs": [job_json(job) for job in listed], "next_page_token": more})


@jobs.get("/jobs/<job_id>")
@jobs.output(JobBody)
@may_end_in(404, of=READS)
@access("read")
def get_job(job_id: str) -> Response:
    """Show how far a job is, or what came of it."""
    return json_response(job_json(own_job(job_id)))


@jobs.delete("/jobs/<job_id>")
@jobs.output(JobBody)
@may_end_in(404, 507, of=READS)
@access("read")
def delete_job(job_id: str) -> Response:
    """Cancel a job, or forget one that is finished.

    One that waits or runs is told to stop: what it has changed stays, what it has not changed is left. One that is
    finished is deleted with its result; the answer is what it was.
    """
    return json_response(job_json(cancel_or_remove(own_job(job_id))))


@jobs.get("/jobs/<job_id>/result")
@jobs.doc(responses=RESULT)
@may_end_in(404, 409, of=READS)
@access("read")
def get_result(job_id: str) -> Response:
    """Download a job's result."""
    return result_response(own_job(job_id))


@jobs.post("/documents:upload")
@jobs.input(UploadQuery, location="query")
@jobs.output(JobBody, 202, description="The job that adds the documents.")
@body(*FILE_TYPES, max_bytes=limits.UPLOAD_BYTES, streams=True)
@may_end_in(of=CHANGES)
@access("write")
def upload_documents(query_data: UploadQuery) -> Response:
    """Add the documents of a file, as a job.

    The body is a file in any format that `kbengine build` reads, compressed or not. It is read as a whole before the
    first document is added; then it is added piece by piece, each of them found at once.
    """
    name = file_name(query_data.name, "upload")
    arguments = {"replace": query_data.replace, "format": query_data.format, "skip_bad": query_data.skip_bad}
    with new_job_folder(current_service()) as folder:
        receive_body(folder, name)
        return accepted(submit(folder, "upload", name, arguments))


@jobs.post("/annotate:batch")
@jobs.input(AnnotateManyQuery, location="query")
@jobs.output(JobBody, 202, description="The job that annotates the texts.")
@body(*LINES_TYPES, max_bytes=limits.UPLOAD_BYTES, streams=True)
@may_end_in(of=CHANGES)
@access("read")
def annotate_many(query_data: AnnotateManyQuery) -> Response:
    """Annotate many texts, as a job.

    The body is JSON lines of `text` and optionally `id`; the result has a line for each, in order, with the `id` and
    the mentions as `POST /v1/annotate` gives them.
    """
    with new_job_folder(current_service()) as folder:
        receive_body(folder, "texts.jsonl")
        return accepted(submit(folder, "annotate", "texts.jsonl", query_data.model_dump()))


def cancel_or_remove(job: Job) -> Job:
    """Return the job, told to stop, or as it was before it was forgotten."""
    store = current_service().jobs.store
    if job.is_finished:
        store.remove([job.id])
        return job
    return store.cancel(job.id)


def result_response(job: Job) -> Response:
    """Return the job's result as a file to download.

    Raises:
        NoJobResultError: there is none, or none yet.
    """
    if job.outcome is None or job.outcome.file is None:
        state = {"succeeded": "makes no file", "queued": "waits", "running": "is running"}.get(job.state, job.state)
        raise NoJobResultError(f"the job {state}, and has no result to download; GET /v1/jobs/{job.id} says more")
    file = job.outcome.file
    path = current_service().jobs.store.folder / job.id / RESULT_NAME
    try:
        return send_file(path, file.media_type, as_attachment=True, download_name=file.name, etag=job.id)
    except FileNotFoundError:
        raise NoJobResultError("the job's result was removed from the disk; ask for it again") from None
