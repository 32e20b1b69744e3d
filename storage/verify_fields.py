"""The part of verification that looks at fields: whether what documents are filtered by follows from their `meta`."""

from __future__ import annotations

from sqlalchemy import Connection

from storage.catalog import chunked
from storage.database import DATABASE_NAME
from storage.field_rows import field_table_exists, insert_stored_fields, stored_field_rows
from storage.findings import Findings

__all__ = ["check_fields", "remake_fields"]

_COLUMNS = "name, type, value, document_id"


def check_fields(connection: Connection, findings: Findings) -> None:
    """Note in `findings` when table fields does not hold exactly what follows from the live documents."""
    if not field_table_exists(connection):
        return
    connection.exec_driver_sql("DROP TABLE IF EXISTS temp.wanted_fields")
    connection.exec_driver_sql(
        f"CREATE TEMP TABLE wanted_fields (name, type, value, document_id, PRIMARY KEY ({_COLUMNS})) WITHOUT ROWID"
    )
    for chunk in chunked(stored_field_rows(connection)):
        rows = [tuple(row) for row in chunk]
        connection.exec_driver_sql("INSERT INTO temp.wanted_fields VALUES (?, ?, ?, ?)", rows)
    for left, right, what in (
        ("temp.wanted_fields", "main.fields", "is missing"),
        ("main.fields", "temp.wanted_fields", "is of no live document that has it"),
    ):
        row = connection.exec_driver_sql(
            f"SELECT {_COLUMNS} FROM {left} EXCEPT SELECT {_COLUMNS} FROM {right} LIMIT 1"
        ).first()
        if row is not None:
            where = f"{DATABASE_NAME}: fields"
            findings.add(
                where, f"value {row.value!r} of field {row.name!r} of document {row.document_id} {what}", "repairable"
            )
    connection.exec_driver_sql("DROP TABLE temp.wanted_fields")


def remake_fields(connection: Connection) -> None:
    """Make all rows of table fields again from the live documents."""
    connection.exec_driver_sql("DELETE FROM fields")
    insert_stored_fields(connection)
