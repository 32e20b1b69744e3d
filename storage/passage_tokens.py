"""Bringing the passages' token tables in line with a segment that stores fewer of their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select, update

from storage import schema
from storage.catalog import chunked
from storage.checksum import check_row, sealed
from storage.errors import CorruptError
from storage.records import pack_offsets, unpack_offsets
from storage.segment import Segment

__all__ = ["update_passages"]


def update_passages(connection: Connection, segment: Segment) -> None:
    """Make the rows of the segment's passages name its tokens only, in the caller's transaction."""
    table = schema.passages
    arrays = segment.arrays
    numbers = segment.token_numbers
    statement = (
        update(table)
        .where(table.c.passage_id == bindparam("key_"))
        .values(token_count=bindparam("count_"), offsets=bindparam("offsets_"), checksum=bindparam("checksum_"))
    )
    for chunk in chunked(range(segment.n_passages)):
        first = int(arrays.passage_ids[chunk[0]])
        last = int(arrays.passage_ids[chunk[-1]])
        index_of = {int(arrays.passage_ids[index]): index for index in chunk}
        chosen = select(table).where(table.c.passage_id >= first, table.c.passage_id <= last)
        changes: list[dict[str, Any]] = []
        for row in connection.execute(chosen).mappings():
            check_row("passages", row)
            index = index_of.get(row["passage_id"])
            if index is None:
                continue
            start = int(arrays.first_rows[index])
            kept = numbers[start : start + int(arrays.token_counts[index])]
            if len(kept) == row["token_count"]:
                continue
            changed = sealed({**row, "token_count": len(kept), "offsets": _kept_offsets(row, kept)})
            changes.append(
                {
                    "key_": row["passage_id"],
                    "count_": changed["token_count"],
                    "offsets_": changed["offsets"],
                    "checksum_": changed["checksum"],
                }
            )
        if changes:
            connection.execute(statement, changes)


def _kept_offsets(row: Mapping[Any, Any], kept: NDArray[Any]) -> bytes:
    offsets = unpack_offsets(row["offsets"], passage_id=row["passage_id"])
    at = np.searchsorted(offsets.numbers, kept)
    if len(offsets.numbers) < len(kept) or (at >= len(offsets.numbers)).any() or (offsets.numbers[at] != kept).any():
        raise CorruptError(
            f"kb.sqlite and the segments differ about the tokens of passage {row['passage_id']}; "
            "run 'kbengine verify --deep'"
        )
    return pack_offsets(offsets.ordinals[at], offsets.starts[at], offsets.ends[at], offsets.numbers[at])
