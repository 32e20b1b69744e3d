"""One pass over the records of a KILT file: searched in batches, written in order, bad ones named and left blank."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from adapters.errors import RecordError, UnknownRelationError
from adapters.kilt.answer_forms import (
    MAX_STEPS,
    best_sentences,
    of_both_steps,
    second_step,
)
from adapters.kilt.records import TaskRecord
from adapters.kilt.submission import Prediction
from adapters.kilt.task_files import output_path as output_path
from adapters.kilt.task_files import task_of_file as task_of_file
from adapters.kilt.verdicts import Judging, judgements
from adapters.tasks.answerer import AnswerOptions
from adapters.tasks.defaults import MAX_INPUT_CHARS, MAX_TURNS
from adapters.tasks.evidence import answer_of, provenance_of
from adapters.tasks.irreflexive import impossible_object
from adapters.tasks.queries import left_out_turns, query_of
from kbengine.corpus.normalise import norm
from kbengine.errors import QueryError, TaskInputError
from kbengine.inputs import Task, TaskInput
from kbengine.progress import ProgressSink
from kbengine.search.in_halves import in_halves
from kbengine.text_form import input_of

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer
    from kbengine.search.results import SearchResult
    from kbengine.verdicts.verdict import Judgement

from adapters.kilt.predict_options import PredictOptions, answer_options

_SHOWN_CHARS = 300
_POSITION = re.compile(r"^query \d+:? ")  # the place in the call, which the record's own place makes superfluous

# Problems after which no record is known under the id, or one is already.
_NO_BLANK = frozenset(("no_id", "bad_id", "duplicate_id"))
# Problems that end the file early: what follows is unknown, so the submission cannot be complete.
_FATAL = frozenset(("damaged_gzip", "unreadable_file"))


@dataclass
class PredictReport:
    """What a prediction did in this run.

    `answered` records have an answer, `abstained` ones a blank because nothing was found or (`below_threshold` of
    them) nothing was probable enough, `refused` ones could not be used (`blank` of them were written without an answer,
    the rest have no id); `skipped_done` were written by an earlier run. `truncated` ones were longer than the encoder
    reads.
    """

    task: Task
    path: Path
    answered: int = 0
    abstained: int = 0
    below_threshold: int = 0
    refused: int = 0
    blank: int = 0
    skipped_done: int = 0
    truncated: int = 0
    elapsed_s: float = 0.0
    generations: set[int] = field(default_factory=set)

    @property
    def records_per_s(self) -> float:
        """Return the records searched for per second of this run."""
        return (self.answered + self.abstained) / self.elapsed_s if self.elapsed_s else 0.0

    def facts(self) -> dict[str, Any]:
        """Return the report as named values, for people and for JSON."""
        counts = ("answered", "abstained", "below_threshold", "refused", "skipped_done", "truncated")
        return {
            "submission": str(self.path),
            "task": self.task,
            **{name: getattr(self, name) for name in counts},
            "elapsed_s": round(self.elapsed_s, 2),
            "records_per_s": round(self.records_per_s, 1),
            "generations": sorted(self.generations),
        }


@dataclass(frozen=True)
class _Pending:
    """A record on its way out: with a request to answer, or without one because it was refused."""

    record: TaskRecord | None
    raw_id: str | int
    request: TaskInput | None


@dataclass(frozen=True)
class _Searched:
    """What was found for a record: its pages, its answer, and whether that was below the threshold."""

    pages: SearchResult
    answer: str
    is_below: bool


class Answering(Protocol):
    """What predicts: an `Answerer`, or a service that shares one among many callers."""

    def pages(self, requests: Sequence[TaskInput], options: AnswerOptions | None = None) -> list[SearchResult]:
        """Return what `Answerer.pages` returns."""

    def answer(self, requests: Sequence[TaskInput], options: AnswerOptions | None = None) -> list[TaskAnswer]:
        """Return what `Answerer.answer` returns."""

    def check_threshold(self, task: Task, options: AnswerOptions) -> None:
        """Check that the threshold asked for can be applied to the task."""


class PredictionWriter(Protocol):
    """What takes predictions: a submission's file, or a stream."""

    @property
    def path(self) -> Path:
        """Return where they go, or where they come from."""

    @property
    def done_ids(self) -> frozenset[str]:
        """Return the ids that were written before."""

    def write(self, predictions: Iterable[Prediction]) -> int:
        """Take predictions, all or none, and return how many."""


class PredictionRun:
    """One pass over the inputs: what is pending, what was written, and the counts."""

    def __init__(
        self,
        answerer: Answering,
        writer: PredictionWriter,
        task: Task,
        options: PredictOptions,
        progress: ProgressSink,
        notice: Callable[[RecordError], None],
        *,
        judge: Judging | None = None,
    ) -> None:
        self.report = PredictReport(task, writer.path)
        self.ids: set[str] = set()
        self._answerer = answerer
        self._writer = writer
        self._done = writer.done_ids
        self._options = options
        self._progress = progress
        self._notice = notice
        self._judge = judge
        self._pending: list[_Pending] = []
        self._n_requests = 0
        self._began = time.perf_counter()

    def add(self, record: TaskRecord) -> None:
        """Take a record; a full batch is searched and written."""
        if record.id in self._done:
            self.ids.add(record.id)
            self.report.skipped_done += 1
            self._progress.advance(1)
            return
        try:
            request = self._request(record)
        except RecordError as error:
            self.refuse(error)
            return
        self.ids.add(record.id)
        self._pending.append(_Pending(record, record.raw_id, request))
        self._n_requests += 1
        if self._n_requests == self._options.batch_size:
            self.flush()

    def refuse(self, error: RecordError) -> None:
        """Take a bad record: name it, and write a blank answer under its id where it has one of its own."""
        if self._options.strict or error.problem in _FATAL:
            raise error
        record_id = error.record_id
        if record_id and record_id in self._done and record_id not in self.ids:
            self.ids.add(record_id)
            self.report.skipped_done += 1
            return
        self.report.refused += 1
        self._notice(error)
        if record_id and error.problem not in _NO_BLANK and record_id not in self.ids:
            self.ids.add(record_id)
            self.report.blank += 1
            self._pending.append(_Pending(None, record_id, None))
        self._progress.advance(1)

    def flush(self) -> None:
        """Search what is pending and append its predictions, all or none of them."""
        pending, self._pending, self._n_requests = self._pending, [], 0
        asked = [each for each in pending if each.request is not None]
        requests = [each.request for each in asked if each.request is not None]
        results = in_halves(self._ask, requests, lambda error: error)
        found = {id(each): result for each, result in zip(asked, results, strict=True)}
        self._writer.write(self._prediction(each, found.get(id(each))) for each in pending)
        searched = self.report.answered + self.report.abstained
        rate = searched / (time.perf_counter() - self._began)
        self._progress.advance(len(asked), f"{rate:,.0f} records/s")

    def _request(self, record: TaskRecord) -> TaskInput:
        """Return the record's request, or raise the error that names the record."""
        if record.id in self.ids:  # its first record was refused and has a blank already
            raise record.error("the id was used before", "duplicate_id", "keep one record per id")
        if len(record.input) > MAX_INPUT_CHARS:
            raise record.error(
                f"the input has {len(record.input):,} characters, at most {MAX_INPUT_CHARS:,} are taken",
                "input_too_long",
                "send the question, the text around the mention or the newest turns",
            )
        try:
            request = input_of(self.report.task, record.input)
            query_of(request)  # what is wrong with it is told with its line, not with its place in a batch
        except (TaskInputError, UnknownRelationError) as error:
            raise _bad_input(record, error) from error
        n_left_out = left_out_turns(request)
        if n_left_out:
            self._notice(
                record.error(
                    f"{n_left_out + MAX_TURNS} turns, answered from the newest that the encoder reads",
                    "too_many_turns",
                    f"send the newest {MAX_TURNS} turns or fewer",
                )
            )
        return request

    def _ask(self, requests: Sequence[TaskInput]) -> list[_Searched]:
        options = answer_options(self._options)
        pages = self._answerer.pages(requests, options)
        answered_by = pages
        if self._options.steps == MAX_STEPS:
            answered_by = second_step(self._answerer, requests, pages, options)
            pages = [of_both_steps(*each, options.k) for each in zip(pages, answered_by, strict=True)]
        if self._options.answer == "pages":
            return [_Searched(each, "", is_below=False) for each in pages]
        if self._judge is not None:
            found = judgements(self._judge, requests, pages)
            return [self._by_verdict(*each) for each in zip(pages, found, strict=True)]
        if self._options.answer == "sentences":
            said = best_sentences(self._answerer, requests, options)
            return [_Searched(*each, is_below=False) for each in zip(pages, said, strict=True)]
        texts = [answer_of(self.report.task, each.hits) for each in answered_by]
        # Where the answer is judged, or the best phrase is the subject that it cannot be, the answer is asked for.
        judged = [
            i
            for i, (request, text) in enumerate(zip(requests, texts, strict=True))
            if options.threshold or (norm(text) == impossible_object(request) != "")
        ]
        answers = self._answerer.answer([requests[i] for i in judged], replace(options, k=1)) if judged else []
        is_below = [False] * len(requests)
        for i, answer in zip(judged, answers, strict=True):
            is_below[i] = answer.reason == "below_threshold"
            texts[i] = answer.best.text if answer.best else ""
        return [_Searched(*each) for each in zip(pages, texts, is_below, strict=True)]

    def _by_verdict(self, pages: SearchResult, judgement: Judgement | None) -> _Searched:
        """Return the verdict as the answer; a blank where nothing was found, or it is less probable than wanted."""
        is_below = judgement is not None and judgement.probability < (self._options.threshold or 0.0)
        return _Searched(pages, "" if judgement is None or is_below else judgement.verdict, is_below)

    def _prediction(self, pending: _Pending, result: _Searched | QueryError | None) -> Prediction:
        if result is None or pending.record is None:
            return Prediction(pending.raw_id, "", ())
        if isinstance(result, QueryError):
            error = _bad_input(pending.record, result)
            if self._options.strict:
                raise error
            self.report.refused += 1
            self.report.blank += 1
            self._notice(error)
            return Prediction(pending.raw_id, "", ())
        hits = result.pages.hits
        self.report.generations.add(result.pages.generation)
        self.report.truncated += result.pages.truncated
        answer = result.answer
        if answer.strip():
            self.report.answered += 1
        else:
            self.report.abstained += 1
            self.report.below_threshold += bool(hits) and result.is_below
        return Prediction(pending.raw_id, answer, provenance_of(self.report.task, hits))


def _bad_input(record: TaskRecord, error: TaskInputError | UnknownRelationError | QueryError) -> RecordError:
    message = _POSITION.sub("", error.message)
    if len(message) > 2 * _SHOWN_CHARS:
        message = f"{message[:_SHOWN_CHARS]} … {message[-_SHOWN_CHARS:]}"
    return record.error(message, error.code, "correct the record, or pass the --task that its input is written for")
