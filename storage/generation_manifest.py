"""What a generation of a cluster consists of: one immutable record that names its shards by their checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from storage.backup_store import StoredFile
from storage.errors import CorruptError, FormatTooNewError

__all__ = ["MANIFEST_FOLDER", "GenerationManifest", "ManifestRef", "ShardEntry", "manifest_name"]

MANIFEST_FOLDER = "generations"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class ShardEntry:
    """A shard of a generation.

    Attributes:
        name: 32 hex digits; a shard never changes under its name.
        files: Its files, by their path in the knowledge base's directory.
        first_ordinal: Of its first document; a document with `document_id` i has ordinal i - 1.
        end_ordinal: One above the ordinal of its last document; ranges of shards do not overlap.
        documents: Documents in it, dead ones included.
        passages: Their passages.
        rows: Their stored tokens.
        dead: Documents of it that a later generation deleted or replaced.
        tombstones: Object with the ordinals of these, int64 little-endian, rising; None where there are none.
    """

    name: str
    files: tuple[StoredFile, ...]
    first_ordinal: int
    end_ordinal: int
    documents: int
    passages: int
    rows: int
    dead: int = 0
    tombstones: StoredFile | None = None

    @property
    def n_bytes(self) -> int:
        """Size of its files."""
        return sum(file.n_bytes for file in self.files)

    @cached_property
    def text(self) -> str:
        """The entry as manifests hold it; most of a generation's entries are those of its parent."""
        lines = json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False).split("\n")
        return "\n".join(f"  {line}" for line in lines)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ShardEntry:
        """Return the shard that a record tells of; KeyError or TypeError where it tells of none."""
        values = dict(record)
        stones = values.pop("tombstones", None)
        files = tuple(StoredFile(**each) for each in values.pop("files"))
        return cls(files=files, tombstones=None if stones is None else StoredFile(**stones), **values)


@dataclass(frozen=True)
class ManifestRef:
    """A manifest's generation and the SHA-256 of its bytes, which both are in its name."""

    generation: int
    sha256: str


@dataclass(frozen=True)
class GenerationManifest:
    """A generation: everything that answers depend on.

    Attributes:
        generation: Its number; numbers are dense.
        parent: The generation that it was made from; None for a build.
        cluster: Tells one cluster from another.
        operation: What made it: build, add, delete, alias, compact.
        created_at: UTC, ISO 8601.
        kbengine_version: Of what made it.
        encoder_name: Name of the encoder, for people.
        encoder_fingerprint: Which every query must be encoded with.
        passage_fingerprint: What stored vectors depend on.
        common: Objects with the settings, the quantiser and the code that all shards share.
        shards: By rising ordinal.
        aliases: Object with names that documents were given or lost since their shard was made; None without any.
        arithmetic: What passages are computed in, such as bfloat16; empty where that was not noted.
    """

    generation: int
    parent: ManifestRef | None
    cluster: str
    operation: str
    created_at: str
    kbengine_version: str
    encoder_name: str
    encoder_fingerprint: str
    passage_fingerprint: str
    common: tuple[StoredFile, ...]
    shards: tuple[ShardEntry, ...]
    aliases: StoredFile | None = None
    arithmetic: str = ""

    @property
    def documents(self) -> int:
        """Live documents."""
        return sum(shard.documents - shard.dead for shard in self.shards)

    def objects(self) -> dict[str, StoredFile]:
        """Return all objects that the generation needs, by SHA-256."""
        files = [*self.common, *(file for shard in self.shards for file in shard.files)]
        files += [shard.tombstones for shard in self.shards if shard.tombstones is not None]
        files += [] if self.aliases is None else [self.aliases]
        return {file.sha256: file for file in files}

    def to_bytes(self) -> bytes:
        """Return the record, the same bytes for the same generation."""
        # The same as dumping all of it: a manifest of thousands of shards is written for each change.
        record = {"format": FORMAT_VERSION, **asdict(replace(self, shards=()))}
        text = json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False)
        shards = ",\n".join(shard.text for shard in self.shards)
        end = f' "shards": [\n{shards}\n ]\n}}\n' if self.shards else ' "shards": []\n}\n'
        return (text.removesuffix(' "shards": []\n}') + end).encode()

    def ref(self) -> ManifestRef:
        """Return its number and the checksum of its bytes."""
        return ManifestRef(self.generation, hashlib.sha256(self.to_bytes()).hexdigest())

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str, sha256: str) -> GenerationManifest:
        """Return the generation that a record tells of.

        Args:
            data: The record.
            name: What messages call it.
            sha256: What the name says of it.

        Raises:
            CorruptError: It is not what was written.
            FormatTooNewError: A newer kbengine wrote it.
        """
        seen = hashlib.sha256(data).hexdigest()
        if seen != sha256:
            raise CorruptError(
                f"{name} has sha256 {seen}, expected {sha256}; restore it from a copy of the cluster, or go back to an "
                "older generation"
            )
        try:
            record: dict[str, Any] = json.loads(data)
            version = record.pop("format")
            if version > FORMAT_VERSION:
                raise FormatTooNewError(f"{name} was written by a newer kbengine (format {version}): upgrade kbengine")
            parent, aliases = record.pop("parent"), record.pop("aliases")
            return cls(
                parent=None if parent is None else ManifestRef(**parent),
                aliases=None if aliases is None else StoredFile(**aliases),
                common=tuple(StoredFile(**each) for each in record.pop("common")),
                shards=tuple(ShardEntry.from_json(each) for each in record.pop("shards")),
                **record,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"{name} is no manifest of a generation ({error}); take an older generation") from error


def manifest_name(ref: ManifestRef) -> str:
    """Return the name of a manifest's record."""
    return f"{MANIFEST_FOLDER}/{ref.generation:012d}-{ref.sha256}.json"


def ref_of(name: str) -> ManifestRef | None:
    """Return what the name of a manifest's record, without its folder, says; None for another file's."""
    number, _, rest = name.partition("-")
    sha256 = rest.removesuffix(".json")
    if not (number.isdecimal() and rest.endswith(".json") and len(sha256) == 64):
        return None
    return ManifestRef(int(number), sha256)
