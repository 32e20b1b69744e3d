"""Changes to the names of documents: with a document that comes or goes, or on their own, each a commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from storage.alias_records import OWN_SOURCES, AliasSource, NewAlias
from storage.alias_rows import (
    AliasRow,
    alias_row,
    delete_alias_rows,
    insert_alias_rows,
    own_rows,
    rows_of_documents,
)
from storage.catalog import chunked, commit_row, insert_generation, live_document_rows, newest_generation
from storage.errors import DuplicateAliasError, InvalidOptionError, UnknownAliasError, UnknownDocumentError
from storage.folding import spelling
from storage.links import Link, LinkCounts, count_anew, count_changed, drop_links, insert_links, links_to
from storage.records import Commit, NewDocument
from storage.session import WriteSession

__all__ = ["AliasChange", "add_aliases", "change_names", "count_links", "delete_aliases"]

_REMADE = (*OWN_SOURCES, "anchor", "title")
_BATCH = 2_000


@dataclass(frozen=True)
class AliasChange:
    """What a change of aliases did: the commit's generation, its operation id, and how many aliases it touched."""

    generation: int
    op_id: str | None
    aliases: int


def change_names(
    connection: Connection,
    *,
    retired: Sequence[Mapping[Any, Any]],
    added: Sequence[tuple[int, NewDocument]],
    count_links: bool,
) -> None:
    """Bring names and links up to date with the documents that come and go, in the caller's transaction.

    A document that replaces another keeps the aliases that people and tables gave that one; its own are those it
    brings, and those from links are counted again.

    Args:
        connection: The writing transaction.
        retired: Rows of the documents that were deleted or replaced in it.
        added: The documents stored in it, with their ids.
        count_links: False leaves counting to `KBWriter.count_links`, as a build does.
    """
    old_ids = {row["document_id"]: row["doc_id"] for row in retired}
    old_rows = rows_of_documents(connection, old_ids)
    delete_alias_rows(connection, old_rows)
    changed: list[Link] = drop_links(connection, list(old_ids))
    new_ids = {document.doc_id: document_id for document_id, document in added}
    rows: list[AliasRow] = []
    for row in old_rows:
        heir = new_ids.get(old_ids[row["document_id"]])
        if heir is not None and row["source"] not in _REMADE:
            rows.append(alias_row(heir, row["alias"], row["source"], uses=row["uses"], prior=row["prior"]))
    for document_id, document in added:
        rows += own_rows(document_id, document.title, document.aliases)
    changed += insert_links(connection, ((document_id, document.links) for document_id, document in added))
    insert_alias_rows(connection, rows)
    if count_links:
        count_changed(connection, added=list(new_ids.values()), changed=changed)


def add_aliases(
    session: WriteSession,
    aliases: Iterable[tuple[str, NewAlias]],
    *,
    replace: bool = False,
    op_id: str | None = None,
) -> AliasChange:
    """Add aliases and return the commit; see `KBWriter.add_aliases`."""
    with session.writing() as connection:
        earlier = _change_of(connection, op_id)
        if earlier is not None:
            return earlier
        n_aliases = 0
        for batch in chunked(aliases, _BATCH):
            n_aliases += _add_batch(connection, batch, session, replace=replace)
        if not n_aliases:
            raise InvalidOptionError("no alias was given; name at least one")
        return _commit(connection, op_id, n_aliases)


def _add_batch(
    connection: Connection, batch: Sequence[tuple[str, NewAlias]], session: WriteSession, *, replace: bool
) -> int:
    doc_ids = list(dict.fromkeys(doc_id for doc_id, _ in batch))
    documents = {row["doc_id"]: row["document_id"] for row in live_document_rows(connection, doc_ids)}
    missing = next((doc_id for doc_id in doc_ids if doc_id not in documents), None)
    if missing is not None:
        raise UnknownDocumentError(
            f"no live document {missing!r} in {session.directory}, so no alias was added; check the id "
            "('kbengine inspect live_documents')"
        )
    rows: dict[tuple[int, str, AliasSource], AliasRow] = {}
    for doc_id, alias in batch:
        key = (documents[doc_id], alias.alias, alias.source)
        if key in rows and not replace:
            raise DuplicateAliasError(f"alias {alias.alias!r} of document {doc_id!r} comes twice; give it once")
        rows[key] = alias_row(*key, uses=alias.uses, prior=alias.prior)
    if not replace:
        names = {document_id: doc_id for doc_id, document_id in documents.items()}
        for row in rows_of_documents(connection, names):
            if (row["document_id"], row["alias"], row["source"]) in rows:
                raise DuplicateAliasError(
                    f"document {names[row['document_id']]!r} has the alias {row['alias']!r} from source "
                    f"{row['source']!r} already, so no alias was added; replace it, or leave it out"
                )
    return insert_alias_rows(connection, rows.values())


def delete_aliases(
    session: WriteSession,
    doc_id: str,
    aliases: Sequence[str] | None = None,
    *,
    source: AliasSource | None = None,
    op_id: str | None = None,
) -> AliasChange:
    """Delete aliases of a document and return the commit; see `KBWriter.delete_aliases`."""
    with session.writing() as connection:
        earlier = _change_of(connection, op_id)
        if earlier is not None:
            return earlier
        found = live_document_rows(connection, [doc_id])
        if not found:
            raise UnknownDocumentError(
                f"no live document {doc_id!r} in {session.directory}, so no alias was deleted; check the id "
                "('kbengine inspect live_documents')"
            )
        document = found[0]
        rows = [
            row
            for row in rows_of_documents(connection, [document["document_id"]])
            if row["source"] == source or (source is None and row["source"] != "title")
        ]
        if aliases is not None:
            wanted = {spelling(alias) for alias in aliases}
            rows = [row for row in rows if row["alias"] in wanted]
            missing = wanted - {row["alias"] for row in rows}
        else:
            missing = set() if rows else {"any"}
        if missing:
            which = "alias" if aliases is None else f"alias {min(missing)!r}"
            place = "" if source is None else f" from source {source!r}"
            raise UnknownAliasError(
                f"document {doc_id!r} has no {which}{place}, so none was deleted; "
                f"'kbengine aliases list --doc' shows what it has"
            )
        delete_alias_rows(connection, rows)
        _forget_links(connection, document, [row["alias"] for row in rows if row["source"] == "anchor"])
        return _commit(connection, op_id, len(rows))


def _forget_links(connection: Connection, document: Mapping[Any, Any], anchors: Sequence[str]) -> None:
    """Delete the document's links with one of these texts, or they would be counted again some day."""
    if not anchors:
        return
    found = links_to(connection, document["doc_id"], document["title"], anchors)
    connection.exec_driver_sql(
        "DELETE FROM links WHERE document_id = ? AND anchor = ? AND target_kind = ? AND target = ?",
        [(document_id, *link) for document_id, link in found],
    )
    # Other documents of the same title lose the links, too.
    count_changed(connection, added=[], changed=[link for _, link in found])


def count_links(session: WriteSession) -> LinkCounts:
    """Count links anew and return what was counted; see `KBWriter.count_links`."""
    with session.writing() as connection:
        counts = count_anew(connection)
        if counts.links:
            _commit(connection, None, counts.aliases)
        return counts


def _commit(connection: Connection, op_id: str | None, n_aliases: int) -> AliasChange:
    before = newest_generation(connection)
    after = dataclasses.replace(before, number=before.number + 1)
    commit = Commit(after.number, op_id, 0, 0, 0)
    insert_generation(connection, commit, operation="alias", after=after, note=f"{n_aliases} aliases")
    return AliasChange(commit.generation, op_id, n_aliases)


def _change_of(connection: Connection, op_id: str | None) -> AliasChange | None:
    """Return what an earlier call with this operation id did, None when there was none."""
    row = None if op_id is None else commit_row(connection, op_id)
    if row is None:
        return None
    number = str(row["note"] or "").partition(" ")[0]
    return AliasChange(row["generation"], row["op_id"], int(number) if number.isdecimal() else 0)
