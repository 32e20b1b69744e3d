"""The pages that rows point to: read once from a corpus of any size and kept on disk, the others passed over."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.corpus.reader import read_corpus
from kbengine.progress import NoProgress, ProgressSink

_CACHED_PAGES = 256
_BATCH = 1000


class PageStore(AbstractContextManager["PageStore"]):
    """Pages by id, in a temporary SQLite file that is gone when the store is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kbengine-pages-")
        self._database = sqlite3.connect(Path(self._folder.name) / "pages.sqlite")
        self._database.execute("PRAGMA journal_mode = OFF")  # nothing to recover: it is temporary
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE pages (id TEXT PRIMARY KEY, page TEXT NOT NULL) WITHOUT ROWID")
        self._cached: Callable[[str], CorpusDocument | None] = lru_cache(maxsize=_CACHED_PAGES)(self._read)

    def fill(self, corpus: Sequence[Path], wanted: Collection[str], *, progress: ProgressSink | None = None) -> None:
        """Keep the wanted pages of a corpus, which is any that kbengine reads; it is read once from end to end.

        Raises:
            CorpusError: the corpus cannot be read.
        """
        progress = progress or NoProgress()
        needed = frozenset(wanted)
        if not needed:
            return
        reading = read_corpus(corpus)
        progress.begin("reading pages", reading.report.bytes_total or None, "")
        n_bytes = 0
        rows: list[tuple[str, str]] = []
        for document, position in reading:
            if document.doc_id in needed:
                rows.append((document.doc_id, _packed(document)))
            if len(rows) >= _BATCH:
                self._write(rows)
                rows = []
            progress.advance(position.bytes_read - n_bytes)
            n_bytes = position.bytes_read
        self._write(rows)

    def get(self, page_id: str) -> CorpusDocument | None:
        """Return a page with its passages, or None when the corpus had none of this id."""
        return self._cached(page_id)

    def close(self) -> None:
        """Remove the file."""
        self._database.close()
        self._folder.cleanup()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, rows: Sequence[tuple[str, str]]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?)", rows)
        self._database.commit()

    def _read(self, page_id: str) -> CorpusDocument | None:
        row = self._database.execute("SELECT page FROM pages WHERE id = ?", (page_id,)).fetchone()
        return None if row is None else _unpacked(page_id, row[0])


def _packed(document: CorpusDocument) -> str:
    passages = [(each.ordinal, each.text, each.char_offset) for each in document.passages]
    return json.dumps([document.title, passages], ensure_ascii=False)


def _unpacked(page_id: str, page: str) -> CorpusDocument:
    title, passages = json.loads(page)
    return CorpusDocument(
        page_id,
        title,
        passages=tuple(CorpusPassage(ordinal, text, None, offset) for ordinal, text, offset in passages),
    )
