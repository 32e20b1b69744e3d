"""Making generations: what is uploaded becomes visible by one transaction of the catalog.

Shards are uploaded first. Then, while nobody else may make a generation, the manifest is written that names them, and
committed. Killed before that, objects are left that nothing refers to; `storage.cluster_pruning` removes them.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select, update

from storage import cluster_schema as schema
from storage.alias_records import ALIAS_SOURCES, OWN_SOURCES, AliasSource, NewAlias
from storage.catalog import chunked
from storage.cluster import AliasOverlay, Cluster
from storage.cluster_catalog import (
    GenerationRow,
    Placed,
    dead_ordinals,
    generation_of,
    insert_documents,
    locked_cluster,
    now,
    placed,
)
from storage.errors import (
    CatalogUnavailableError,
    DuplicateDocumentError,
    InvalidOptionError,
    StateError,
    UnknownDocumentError,
)
from storage.folding import spelling
from storage.generation_manifest import GenerationManifest, ShardEntry, manifest_name

__all__ = [
    "NewShard",
    "RemovedAlias",
    "change_aliases",
    "change_documents",
    "enter_aliases",
    "enter_shard",
    "publish_build",
    "replace_shards",
]


@dataclass(frozen=True)
class NewShard:
    """A shard whose files are uploaded, with its documents by id and ordinal."""

    entry: ShardEntry
    documents: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class RemovedAlias:
    """A name that a document is to lose, of one source or of all."""

    alias: str
    source: AliasSource | None = None


@dataclass
class _Draft:
    """What the next generation is to be, and how many documents and names that changes."""

    shards: list[ShardEntry]
    added: int = 0
    replaced: int = 0
    deleted: int = 0
    aliases: int = 0
    aliases_changed: bool = False
    base: GenerationManifest | None = None
    new: list[NewShard] = field(default_factory=list)


class _GoneError(Exception):
    """A shard that was to be replaced is not there any more."""


_Prepare = Callable[[Connection, GenerationManifest, int], _Draft]


def publish_build(
    cluster: Cluster, manifest: GenerationManifest, documents: Mapping[str, Iterable[tuple[str, int]]], *, op_id: str
) -> GenerationRow:
    """Make the first generation of a cluster and return it.

    Args:
        cluster: Its catalog is entered already.
        manifest: The generation, number 1, whose shards are uploaded.
        documents: Ids and ordinals of the documents of each shard, by its name.
        op_id: The build's name: a second call with the same name changes nothing.

    Raises:
        StateError: The cluster has a generation that something else made.
    """

    def prepare(connection: Connection, _parent: GenerationManifest | None, generation: int) -> _Draft:
        if generation != 1:
            raise StateError(
                f"{cluster.store.place} holds generation {generation - 1} already; add to it with 'kbengine cluster "
                "add', or build at another address"
            )
        for entry in manifest.shards:
            enter_shard(connection, entry, generation)
            insert_documents(connection, documents[entry.name], shard=entry.name, generation=generation)
        return _Draft(list(manifest.shards), added=manifest.documents, base=manifest)

    return _commit(cluster, op_id, "build", prepare)


def change_documents(
    cluster: Cluster,
    *,
    add: NewShard | None = None,
    delete_ids: Sequence[str] = (),
    replace: bool = True,
    op_id: str | None = None,
    kbengine_version: str,
) -> GenerationRow:
    """Add the documents of an uploaded shard, or delete some, in one generation; return it.

    Args:
        cluster: Where.
        add: The shard; documents whose ids are there already replace the old ones.
        delete_ids: Ids of documents to delete.
        replace: False refuses ids that are there already.
        op_id: The caller's name for this: a second call with the same name changes nothing and returns the first
            one's generation, so that a call whose outcome is unknown can be repeated.
        kbengine_version: For the manifest.

    Raises:
        UnknownDocumentError: Some ids to delete are not there; then nothing was changed.
        DuplicateDocumentError: An id is there already, and `replace` is False.
        CatalogUnavailableError: The catalog does not answer.
    """
    wanted = list(dict.fromkeys(delete_ids))
    if add is None and not wanted:
        raise InvalidOptionError("nothing is to be added or deleted; name at least one document")
    ids = [] if add is None else [doc_id for doc_id, _ in add.documents]

    def prepare(connection: Connection, parent: GenerationManifest, generation: int) -> _Draft:
        replaced, deleted = placed(connection, ids), placed(connection, wanted)
        if replaced and not replace:
            raise DuplicateDocumentError(
                f"{_some(each.doc_id for each in replaced)} already in {cluster.store.place}, and replace is off; turn "
                "it on, or leave them out"
            )
        missing = set(wanted) - {each.doc_id for each in deleted}
        if missing:
            raise UnknownDocumentError(
                f"no live document {_some(doc_id for doc_id in wanted if doc_id in missing)} in {cluster.store.place}; "
                "nothing was deleted: check the ids"
            )
        draft = _Draft(
            list(parent.shards), added=len(ids) - len(replaced), replaced=len(replaced), deleted=len(deleted)
        )
        gone = list({each.ordinal: each for each in (*replaced, *deleted)}.values())
        _retire(connection, gone, generation)  # first: the unique index allows one live document per id
        if add is not None:
            _check_uploaded(cluster, add.entry)
            enter_shard(connection, add.entry, generation)
            insert_documents(connection, add.documents, shard=add.entry.name, generation=generation)
            draft.shards.append(add.entry)
        heirs = {} if add is None else dict(add.documents)
        draft.aliases_changed = _inherit(connection, gone, heirs, generation)
        _bury(connection, cluster, draft, {each.shard for each in gone}, generation)
        return draft

    operation = "delete" if add is None else "add"
    return _commit(cluster, op_id, operation, prepare, kbengine_version=kbengine_version)


def change_aliases(
    cluster: Cluster,
    *,
    add: Sequence[tuple[str, NewAlias]] = (),
    remove: Sequence[tuple[str, RemovedAlias]] = (),
    op_id: str | None = None,
    kbengine_version: str,
) -> GenerationRow:
    """Give documents names, or take some away, in one generation; return it.

    Args:
        cluster: Where.
        add: Pairs of a document's id and a name; one that it has from the same source gets the new prior.
        remove: Pairs of a document's id and a name that it is to lose.
        op_id: As in `change_documents`.
        kbengine_version: For the manifest.

    Raises:
        UnknownDocumentError: An id is not there; then nothing was changed.
    """
    if not add and not remove:
        raise InvalidOptionError("no alias was given; name at least one")

    def prepare(connection: Connection, parent: GenerationManifest, generation: int) -> _Draft:
        ids = list(dict.fromkeys(doc_id for doc_id, _ in (*add, *remove)))
        ordinals = {each.doc_id: each.ordinal for each in placed(connection, ids)}
        missing = [doc_id for doc_id in ids if doc_id not in ordinals]
        if missing:
            raise UnknownDocumentError(
                f"no live document {_some(missing)} in {cluster.store.place}, so no alias was changed; check the ids"
            )
        rows = [AliasOverlay(ordinals[doc], each.alias, each.source, each.uses, each.prior) for doc, each in add]
        for doc_id, lost in remove:
            sources = ALIAS_SOURCES if lost.source is None else (lost.source,)
            kept = [source for source in sources if source != "title"]
            rows += [AliasOverlay(ordinals[doc_id], spelling(lost.alias), each, is_removed=True) for each in kept]
        enter_aliases(connection, rows, generation)
        return _Draft(list(parent.shards), aliases=len(add) + len(remove), aliases_changed=True)

    return _commit(cluster, op_id, "alias", prepare, kbengine_version=kbengine_version)


def replace_shards(
    cluster: Cluster,
    old: Sequence[str],
    new: Sequence[NewShard],
    *,
    op_id: str | None = None,
    kbengine_version: str,
) -> GenerationRow | None:
    """Put shards in the place of others that hold the same live documents; return the generation.

    Documents that were deleted since the new shards were made stay deleted. None, and nothing is changed, where one of
    the old shards is gone.
    """
    gone = set(old)

    def prepare(connection: Connection, parent: GenerationManifest, generation: int) -> _Draft:
        if not gone <= {entry.name for entry in parent.shards}:
            raise _GoneError
        draft = _Draft([entry for entry in parent.shards if entry.name not in gone])
        for shard in new:
            _check_uploaded(cluster, shard.entry)
            enter_shard(connection, shard.entry, generation)
            for chunk in chunked([ordinal for _, ordinal in shard.documents], 500):
                documents = schema.documents
                connection.execute(
                    update(documents).where(documents.c.ordinal.in_(chunk)).values(shard=shard.entry.name)
                )
        _forget(connection, old, generation)
        draft.shards += [_with_tombstones(connection, cluster, shard.entry) for shard in new]
        return draft

    try:
        return _commit(cluster, op_id, "compact", prepare, kbengine_version=kbengine_version)
    except _GoneError:
        return None


def _commit(
    cluster: Cluster, op_id: str | None, operation: str, prepare: _Prepare, *, kbengine_version: str = ""
) -> GenerationRow:
    name = op_id or uuid.uuid4().hex
    try:
        return _committed(cluster, name, operation, prepare, kbengine_version)
    except CatalogUnavailableError as error:
        # The connection may have been lost while the commit was under way: look whether it took place.
        try:
            done = cluster.catalog.made_by(name)
        except CatalogUnavailableError:
            raise CatalogUnavailableError(
                f"{error.message}; whether this change took place is unknown: repeat it with the operation id "
                f"{name!r}, which does nothing twice"
            ) from error
        if done is None:
            raise
        return done


def _committed(cluster: Cluster, op_id: str, operation: str, prepare: _Prepare, kbengine_version: str) -> GenerationRow:
    catalog = cluster.catalog
    with catalog.database.writing() as connection:
        row = locked_cluster(connection, catalog.place)
        earlier = generation_of(connection, op_id)
        if earlier is not None:
            return earlier
        parent = _parent(connection, cluster, row.generation)
        generation = row.generation + 1
        draft = prepare(connection, parent, generation)  # type: ignore[arg-type]  # None for a build alone
        base = draft.base or parent
        if base is None:
            raise StateError(f"{cluster.store.place} has no generation yet; 'kbengine cluster build' makes the first")
        at = base.created_at if draft.base is not None else now()
        manifest = dataclasses.replace(
            base,
            generation=generation,
            parent=None if parent is None else parent.ref(),
            operation=operation,
            created_at=at,
            kbengine_version=kbengine_version or base.kbengine_version,
            shards=tuple(sorted(draft.shards, key=lambda entry: entry.first_ordinal)),
            aliases=cluster.put_aliases(_overlay(connection)) if draft.aliases_changed else base.aliases,
        )
        ref = manifest.ref()
        cluster.store.write_record(manifest_name(ref), manifest.to_bytes())
        made = GenerationRow(
            generation, op_id, operation, ref.sha256, at, draft.added, draft.replaced, draft.deleted, draft.aliases
        )
        values = dataclasses.asdict(made)
        values["aliases_changed"] = draft.aliases
        connection.execute(insert(schema.generations).values(**values))
        connection.execute(update(schema.clusters).values(generation=generation))
    return made


def _parent(connection: Connection, cluster: Cluster, generation: int) -> GenerationManifest | None:
    if not generation:
        return None
    table = schema.generations
    row = connection.execute(select(table).where(table.c.generation == generation)).mappings().one()
    return cluster.manifest_of(GenerationRow(**row).ref)


def _retire(connection: Connection, gone: Sequence[Placed], generation: int) -> None:
    """Mark documents as dead."""
    table = schema.documents
    for chunk in chunked([each.ordinal for each in gone], 500):
        connection.execute(update(table).where(table.c.ordinal.in_(chunk)).values(dead_generation=generation))


def _bury(connection: Connection, cluster: Cluster, draft: _Draft, touched: set[str], generation: int) -> None:
    """Give shards new tombstones; those without a live document are left out from now on."""
    kept: list[ShardEntry] = []
    for entry in draft.shards:
        buried = _with_tombstones(connection, cluster, entry) if entry.name in touched else entry
        if buried.dead < buried.documents:
            kept.append(buried)
        else:
            _forget(connection, [entry.name], generation)
    draft.shards[:] = kept


def _with_tombstones(connection: Connection, cluster: Cluster, entry: ShardEntry) -> ShardEntry:
    ordinals = dead_ordinals(connection, entry.name)
    return dataclasses.replace(entry, dead=len(ordinals), tombstones=cluster.put_tombstones(entry.name, ordinals))


def enter_shard(connection: Connection, entry: ShardEntry, generation: int) -> None:
    """Enter a shard as live, in the caller's transaction."""
    connection.execute(
        insert(schema.shards).values(
            name=entry.name,
            first_ordinal=entry.first_ordinal,
            end_ordinal=entry.end_ordinal,
            documents=entry.documents,
            n_bytes=entry.n_bytes,
            born_generation=generation,
            dead_generation=None,
        )
    )


def _forget(connection: Connection, names: Sequence[str], generation: int) -> None:
    """Note that shards are no longer part of the cluster; what is left of their documents is dead and forgotten."""
    documents, aliases, shards = schema.documents, schema.aliases, schema.shards
    for chunk in chunked(names, 500):
        of_these = select(documents.c.ordinal).where(documents.c.shard.in_(chunk))
        connection.execute(delete(aliases).where(aliases.c.ordinal.in_(of_these)))
        connection.execute(delete(documents).where(documents.c.shard.in_(chunk)))
        connection.execute(update(shards).where(shards.c.name.in_(chunk)).values(dead_generation=generation))


def _inherit(connection: Connection, gone: Sequence[Placed], heirs: Mapping[str, int], generation: int) -> bool:
    """Let documents that replace others keep the names that people gave these; return whether any name changed."""
    table = schema.aliases
    changed = False
    for each in gone:
        rows = connection.execute(select(table).where(table.c.ordinal == each.ordinal)).mappings().all()
        if not rows:
            continue
        changed = True
        connection.execute(delete(table).where(table.c.ordinal == each.ordinal))
        heir = heirs.get(each.doc_id)
        kept = [row for row in rows if row["source"] not in OWN_SOURCES and not row["is_removed"]]
        if heir is not None and kept:
            connection.execute(insert(table), [{**row, "ordinal": heir, "generation": generation} for row in kept])
    return changed


def enter_aliases(connection: Connection, rows: Sequence[AliasOverlay], generation: int) -> None:
    """Enter names that documents were given or lost, in the caller's transaction."""
    table = schema.aliases
    for row in rows:
        key = (table.c.ordinal == row.ordinal, table.c.alias == row.alias, table.c.source == row.source)
        connection.execute(delete(table).where(*key))
        values = {**dataclasses.asdict(row), "is_removed": int(row.is_removed)}
        connection.execute(insert(table).values(**values, generation=generation))


def _overlay(connection: Connection) -> list[AliasOverlay]:
    table = schema.aliases
    rows = connection.execute(select(table).order_by(table.c.ordinal, table.c.alias, table.c.source)).mappings()
    return [
        AliasOverlay(row["ordinal"], row["alias"], row["source"], row["uses"], row["prior"], bool(row["is_removed"]))
        for row in rows
    ]


def _check_uploaded(cluster: Cluster, entry: ShardEntry) -> None:
    """Raise when a file of a new shard is not there: pruning, which takes the same lock, may have removed it."""
    for file in entry.files:
        if not cluster.store.has(file.sha256, file.n_bytes):
            raise cluster.store.missing(file)


def _some(names: Iterable[str], *, limit: int = 5) -> str:
    listed = list(names)
    shown = ", ".join(repr(name) for name in listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit:,} more"
