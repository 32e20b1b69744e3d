"""The errors of the task adapters and of the KILT files; they hang below storage's tree.

UsageError
├── RecordError           one record of a file cannot be used: names file, line, id and remedy (exit 1)
├── SubmissionError       a submission cannot be written, resumed or scored as a whole (exit 1)
├── UnknownRelationError  a Wikidata property id or relation name is not in the table (exit 1)
├── TableError            a table to fill cannot be read as it is, or not be written there (exit 1)
└── CalibrationError      development files do not tell what was asked of them (exit 1)
"""

from __future__ import annotations

from kbengine.errors import MissingExtraError, TaskInputError
from storage.errors import UsageError

__all__ = [
    "MissingExtraError",
    "RecordError",
    "SubmissionError",
    "TableError",
    "TaskInputError",
    "UnknownRelationError",
]


class RecordError(UsageError):
    """One record of a file cannot be used.

    `problem` is a short stable name (`broken_json`, `duplicate_id`, …) for programs; the message is for people
    and holds file, line, what was seen and the remedy.
    """

    code = "bad_record"
    exit_code = 1

    def __init__(
        self, seen: str, problem: str, remedy: str, *, file: str, line: int | None, record_id: str | None = None
    ) -> None:
        place = file if line is None else f"{file}:{line}"
        who = "" if record_id is None else f" (id {record_id!r})"
        super().__init__(f"{place}: {seen}{who}; {remedy}")
        self.seen = seen
        self.file = file
        self.line = line
        self.problem = problem
        self.remedy = remedy
        self.record_id = record_id


class SubmissionError(UsageError):
    """A submission cannot be written, resumed or scored as a whole."""

    code = "bad_submission"
    exit_code = 1


class UnknownRelationError(UsageError):
    """A Wikidata property id or relation name is not in the table of relations."""

    code = "unknown_relation"
    exit_code = 1


class TableError(UsageError):
    """A table to fill cannot be read as it is, lacks a column, or cannot be written where it should."""

    code = "bad_table"
    exit_code = 1


class CalibrationError(UsageError):
    """Development files do not tell what was asked of them: too few records, or nothing to tell apart."""

    code = "bad_calibration"
    exit_code = 1
