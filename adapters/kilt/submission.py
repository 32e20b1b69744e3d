"""Writing a submission: one output per record, distinct pages best first, resumable and whole or not there.

Lines are appended to `NAME.partial` beside the target; `finish` makes it durable and renames it, so a file with the
target's name is always complete. After a crash, `resume=True` drops a torn last line and goes on behind it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from adapters.errors import SubmissionError
from adapters.kilt.lines import JSON
from adapters.tasks.provenance import PageProvenance
from storage.durable import fsync_directory, write_error
from storage.errors import LockedError


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one record: its id as read, the answer text and provenance, best first."""

    id: str | int
    answer: str
    provenance: tuple[PageProvenance, ...]

    def to_json(self) -> dict[str, JSON]:
        """Return the record as the submission holds it: one output element, each page once, at its best place."""
        pages: list[JSON] = [entry.to_json() for entry in distinct_pages(self.provenance)]
        return {"id": self.id, "output": [{"answer": self.answer, "provenance": pages}]}


def distinct_pages(provenance: Iterable[PageProvenance]) -> list[PageProvenance]:
    """Return the first entry of each page, in order."""
    firsts: dict[str, PageProvenance] = {}
    for entry in provenance:
        firsts.setdefault(entry.wikipedia_id.strip(), entry)
    return list(firsts.values())


def prediction_line(prediction: Prediction) -> str:
    """Return one line of a submission, newline included, in ASCII.

    ASCII because the official evaluator opens files in the machine's own encoding, whatever that is.

    Raises:
        SubmissionError: the id or answer is not text, a page id is blank, or a number is NaN.
    """
    if isinstance(prediction.id, bool) or not isinstance(prediction.id, str | int) or not str(prediction.id).strip():
        raise SubmissionError(f"a prediction has the id {prediction.id!r}; echo the id of its input record")
    if not isinstance(prediction.answer, str):
        raise SubmissionError(f"id {prediction.id!r}: the answer is {prediction.answer!r}; write it as a string")
    for entry in prediction.provenance:
        if not isinstance(entry.wikipedia_id, str) or not entry.wikipedia_id.strip():
            raise SubmissionError(
                f"id {prediction.id!r}: a page id is {entry.wikipedia_id!r}; a non-blank string is wanted"
            )
    try:
        return json.dumps(prediction.to_json(), allow_nan=False) + "\n"
    except ValueError as error:
        raise SubmissionError(f"id {prediction.id!r}: a score is NaN or infinite; leave it out") from error


class SubmissionWriter:
    """An open submission file; use as a context manager and call `finish` at the end.

    Leaving without `finish` keeps the partial file, so that a later `resume=True` can go on. A batch that cannot be
    written (disk full) is taken back whole.
    """

    def __init__(
        self, path: str | Path, *, resume: bool = False, overwrite: bool = False, signature: str | None = None
    ) -> None:
        """Open `PATH.partial` for appending.

        Args:
            path: the finished file's path; by convention named by `submission_name(inputs)`.
            resume: go on behind the records of an unfinished file, if there is one.
            overwrite: replace a finished file, and start an unfinished one anew.
            signature: what the predictions depend on (knowledge base, task, options); a partial file of another
                signature is not resumed.

        Raises:
            SubmissionError: a finished file, or an unfinished one without `resume`, is in the way.
            LockedError: another process writes the same file.
        """
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self._signature_file = self.path.with_name(self.path.name + ".partial.json")
        self._signature = signature
        if self.path.exists() and not overwrite:
            raise SubmissionError(f"{self.path} exists and is complete; name another file or pass --overwrite")
        try:
            self._fd = os.open(self.partial, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SubmissionError(
                f"{self.partial} cannot be opened ({error.strerror}); choose another --out"
            ) from error
        try:
            self._lock()
            self._ids = self._start(resume=resume, overwrite=overwrite)
        except BaseException:
            os.close(self._fd)
            raise
        self._size = os.lseek(self._fd, 0, os.SEEK_END)
        self._open = True

    @property
    def done_ids(self) -> frozenset[str]:
        """Ids already written, stripped; a resumed run skips these records."""
        return frozenset(self._ids)

    def write(self, predictions: Iterable[Prediction]) -> int:
        """Append records, all or none of them, and return how many.

        Raises:
            SubmissionError: a record is not valid or its id was written before; nothing is appended.
            StorageFullError: the disk is full; the file holds what it held before and can be resumed.
        """
        self._check_open()
        lines: list[str] = []
        ids: dict[str, None] = {}
        for prediction in predictions:
            lines.append(prediction_line(prediction))
            record_id = str(prediction.id).strip()
            if record_id in self._ids or record_id in ids:
                raise SubmissionError(f"{self.partial}: the id {record_id!r} was written before; one record per id")
            ids[record_id] = None
        data = "".join(lines).encode("ascii")
        try:
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as error:
            self._take_back()
            raise write_error(error, self.partial) from error
        except BaseException:
            self._take_back()
            raise
        self._size += len(data)
        self._ids.update(ids)
        return len(lines)

    def finish(self) -> Path:
        """Make the file durable under its own name and return that path."""
        self._check_open()
        try:
            os.fsync(self._fd)
            self.partial.rename(self.path)
            self._signature_file.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(error, self.path) from error
        fsync_directory(self.path.parent)
        self.close()
        return self.path

    def close(self) -> None:
        """Close the file; without `finish` before, the partial file stays for `resume`."""
        if self._open:
            self._open = False
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._open:
            raise SubmissionError(f"the writer of {self.path} is closed; open a new one (resume goes on behind it)")

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockedError(f"another process is writing {self.partial}; wait for it or name another file") from error
        # Between open and lock the other process may have finished and renamed the file that we hold.
        if not self.partial.exists() or not os.path.samestat(os.fstat(self._fd), self.partial.stat()):
            raise LockedError(f"another process has just finished {self.path}; look at it, or pass --overwrite")

    def _start(self, *, resume: bool, overwrite: bool) -> dict[str, None]:
        size = os.fstat(self._fd).st_size
        if size and not resume and not overwrite:
            raise SubmissionError(f"{self.partial} holds an unfinished run; pass --resume to go on or --overwrite")
        if size and resume:
            self._check_signature()
            ids, end = _complete_records(self.partial)
            os.ftruncate(self._fd, end)
            return ids
        os.ftruncate(self._fd, 0)
        self._signature_file.unlink(missing_ok=True)
        if self._signature is not None:
            self._signature_file.write_text(json.dumps({"signature": self._signature}), encoding="utf-8")
        return {}

    def _check_signature(self) -> None:
        try:
            stored: object = json.loads(self._signature_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = None
        seen = stored.get("signature") if isinstance(stored, dict) else None
        if seen != self._signature:
            raise SubmissionError(
                f"{self.partial} was begun with {seen!r}, this run has {self._signature!r}; "
                "use the same knowledge base and options, or pass --overwrite"
            )

    def _take_back(self) -> None:
        # If even this fails, the torn line is found by the next --resume.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, self._size, os.SEEK_SET)


def _complete_records(partial: Path) -> tuple[dict[str, None], int]:
    """Return ids of the complete records and the byte where they end; a torn last line is left out.

    A line is torn when its newline is missing, or when it is the last and not JSON (blocks lost in a power cut).
    """
    ids: dict[str, None] = {}
    end = 0
    torn_line: int | None = None
    with partial.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if torn_line is not None:
                raise SubmissionError(
                    f"{partial}:{torn_line}: not a record, and more lines follow; it was changed by something else: "
                    "start anew with --overwrite"
                )
            try:
                value: object = json.loads(line) if line.endswith(b"\n") else None
                record_id = str(value["id"]).strip() if isinstance(value, dict) else None
            except (ValueError, KeyError):
                record_id = None
            if record_id is None:
                torn_line = number
                continue
            ids[record_id] = None
            end += len(line)
    return ids, end
