"""Records of a KILT file as what they ask: those that cannot be asked are told of and left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from adapters.errors import RecordError, UnknownRelationError
from adapters.kilt.records import TaskRecord, read_gold
from adapters.tasks.defaults import MAX_INPUT_CHARS
from adapters.tasks.queries import query_of
from kbengine.errors import TaskInputError
from kbengine.inputs import Task, TaskInput
from kbengine.search.query import Query
from kbengine.text_form import input_of


@dataclass(frozen=True)
class GoldRow:
    """A record, what it asks, and the query that this is."""

    record: TaskRecord
    asked: TaskInput
    query: Query


def read_rows(
    path: Path, task: Task, *, limit: int | None = None, seed: int = 0, notice: Callable[[str], None]
) -> list[GoldRow]:
    """Return the records of a file that can be asked, of `limit` drawn at random where it has more, in order.

    Raises:
        RecordError: the file cannot be read.
    """

    def refuse(error: RecordError) -> None:
        if error.line is None:
            raise error
        notice(f"left out: {error.message}")

    records = list(read_gold(path, refuse=refuse))
    if limit is not None and len(records) > limit:
        records = [records[i] for i in sorted(random.Random(seed).sample(range(len(records)), limit))]
    return rows_of(records, task, notice)


def rows_of(records: Iterable[TaskRecord], task: Task, notice: Callable[[str], None]) -> list[GoldRow]:
    """Return what the records ask; those that cannot be asked are told of."""
    rows = []
    for record in records:
        try:
            if len(record.input) > MAX_INPUT_CHARS:
                raise TaskInputError(f"the input has {len(record.input):,} characters")
            asked = input_of(task, record.input)
            rows.append(GoldRow(record, asked, query_of(asked)))
        except (TaskInputError, UnknownRelationError) as error:
            notice(f"left out: {record.file}:{record.line}: {error.message:.300}")
    return rows
