"""The rows of table `feedback`: written, deleted, listed; each change is a commit.

Feedback names documents by the user's ids and speaks of inputs, not of passages: it outlives every change of documents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from storage import schema
from storage.catalog import chunked, commit_row, insert_generation, newest_generation
from storage.checksum import check_row, sealed
from storage.errors import InvalidOptionError, UnknownFeedbackError
from storage.feedback_records import FeedbackRecord, NewFeedback, Verdict
from storage.records import Commit
from storage.session import WriteSession

__all__ = [
    "FeedbackChange",
    "add_feedback",
    "copy_feedback",
    "delete_feedback",
    "feedback_table_exists",
    "list_feedback",
]

_KEY = ("task", "input", "answer", "doc_id")


@dataclass(frozen=True)
class FeedbackChange:
    """What a change of feedback did: the commit's generation, its operation id, and the numbers of the feedback."""

    generation: int
    op_id: str | None
    ids: tuple[int, ...]


def feedback_table_exists(connection: Connection) -> bool:
    """Return whether the knowledge base has been brought to the revision that knows feedback."""
    statement = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'feedback'"
    return connection.exec_driver_sql(statement).first() is not None


def add_feedback(session: WriteSession, feedback: Iterable[NewFeedback], *, op_id: str | None = None) -> FeedbackChange:
    """Store feedback and return the commit; see `KBWriter.add_feedback`."""
    table = schema.feedback
    # Of the same answer to the same input the last one counts, within a call too.
    new = list({tuple(getattr(each, name) for name in _KEY): each for each in feedback}.values())
    if not new:
        raise InvalidOptionError("no feedback was given; give at least one answer that is right or wrong")
    with session.writing() as connection:
        earlier = _change_of(connection, op_id)
        if earlier is not None:
            return earlier
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        ids = []
        for each in new:
            same = [table.c[name].is_not_distinct_from(getattr(each, name)) for name in _KEY]
            connection.execute(delete(table).where(*same))
            row = {"feedback_id": _next_id(connection), **dataclasses.asdict(each), "at": at}
            ordered = {column.name: row[column.name] for column in table.columns if column.name != "checksum"}
            connection.execute(insert(table), sealed(ordered))
            ids.append(int(row["feedback_id"]))
        return _commit(connection, op_id, ids)


def copy_feedback(session: WriteSession, records: Iterable[FeedbackRecord]) -> FeedbackChange:
    """Store feedback of another knowledge base and return the commit; see `KBWriter.copy_feedback`."""
    table = schema.feedback
    with session.writing() as connection:
        ids = []
        for each in records:
            connection.execute(delete(table).where(table.c.feedback_id == each.feedback_id))
            row = dataclasses.asdict(each)
            ordered = {column.name: row[column.name] for column in table.columns if column.name != "checksum"}
            connection.execute(insert(table), sealed(ordered))
            ids.append(each.feedback_id)
        return _commit(connection, None, ids)


def delete_feedback(session: WriteSession, ids: Sequence[int], *, op_id: str | None = None) -> FeedbackChange:
    """Delete feedback and return the commit; see `KBWriter.delete_feedback`."""
    table = schema.feedback
    wanted = sorted(set(ids))
    if not wanted:
        raise InvalidOptionError("no feedback was named; give the number of at least one")
    with session.writing() as connection:
        earlier = _change_of(connection, op_id)
        if earlier is not None:
            return earlier
        found: set[int] = set()
        for chunk in chunked(wanted):
            condition = table.c.feedback_id.in_(chunk)
            found |= set(connection.execute(select(table.c.feedback_id).where(condition)).scalars())
            connection.execute(delete(table).where(condition))
        if missing := [each for each in wanted if each not in found]:
            raise UnknownFeedbackError(
                f"there is no feedback {missing[0]} in {session.directory}, so none was deleted; "
                "'kbengine feedback list' shows what there is"
            )
        return _commit(connection, op_id, wanted)


def list_feedback(
    connection: Connection,
    *,
    task: str | None = None,
    asked: str | None = None,
    verdict: Verdict | None = None,
    after: int = 0,
    limit: int | None = None,
) -> Iterator[FeedbackRecord]:
    """Yield feedback in the order of its numbers, each row checked; see `KBReader.list_feedback`."""
    table = schema.feedback
    statement = select(table).where(table.c.feedback_id > after).order_by(table.c.feedback_id).limit(limit)
    if task is not None:
        statement = statement.where(table.c.task == task)
    if asked is not None:
        statement = statement.where(table.c.input == asked)
    if verdict is not None:
        statement = statement.where(table.c.verdict == verdict)
    for row in connection.execute(statement).mappings():
        check_row(table.name, row)
        yield FeedbackRecord(**{field.name: row[field.name] for field in dataclasses.fields(FeedbackRecord)})


def _next_id(connection: Connection) -> int:
    """Return a number that no feedback had before, deleted ones included."""
    used = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'feedback'").scalar()
    return int(used or 0) + 1


def _commit(connection: Connection, op_id: str | None, ids: Sequence[int]) -> FeedbackChange:
    before = newest_generation(connection)
    after = dataclasses.replace(before, number=before.number + 1)
    commit = Commit(after.number, op_id, 0, 0, 0)
    insert_generation(connection, commit, operation="feedback", after=after, note=f"feedback {' '.join(map(str, ids))}")
    return FeedbackChange(commit.generation, op_id, tuple(ids))


def _change_of(connection: Connection, op_id: str | None) -> FeedbackChange | None:
    """Return what an earlier call with this operation id did, None when there was none."""
    row = None if op_id is None else commit_row(connection, op_id)
    if row is None:
        return None
    numbers = str(row["note"] or "").split(" ")[1:]
    return FeedbackChange(row["generation"], row["op_id"], tuple(int(each) for each in numbers if each.isdecimal()))
