"""Making generations: what is uploaded becomes visible by one transaction of the catalog.

Shards are uploaded first. Then, while nobody else may make a generation, the manifest is written that names them, and
committed. Killed before that, objects are left that nothing refers to; `storage.cluster_pruning` removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, update

from storage import cluster_schema as schema
from storage.alias_records import ALIAS_SOURCES, NewAlias
from storage.catalog import chunked
from storage.cluster import AliasOverlay, Cluster
from storage.cluster_catalog import GenerationRow, insert_documents, placed
from storage.cluster_names import RemovedAlias, enter_aliases, inherit_names
from storage.cluster_shards import (
    NewShard,
    buried,
    check_uploaded,
    enter_shard,
    forget_shards,
    retire,
    with_tombstones,
)
from storage.errors import DuplicateDocumentError, InvalidOptionError, StateError, UnknownDocumentError
from storage.folding import spelling
from storage.generation_draft import Draft, ShardGoneError, commit_generation
from storage.generation_manifest import GenerationManifest

__all__ = ["change_aliases", "change_documents", "publish_build", "replace_shards"]


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

    def prepare(connection: Connection, _parent: GenerationManifest | None, generation: int) -> Draft:
        if generation != 1:
            raise StateError(
                f"{cluster.store.place} holds generation {generation - 1} already; add to it with 'kbengine cluster "
                "add', or build at another address"
            )
        for entry in manifest.shards:
            enter_shard(connection, entry, generation)
            insert_documents(connection, documents[entry.name], shard=entry.name, generation=generation)
        return Draft(list(manifest.shards), added=manifest.documents, base=manifest)

    return commit_generation(cluster, op_id, "build", prepare)


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

    def prepare(connection: Connection, parent: GenerationManifest, generation: int) -> Draft:
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
        draft = Draft(list(parent.shards), added=len(ids) - len(replaced), replaced=len(replaced), deleted=len(deleted))
        gone = list({each.ordinal: each for each in (*replaced, *deleted)}.values())
        retire(connection, gone, generation)  # first: the unique index allows one live document per id
        if add is not None:
            check_uploaded(cluster, add.entry)
            enter_shard(connection, add.entry, generation)
            insert_documents(connection, add.documents, shard=add.entry.name, generation=generation)
            draft.shards.append(add.entry)
        heirs = {} if add is None else dict(add.documents)
        draft.aliases_changed = inherit_names(connection, gone, heirs, generation)
        touched = {each.shard for each in gone}
        draft.shards = buried(connection, cluster, draft.shards, touched, generation)
        return draft

    operation = "delete" if add is None else "add"
    return commit_generation(cluster, op_id, operation, prepare, kbengine_version=kbengine_version)


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

    def prepare(connection: Connection, parent: GenerationManifest, generation: int) -> Draft:
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
        return Draft(list(parent.shards), aliases=len(add) + len(remove), aliases_changed=True)

    return commit_generation(cluster, op_id, "alias", prepare, kbengine_version=kbengine_version)


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

    def prepare(connection: Connection, parent: GenerationManifest, generation: int) -> Draft:
        if not gone <= {entry.name for entry in parent.shards}:
            raise ShardGoneError
        draft = Draft([entry for entry in parent.shards if entry.name not in gone])
        for shard in new:
            check_uploaded(cluster, shard.entry)
            enter_shard(connection, shard.entry, generation)
            for chunk in chunked([ordinal for _, ordinal in shard.documents], 500):
                documents = schema.documents
                connection.execute(
                    update(documents).where(documents.c.ordinal.in_(chunk)).values(shard=shard.entry.name)
                )
        forget_shards(connection, old, generation)
        draft.shards += [with_tombstones(connection, cluster, shard.entry) for shard in new]
        return draft

    try:
        return commit_generation(cluster, op_id, "compact", prepare, kbengine_version=kbengine_version)
    except ShardGoneError:
        return None


def _some(names: Iterable[str], *, limit: int = 5) -> str:
    listed = list(names)
    shown = ", ".join(repr(name) for name in listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit:,} more"
