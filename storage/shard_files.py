"""Shards and common settings as objects: uploaded whole, fetched and checked whole."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from storage.backup_store import StoredFile
from storage.common_settings import CommonSettings
from storage.errors import CorruptError, KBError
from storage.generation_manifest import ShardEntry
from storage.lock import LOCK_NAME
from storage.object_store import ObjectStore
from storage.quantiser import Quantiser
from storage.quantiser_file import QuantiserFile, quantiser_path, read_quantiser, write_quantiser
from storage.settings import KBSettings
from storage.shard_merge import MergedShard

__all__ = ["fetch_files", "put_common", "put_files", "put_shard", "read_common"]

_SETTINGS = "settings.json"
_LATE = ("-wal", "-shm")


def put_files(store: ObjectStore, directory: Path) -> tuple[StoredFile, ...]:
    """Upload the files of a closed knowledge base and return them, sorted by path."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    chosen = [path for path in paths if path.name != LOCK_NAME and not path.name.endswith(_LATE)]
    return tuple(store.put_file(path, path.relative_to(directory).as_posix()) for path in chosen)


def put_shard(store: ObjectStore, directory: Path, name: str, merged: MergedShard) -> ShardEntry:
    """Upload a shard and return its entry for a manifest.

    Args:
        store: Where.
        directory: As `merge_shards` made it.
        name: Of the shard, 32 hex digits.
        merged: What it holds.
    """
    return ShardEntry(
        name,
        put_files(store, directory),
        merged.first_ordinal,
        merged.end_ordinal,
        merged.documents,
        merged.passages,
        merged.rows,
    )


def fetch_files(store: ObjectStore, files: Sequence[StoredFile], directory: Path) -> None:
    """Download files into a directory, which is made.

    Raises:
        CorruptError: One is missing, or is not what was written, or would lie outside the directory.
    """
    for file in files:
        target = directory / file.path
        if directory.resolve() not in target.resolve().parents:
            raise CorruptError(f"a manifest of {store.place} has a file called {file.path!r}, wanted one in a shard")
        target.parent.mkdir(parents=True, exist_ok=True)
        store.fetch(file, target)
    for part in ("segments", "index", "encoders"):
        (directory / part).mkdir(parents=True, exist_ok=True)


def put_common(store: ObjectStore, common: CommonSettings) -> tuple[StoredFile, ...]:
    """Upload common settings and return their objects: the settings, and the files of quantiser and code."""
    record = dataclasses.asdict(common.settings)
    files: list[StoredFile] = []
    with tempfile.TemporaryDirectory(prefix="kbengine-common-") as folder:
        quantisers = {"quantiser": common.quantiser, "code": common.code, "passage_quantiser": common.passages}
        for role, quantiser in quantisers.items():
            if quantiser is None:
                continue
            written = write_quantiser(Path(folder), quantiser)
            files.append(store.put_file(quantiser_path(Path(folder), quantiser.name), role))
            if role == "code":
                record["store"] = {**record["store"], "code": written.to_json()}
            else:
                record[role] = {**record[role], **written.to_json()}
    data = json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False).encode()
    return (store.put_bytes(data, _SETTINGS), *files)


def read_common(store: ObjectStore, files: Sequence[StoredFile]) -> CommonSettings:
    """Return the common settings that `put_common` stored; CorruptError where they are damaged."""
    by_role: Mapping[str, StoredFile] = {file.path: file for file in files}
    try:
        settings = KBSettings(**json.loads(store.read(by_role[_SETTINGS])))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, KBError):
            raise
        raise CorruptError(f"the common settings in {store.place} are damaged ({error}); restore them") from error
    with tempfile.TemporaryDirectory(prefix="kbengine-common-") as folder:

        def fetched(role: str, expected: QuantiserFile | None) -> Quantiser | None:
            if expected is None or role not in by_role:
                return None
            store.fetch(by_role[role], quantiser_path(Path(folder), expected.name))
            return read_quantiser(Path(folder), expected)

        return CommonSettings(
            settings,
            fetched("quantiser", settings.quantiser_file),
            fetched("code", settings.store_file),
            fetched("passage_quantiser", settings.passage_quantiser_file),
        )
