"""POST /v1/annotate: a text without marks in, its mentions with their links out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apiflask import APIBlueprint
from flask import Response
from werkzeug.exceptions import ClientDisconnected

from adapters.annotating.annotator import AnnotateOptions
from adapters.annotating.linked import AnnotatedText, Annotation
from storage.errors import KBError
from web import limits
from web.annotating import annotator_of
from web.endings import ASKS, may_end_in
from web.guards import JSON_TYPES, LINES_TYPES, access, body
from web.models.annotate import AnnotatedBody, AnnotateQuery
from web.problems import problem_of
from web.request_context import RequestContext, current_request
from web.responses import json_response
from web.service import Service, current_service

annotate = APIBlueprint("annotate", __name__, url_prefix="/v1", tag="Queries")


@annotate.post("/annotate")
@annotate.input(AnnotateQuery)
@annotate.output(AnnotatedBody)
@body(*JSON_TYPES, max_bytes=limits.BULK_BODY_BYTES)
@may_end_in(of=ASKS)
@access("read")
def annotate_text(json_data: AnnotateQuery) -> Response:
    """Find and link the mentions of a text that has no marks.

    Mentions of one text are linked together. With `stream` the answer is JSON lines, as they are found.
    """
    service = current_service()
    options = AnnotateOptions(
        threshold=json_data.threshold,
        candidates=json_data.candidates,
        unlinked=json_data.unlinked,
        where=json_data.where,
    )
    if json_data.stream:
        events = _events(service, json_data.text, options)
        first = next(events, None)  # made now, so that what is wrong with the whole is told by the status
        return Response(_lines(first, events, service, current_request()), mimetype=LINES_TYPES[0])
    deadline = service.deadline(json_data.deadline_ms)
    found = annotator_of(service, lambda: deadline).annotate(json_data.text, options)
    return json_response(AnnotatedText(json_data.text, tuple(found)).to_json())


@dataclass(frozen=True)
class _Progress:
    done: int
    of: int


def _events(service: Service, text: str, options: AnnotateOptions) -> Iterator[Annotation | _Progress]:
    """Yield what is found, and after each part of the text how far it is."""
    told: list[_Progress] = []
    annotator = annotator_of(service, service.deadline)  # each batch of mentions has the deadline of its own
    for each in annotator.annotate(text, options, progress=lambda done, of: told.append(_Progress(done, of))):
        yield from told
        told.clear()
        yield each
    yield from told


def _lines(
    first: Annotation | _Progress | None,
    rest: Iterator[Annotation | _Progress],
    service: Service,
    context: RequestContext,
) -> Iterator[bytes]:
    n = 0
    try:
        if first is not None:
            n += isinstance(first, Annotation)
            yield _line(first)
        for each in rest:
            n += isinstance(each, Annotation)
            yield _line(each)
    except ClientDisconnected:
        return
    except KBError as error:  # the status is long sent: the last line says what is wrong
        problem = problem_of(error, private=str(service.engine.knowledge_base.path))
        yield _encoded({"problem": problem.to_json(context.request_id)})
    finally:
        context.facts["annotations"] = n


def _line(event: Annotation | _Progress) -> bytes:
    if isinstance(event, Annotation):
        return _encoded({"annotation": event.to_json()})
    return _encoded({"progress": {"characters": event.done, "of": event.of}})


def _encoded(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()
