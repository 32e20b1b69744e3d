"""Row checksums: how a changed byte inside `kb.sqlite` is noticed.

SQLite finds damaged structure, not a letter turned into another. Each row therefore carries 64 bits of
BLAKE2b over its other columns, checked whenever the row is read for an answer and by `verify`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from storage.errors import CorruptError

__all__ = ["check_row", "row_checksum", "sealed"]


def row_checksum(values: Mapping[Any, Any]) -> int:
    """Return the signed 64-bit checksum of a row: every column but `checksum`, in the order of the mapping.

    Each value is written with its type and length, so no two different rows give the same bytes.
    """
    parts: list[bytes] = []
    for name, value in values.items():
        if name == "checksum":
            continue
        if value is None:
            parts.append(b"n;")
        elif isinstance(value, str):
            encoded = value.encode("utf-8", "surrogatepass")
            parts.append(b"s%d:" % len(encoded))
            parts.append(encoded)
        elif isinstance(value, bytes):
            parts.append(b"b%d:" % len(value))
            parts.append(value)
        elif isinstance(value, float):
            parts.append(b"f" + struct.pack("<d", value))
        else:
            parts.append(b"i%d;" % value)
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big", signed=True)


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the same row with its `checksum` set; the keys must stand in the table's column order."""
    values["checksum"] = row_checksum(values)
    return values


def check_row(table: str, row: Mapping[Any, Any]) -> None:
    """Raise CorruptError unless the row (all columns, in the table's order) has the checksum it stores."""
    if row_checksum(row) != row["checksum"]:
        identity = next(iter(row.items()))
        raise CorruptError(
            f"kb.sqlite: the row of table {table} with {identity[0]} {identity[1]!r} is not what was written: "
            f"its checksum is {row_checksum(row)}, stored is {row['checksum']}; run 'kbengine verify' and restore "
            "the file from a backup"
        )
