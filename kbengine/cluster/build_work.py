"""One piece of a build's work as a message: a worker anywhere does it knowing nothing but the message."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kbengine.cluster.build_chunk import BuiltChunk, build_chunk, built_chunk, check_plan_encoder
from kbengine.cluster.build_shard import build_shard
from kbengine.cluster.plan import BuildPlan, read_plan
from kbengine.errors import CorruptError
from storage.backup_store import StoredFile
from storage.common_settings import CommonSettings
from storage.object_places import open_objects
from storage.object_store import ObjectStore
from storage.shard_files import read_common

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder


@dataclass(frozen=True)
class Piece:
    """A chunk to encode, or a shard to put together.

    Attributes:
        root: address of the objects.
        plan: name of the plan.
        kind: which of the two.
        number: of the chunk or shard.
        device: where a chunk is encoded.
        anchors: object with names from links, for a shard.
    """

    root: str
    plan: str
    kind: Literal["chunk", "shard"]
    number: int
    device: str = "auto"
    anchors: StoredFile | None = None

    def to_bytes(self) -> bytes:
        """Return the message."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Piece:
        """Return the piece of a message."""
        record: dict[str, Any] = json.loads(data)
        anchors = record.pop("anchors")
        return cls(anchors=None if anchors is None else StoredFile(**anchors), **record)


class Workers(Protocol):
    """What does pieces of work: this process, or tasks elsewhere."""

    def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
        """Yield each piece with its result, in whatever order they are done; a worker that dies is replaced."""


class InProcess:
    """Does the work here, one piece after the other.

    Args:
        encoder: the plan's, where it is loaded already.
    """

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder

    def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
        """Yield each piece with its result, in order."""
        for piece in pieces:
            yield piece, done(piece, encoder=self._encoder)


def done(piece: Piece, *, encoder: Encoder | None = None) -> bytes:
    """Do a piece of work and return its result: the record of a chunk; nothing for a shard, whose record is stored.

    Args:
        piece: what to do.
        encoder: the plan's; None loads it, once a process.
    """
    store, plan, common = _opened(piece.root, piece.plan)
    if piece.kind == "shard":
        build_shard(plan, store, piece.number, common=common, anchors=piece.anchors)
        return b""
    known = built_chunk(plan, store, piece.number)  # a run that goes on need not load the encoder for it
    if known is None:
        found = encoder or _loaded(piece.root, piece.plan, piece.device)
        known = build_chunk(plan, store, piece.number, encoder=found, common=common)
    return known.to_bytes()


def result_of(piece: Piece, data: bytes) -> BuiltChunk | None:
    """Return what a worker's result says: the chunk, or None for a shard."""
    return BuiltChunk.from_bytes(data) if piece.kind == "chunk" else None


@functools.lru_cache(maxsize=2)
def _opened(root: str, name: str) -> tuple[ObjectStore, BuildPlan, CommonSettings]:
    store = open_objects(root)
    plan = read_plan(store, name)
    if plan is None:
        raise CorruptError(f"{store.place} has no plan {name}; run 'kbengine cluster build' again, which makes it")
    return store, plan, read_common(store, plan.common)


@functools.lru_cache(maxsize=1)
def _loaded(root: str, name: str, device: str) -> Encoder:
    return load_encoder(_opened(root, name)[1], device)


def load_encoder(plan: BuildPlan, device: str) -> Encoder:
    """Return the encoder that a plan names, on a device, in the plan's arithmetic.

    Raises:
        EncoderMismatchError: it is another here than where the plan was made.
    """
    from kbengine.encoders.encoder import Encoder

    encoder = Encoder.load(plan.encoder, device=device, dtype=plan.dtype)  # type: ignore[arg-type]  # checked there
    check_plan_encoder(plan, encoder)
    return encoder if plan.sparse else encoder.without_sparse()
