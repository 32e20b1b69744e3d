"""The state of the knowledge base: counts, segments, disk, last commits, and whether everything is what was written."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flask import Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adapters.exporting.ntriples import BASE
from storage.errors import InvalidOptionError
from web.guards import FORM_TYPES, access, body
from web.page.answer_view import Bar
from web.service import current_service
from web.submitting import new_job_folder, submit

if TYPE_CHECKING:
    from storage.information import KBInfo

SEVERITIES = {
    "error": "restore a backup",
    "repairable": "run 'kbengine verify --repair'",
    "derived": "rebuilt by itself when next opened",
    "leftover": "removed by the next change",
}
"""What each severity of a finding asks for."""


FORMS = {
    "jsonl": "JSON lines, which kbengine reads",
    "sqlite": "SQLite, for sqlite3 and Datasette",
    "parquet": "Parquet, for pandas",
    "ntriples": "N-Triples, with sources",
}
"""What everything can be exported as."""


@dataclass(frozen=True)
class Fact:
    """One number with its name, and what it means."""

    name: str
    value: str
    note: str = ""


def status() -> Response:
    """Return the page of the knowledge base's state."""
    engine = current_service().engine
    info = engine.info()
    values = {
        "section": "page.status",
        "info": info,
        "facts": _facts(info),
        "disk": disk_bars(info.bytes_by_kind),
        "disk_total": readable_bytes(sum(info.bytes_by_kind.values())),
        "readable_bytes": readable_bytes,
        "verification": engine.verification.state,
        "severities": SEVERITIES,
        "forms": [(form, name) for form, name in FORMS.items() if form != "parquet" or find_spec("pyarrow")],
    }
    return make_response(render_template("page/status.html", **values))


@access("admin")
@body(*FORM_TYPES)
def verify() -> BaseResponse:
    """Begin to check every byte and lead back to the state."""
    current_service().engine.verification.start()
    return redirect(url_for("page.status", _anchor="verify"), 303)


@access("read")
@body(*FORM_TYPES)
def export() -> BaseResponse:
    """Begin to export everything in the form that was chosen and lead to the job."""
    form = request.form.get("form", "")
    if form not in FORMS:
        raise InvalidOptionError(f"the form is {form[:20]!r}, wanted one of {', '.join(FORMS)}")
    with new_job_folder(current_service()) as folder:
        job = submit(folder, "export", f"export as {form}", {"form": form, "base": BASE})
    return redirect(url_for("page.jobs", _anchor=job.id), 303)


def disk_bars(bytes_by_kind: dict[str, int]) -> tuple[Bar, ...]:
    """Return the kinds of files side by side, by size."""
    total, start, bars = sum(bytes_by_kind.values()), 0.0, []
    for kind, size in sorted(bytes_by_kind.items(), key=lambda one: -one[1]):
        width = 100 * size / total if total else 0.0
        bars.append(Bar(kind, size, round(start, 2), round(width, 2), readable_bytes(size)))
        start += width
    return tuple(bars)


def readable_bytes(size: float) -> str:
    """Return a size as people read it, such as 1.4 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def _facts(info: KBInfo) -> tuple[Fact, ...]:
    return (
        Fact("Documents", f"{info.documents:,}"),
        Fact("Passages", f"{info.passages:,}"),
        Fact(
            "Phrase vectors",
            f"{info.tokens_stored:,}",
            f"searched from {100 * info.kept_fraction:.0f} % of {info.tokens_total:,} tokens",
        ),
        Fact("Other names", f"{info.aliases:,}", f"{info.links:,} links" if info.links else ""),
        Fact("Segments", f"{info.segments:,}", f"{info.segment_rows:,} rows"),
        Fact("Deleted, not compacted", f"{info.tombstones:,}"),
    )
