"""POST /v1/kilt/{task}: a KILT task file in, a leaderboard submission out, line by line as it is answered."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import Response, abort, request
from werkzeug.exceptions import ClientDisconnected

from adapters.errors import RecordError
from adapters.kilt.predict_options import PredictOptions
from adapters.kilt.prediction_stream import predict_lines
from adapters.kilt.records import read_inputs
from adapters.tasks.answerer import AnswerOptions
from kbengine.inputs import TASKS
from kbengine.search.query import SearchOptions
from web import limits
from web.endings import ASKS, may_end_in
from web.guards import LINES_TYPES, access, body, too_large
from web.models.kilt import KiltQuery
from web.request_context import RequestContext, current_request
from web.service import Service, current_service

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from kbengine.search.results import SearchResult

kilt = APIBlueprint("kilt", __name__, url_prefix="/v1", tag="Queries")

CHUNK_BYTES = 1 << 16
RECORDS_AT_ONCE = 16
SUBMISSION: dict[int | str, Any] = {
    200: {
        "description": "A submission: one line a record, in order.",
        "content": {LINES_TYPES[0]: {"schema": {"type": "string"}}},
    }
}


@kilt.post("/kilt/<task>")
@kilt.input(KiltQuery, location="query")
@kilt.doc(responses=SUBMISSION)
@body(*LINES_TYPES, max_bytes=limits.BULK_BODY_BYTES, streams=True)
@may_end_in(404, of=ASKS)
@access("read")
def answer_kilt(task: str, query_data: KiltQuery) -> Response:
    """Answer a KILT file.

    The body is KILT JSON lines, the answer a submission as `kbengine predict` writes it. A record that cannot be asked
    has an empty answer, and is counted in `X-Refused-Records` when that shows before asking.
    """
    if task not in TASKS:
        abort(404)
    service = current_service()
    asked = vars(query_data) | {"threshold": query_data.threshold or None}
    options = PredictOptions(batch_size=RECORDS_AT_ONCE, **asked).of_dataset(None, task)
    answerer = _SharedAnswerer(service)
    judge = service.engine.judge if options.answer == "verdict" else None
    service.bulk.take()
    file = tempfile.NamedTemporaryFile(prefix="kbengine-kilt-", suffix=".jsonl")  # noqa: SIM115  # closed below
    try:
        _receive(file)
        path = Path(file.name)
        refused = _refused(path)
        lines = predict_lines(answerer, path, task=task, options=options, notice=_pass_over, judge=judge)
        # The first lines are made now, so that what is wrong with the whole is told by the status.
        first = next(lines, "")
    except BaseException:
        file.close()
        service.bulk.give_back()
        raise
    response = Response(
        _lines(first, lines, current_request()), mimetype=LINES_TYPES[0], headers={"X-Refused-Records": str(refused)}
    )
    response.call_on_close(file.close)
    response.call_on_close(service.bulk.give_back)
    return response


def _receive(file: IO[bytes]) -> None:
    """Take the whole body before the first answer: a client that sends all before it reads would wait for ever."""
    n_bytes = 0
    while chunk := request.stream.read(CHUNK_BYTES):
        n_bytes += len(chunk)
        if n_bytes > limits.BULK_BODY_BYTES:
            raise too_large(limits.BULK_BODY_BYTES)
        file.write(chunk)
    file.flush()


def _refused(path: Path) -> int:
    """Return how many records are none that can be asked.

    Raises:
        RecordError: the file is damaged, or none of its lines is a record.
    """
    bad: list[RecordError] = []
    good = sum(1 for _ in read_inputs(path, refuse=bad.append))
    if not good:
        none = RecordError("no line", "no_record", "send one KILT record a line", file="the body", line=None)
        raise bad[0] if bad else none
    return len(bad)


def _pass_over(_: RecordError) -> None:
    """Do nothing: the record's answer is empty, and the caller has the record."""


def _lines(first: str, rest: Iterator[str], context: RequestContext) -> Iterator[bytes]:
    n = 0
    try:
        for line in (line for lines in ((first,), rest) for line in lines):
            n += bool(line)
            yield line.encode()
    except ClientDisconnected:
        return
    finally:
        context.facts["records"] = n


class _SharedAnswerer:
    """Answers through the service's batches, so that other callers have their turn between."""

    def __init__(self, service: Service) -> None:
        self._engine = service.engine
        self._deadline = service.deadline
        self.check_threshold = service.engine.answerer.check_threshold

    def pages(self, requests: Sequence[TaskInput], options: SearchOptions | None = None) -> list[SearchResult]:
        """Return the pages of each request; the first error is raised."""
        return self._engine.pages(requests, options or SearchOptions(), self._deadline())

    def answer(self, requests: Sequence[TaskInput], options: AnswerOptions | None = None) -> list[TaskAnswer]:
        """Return the answer to each request; the first error is raised."""
        return self._engine.ask(requests, options or AnswerOptions(), self._deadline())
