"""Writing the questions of a corpus to a file: interrupted, the same call goes on where it stopped."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol

from kbengine.build.builder import CorpusOptions
from kbengine.corpus.document import CorpusDocument, SourcePosition
from kbengine.corpus.reader import read_corpus
from kbengine.corpus.report import CorpusReport
from kbengine.errors import CorruptError, InvalidOptionError, StateError
from kbengine.learning.questions.answers import AnswerOptions
from kbengine.learning.questions.cloze import count_document
from kbengine.learning.questions.generated import GeneratedQuestion, QuestionsReport
from kbengine.learning.questions.rows import kilt_row
from kbengine.progress import NoProgress, ProgressSink
from storage.durable import write_durably

CHUNK_DOCUMENTS: Final = 64
SAVE_EVERY_S: Final = 10.0

Keep = Callable[[Sequence[GeneratedQuestion]], Sequence[bool]]
"""A filter: which of the questions stay."""


class QuestionSource(Protocol):
    """What makes questions of documents: the cloze generator, or a model."""

    name: str

    def questions(self, documents: Sequence[CorpusDocument]) -> list[list[GeneratedQuestion]]:
        """Return the questions of each document."""


@dataclass(frozen=True)
class WrittenQuestions:
    """What was written.

    Attributes:
        path: The file.
        report: Counts over the whole corpus, an interrupted run included.
        corpus: Of the reading.
        resumed: Whether an interrupted run was taken up.
        elapsed_s: Of this run.
    """

    path: Path
    report: QuestionsReport
    corpus: CorpusReport
    resumed: bool
    elapsed_s: float

    def facts(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return {
            "out": str(self.path),
            **self.report.to_json(),
            "kept": self.report.kept,
            "skipped_records": self.corpus.bad_records,
            "resumed": self.resumed,
            "elapsed_s": round(self.elapsed_s, 2),
        }


def write_questions(
    corpus: CorpusOptions,
    out: Path,
    source: QuestionSource,
    answers: AnswerOptions,
    *,
    request: Mapping[str, Any],
    keep: Keep | None = None,
    overwrite: bool = False,
    progress: ProgressSink | None = None,
) -> WrittenQuestions:
    """Write one KILT row a question, in the order of the corpus, and return what was written.

    The file appears under its name when it is complete; with the suffix .gz it is compressed, the same bytes for the
    same rows. Until then rows are in `OUT.partial` and the place reached in `OUT.partial.json`.

    Args:
        corpus: What to read.
        out: The file to write.
        source: Makes the questions.
        answers: The options that `source` was made with, for the counts.
        request: All that the rows depend on, as JSON: an interrupted run is taken up only by the same.
        keep: A filter; without one all questions stay.
        overwrite: Replace a file that is there.
        progress: Shown the bytes read.

    Raises:
        InvalidOptionError: the file exists and `overwrite` is not set, or an unfinished run was another one.
        CorpusError: the corpus is empty, has changed, or has a record that cannot be read (unless `skip_bad`).
    """
    progress = progress or NoProgress()
    began = time.perf_counter()
    if out.exists() and not overwrite:
        raise InvalidOptionError(f"{out} exists; pass --overwrite to replace it, or choose another --out")
    unfinished = _Unfinished(out, json.loads(json.dumps(request)))
    start = unfinished.position
    reading = read_corpus(corpus.paths, format=corpus.format, skip_bad=corpus.skip_bad, start=start, anchors=True)
    progress.begin("making questions", reading.report.bytes_total or None, "")
    done_bytes = start.bytes_read if start else 0
    progress.advance(done_bytes)
    with unfinished:
        for documents, position in _chunks(reading):
            rows = _rows(documents, source, answers, keep, unfinished.report)
            unfinished.append(rows, position)
            progress.advance(position.bytes_read - done_bytes, f"{unfinished.report.kept:,} questions")
            done_bytes = position.bytes_read
    reading_report = reading.report
    unfinished.finish()
    return WrittenQuestions(out, unfinished.report, reading_report, start is not None, time.perf_counter() - began)


def _rows(
    documents: Sequence[CorpusDocument],
    source: QuestionSource,
    answers: AnswerOptions,
    keep: Keep | None,
    report: QuestionsReport,
) -> list[str]:
    """Return the lines of the documents' questions that stay, counted in the report."""
    made = source.questions(documents)
    for document, questions in zip(documents, made, strict=True):
        count_document(report, document, questions, answers)
    together = [question for questions in made for question in questions]
    kept = keep(together) if keep is not None else [True] * len(together)
    lines: list[str] = []
    for question, stays in zip(together, kept, strict=True):
        if stays:
            report.keep(question)
            lines.append(json.dumps(kilt_row(question), ensure_ascii=False) + "\n")
    report.refused += len(together) - len(lines)
    return lines


class _Unfinished:
    """The rows written so far and the place reached in the corpus, which are saved together."""

    def __init__(self, out: Path, request: Mapping[str, Any]) -> None:
        self._out = out
        self._rows_path = out.with_name(f"{out.name}.partial")
        self._state_path = out.with_name(f"{out.name}.partial.json")
        self._request = request
        self.position: SourcePosition | None = None
        self.report = QuestionsReport()
        self._n_bytes = 0
        self._saved_at = time.monotonic()
        self._file: IO[bytes] | None = None
        if self._state_path.exists() and self._rows_path.exists():
            self._take_up()

    def __enter__(self) -> _Unfinished:
        self._out.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._rows_path.open("r+b" if self.position else "wb")
        self._file.truncate(self._n_bytes)
        self._file.seek(self._n_bytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            if error is not None and self.position is not None:
                self._save()
            self._file.close()

    def append(self, lines: Sequence[str], position: SourcePosition) -> None:
        """Write the rows of one chunk; now and then everything so far is made durable."""
        assert self._file is not None
        self._n_bytes += self._file.write("".join(lines).encode("utf-8"))
        self.position = position
        if time.monotonic() - self._saved_at >= SAVE_EVERY_S:
            self._save()

    def finish(self) -> None:
        """Give the file its name, compressed if that ends in .gz, and remove what was in its place until now."""
        temporary = self._out.with_name(f"{self._out.name}.{os.getpid()}.tmp")
        try:
            with self._rows_path.open("rb") as rows, temporary.open("wb") as file:
                _copy(rows, file, compress=self._out.suffix == ".gz")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._out)
        finally:
            temporary.unlink(missing_ok=True)
        self._state_path.unlink(missing_ok=True)
        self._rows_path.unlink(missing_ok=True)

    def _save(self) -> None:
        assert self._file is not None and self.position is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        state = {
            "request": self._request,
            "position": self.position.to_json(),
            "bytes": self._n_bytes,
            "report": self.report.to_json(),
        }
        write_durably(self._state_path, [json.dumps(state, ensure_ascii=False).encode("utf-8")], replace=True)
        self._saved_at = time.monotonic()

    def _take_up(self) -> None:
        remedy = f"remove {self._state_path} to begin anew"
        try:
            state = json.loads(self._state_path.read_bytes())
            request, n_bytes = state["request"], int(state["bytes"])
            position = SourcePosition.from_json(state["position"])
            report = QuestionsReport.from_json(state["report"])
        except (ValueError, KeyError, TypeError) as e:
            raise CorruptError(f"{self._state_path} is not the state of an unfinished run: {e}; {remedy}") from e
        differing = [
            name for name in sorted({*request, *self._request}) if request.get(name) != self._request.get(name)
        ]
        if differing:
            name = differing[0]
            raise InvalidOptionError(
                f"the unfinished run for {self._out} was begun with {name} = {request.get(name)!r}, now it is "
                f"{self._request.get(name)!r}; go on with the same, or {remedy}"
            )
        if self._rows_path.stat().st_size < n_bytes:
            raise StateError(f"{self._rows_path} is shorter than the {n_bytes} bytes saved in it; {remedy}")
        self.position, self.report, self._n_bytes = position, report, n_bytes


def _copy(rows: IO[bytes], file: IO[bytes], *, compress: bool) -> None:
    # No name and no time in the header: the same rows give the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if compress else nullcontext(file) as target:
        shutil.copyfileobj(rows, target, 1 << 20)


def _chunks(
    reading: Iterator[tuple[CorpusDocument, SourcePosition]],
) -> Iterator[tuple[list[CorpusDocument], SourcePosition]]:
    while chunk := list(islice(reading, CHUNK_DOCUMENTS)):
        yield [document for document, _ in chunk], chunk[-1][1]
