"""The face's exports: everything in one file for other tools."""

from __future__ import annotations

from pathlib import Path

from adapters.exporting.export import EXPORT_FORMS, ExportForm, ExportReport, export
from adapters.exporting.ntriples import BASE
from adapters.face.opened import Opened
from kbengine.errors import InvalidOptionError
from kbengine.progress import Stages, progress_for_terminal


class Exporting(Opened):
    """What writes a knowledge base for other tools."""

    def export(
        self, out: str | Path, *, form: ExportForm | None = None, base: str = BASE, progress: bool = False
    ) -> ExportReport:
        """Write all documents with their passages, names, links and fields to one file.

        >>> report = kb.export(new_folder.with_name("everything.db"))
        >>> report.form, report.n, report.what
        ('sqlite', 133, 'documents')

        Args:
            out: the file, which appears when it is complete; one that is there is replaced.
            form: `jsonl` (what `build` and `add` read), `sqlite` (for sqlite3 and Datasette), `parquet` (for pandas;
                needs pyarrow) or `ntriples`; None lets the name say it: `.jsonl`, `.db`, `.parquet`, `.nt`.
            base: of N-Triples: begins the IRI of each document.
            progress: show progress on stderr.

        Raises:
            InvalidOptionError: the form is not one of these, or the name says none.
            MissingExtraError: Parquet is wanted, and pyarrow is not installed.
            CorruptError: the knowledge base is damaged.
            StorageFullError: there is no space.
        """
        if form is not None and form not in EXPORT_FORMS:
            raise InvalidOptionError(f"form is {form!r}, wanted one of {', '.join(EXPORT_FORMS)}")
        reader = self._engine.reader
        with progress_for_terminal(quiet=not progress) as sink:
            stages, total = Stages(sink), reader.info().documents
            return export(
                reader, Path(out), form, base=base, progress=lambda done: stages("documents exported", done, total)
            )
