"""What a knowledge base holds as one plain SQLite file, for the sqlite3 shell, Datasette and whatever reads SQLite."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kbengine.build.exporting import whole_file
from kbengine.version import __version__
from storage.field_rows import fields_of_meta

if TYPE_CHECKING:
    from storage.reader import KBReader

_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value);
CREATE TABLE documents (doc_id TEXT PRIMARY KEY, title TEXT, url TEXT, meta TEXT, passages INTEGER);
CREATE TABLE passages (
    passage_id INTEGER PRIMARY KEY, doc_id TEXT REFERENCES documents (doc_id), paragraph INTEGER, section TEXT,
    char_offset INTEGER, text TEXT);
CREATE TABLE aliases (alias TEXT, doc_id TEXT REFERENCES documents (doc_id), source TEXT, prior REAL, uses INTEGER);
CREATE TABLE links (doc_id TEXT REFERENCES documents (doc_id), text TEXT, target_id TEXT, target_title TEXT,
    count INTEGER);
CREATE TABLE fields (doc_id TEXT REFERENCES documents (doc_id), name TEXT, type TEXT, value);
CREATE VIRTUAL TABLE passages_fts USING fts5 (text, content=[passages], content_rowid=[passage_id]);
"""
_INDEXES = """
INSERT INTO passages_fts (passages_fts) VALUES ('rebuild');
CREATE INDEX documents_title ON documents (title);
CREATE INDEX passages_doc_id ON passages (doc_id);
CREATE INDEX aliases_alias ON aliases (alias);
CREATE INDEX aliases_doc_id ON aliases (doc_id);
CREATE INDEX links_doc_id ON links (doc_id);
CREATE INDEX links_target_id ON links (target_id);
CREATE INDEX fields_name ON fields (name, value);
CREATE INDEX fields_doc_id ON fields (doc_id);
"""


def export_sqlite(reader: KBReader, path: Path, *, progress: Callable[[int], None] | None = None) -> int:
    """Write the live documents of one generation to the SQLite file `path`, and return how many.

    `kb.sqlite` itself has a full-text table that SQLite opens from 3.43 on; this file has none that 3.35 does not know.

    Args:
        reader: of the knowledge base.
        path: the file; it appears only when it is complete.
        progress: is told how many documents are done.
    """
    n = 0
    with whole_file(path) as partial, contextlib.closing(sqlite3.connect(partial)) as database:
        database.executescript(_TABLES)
        about = {"kbengine": __version__, "generation": reader.snapshot().generation}
        database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        for document, passages, names in reader.iterate_with_names():
            own = document.doc_id
            meta = json.dumps(dict(document.meta), ensure_ascii=False)
            database.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?)", (own, document.title, document.url, meta, len(passages))
            )
            database.executemany(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)",
                [(p.passage_id, own, p.ordinal, p.section, p.char_offset, p.text) for p in passages],
            )
            database.executemany(
                "INSERT INTO aliases VALUES (?, ?, ?, ?, ?)",
                [(a.alias, own, a.source, a.prior, a.uses) for a in names.aliases],
            )
            database.executemany(
                "INSERT INTO links VALUES (?, ?, ?, ?, ?)",
                [
                    (own, k.text, None if k.by_title else k.target, k.target if k.by_title else None, k.count)
                    for k in names.links
                ],
            )
            database.executemany(
                "INSERT INTO fields VALUES (?, ?, ?, ?)",
                [(own, row.name, row.type, row.value) for row in fields_of_meta(document.document_id, document.meta)],
            )
            n += 1
            if progress is not None:
                progress(n)
        database.executescript(_INDEXES)
        database.commit()
    return n
