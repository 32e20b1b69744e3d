"""A database with documents and their fields but nothing else, for tests of filters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pysqlite3 import dbapi2
from sqlalchemy import Connection, create_engine, insert
from sqlalchemy.pool import StaticPool

from storage import schema
from storage.checksum import sealed
from storage.field_rows import insert_fields


def row_of(number: int, meta: dict[str, Any]) -> dict[str, Any]:
    """A row of table documents: d1 with a url, d2 without, and so on."""
    return sealed(
        {
            "document_id": number,
            "doc_id": f"d{number}",
            "title": f"Title {number}",
            "url": f"https://example.org/{number}" if number % 2 else None,
            "meta": json.dumps(meta),
            "passage_count": 0,
            "born_generation": 1,
            "dead_generation": None,
        }
    )


def connect() -> Connection:
    """A connection to an empty database with the tables of a knowledge base."""
    engine = create_engine(
        "sqlite+pysqlite://",
        module=dbapi2,
        creator=lambda: dbapi2.connect(":memory:", check_same_thread=False, isolation_level=None),
        poolclass=StaticPool,
    )
    connection = engine.connect()
    schema.metadata.create_all(connection)
    return connection


def store(connection: Connection, metas: Sequence[dict[str, Any]]) -> None:
    """Make these the only documents."""
    connection.exec_driver_sql("DELETE FROM fields")
    connection.exec_driver_sql("DELETE FROM documents")
    rows = [row_of(number, meta) for number, meta in enumerate(metas, start=1)]
    if rows:
        connection.execute(insert(schema.documents), rows)
        insert_fields(connection, rows)
