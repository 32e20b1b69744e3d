"""From a request to a job: its body is received into the job's folder, and the answer says where to look."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from flask import Response, request

from storage.durable import write_durably
from storage.operating_system import operating_system, remove_tree
from web import limits
from web.errors import BadRequestError, UnknownJobError
from web.guards import too_large
from web.idempotency import operation_of_request
from web.jobs.context import INPUT_NAME
from web.jobs.job import Job, Kind
from web.request_context import api_root, current_request
from web.responses import json_response
from web.service import Service, current_service

CHUNK_BYTES = 1 << 16
_MAX_NAME_BYTES = 200
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]+")


@contextlib.contextmanager
def new_job_folder(service: Service) -> Iterator[Path]:
    """Give a job's new folder with a folder for its input; it is removed when the block fails.

    Raises:
        StateError: jobs cannot be kept here.
    """
    folder = service.jobs.store.new_folder()
    try:
        operating_system().mkdir(folder / INPUT_NAME)
        yield folder
    except BaseException:
        remove_tree(folder)
        raise


def receive_body(folder: Path, name: str, *, max_bytes: int = limits.UPLOAD_BYTES) -> int:
    """Write the request's body to a file of this name in the job's input, and return its bytes.

    Raises:
        BodyTooLargeError: it is longer than it may be.
        BadRequestError: it is empty.
    """
    return receive(folder, name, iter(lambda: request.stream.read(CHUNK_BYTES), b""), max_bytes=max_bytes)


def receive(folder: Path, name: str, data: Iterable[bytes], *, max_bytes: int = limits.UPLOAD_BYTES) -> int:
    """Write data to a file in the job's input, durably; see `receive_body`."""
    n_bytes, _ = write_durably(folder / INPUT_NAME / name, _bounded(data, max_bytes))
    if not n_bytes:
        raise BadRequestError("the body is empty; send the file as it is")
    return n_bytes


def _bounded(data: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    n_bytes = 0
    for chunk in data:
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            raise too_large(max_bytes)
        yield chunk


def file_name(given: str | None, default: str) -> str:
    """Return the name under which an uploaded file is kept: its own without folders, or the default."""
    name = PurePosixPath((given or "").replace("\\", "/")).name
    name = _UNNAMEABLE.sub(" ", name).strip()
    stem, suffixes = name[: -len("".join(PurePosixPath(name).suffixes)) or None], PurePosixPath(name).suffixes
    while len(name.encode()) > _MAX_NAME_BYTES and stem:
        stem = stem[:-1]
        name = stem + "".join(suffixes)
    return name if name.strip(".") and len(name.encode()) <= _MAX_NAME_BYTES else default


def submit(folder: Path, kind: Kind, title: str, arguments: Mapping[str, Any]) -> Job:
    """Return the job of a folder whose input is there, to be done when its turn comes.

    Raises:
        QueueFullError: too many jobs are waiting.
        IdempotencyConflictError: the request's Idempotency-Key was used for something else before.
    """
    key = current_request().key
    job = current_service().jobs.submit(
        folder, kind, title, arguments, owner=None if key is None else key.id, operation=operation_of_request()
    )
    current_request().facts["job"] = job.id
    return job


def accepted(job: Job) -> Response:
    """Return the answer that says where the job is: 202 with Location."""
    told = job_json(job)
    return json_response(told, 202, {"Location": told["address"]})


def job_json(job: Job) -> dict[str, Any]:
    """Return the job as it is told over HTTP."""
    return job.to_json(api_root=api_root(), keep_s=current_service().jobs.keep_s)


def own_job(job_id: str) -> Job:
    """Return the job, if it is one that the request's key may see: its own, or any with the scope admin.

    Raises:
        UnknownJobError: there is none, or it is another key's.
    """
    job = current_service().jobs.store.get(job_id)
    owner = only_of()
    if owner is not None and job.owner != owner:
        raise UnknownJobError(f"no job {job_id[:80]!r} of this API key; GET /v1/jobs lists them")
    return job


def only_of() -> str | None:
    """Return the key whose jobs alone the current request may see; None for all jobs."""
    key = current_request().key
    return None if key is None or key.allows("admin") else key.id
