"""The rows of table `aliases`: stored, looked up by name, listed in pages.

Functions on an open connection, inside the caller's transaction. The prior of a name is not stored but follows from the
rows of the same spelling: a document weighs as often as the name was used for it, by links or in other sources, or one
when no source says how often; its prior is its share of the weights. A prior that was given is taken as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert

from storage import schema
from storage.alias_records import (
    MAX_ALIAS_CHARS,
    AliasMatch,
    AliasRecord,
    AliasSource,
    NewAlias,
    alias_problem,
    aliases_of_meta,
)
from storage.catalog import chunked
from storage.checksum import check_row, row_checksum, sealed
from storage.errors import InvalidOptionError
from storage.folding import FORMS, accent_key, matching_form, spelling
from storage.terms import name_term, names_of_title

__all__ = [
    "adopt_stored_names",
    "alias_row",
    "alias_table_exists",
    "delete_alias_rows",
    "has_alias",
    "hidden_names",
    "insert_alias_rows",
    "list_aliases",
    "match_names",
    "name_counts",
    "own_rows",
    "rows_of_documents",
]

_COLUMNS = tuple(column.name for column in schema.aliases.columns)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM aliases"
_OF_A = ", ".join(f"a.{name}" for name in _COLUMNS)
_KEY = ("folded", "alias", "document_id", "source")
_STREAM_ROWS = 1_000

AliasRow = dict[str, Any]


def alias_table_exists(connection: Connection) -> bool:
    """Return whether the knowledge base has been brought to the revision that knows aliases."""
    statement = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'aliases'"
    return connection.exec_driver_sql(statement).first() is not None


def has_alias(connection: Connection) -> bool:
    """Return whether any alias is stored."""
    return alias_table_exists(connection) and connection.exec_driver_sql("SELECT 1 FROM aliases").first() is not None


def name_counts(connection: Connection) -> tuple[int, int]:
    """Return how many aliases there are, a name of a document counted once, and how many links."""
    if not alias_table_exists(connection):
        return 0, 0
    # The key begins with name and document, so SQLite counts in one pass without sorting.
    aliases = "SELECT count(*) FROM (SELECT 1 FROM aliases GROUP BY folded, alias, document_id)"
    links = "SELECT coalesce(sum(n_links), 0) FROM links"
    return int(connection.exec_driver_sql(aliases).scalar_one()), int(connection.exec_driver_sql(links).scalar_one())


def alias_row(
    document_id: int, alias: str, source: AliasSource, *, uses: int = 0, prior: float | None = None
) -> AliasRow:
    """Return the row of an alias, with its checksum."""
    return sealed(
        {
            "folded": accent_key(alias),
            "alias": alias,
            "document_id": document_id,
            "source": source,
            "uses": uses,
            "prior": prior,
        }
    )


def own_rows(document_id: int, title: str, aliases: Iterable[NewAlias]) -> list[AliasRow]:
    """Return the rows that a document brings itself: its aliases, and its title where the lexical index cannot."""
    rows = [alias_row(document_id, each.alias, each.source, uses=each.uses, prior=each.prior) for each in aliases]
    return rows + [alias_row(document_id, name, "title") for name in hidden_names(title)]


def hidden_names(title: str) -> list[str]:
    """Return the title's names that the lexical index does not find by their accent keys, such as "Łódź" by "lodz"."""
    found = []
    for name in dict.fromkeys(spelling(each) for each in names_of_title(title)):
        if alias_problem(name) is not None:
            continue
        # A name without any word, such as "!!!", is not indexed at all.
        if name_term(name) == name_term("") or name_term(name) != name_term(accent_key(name)):
            found.append(name)
    return found


def insert_alias_rows(connection: Connection, rows: Iterable[AliasRow]) -> int:
    """Insert rows and return how many; one with the same name, document and source is replaced."""
    n_rows = 0
    statement = insert(schema.aliases).prefix_with("OR REPLACE")
    for chunk in chunked(rows):
        connection.execute(statement, list(chunk))
        n_rows += len(chunk)
    return n_rows


def delete_alias_rows(connection: Connection, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Delete the rows with these keys."""
    condition = " AND ".join(f"{name} = ?" for name in _KEY)
    for chunk in chunked(rows):
        keys = [tuple(row[name] for name in _KEY) for row in chunk]
        connection.exec_driver_sql(f"DELETE FROM aliases WHERE {condition}", keys)


def rows_of_documents(connection: Connection, document_ids: Iterable[int]) -> list[AliasRow]:
    """Return all rows of these documents, checked, in order of the documents' ids and of their names."""
    rows: list[AliasRow] = []
    for chunk in chunked(document_ids):
        found = connection.exec_driver_sql(
            f"{_SELECT} WHERE document_id IN (SELECT value FROM json_each(?)) "
            "ORDER BY document_id, folded, alias, source",
            (json.dumps(chunk),),
        )
        rows += _checked(found)
    return rows


def match_names(connection: Connection, names: Sequence[str], *, limit: int) -> list[list[AliasMatch]]:
    """Return for each name the documents that it can mean: best form first, then highest prior, then lowest id.

    A document is named once for each of its aliases that match. Of a spelling with more than `limit` rows only these
    many are read: those with a given prior and those with the most uses.
    """
    keys = [None if alias_problem(name) is not None else accent_key(name) for name in names]
    totals = _totals(connection, {key for key in keys if key is not None})
    crowded = [spelt for spelt, total in totals.items() if total.n_rows > limit]
    rows = _rows_of_spellings(connection, [spelt for spelt, total in totals.items() if total.n_rows <= limit])
    for spelt in crowded:
        best = f"{_SELECT} WHERE folded = ? AND alias = ? ORDER BY prior IS NULL, uses DESC, document_id, source"
        rows += _checked(connection.exec_driver_sql(f"{best} LIMIT ?", (*spelt, limit)))
    groups: dict[str, dict[tuple[str, int], list[AliasRow]]] = {}
    for row in rows:
        groups.setdefault(row["folded"], {}).setdefault((row["alias"], row["document_id"]), []).append(row)
    found: list[list[AliasMatch]] = []
    for name, key in zip(names, keys, strict=True):
        matches: list[AliasMatch] = []
        forms = {alias: matching_form(name, alias) for alias, _ in groups.get(key or "", ())}
        for (alias, document_id), same in groups.get(key or "", {}).items():
            form = forms[alias] if key is not None else None
            if form is not None:
                prior = _prior(same, totals[same[0]["folded"], alias].weight)
                matches.append(AliasMatch(document_id, alias, form, prior, tuple(row["source"] for row in same)))
        found.append(sorted(matches, key=lambda m: (FORMS.index(m.form), -m.prior, m.document_id, m.alias)))
    return found


class _Total(NamedTuple):
    """What is stored under one spelling: the number of rows, and the weights of the documents summed up."""

    n_rows: int
    weight: int


def _totals(connection: Connection, keys: Iterable[str]) -> dict[tuple[str, str], _Total]:
    """Return what is stored under each spelling with one of these accent keys, by key and spelling."""
    found = connection.exec_driver_sql(
        "SELECT folded, alias, count(*), sum(uses) + "
        "count(DISTINCT document_id) - count(DISTINCT iif(uses > 0, document_id, NULL)) FROM aliases "
        "WHERE folded IN (SELECT value FROM json_each(?)) GROUP BY folded, alias",
        (json.dumps(list(keys)),),
    )
    return {(key, alias): _Total(n_rows, weight) for key, alias, n_rows, weight in found}


def _rows_of_spellings(connection: Connection, spellings: Sequence[tuple[str, str]]) -> list[AliasRow]:
    """Return all rows of each (accent key, alias)."""
    if not spellings:
        return []
    found = connection.exec_driver_sql(
        f"SELECT {_OF_A} FROM json_each(?) AS j CROSS JOIN aliases AS a ON a.folded = j.value ->> 0 "
        "AND a.alias = j.value ->> 1",
        (json.dumps(spellings),),
    )
    return _checked(found)


def _prior(rows: Sequence[AliasRow], total: int) -> float:
    """Return the prior of a document for an alias, from its rows and the weights of all documents that have it."""
    given = [row["prior"] for row in rows if row["prior"] is not None]
    return max(given) if given else (sum(row["uses"] for row in rows) or 1) / total


def list_aliases(
    connection: Connection,
    *,
    doc_id: str | None = None,
    prefix: str | None = None,
    source: AliasSource | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[AliasRecord]:
    """Return the aliases in the order of their accent keys; see `KBReader.list_aliases`."""
    if limit < 1:
        raise InvalidOptionError(f"limit is {limit}; wanted at least 1")
    conditions, values = ["d.dead_generation IS NULL"], []
    if doc_id is not None:
        conditions.append("d.doc_id = ?")
        values.append(doc_id)
    if prefix is not None and len(prefix) > MAX_ALIAS_CHARS:
        return []
    if prefix is not None and (low := accent_key(prefix)):
        conditions.append("a.folded >= ? AND a.folded < ?")
        values += [low, low + chr(0x10FFFF)]
    if source is not None:
        conditions.append("a.source = ?")
        values.append(source)
    if after is not None:
        conditions.append("(a.folded, a.alias, a.document_id, a.source) > (?, ?, ?, ?)")
        values += _position(after)
    found = connection.exec_driver_sql(
        f"SELECT {_OF_A}, d.doc_id, d.title FROM aliases AS a JOIN documents AS d USING (document_id) "
        f"WHERE {' AND '.join(conditions)} ORDER BY a.folded, a.alias, a.document_id, a.source LIMIT ?",
        (*values, limit),
    ).all()
    rows = [dict(zip((*_COLUMNS, "doc_id", "title"), row, strict=True)) for row in found]
    for row in rows:
        check_row("aliases", {name: row[name] for name in _COLUMNS})
    totals = _totals(connection, {row["folded"] for row in rows})
    same = _rows_of_names(connection, [(row["folded"], row["alias"], row["document_id"]) for row in rows])
    return [
        AliasRecord(
            document_id=row["document_id"],
            doc_id=row["doc_id"],
            title=row["title"],
            alias=row["alias"],
            source=row["source"],
            uses=row["uses"],
            prior=_prior(same[row["alias"], row["document_id"]], totals[row["folded"], row["alias"]].weight),
            given_prior=row["prior"],
        )
        for row in rows
    ]


def _rows_of_names(
    connection: Connection, names: Sequence[tuple[str, str, int]]
) -> dict[tuple[str, int], list[AliasRow]]:
    """Return all rows of each (accent key, alias, document id), by alias and document: a document may have it twice."""
    found = connection.exec_driver_sql(
        f"SELECT {_OF_A} FROM json_each(?) AS j CROSS JOIN aliases AS a ON a.folded = j.value ->> 0 "
        "AND a.alias = j.value ->> 1 AND a.document_id = j.value ->> 2",
        (json.dumps(list(dict.fromkeys(names))),),
    )
    rows: dict[tuple[str, int], list[AliasRow]] = {}
    for row in _checked(found):
        rows.setdefault((row["alias"], row["document_id"]), []).append(row)
    return rows


def _position(cursor: str) -> list[Any]:
    """Return the key that `AliasRecord.cursor` wrote."""
    try:
        alias, document_id, source = json.loads(cursor)
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"the page to go on from is {cursor!r}; wanted the cursor of an alias that was listed before"
        ) from error
    if not (isinstance(alias, str) and type(document_id) is int and isinstance(source, str)):
        raise InvalidOptionError(f"the page to go on from is {cursor!r}; wanted the cursor of an alias")
    return [accent_key(alias), alias, document_id, source]


def adopt_stored_names(connection: Connection) -> None:
    """Make alias rows for the documents that were stored before there was a table of aliases.

    Damaged documents get none: nothing is derived from a changed text, and `verify` names them.
    """
    columns = [column.name for column in schema.documents.columns]
    found = connection.exec_driver_sql(
        f"SELECT {', '.join(columns)} FROM documents WHERE dead_generation IS NULL",
        execution_options={"yield_per": _STREAM_ROWS},
    )
    for partition in found.mappings().partitions(_STREAM_ROWS):
        rows: list[AliasRow] = []
        for document in partition:
            if row_checksum(document) == document["checksum"]:
                aliases = aliases_of_meta(json.loads(document["meta"]))
                rows += own_rows(document["document_id"], document["title"], aliases)
        insert_alias_rows(connection, rows)


def _checked(found: Iterable[Sequence[Any]]) -> list[AliasRow]:
    rows = [dict(zip(_COLUMNS, row, strict=True)) for row in found]
    for row in rows:
        check_row("aliases", row)
    return rows
