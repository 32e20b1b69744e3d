"""The catalog of a cluster: its generations, which shard has which document, what only one may do at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, and_, delete, insert, inspect, select, update

from storage import cluster_schema as schema
from storage.catalog import chunked
from storage.cluster_database import CatalogDatabase, check_revision, is_newest, migrate_catalog
from storage.errors import CorruptError, InvalidOptionError, LockedError, NotAKnowledgeBaseError, StateError
from storage.generation_manifest import ManifestRef

__all__ = ["Catalog", "ClusterRow", "GenerationRow", "Node", "Placed"]

_POLL_S = 0.1
NodeState = Literal["active", "draining"]


@dataclass(frozen=True)
class ClusterRow:
    """Which cluster it is and where it stands: the newest generation, 0 before the first."""

    cluster: str
    root: str
    generation: int
    next_ordinal: int


@dataclass(frozen=True)
class GenerationRow:
    """A generation as the catalog knows it; `op_id` is the caller's name for what made it."""

    generation: int
    op_id: str
    operation: str
    manifest: str
    at: str
    documents_added: int
    documents_replaced: int
    documents_deleted: int
    aliases_changed: int

    @classmethod
    def read(cls, row: Mapping[Any, Any]) -> GenerationRow:
        """Return the generation that a row tells of; CorruptError where it cannot be one."""
        made = cls(**row)
        if not isinstance(made.generation, int) or not isinstance(made.manifest, str) or len(made.manifest) != 64:
            raise CorruptError(
                f"the catalog is damaged: it has a generation {made.generation!r} with manifest {made.manifest!r}; "
                "move it away and make it anew from the objects with 'kbengine cluster restore'"
            )
        return made

    @property
    def ref(self) -> ManifestRef:
        """The manifest's number and checksum."""
        return ManifestRef(self.generation, self.manifest)


@dataclass(frozen=True)
class Placed:
    """A document and where it is."""

    doc_id: str
    ordinal: int
    shard: str


@dataclass(frozen=True)
class Node:
    """A machine that searches; `facts` are what it tells of itself, `seen_s` when, in seconds since 1970."""

    name: str
    state: NodeState
    facts: Mapping[str, Any]
    seen_s: float


class Catalog:
    """A cluster's catalog; safe to share between threads.

    Attributes:
        database: Its connections.
    """

    def __init__(self, url: str) -> None:
        """Nothing is connected yet."""
        self.database = CatalogDatabase(url)

    @property
    def place(self) -> str:
        """What messages call it."""
        return self.database.place

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    # -- the cluster

    def create(self, *, cluster: str, root: str, next_ordinal: int) -> None:
        """Make the tables where they are not, and enter the cluster; one that is there already stays as it is.

        Raises:
            InvalidOptionError: It is the catalog of another cluster.
        """
        with self.database.writing() as connection:
            migrate_catalog(connection)
            row = _cluster(connection, lock=False)
            if row is not None and row.cluster != cluster:
                raise InvalidOptionError(
                    f"the catalog {self.place} is of another cluster, at {row.root}; give each cluster its own database"
                )
            if row is None:
                connection.execute(
                    insert(schema.clusters).values(
                        id=1, cluster=cluster, root=root, generation=0, next_ordinal=next_ordinal, created_at=now()
                    )
                )

    def cluster(self) -> ClusterRow:
        """Return where the cluster stands.

        Raises:
            NotAKnowledgeBaseError: Nothing was built.
            CatalogUnavailableError: The catalog does not answer.
        """
        if not self.database.is_there:
            raise self._nothing()
        with self.database.reading() as connection:
            if not inspect(connection).has_table("clusters"):
                raise self._nothing()
            check_revision(connection, self.place)
            row = _cluster(connection, lock=False)
        if row is None:
            raise self._nothing()
        return row

    def _nothing(self) -> NotAKnowledgeBaseError:
        return NotAKnowledgeBaseError(
            f"the catalog {self.place} holds no cluster; build one with 'kbengine cluster build', or check --catalog"
        )

    def migrate(self) -> None:
        """Bring a catalog that an older kbengine made to the newest schema; one that has it is only looked at."""
        with self.database.reading() as connection:
            if is_newest(connection):
                return
        with self.database.writing() as connection:
            locked_cluster(connection, self.place)
            migrate_catalog(connection)

    def newest(self) -> GenerationRow:
        """Return the newest generation; NotAKnowledgeBaseError before the first."""
        with self.database.reading() as connection:
            table = schema.generations
            row = connection.execute(select(table).order_by(table.c.generation.desc()).limit(1)).mappings().first()
        if row is None:
            raise self._nothing()
        return GenerationRow.read(row)

    def newest_number(self) -> int:
        """Return the newest generation's number, 0 before the first: a look-up of one row."""
        with self.database.reading() as connection:
            return int(connection.execute(select(schema.clusters.c.generation)).scalar() or 0)

    def wait_for_newer(self, generation: int, *, timeout_s: float) -> int:
        """Wait until there is a generation after this one, or the time is over; return the newest one's number."""
        deadline = time.monotonic() + timeout_s
        while True:
            newest = self.newest_number()
            if newest > generation or time.monotonic() >= deadline:
                return newest
            time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))

    def generations(self, *, limit: int | None = None) -> list[GenerationRow]:
        """Return the generations, newest first."""
        table = schema.generations
        with self.database.reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.generation.desc()).limit(limit)).mappings()
            return [GenerationRow.read(row) for row in rows]

    def generation(self, number: int) -> GenerationRow | None:
        """Return a generation by its number, None where there is none."""
        table = schema.generations
        with self.database.reading() as connection:
            row = connection.execute(select(table).where(table.c.generation == number)).mappings().first()
        return None if row is None else GenerationRow.read(row)

    def made_by(self, op_id: str) -> GenerationRow | None:
        """Return the generation that an operation made, None when it made none."""
        with self.database.reading() as connection:
            return generation_of(connection, op_id)

    def op_ids(self, prefix: str) -> list[str]:
        """Return the names of operations that made a generation, those that begin so; an index finds them."""
        column = schema.generations.c.op_id
        # SQLite looks ranges up in the index of the unique names, PostgreSQL beginnings in one for patterns.
        begins = column.startswith(prefix, autoescape=True)
        if self.database.is_sqlite:
            begins = and_(column >= prefix, column < f"{prefix}{chr(0x10FFFF)}")
        with self.database.reading() as connection:
            return list(connection.execute(select(column).where(begins).order_by(column)).scalars())

    # -- documents

    def reserve(self, n: int) -> int:
        """Return the first of n ordinals that nobody else gets."""
        with self.database.writing() as connection:
            row = locked_cluster(connection, self.place)
            connection.execute(update(schema.clusters).values(next_ordinal=row.next_ordinal + n))
        return row.next_ordinal

    def placed(self, doc_ids: Sequence[str]) -> list[Placed]:
        """Return where the live documents among these are."""
        with self.database.reading() as connection:
            return placed(connection, doc_ids)

    # -- what only one may do

    def renew(self, name: str, holder: str, *, duration_s: float) -> None:
        """Take a lease, or hold it for longer; LockedError where another holds it."""
        table = schema.leases
        with self.database.writing() as connection:
            locked_cluster(connection, self.place)
            row = connection.execute(select(table).where(table.c.name == name)).mappings().first()
            if row is not None and row["holder"] != holder and row["until_s"] > time.time():
                raise LockedError(
                    f"{name} of {self.place} is done by {row['holder']}; wait for it: if that was killed, another may "
                    f"begin in {row['until_s'] - time.time():.0f} s"
                )
            connection.execute(delete(table).where(table.c.name == name))
            connection.execute(insert(table).values(name=name, holder=holder, until_s=time.time() + duration_s))

    # -- machines

    def note_node(self, name: str, facts: Mapping[str, Any], *, state: NodeState | None = None) -> None:
        """Note what a machine tells of itself; its state stays unless another is given, and is active at first."""
        table = schema.nodes
        values = {"facts": json.dumps(dict(facts), sort_keys=True), "seen_s": time.time()}
        with self.database.writing() as connection:
            locked_cluster(connection, self.place)
            change = values if state is None else {**values, "state": state}
            if connection.execute(update(table).where(table.c.name == name).values(change)).rowcount == 0:
                connection.execute(insert(table).values(name=name, **values, state=state or "active"))

    def set_node_state(self, name: str, state: NodeState) -> None:
        """Let a machine take shards, or give them up; InvalidOptionError for one that was never seen."""
        table = schema.nodes
        with self.database.writing() as connection:
            if connection.execute(update(table).where(table.c.name == name).values(state=state)).rowcount == 0:
                raise InvalidOptionError(f"no machine {name!r} in {self.place}; 'kbengine cluster status' names them")

    def forget_node(self, name: str) -> None:
        """Forget a machine, if it is known."""
        with self.database.writing() as connection:
            connection.execute(delete(schema.nodes).where(schema.nodes.c.name == name))

    def nodes(self) -> list[Node]:
        """Return the machines, by name."""
        table = schema.nodes
        with self.database.reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.name)).mappings().all()
        return [Node(row["name"], row["state"], json.loads(row["facts"]), row["seen_s"]) for row in rows]


def now() -> str:
    """Return the time as the catalog and manifests write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _cluster(connection: Connection, *, lock: bool) -> ClusterRow | None:
    table = schema.clusters
    statement = select(table.c.cluster, table.c.root, table.c.generation, table.c.next_ordinal)
    row = connection.execute(statement.with_for_update() if lock else statement).mappings().first()
    return None if row is None else ClusterRow(**row)


def locked_cluster(connection: Connection, place: str) -> ClusterRow:
    """Return where the cluster stands, and let nobody else change it until the transaction ends."""
    row = _cluster(connection, lock=True)
    if row is None:
        raise StateError(f"the catalog {place} holds no cluster; build one with 'kbengine cluster build'")
    return row


def generation_of(connection: Connection, op_id: str) -> GenerationRow | None:
    """Return the generation that an operation made."""
    table = schema.generations
    row = connection.execute(select(table).where(table.c.op_id == op_id)).mappings().first()
    return None if row is None else GenerationRow.read(row)


def placed(connection: Connection, doc_ids: Sequence[str]) -> list[Placed]:
    """Return where the live documents among these are, by ordinal."""
    table = schema.documents
    found: list[Placed] = []
    for chunk in chunked(doc_ids, 500):
        rows = connection.execute(
            select(table.c.doc_id, table.c.ordinal, table.c.shard).where(
                table.c.doc_id.in_(chunk), table.c.dead_generation.is_(None)
            )
        )
        found += [Placed(*row) for row in rows]
    return sorted(found, key=lambda each: each.ordinal)


def dead_ordinals(connection: Connection, shard: str) -> list[int]:
    """Return the ordinals of a shard's dead documents, rising."""
    table = schema.documents
    statement = select(table.c.ordinal).where(table.c.shard == shard, table.c.dead_generation.is_not(None))
    return list(connection.execute(statement.order_by(table.c.ordinal)).scalars())


def insert_documents(
    connection: Connection,
    rows: Iterable[tuple[str, int]],
    *,
    shard: str,
    generation: int,
    dead: Collection[int] = (),
) -> None:
    """Enter documents of a shard, given by id and ordinal, in the caller's transaction; those with dead ordinals so."""
    for chunk in chunked(rows, 2_000):
        connection.execute(
            insert(schema.documents),
            [
                {
                    "ordinal": ordinal,
                    "doc_id": doc_id,
                    "shard": shard,
                    "born_generation": generation,
                    "dead_generation": generation if ordinal in dead else None,
                }
                for doc_id, ordinal in chunk
            ],
        )
