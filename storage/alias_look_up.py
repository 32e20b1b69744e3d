"""Names looked up in the table `aliases`: what each can mean and how likely, in one knowledge base or in several.

Functions on an open connection, inside the caller's transaction. The prior of a name is not stored but follows from the
rows of the same spelling: a document weighs as often as the name was used for it, by links or in other sources, or one
when no source says how often; its prior is its share of the weights. A prior that was given is taken as it is.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from storage.alias_records import (
    MAX_ALIAS_CHARS,
    AliasMatch,
    AliasRecord,
    AliasSource,
    AliasUse,
    Spelling,
    alias_problem,
)
from storage.alias_rows import ALIAS_COLUMNS, SELECT_ALIASES, AliasRow, checked_rows
from storage.checksum import check_row
from storage.errors import InvalidOptionError
from storage.folding import FORMS, accent_key, matching_form

__all__ = ["alias_order", "joined_spellings", "list_aliases", "match_names", "matches_of", "prior_of", "spellings_of"]

_OF_A = ", ".join(f"a.{name}" for name in ALIAS_COLUMNS)
_LIKELIEST_FIRST = "prior IS NULL, uses DESC, document_id, source"


def match_names(connection: Connection, names: Sequence[str], *, limit: int) -> list[list[AliasMatch]]:
    """Return for each name the documents that it can mean: best form first, then highest prior, then lowest id.

    A document is named once for each of its aliases that match. Of a spelling with more than `limit` rows only these
    many are read: those with a given prior and those with the most uses.
    """
    return matches_of(names, spellings_of(connection, names, limit=limit))


def spellings_of(
    connection: Connection, names: Sequence[str], *, limit: int, without: Collection[int] = ()
) -> list[Spelling]:
    """Return what is stored under each spelling of the names, whatever its case and accents.

    Args:
        connection: In the caller's transaction.
        names: The names; what cannot be an alias has no spelling.
        limit: How many rows are read of a spelling that has more.
        without: Ids of documents whose rows do not count.
    """
    keys = {accent_key(name) for name in names if alias_problem(name) is None}
    if not keys:
        return []
    totals = _totals(connection, keys, without)
    rows = _rows_of_spellings(connection, [spelt for spelt, total in totals.items() if total.n_rows <= limit])
    gone, besides = _besides(without)
    for spelt in (spelt for spelt, total in totals.items() if total.n_rows > limit):
        best = f"{SELECT_ALIASES} WHERE folded = ? AND alias = ?{besides} ORDER BY {_LIKELIEST_FIRST}"
        rows += checked_rows(connection.exec_driver_sql(f"{best} LIMIT ?", (*spelt, *gone, limit)))
    dropped = frozenset(without)
    uses: dict[tuple[str, str], list[AliasUse]] = {}
    for row in rows:
        if row["document_id"] not in dropped:
            uses.setdefault((row["folded"], row["alias"]), []).append(_use(row))
    return [Spelling(*spelt, total.n_rows, total.weight, tuple(uses[spelt])) for spelt, total in totals.items()]


def joined_spellings(parts: Sequence[Sequence[Spelling]], *, limit: int) -> list[Spelling]:
    """Return what several knowledge bases, none of whose documents are another's, have under each spelling.

    Args:
        parts: Of each what `spellings_of` gives with the same names and limit.
        limit: As there.
    """
    if len(parts) == 1:
        return list(parts[0])
    same: dict[tuple[str, str], list[Spelling]] = {}
    for spelt in itertools.chain.from_iterable(parts):
        same.setdefault((spelt.folded, spelt.alias), []).append(spelt)
    joined = []
    for (folded, alias), each in same.items():
        n_rows, rows = sum(spelt.n_rows for spelt in each), [row for spelt in each for row in spelt.rows]
        if n_rows > limit:
            rows = sorted(rows, key=lambda row: (row.prior is None, -row.uses, row.document_id, row.source))[:limit]
        joined.append(Spelling(folded, alias, n_rows, sum(spelt.weight for spelt in each), tuple(rows)))
    return joined


def matches_of(names: Sequence[str], spellings: Iterable[Spelling]) -> list[list[AliasMatch]]:
    """Return for each name the documents that it can mean by these spellings, in the order of `match_names`."""
    groups: dict[str, list[Spelling]] = {}
    for spelt in spellings:
        groups.setdefault(spelt.folded, []).append(spelt)
    found: list[list[AliasMatch]] = []
    for name in names:
        matches: list[AliasMatch] = []
        for spelt in groups.get(accent_key(name), ()) if alias_problem(name) is None else ():
            form = matching_form(name, spelt.alias)
            if form is None:
                continue
            of_documents: dict[int, list[AliasUse]] = {}
            for row in spelt.rows:
                of_documents.setdefault(row.document_id, []).append(row)
            for document_id, rows in of_documents.items():
                sources = tuple(row.source for row in rows)
                matches.append(AliasMatch(document_id, spelt.alias, form, _prior(rows, spelt.weight), sources))
        found.append(sorted(matches, key=lambda m: (FORMS.index(m.form), -m.prior, m.document_id, m.alias)))
    return found


class _Total(NamedTuple):
    """What is stored under one spelling: the number of rows, and the weights of the documents summed up."""

    n_rows: int
    weight: int


def _totals(
    connection: Connection, keys: Iterable[str], without: Collection[int] = ()
) -> dict[tuple[str, str], _Total]:
    """Return what is stored under each spelling with one of these accent keys, by key and spelling."""
    gone, besides = _besides(without)
    found = connection.exec_driver_sql(
        "SELECT folded, alias, count(*), sum(uses) + "
        "count(DISTINCT document_id) - count(DISTINCT iif(uses > 0, document_id, NULL)) FROM aliases "
        f"WHERE folded IN (SELECT value FROM json_each(?)){besides} GROUP BY folded, alias",
        (json.dumps(list(keys)), *gone),
    )
    return {(key, alias): _Total(n_rows, weight) for key, alias, n_rows, weight in found}


def _besides(without: Collection[int]) -> tuple[tuple[str, ...], str]:
    """Return the parameter and the condition that leave out the rows of some documents."""
    if not without:
        return (), ""
    return (json.dumps([int(each) for each in without]),), (" AND document_id NOT IN (SELECT value FROM json_each(?))")


def _rows_of_spellings(connection: Connection, spellings: Sequence[tuple[str, str]]) -> list[AliasRow]:
    """Return all rows of each (accent key, alias)."""
    if not spellings:
        return []
    found = connection.exec_driver_sql(
        f"SELECT {_OF_A} FROM json_each(?) AS j CROSS JOIN aliases AS a ON a.folded = j.value ->> 0 "
        "AND a.alias = j.value ->> 1",
        (json.dumps(spellings),),
    )
    return checked_rows(found)


def alias_order(cursor: str) -> tuple[bytes, bytes, int, str]:
    """Return what aliases are listed by, from the cursor of one (`AliasRecord.cursor`)."""
    folded, alias, document_id, source = _position(cursor)
    return folded.encode(), alias.encode(), document_id, source


def prior_of(spelt: Spelling, document_id: int) -> float:
    """Return the prior of a document for a spelling, of which all rows are there."""
    return _prior([row for row in spelt.rows if row.document_id == document_id], spelt.weight)


def _use(row: AliasRow) -> AliasUse:
    return AliasUse(row["document_id"], row["source"], row["uses"], row["prior"])


def _uses(rows: Iterable[AliasRow]) -> list[AliasUse]:
    return [_use(row) for row in rows]


def _prior(rows: Sequence[AliasUse], total: int) -> float:
    """Return the prior of a document for an alias, from its rows and the weights of all documents that have it."""
    given = [row.prior for row in rows if row.prior is not None]
    return max(given) if given else (sum(row.uses for row in rows) or 1) / total


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
    rows = [dict(zip((*ALIAS_COLUMNS, "doc_id", "title"), row, strict=True)) for row in found]
    for row in rows:
        check_row("aliases", {name: row[name] for name in ALIAS_COLUMNS})
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
            prior=_prior(_uses(same[row["alias"], row["document_id"]]), totals[row["folded"], row["alias"]].weight),
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
    for row in checked_rows(found):
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
