"""From a draft to a generation: the manifest is written and entered in one transaction, while nobody else makes one."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from storage import cluster_schema as schema
from storage.cluster import Cluster
from storage.cluster_acknowledged import check_not_acknowledged, note_acknowledged
from storage.cluster_catalog import GenerationRow, generation_of, locked_cluster, now
from storage.cluster_names import overlay_of
from storage.errors import CatalogUnavailableError, StateError
from storage.generation_manifest import GenerationManifest, ManifestRef, ShardEntry

__all__ = ["Draft", "Prepare", "ShardGoneError", "commit_generation", "made_before"]


@dataclass
class Draft:
    """What the next generation is to be, and how many documents and names that changes."""

    shards: list[ShardEntry]
    added: int = 0
    replaced: int = 0
    deleted: int = 0
    aliases: int = 0
    aliases_changed: bool = False
    base: GenerationManifest | None = None


class ShardGoneError(Exception):
    """A shard that was to be replaced is not there any more."""


Prepare = Callable[[Connection, GenerationManifest, int], Draft]
"""Given the transaction, the parent (None for a build alone) and the number, enters the changes and returns a draft."""


def commit_generation(
    cluster: Cluster, op_id: str | None, operation: str, prepare: Prepare, *, kbengine_version: str = ""
) -> GenerationRow:
    """Make the next generation in one transaction and return it; the one that an operation made before is returned.

    Raises:
        CatalogUnavailableError: The catalog does not answer; the message says whether that leaves the outcome open.
        CorruptError: The catalog has lost a generation that was acknowledged; nothing was changed.
        StateError: The generation was made and could not be noted as acknowledged.
    """
    made = _made(cluster, op_id or uuid.uuid4().hex, operation, prepare, kbengine_version)
    note_acknowledged(cluster.store, made.ref)
    return made


def made_before(cluster: Cluster, op_id: str) -> GenerationRow | None:
    """Return the generation that an operation of this name made, which is then noted; None when it made none."""
    made = cluster.catalog.made_by(op_id)
    if made is not None:
        note_acknowledged(cluster.store, made.ref)
    return made


def _made(cluster: Cluster, name: str, operation: str, prepare: Prepare, kbengine_version: str) -> GenerationRow:
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


def _committed(cluster: Cluster, op_id: str, operation: str, prepare: Prepare, kbengine_version: str) -> GenerationRow:
    catalog = cluster.catalog
    with catalog.database.writing() as connection:
        row = locked_cluster(connection, catalog.place)
        earlier = generation_of(connection, op_id)
        if earlier is not None:
            return earlier
        generation = row.generation + 1
        check_not_acknowledged(cluster.store, generation, catalog=catalog.place)
        parent_ref = _parent_ref(connection, row.generation)
        parent = None if parent_ref is None else cluster.manifest_of(parent_ref)
        draft = prepare(connection, parent, generation)  # type: ignore[arg-type]  # None for a build alone
        base = draft.base or parent
        if base is None:
            raise StateError(f"{cluster.store.place} has no generation yet; 'kbengine cluster build' makes the first")
        at = base.created_at if draft.base is not None else now()
        manifest = dataclasses.replace(
            base,
            generation=generation,
            parent=parent_ref,
            operation=operation,
            created_at=at,
            kbengine_version=kbengine_version or base.kbengine_version,
            shards=tuple(sorted(draft.shards, key=lambda entry: entry.first_ordinal)),
            aliases=cluster.put_aliases(overlay_of(connection)) if draft.aliases_changed else base.aliases,
        )
        ref = cluster.put_manifest(manifest)
        made = GenerationRow(
            generation, op_id, operation, ref.sha256, at, draft.added, draft.replaced, draft.deleted, draft.aliases
        )
        values = dataclasses.asdict(made)
        values["aliases_changed"] = draft.aliases
        connection.execute(insert(schema.generations).values(**values))
        connection.execute(update(schema.clusters).values(generation=generation))
    return made


def _parent_ref(connection: Connection, generation: int) -> ManifestRef | None:
    if not generation:
        return None
    table = schema.generations
    sha256 = connection.execute(select(table.c.manifest).where(table.c.generation == generation)).scalar_one()
    return ManifestRef(generation, sha256)
