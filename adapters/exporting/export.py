"""A whole knowledge base as one file, in the form that its name says or that is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from adapters.exporting.ntriples import BASE, export_ntriples
from adapters.exporting.parquet import export_parquet
from adapters.exporting.plain_sqlite import export_sqlite
from kbengine.build.exporting import export_to
from kbengine.errors import InvalidOptionError

if TYPE_CHECKING:
    from storage.reader import KBReader

ExportForm = Literal["jsonl", "sqlite", "parquet", "ntriples"]
EXPORT_FORMS: tuple[ExportForm, ...] = get_args(ExportForm)
SUFFIXES: dict[ExportForm, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson"),
    "sqlite": (".db", ".sqlite", ".sqlite3"),
    "parquet": (".parquet", ".pq"),
    "ntriples": (".nt",),
}
"""What the name of each form ends in, the usual one first."""
EXPORT_TYPES: dict[ExportForm, str] = {
    "jsonl": "application/x-ndjson",
    "sqlite": "application/vnd.sqlite3",
    "parquet": "application/vnd.apache.parquet",
    "ntriples": "application/n-triples",
}
COUNTED: dict[ExportForm, str] = {
    "jsonl": "documents",
    "sqlite": "documents",
    "parquet": "passages",
    "ntriples": "triples",
}
"""What is counted in each form."""
_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class ExportReport:
    """What was exported: `n` of `what`, such as documents, of the commit `generation`."""

    form: ExportForm
    what: str
    n: int
    generation: int


def export(
    reader: KBReader,
    path: Path,
    form: ExportForm | None = None,
    *,
    base: str = BASE,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write all live documents of one generation to a file, which appears when it is complete.

    Args:
        reader: Of the knowledge base.
        path: The file; `.gz` and `.zst` behind a name of JSON lines or N-Triples compress.
        form: Its form; by default its name says it.
        base: Of N-Triples: begins the IRI of each document.
        progress: Is told how many documents are done.

    Raises:
        InvalidOptionError: the name says no form.
        MissingExtraError: Parquet is wanted, and pyarrow is not installed.
    """
    chosen = form or form_of(path)
    generation = reader.snapshot().generation
    match chosen:
        case "jsonl":
            n = export_to(reader, path)
        case "sqlite":
            n = export_sqlite(reader, path, progress=progress)
        case "parquet":
            n = export_parquet(reader, path, progress=progress)
        case "ntriples":
            n = export_ntriples(reader, path, base=base, progress=progress)
    return ExportReport(chosen, COUNTED[chosen], n, generation)


def form_of(path: Path) -> ExportForm:
    """Return the form that a file's name says.

    Raises:
        InvalidOptionError: it says none.
    """
    name = path.name.lower()
    for each in _COMPRESSED:
        name = name.removesuffix(each)
    for form, suffixes in SUFFIXES.items():
        if name.endswith(suffixes):
            return form
    known = ", ".join(f"{suffixes[0]} ({form})" for form, suffixes in SUFFIXES.items())
    raise InvalidOptionError(f"{path.name} says no form to export, wanted a name that ends in one of {known}")
