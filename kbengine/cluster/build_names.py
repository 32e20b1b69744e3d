"""Ids, titles and links of all chunks together: no id comes twice, and links are counted wherever they lead."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kbengine.cluster.build_chunk import read_names
from kbengine.cluster.plan import BuildPlan
from kbengine.errors import CorpusError
from storage.alias_rows import AliasRow, alias_row
from storage.backup_store import StoredFile
from storage.object_store import ObjectStore

_BATCH = 5_000
_COUNTS = """
    SELECT ordinal, anchor, sum(n) FROM (
        SELECT d.ordinal, l.anchor, l.n FROM links AS l JOIN documents AS d ON d.doc_id = l.target
            WHERE l.kind = 'doc_id'
        UNION ALL
        SELECT d.ordinal, l.anchor, l.n FROM links AS l JOIN documents AS d ON d.title = l.target
            WHERE l.kind = 'title')
    WHERE ordinal >= ? AND ordinal < ? GROUP BY ordinal, anchor ORDER BY ordinal, anchor"""


@dataclass(frozen=True)
class LinkTotals:
    """Links of all documents, and names that were counted from those whose targets are there."""

    links: int
    aliases: int


class CorpusNames:
    """Ids, titles and links of a corpus, in a file that goes with the build."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
            "CREATE TABLE documents (ordinal INTEGER PRIMARY KEY, doc_id TEXT NOT NULL, title TEXT NOT NULL);"
            "CREATE TABLE links (anchor TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, n INTEGER NOT NULL);"
        )

    def add(self, names: bytes) -> None:
        """Add what a chunk has, as `build_chunk` stored it."""
        documents, links = read_names(names)
        with closing(self._database.cursor()) as cursor:
            cursor.execute("BEGIN")
            cursor.executemany("INSERT INTO documents VALUES (?, ?, ?)", documents)
            cursor.executemany("INSERT INTO links VALUES (?, ?, ?, ?)", links)
            cursor.execute("COMMIT")

    def check(self, plan: BuildPlan) -> None:
        """Raise CorpusError when two documents have one id, and make look-ups fast."""
        self._database.execute("CREATE INDEX by_doc_id ON documents(doc_id)")
        self._database.execute("CREATE INDEX by_title ON documents(title)")
        twice = self._database.execute(
            "SELECT doc_id, min(ordinal), max(ordinal) FROM documents GROUP BY doc_id HAVING count(*) > 1 LIMIT 1"
        ).fetchone()
        if twice is not None:
            places = [_origin(plan, ordinal) for ordinal in twice[1:]]
            raise CorpusError(
                f"the document id {twice[0]!r} comes twice, in {places[0]} and in {places[1]}, wanted each id once; "
                "leave one of the two out"
            )

    def totals(self) -> LinkTotals:
        """Return how many links there are, and how many names come of them."""
        links = self._database.execute("SELECT coalesce(sum(n), 0) FROM links").fetchone()[0]
        names = self._database.execute(f"SELECT count(*) FROM ({_COUNTS})", (0, 1 << 62)).fetchone()[0]
        return LinkTotals(int(links), int(names))

    def anchors(self, first: int, end: int) -> Iterator[tuple[int, str, int]]:
        """Yield (ordinal, text of links, how many such links lead to it) of documents in a range of ordinals."""
        yield from self._database.execute(_COUNTS, (first, end))

    def documents(self, first: int, end: int) -> Iterator[tuple[str, int]]:
        """Yield id and ordinal of documents in a range of ordinals."""
        yield from self._database.execute(
            "SELECT doc_id, ordinal FROM documents WHERE ordinal >= ? AND ordinal < ? ORDER BY ordinal", (first, end)
        )

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _origin(plan: BuildPlan, ordinal: int) -> str:
    return next(chunk.origin for chunk in plan.chunks if chunk.first_ordinal <= ordinal < chunk.end_ordinal)


def put_anchors(store: ObjectStore, rows: Iterable[tuple[int, str, int]], shard: int) -> StoredFile:
    """Store names counted from links for the documents of one shard."""
    data = json.dumps([list(row) for row in rows], ensure_ascii=False).encode()
    return store.put_bytes(data, f"names from links of shard {shard}")


def read_anchors(store: ObjectStore, file: StoredFile) -> Sequence[AliasRow]:
    """Return rows of table `aliases` from what was stored."""
    rows: list[tuple[int, str, int]] = json.loads(store.read(file))
    return [alias_row(ordinal + 1, anchor, "anchor", uses=uses) for ordinal, anchor, uses in rows]
