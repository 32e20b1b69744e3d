"""How shards are to be spread over the machines that search: what was last asked for, which every service follows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select

from storage import cluster_schema as schema
from storage.cluster_catalog import Catalog, locked_cluster, now
from storage.errors import InvalidOptionError

__all__ = ["Arrangement", "arrange", "newest_arrangement"]

MAX_SEARCHERS = 10_000


@dataclass(frozen=True)
class Arrangement:
    """What services were asked to do: the how-manieth wish it is, 0 before the first, and among how many actors.

    Attributes:
        number: Rises by one with each wish.
        searchers: Among how many actors shards are divided; None leaves that to the service.
    """

    number: int = 0
    searchers: int | None = None


def newest_arrangement(catalog: Catalog) -> Arrangement:
    """Return what was last asked for.

    Raises:
        CatalogUnavailableError: The catalog does not answer.
    """
    table = schema.arrangements
    with catalog.database.reading() as connection:
        statement = select(table.c.number, table.c.searchers).order_by(table.c.number.desc()).limit(1)
        row = connection.execute(statement).first()
    return Arrangement() if row is None else Arrangement(row.number, row.searchers)


def arrange(catalog: Catalog, *, searchers: int | None = None) -> Arrangement:
    """Ask all services to spread shards anew, and return the wish; they look for it every few seconds.

    Args:
        catalog: Of the cluster.
        searchers: Among how many actors shards are divided; None leaves that to the services.

    Raises:
        InvalidOptionError: `searchers` is none of 1 to 10,000.
    """
    if searchers is not None and not 1 <= searchers <= MAX_SEARCHERS:
        raise InvalidOptionError(f"searchers is {searchers}, wanted 1 to {MAX_SEARCHERS:,}")
    catalog.migrate()
    table = schema.arrangements
    with catalog.database.writing() as connection:
        locked_cluster(connection, catalog.place)
        before = connection.execute(select(table.c.number).order_by(table.c.number.desc()).limit(1)).scalar() or 0
        connection.execute(insert(table).values(number=before + 1, searchers=searchers, at=now()))
    return Arrangement(before + 1, searchers)
