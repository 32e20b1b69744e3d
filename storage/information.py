"""What a knowledge base holds and how large it is, for people and for monitoring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select

from storage import schema
from storage.alias_rows import name_counts
from storage.catalog import live_segments, newest_generation_number
from storage.creation import ENCODER_DIRECTORY
from storage.database import DATABASE_NAME
from storage.field_rows import FieldType, known_fields
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY
from storage.settings import KBSettings, read_settings
from storage.sizes import bytes_by_use, bytes_of, count_indexed

__all__ = ["HistoryEntry", "KBInfo", "gather_info"]

_LAST_COMMITS = 10


@dataclass(frozen=True)
class HistoryEntry:
    """A commit, as listed for people."""

    generation: int
    at: str
    operation: str
    documents_added: int
    documents_replaced: int
    documents_deleted: int
    note: str | None


@dataclass(frozen=True)
class KBInfo:
    """What a knowledge base holds.

    Attributes:
        path: Its directory.
        settings: What it was made with.
        generation: Number of the newest commit.
        documents: Live documents.
        passages: Passages of live documents.
        tokens_stored: Tokens of live documents whose vectors are stored: those that can begin or end an answer.
        tokens_total: Tokens of live documents before filtering.
        tombstones: Deleted and replaced documents that no compaction has forgotten yet.
        segments: Live segments.
        segment_rows: Stored token vectors, those of dead documents included.
        indexed_rows: Those of them that a search may start from.
        bytes_by_use: Size of "vectors", "index" and "text", see `storage.sizes`.
        aliases: Other names of live documents: pairs of a name and a document.
        links: Links of live documents, from which some of them are counted.
        fields: The fields that live documents have, with the types of their values.
        bytes_by_kind: Size of the files: "database", "segments", "index", "encoders".
        last_commits: The newest commits, newest first.
    """

    path: Path
    settings: KBSettings
    generation: int
    documents: int
    passages: int
    tokens_stored: int
    tokens_total: int
    tombstones: int
    segments: int
    segment_rows: int
    indexed_rows: int
    aliases: int
    links: int
    fields: dict[str, list[FieldType]]
    bytes_by_kind: dict[str, int]
    bytes_by_use: dict[str, int]
    last_commits: tuple[HistoryEntry, ...]

    @property
    def kept_fraction(self) -> float:
        """Share of the tokens that the filter kept for the index; 0 when there are none."""
        return self.tokens_indexed / self.tokens_total if self.tokens_total else 0.0

    @property
    def tokens_indexed(self) -> int:
        """Stored tokens of live documents that a search may start from; as of all documents while some are dead."""
        return round(self.tokens_stored * self.indexed_rows / self.segment_rows) if self.segment_rows else 0


def gather_info(connection: Connection, directory: Path) -> KBInfo:
    """Return what the knowledge base holds at the generation that the connection sees."""
    documents, passages, generations = schema.documents, schema.passages, schema.generations
    live = documents.c.dead_generation.is_(None)
    counts = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(passages.c.token_count), 0),
            func.coalesce(func.sum(passages.c.encoded_token_count), 0),
        ).where(passages.c.document_id.in_(select(documents.c.document_id).where(live)))
    ).one()
    segments = live_segments(connection)
    aliases, links = name_counts(connection)
    last = connection.execute(
        select(generations).order_by(generations.c.generation.desc()).limit(_LAST_COMMITS)
    ).mappings()
    settings = read_settings(connection, name=str(directory))
    return KBInfo(
        path=directory,
        settings=settings,
        generation=newest_generation_number(connection),
        documents=connection.execute(select(func.count()).select_from(documents).where(live)).scalar_one(),
        passages=counts[0],
        tokens_stored=counts[1],
        tokens_total=counts[2],
        tombstones=connection.execute(select(func.count()).select_from(documents).where(~live)).scalar_one(),
        segments=len(segments),
        segment_rows=sum(row.file.n_rows for row in segments),
        indexed_rows=count_indexed(directory, segments, settings.indexed_from),
        aliases=aliases,
        links=links,
        fields=known_fields(connection),
        bytes_by_kind=_bytes_by_kind(directory),
        bytes_by_use=bytes_by_use(connection, directory, segments),
        last_commits=tuple(
            HistoryEntry(
                row["generation"],
                row["at"],
                row["operation"],
                row["documents_added"],
                row["documents_replaced"],
                row["documents_deleted"],
                row["note"],
            )
            for row in last
        ),
    )


def _bytes_by_kind(directory: Path) -> dict[str, int]:
    return {
        "database": bytes_of(directory.glob(f"{DATABASE_NAME}*")),
        "segments": bytes_of((directory / SEGMENT_DIRECTORY).glob("*")),
        "index": bytes_of((directory / INDEX_DIRECTORY).glob("*")),
        "encoders": bytes_of((directory / ENCODER_DIRECTORY).rglob("*")),
    }
