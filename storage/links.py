"""The rows of table `links`, and the aliases that are counted from them.

A link counts while the document that has it and the document that it leads to are both there. Its target is named by id
or by title, so it may be stored before its target; a title that several documents have counts for each of them. After
any change the aliases with source "anchor" are exactly what counting all links anew would give.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert

from storage import schema
from storage.alias_records import GIVEN_SOURCES, DocumentNames, NewAlias, NewLink
from storage.alias_rows import AliasRow, alias_row, delete_alias_rows, insert_alias_rows, rows_of_documents
from storage.catalog import chunked
from storage.checksum import check_row, sealed

__all__ = [
    "AnchorCount",
    "Link",
    "LinkCounts",
    "anchor_counts",
    "count_anew",
    "count_changed",
    "drop_links",
    "insert_links",
    "link_totals",
    "linking_documents",
    "links_to",
    "names_of_documents",
]

_STREAM_ROWS = 5_000
_TITLE_IS = "d.title COLLATE NOCASE = {0} AND d.title = {0}"  # the index is over NOCASE, titles are compared exactly
_LEADS_HERE = "l.target IN (p.doc_id, p.title) AND l.target = iif(l.target_kind = 'doc_id', p.doc_id, p.title)"
_ALL_COUNTS = f"""
    SELECT document_id, anchor, sum(n_links) FROM (
        SELECT d.document_id, l.anchor, l.n_links FROM links AS l JOIN documents AS d
            ON d.doc_id = l.target AND d.dead_generation IS NULL WHERE l.target_kind = 'doc_id'
        UNION ALL
        SELECT d.document_id, l.anchor, l.n_links FROM links AS l JOIN documents AS d
            ON {_TITLE_IS.format("l.target")} AND d.dead_generation IS NULL WHERE l.target_kind = 'title')
    GROUP BY document_id, anchor ORDER BY document_id, anchor"""


class Link(NamedTuple):
    """Where links with one text lead: to the document of this id ("doc_id"), or with this title ("title")."""

    anchor: str
    target_kind: str
    target: str


class AnchorCount(NamedTuple):
    """How many links with a text lead to a document."""

    document_id: int
    anchor: str
    n_links: int


@dataclass(frozen=True)
class LinkCounts:
    """What was counted.

    Attributes:
        links: All links of live documents.
        missing: Those of them whose target is not there: they make no alias.
        aliases: Pairs of a text and a document that were counted from the others.
    """

    links: int
    missing: int
    aliases: int


def insert_links(connection: Connection, links: Iterable[tuple[int, Sequence[NewLink]]]) -> list[Link]:
    """Return the links that were stored for new documents, given by id; those of one text and target are summed."""
    stored: list[Link] = []
    rows: list[dict[str, Any]] = []
    for document_id, given in links:
        counts: dict[Link, int] = {}
        for link in given:
            key = Link(link.text, "title" if link.by_title else "doc_id", link.target)
            counts[key] = counts.get(key, 0) + link.count
        rows += [sealed({"document_id": document_id, **key._asdict(), "n_links": n}) for key, n in counts.items()]
        stored += counts
    if rows:
        connection.execute(insert(schema.links), rows)
    return stored


def drop_links(connection: Connection, document_ids: Sequence[int]) -> list[Link]:
    """Return the links that these documents had; they are gone."""
    dropped: list[Link] = []
    for chunk in chunked(document_ids):
        ids = json.dumps(chunk)
        where = "document_id IN (SELECT value FROM json_each(?))"
        found = connection.exec_driver_sql(f"SELECT anchor, target_kind, target FROM links WHERE {where}", (ids,))
        dropped += [Link(*row) for row in found]
        connection.exec_driver_sql(f"DELETE FROM links WHERE {where}", (ids,))
    return dropped


def names_of_documents(connection: Connection, document_ids: Sequence[int]) -> dict[int, DocumentNames]:
    """Return the aliases that these documents were given, and their links; documents without any are left out."""
    aliases: dict[int, list[NewAlias]] = {}
    for row in rows_of_documents(connection, document_ids):
        if row["source"] in GIVEN_SOURCES:
            given = NewAlias(row["alias"], row["source"], row["prior"], row["uses"])
            aliases.setdefault(row["document_id"], []).append(given)
    links: dict[int, list[NewLink]] = {}
    columns = [column.name for column in schema.links.columns]
    for chunk in chunked(document_ids):
        found = connection.exec_driver_sql(
            f"SELECT {', '.join(columns)} FROM links WHERE document_id IN (SELECT value FROM json_each(?)) "
            "ORDER BY document_id, anchor, target_kind, target",
            (json.dumps(chunk),),
        )
        for stored in found.mappings():
            check_row("links", stored)
            link = NewLink(stored["anchor"], stored["target"], stored["target_kind"] == "title", stored["n_links"])
            links.setdefault(stored["document_id"], []).append(link)
    return {
        document_id: DocumentNames(tuple(aliases.get(document_id, ())), tuple(links.get(document_id, ())))
        for document_id in aliases.keys() | links.keys()
    }


def links_to(connection: Connection, doc_id: str, title: str, anchors: Sequence[str]) -> list[tuple[int, Link]]:
    """Return the links with one of these texts that lead to a document, each with the id of its own document."""
    rows = connection.exec_driver_sql(
        f"SELECT l.document_id, l.anchor, l.target_kind, l.target FROM (SELECT ? AS doc_id, ? AS title) AS p "
        f"JOIN links AS l ON {_LEADS_HERE} WHERE l.anchor IN (SELECT value FROM json_each(?))",
        (doc_id, title, json.dumps(list(anchors))),
    )
    return [(row[0], Link(*row[1:])) for row in rows]


def linking_documents(connection: Connection, doc_id: str, title: str, *, limit: int) -> list[tuple[int, int]]:
    """Return the documents with links to a document, other than itself, and how many; those with the most first."""
    rows = connection.exec_driver_sql(
        f"SELECT l.document_id, sum(l.n_links) FROM (SELECT ? AS doc_id, ? AS title) AS p JOIN links AS l "
        f"ON {_LEADS_HERE} JOIN documents AS d ON d.document_id = l.document_id AND d.dead_generation IS NULL "
        "WHERE d.doc_id <> p.doc_id GROUP BY l.document_id ORDER BY 2 DESC, 1 LIMIT ?",
        (doc_id, title, limit),
    )
    return [(row[0], row[1]) for row in rows]


def count_anew(connection: Connection) -> LinkCounts:
    """Make every alias with source "anchor" anew from all links, and return what was counted.

    The counting is SQLite's and spills to disk, so memory does not grow with the number of links.
    """
    connection.exec_driver_sql("DELETE FROM aliases WHERE source = 'anchor'")
    n_aliases = insert_alias_rows(connection, (_anchor_row(count) for count in anchor_counts(connection)))
    total, missing = link_totals(connection)
    return LinkCounts(total, missing, n_aliases)


def link_totals(connection: Connection) -> tuple[int, int]:
    """Return how many links there are, and how many of them lead to no document that is there."""
    if connection.exec_driver_sql("SELECT 1 FROM links LIMIT 1").first() is None:
        return 0, 0
    live = "SELECT 1 FROM documents AS d WHERE d.dead_generation IS NULL AND"
    row = connection.exec_driver_sql(
        f"""SELECT sum(l.n_links), sum(CASE
            WHEN l.target_kind = 'doc_id' AND EXISTS ({live} d.doc_id = l.target) THEN 0
            WHEN l.target_kind = 'title' AND EXISTS ({live} {_TITLE_IS.format("l.target")}) THEN 0
            ELSE l.n_links END) FROM links AS l"""
    ).one()
    return int(row[0]), int(row[1])


def anchor_counts(connection: Connection) -> Iterator[AnchorCount]:
    """Yield how many links of each text lead to each live document, by document and text, a few rows at a time."""
    rows = connection.exec_driver_sql(_ALL_COUNTS, execution_options={"yield_per": _STREAM_ROWS})
    for row in rows:
        yield AnchorCount(*row)


def count_changed(connection: Connection, *, added: Sequence[int], changed: Iterable[Link]) -> None:
    """Set the counts of aliases with source "anchor" right after documents and links came or went.

    Args:
        connection: The writing transaction, in which the documents and links are already as they shall be.
        added: Ids of documents that are new under their id: links to them may have been waiting.
        changed: Links that were stored or dropped.
    """
    changed = dict.fromkeys(changed)
    if not changed and connection.exec_driver_sql("SELECT 1 FROM links LIMIT 1").first() is None:
        return
    for chunk in chunked(added):
        rows = connection.exec_driver_sql(
            "SELECT p.document_id, l.anchor, sum(l.n_links) FROM json_each(?) AS j "
            f"CROSS JOIN documents AS p ON p.document_id = j.value CROSS JOIN links AS l ON {_LEADS_HERE} "
            "GROUP BY p.document_id, l.anchor",
            (json.dumps(chunk),),
        ).all()
        insert_alias_rows(connection, [_anchor_row(AnchorCount(*row)) for row in rows])
    new = set(added)
    for links in chunked(changed):
        counts = [count for count in _counts_of(connection, links) if count.document_id not in new]
        gone = [alias_row(count.document_id, count.anchor, "anchor") for count in counts if not count.n_links]
        delete_alias_rows(connection, gone)
        insert_alias_rows(connection, [_anchor_row(count) for count in counts if count.n_links])


def _counts_of(connection: Connection, links: Sequence[Link]) -> list[AnchorCount]:
    """Return the counts of every live document and text that these links are about; 0 where no link is left."""
    rows = connection.exec_driver_sql(
        f"""
        WITH given AS (SELECT value ->> 0 AS anchor, value ->> 1 AS kind, value ->> 2 AS target FROM json_each(?)),
        pairs AS (
            SELECT d.document_id, d.doc_id, d.title, g.anchor FROM given AS g CROSS JOIN documents AS d
                ON d.doc_id = g.target AND d.dead_generation IS NULL WHERE g.kind = 'doc_id'
            UNION
            SELECT d.document_id, d.doc_id, d.title, g.anchor FROM given AS g CROSS JOIN documents AS d
                ON {_TITLE_IS.format("g.target")} AND d.dead_generation IS NULL WHERE g.kind = 'title')
        SELECT p.document_id, p.anchor,
            (SELECT coalesce(sum(l.n_links), 0) FROM links AS l WHERE {_LEADS_HERE} AND l.anchor = p.anchor)
        FROM pairs AS p""",
        (json.dumps(links),),
    )
    return [AnchorCount(*row) for row in rows]


def _anchor_row(count: AnchorCount) -> AliasRow:
    return alias_row(count.document_id, count.anchor, "anchor", uses=count.n_links)
