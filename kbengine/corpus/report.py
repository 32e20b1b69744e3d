"""What reading a corpus came to: counts, and the first bad records with their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_BAD_KEPT: Final = 20


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that was passed over: the file, the line (or document) in it, and the reason."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """The counts of a corpus read so far; after a resumption those before it are included.

    Attributes:
        documents: Documents delivered.
        passages: Passages delivered.
        textless_documents: Delivered documents that have no passage (a page that is only a title).
        bad_records: All records passed over because of `skip_bad`.
        bad: The first 20 of those met in this run.
        ignored_files: Files of folders that are of no kind that is read.
        ignored_suffixes: The same by the end of their names, the most frequent first.
        empty_files: Files of folders without any text: they give no document.
        first_empty: The first 20 of them.
        bytes_read: Bytes consumed, compressed as on disk.
        bytes_total: Bytes of all files; 0 if unknown (pipes).
    """

    documents: int
    passages: int
    textless_documents: int
    bad_records: int
    bad: tuple[BadRecord, ...]
    ignored_files: int
    ignored_suffixes: Mapping[str, int]
    empty_files: int
    first_empty: tuple[str, ...]
    bytes_read: int
    bytes_total: int

    def left_out(self) -> dict[str, int]:
        """Return how many records and files gave no document or no text, by what was wrong; only what there was."""
        counts = {
            "skipped_records": self.bad_records,
            "empty_files": self.empty_files,
            "files_of_other_kinds": self.ignored_files,
            "documents_without_text": self.textless_documents,
        }
        return {name: n for name, n in counts.items() if n}
