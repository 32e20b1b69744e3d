"""Tables filled by a service: the file is sent, the job watched, the filled table written here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from adapters.errors import TableError
from adapters.filling.table import MEDIA_TYPES, format_of
from kbengine.terminal.service import Service
from kbengine.terminal.service_jobs import fetched, finished, name_of


def fill_table(
    service: Service, table: Path, out: Path, options: Mapping[str, Any], *, format: str | None = None
) -> dict[str, Any]:
    """Fill a table and return what was filled, by name.

    The job has a name made of the table and the options: called again after an interruption the same job is taken up,
    with what it has filled meanwhile.

    Args:
        service: Who fills it.
        table: The file.
        out: Where the filled table goes; nothing is there yet.
        options: As `POST /v1/fill` takes them; None, and what is empty, is left out.
        format: The table's; by default its name says it.

    Raises:
        TableError: there is no such file, its kind is not known, or `out` is there already.
        ServiceRefusedError: the service is not there, refuses, or fails.
    """
    kind, wanted = format_of(table, format), format_of(out)
    if not table.is_file():
        raise TableError(f"{table} is no file; check the path")
    if out.exists():
        raise TableError(f"{out} is there already; remove it, or write elsewhere")
    given = {name: value for name, value in options.items() if value not in (None, "", (), [])}
    asked = {**given, "name": table.name, "format": kind, "out": wanted}
    query = urlencode({name: _as_sent(value) for name, value in asked.items()}, doseq=True)
    job = service.send(f"/v1/fill?{query}", table, MEDIA_TYPES[kind], name=name_of(table, asked))
    done = finished(service, job)
    fetched(service, done, out)
    return dict(done["facts"])


def _as_sent(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, list | tuple) else value
