"""The database of a shard, read for a moment by whoever has not the shard open."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from storage.database import DATABASE_NAME, reader_engine, translated
from storage.errors import CorruptError
from storage.generation_manifest import ShardEntry
from storage.object_store import ObjectStore

__all__ = ["reading_shard"]


@contextmanager
def reading_shard(store: ObjectStore, shard: ShardEntry) -> Iterator[Connection]:
    """Fetch a shard's database, checked, and give a connection to it.

    Raises:
        CorruptError: It is missing or damaged.
    """
    database = next((file for file in shard.files if file.path == DATABASE_NAME), None)
    if database is None:
        raise CorruptError(f"shard {shard.name} of {store.place} has no {DATABASE_NAME}; take another generation")
    with tempfile.TemporaryDirectory(prefix="kbengine-shard-") as folder:
        store.fetch(database, Path(folder) / DATABASE_NAME)
        engine = reader_engine(Path(folder))
        try:
            with translated(Path(folder)), engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()
