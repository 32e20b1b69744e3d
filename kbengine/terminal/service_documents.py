"""Documents sent to a service: files, each as a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kbengine.terminal.service import RefusedInputError, Service
from kbengine.terminal.service_jobs import finished, name_of


def add_files(service: Service, files: Sequence[Path], *, format: str | None, skip_bad: bool) -> dict[str, Any]:
    """Add the documents of files, one file after the other, and return what was added, summed.

    Args:
        service: Who adds them.
        files: Each in a form that `kbengine build` reads.
        format: Theirs; by default it is detected.
        skip_bad: Whether records that cannot be read are counted instead of refusing their file.

    Raises:
        RefusedInputError: one is a folder, standard input, or not there.
        ServiceRefusedError: the service is not there, refuses, or fails; the files before it are added.
    """
    for file in files:
        if not file.is_file():
            what = "a folder" if file.is_dir() else "standard input" if str(file) == "-" else "no file"
            raise RefusedInputError(f"{file} is {what}; a service is sent files: name them, or give --kb")
    summed: dict[str, Any] = {}
    for file in files:
        asked = {"name": file.name, "format": format, "skip_bad": "true" if skip_bad else None}
        given = {name: value for name, value in asked.items() if value is not None}
        path = f"/v1/documents:upload?{urlencode(given)}"
        job = finished(service, service.send(path, file, "application/octet-stream", name=name_of(file, given)))
        service.delete(f"/v1/jobs/{job['id']}")
        for name, value in job["facts"].items():
            is_sum = isinstance(value, int) and not isinstance(value, bool) and name != "generation"
            summed[name] = summed.get(name, 0) + value if is_sum else value
    return summed
