"""Long work that a service does for a command: sent, watched until it ends, its result fetched."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from kbengine.terminal.service import Service, ServiceRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0


def name_of(file: Path, arguments: Mapping[str, Any]) -> str:
    """Return the name of a change: the same for the same file and arguments, so that it is taken up again."""
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    return hashlib.sha256(json.dumps([digest, arguments], sort_keys=True).encode()).hexdigest()


def finished(
    service: Service, job: Mapping[str, Any], *, clock: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Return a job when it has succeeded, with a progress bar until then.

    Interrupted, it tells that the job goes on; the same command takes it up again.

    Args:
        service: Where the job is done.
        job: The job as it was accepted.
        clock: Waits so many seconds.

    Raises:
        ServiceRefusedError: the job failed or was cancelled; it is forgotten then, so that it can be sent again.
    """
    from kbengine.progress import Stages, progress_for_terminal

    wait, told = FIRST_WAIT_S, dict(job)
    try:
        with progress_for_terminal() as sink:
            stages = Stages(sink)
            while told["state"] in ("queued", "running"):
                clock(wait)
                wait = min(wait * 1.5, LONGEST_WAIT_S)
                told = service.get(f"/v1/jobs/{job['id']}")
                progress = told["progress"]
                if progress is not None and progress["total"]:
                    stages(progress["stage"], progress["done"], progress["total"])
    except KeyboardInterrupt:
        click.echo(f"job {job['id']} goes on at {service.url}; the same command takes it up again", err=True)
        raise
    if told["state"] != "succeeded":
        service.delete(f"/v1/jobs/{job['id']}")
        problem = told["problem"] or {"detail": "the job was cancelled"}
        raise service.refused(problem, int(problem.get("status", 500)))
    return told


def fetched(service: Service, job: Mapping[str, Any], out: Path) -> int:
    """Write a finished job's result to a file and forget the job; return the file's bytes.

    Raises:
        ServiceRefusedError: the job has no result, or it did not come whole.
    """
    if job["result"] is None:
        raise ServiceRefusedError(f"job {job['id']} at {service.url} has no result to download")
    n_bytes = service.download(f"/v1/jobs/{job['id']}/result", out)
    service.delete(f"/v1/jobs/{job['id']}")
    return n_bytes


def export_of_service(service: Service, out: Path, asked: Mapping[str, str]) -> dict[str, Any]:
    """Write what a service holds to a file, which appears when it is whole, and return what was exported.

    Args:
        service: Whose knowledge base.
        out: The file; `.gz` and `.zst` behind its name compress what came.
        asked: As `POST /v1/kb:export` takes it.

    Raises:
        ServiceRefusedError: the service is not there, refuses, or fails.
    """
    job = finished(service, service.post(f"/v1/kb:export?{urlencode(asked)}", {}))
    if out.suffix not in (".gz", ".zst"):
        fetched(service, job, out)
        return dict(job["facts"])
    from kbengine.build.exporting import open_text, whole_file

    plain = out.with_name(f".{out.name}.plain")
    try:
        fetched(service, job, plain)
        with whole_file(out) as partial, open_text(partial, out.suffix) as packed, plain.open(encoding="utf-8") as file:
            shutil.copyfileobj(file, packed)
    finally:
        plain.unlink(missing_ok=True)
    return dict(job["facts"])
