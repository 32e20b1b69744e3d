"""The plan of a build: everything that is decided before the first passage is encoded, the same for any workers.

It is made once, from the corpus and a sample of it, and kept as a record beside the objects. Chunks are fixed by their
bytes, shards by their chunks, so who builds which, in what order, and how often it is interrupted changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbengine.errors import CorruptError, FormatTooNewError, InvalidOptionError
from storage.backup_store import StoredFile
from storage.object_store import ObjectStore

FORMAT_VERSION = 1
BUILD_FOLDER = "builds"

CREATED_AT = "1970-01-01T00:00:00+00:00"
"""When shards say that they were made: the same documents are the same bytes whenever they are built."""

TOKENS_PER_ORDINAL = 16
"""Token ids are given in steps of this for each ordinal: no character becomes more tokens."""


@dataclass(frozen=True)
class PlanOptions:
    """How a corpus is dealt out.

    Attributes:
        shards: how many shards; None chooses by `shard_bytes`.
        chunk_bytes: text of a chunk, which is encoded as a whole: what is lost when its worker is killed.
        shard_bytes: text of a shard where their number is not given.
        sample_passages: passages that scales, threshold and lists are measured on, at least; a large corpus's lists
            need more.
    """

    shards: int | None = None
    chunk_bytes: int = 1 << 19
    shard_bytes: int = 1 << 31
    sample_passages: int = 4_096

    def __post_init__(self) -> None:
        for name in ("shards", "chunk_bytes", "shard_bytes", "sample_passages"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidOptionError(f"{name} is {value}, wanted 1 or more")


@dataclass(frozen=True)
class Chunk:
    """Documents that are encoded together.

    Attributes:
        number: from 0, in the order of the corpus.
        text: object with their records.
        format: of the records.
        first_ordinal: of its first document; the chunk has as many ordinals as bytes.
        origin: where the records come from, for messages.
    """

    number: int
    text: StoredFile
    format: str
    first_ordinal: int
    origin: str

    @property
    def end_ordinal(self) -> int:
        """One above the last ordinal that may be given here."""
        return self.first_ordinal + self.text.n_bytes


@dataclass(frozen=True)
class BuildPlan:
    """What is to be built.

    Attributes:
        name: 32 hex digits that follow from what was asked for: the same call goes on with the same plan.
        kbengine_version: of what made it.
        encoder: name or directory to load the encoder from.
        encoder_name: for people.
        encoder_fingerprint: which it has to have.
        passage_fingerprint: what stored vectors depend on.
        sparse: whether its sparse heads are used.
        dtype: what passages are computed in, on every worker.
        skip_bad: whether records that cannot be read are left out.
        common: objects with the settings that all shards share.
        chunks: of the corpus, in order.
        shard_ends: for each shard the number after that of its last chunk.
    """

    name: str
    kbengine_version: str
    encoder: str
    encoder_name: str
    encoder_fingerprint: str
    passage_fingerprint: str
    sparse: bool
    dtype: str
    skip_bad: bool
    common: tuple[StoredFile, ...]
    chunks: tuple[Chunk, ...]
    shard_ends: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Bytes of all records."""
        return sum(chunk.text.n_bytes for chunk in self.chunks)

    @property
    def end_ordinal(self) -> int:
        """The first ordinal that the build does not give."""
        return self.chunks[-1].end_ordinal

    def chunks_of(self, shard: int) -> tuple[Chunk, ...]:
        """Return the chunks of a shard, numbered from 0."""
        begin = self.shard_ends[shard - 1] if shard else 0
        return self.chunks[begin : self.shard_ends[shard]]

    def shard_name(self, shard: int) -> str:
        """Return the name of a shard, which follows from its text and settings: 32 hex digits."""
        parts = [file.sha256 for file in self.common] + [chunk.text.sha256 for chunk in self.chunks_of(shard)]
        parts += [str(self.chunks_of(shard)[0].first_ordinal), self.encoder_fingerprint, self.dtype]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]

    def record(self, *names: str) -> str:
        """Return the name of a record of this build."""
        return "/".join((BUILD_FOLDER, self.name, *names))

    def to_bytes(self) -> bytes:
        """Return the plan as it is stored."""
        return json.dumps({"format": FORMAT_VERSION, **dataclasses.asdict(self)}, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> BuildPlan:
        """Return the plan that was stored; CorruptError when it is damaged."""
        try:
            record: dict[str, Any] = json.loads(data)
            version = record.pop("format")
            if version > FORMAT_VERSION:
                raise FormatTooNewError(f"{name} was written by a newer kbengine (format {version}): upgrade kbengine")
            return cls(
                common=tuple(StoredFile(**each) for each in record.pop("common")),
                chunks=tuple(_chunk(each) for each in record.pop("chunks")),
                shard_ends=tuple(record.pop("shard_ends")),
                **record,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"{name} is no plan of a build ({error}); remove it and build anew") from error


def _chunk(record: Mapping[str, Any]) -> Chunk:
    return Chunk(**{**record, "text": StoredFile(**record["text"])})


def plan_name(paths: tuple[Path, ...], request: Mapping[str, Any]) -> str:
    """Return the name of the plan for what is asked for: the files as they are now, and the options.

    Args:
        paths: of the corpus.
        request: everything else that shapes the result, as JSON values.
    """
    files: list[Any] = []
    for path in paths:
        inside = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        for each in inside:
            about = each.stat()
            files.append([str(each.relative_to(path.parent)), about.st_size, about.st_mtime_ns])
    text = json.dumps({"files": files, **request}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_plan(store: ObjectStore, name: str) -> BuildPlan | None:
    """Return the plan of this name, None where none was made yet."""
    record = f"{BUILD_FOLDER}/{name}/plan.json"
    data = store.read_record(record)
    return None if data is None else BuildPlan.from_bytes(data, f"{store.place}/{record}")
