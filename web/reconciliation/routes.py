"""The routes of the Reconciliation Service API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from apiflask import APIBlueprint
from flask import Response, make_response, render_template, request

from adapters.reconciliation.describing import Described
from adapters.reconciliation.extending import extend
from adapters.reconciliation.kinds import kinds_of, suggested_kinds
from adapters.reconciliation.query import property_name
from adapters.reconciliation.reconciler import Candidate, Reconciler
from adapters.reconciliation.suggesting import proposed_properties, suggested_documents, suggested_properties
from storage.errors import KBError
from storage.field_rows import shown_fields
from web.bodies import read_json
from web.endings import ASKS, READS, may_end_in
from web.engine import all_of
from web.error_handlers import log_error
from web.errors import BodyTooLargeError
from web.guards import FORM_TYPES, access, body, read_by_local_pages
from web.listing import stored_document
from web.models.reconciliation import (
    BATCH,
    ExtendBody,
    PreviewQuery,
    ProposalQuery,
    QueryBatch,
    ReconcileForm,
    ReconcileQuery,
    SuggestQuery,
)
from web.origins import embedding_origins
from web.page.answer_view import safe_source
from web.problems import problem_of
from web.reconciliation.manifest import manifest
from web.request_context import current_request
from web.responses import json_response
from web.service import current_service

if TYPE_CHECKING:
    from adapters.tasks.answerer import AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import Slot, TaskInput
    from storage.reader import KBReader

T = TypeVar("T")
V = TypeVar("V", bound=Callable[..., Any])

reconciliation = APIBlueprint("reconciliation", __name__, url_prefix="/reconcile", tag="Reconciliation")

SUGGESTIONS = 10
PREVIEW_CHARS = 700
MAX_CELLS = 512
"""Documents times properties of one request."""
PAGE: dict[int | str, Any] = {200: {"description": "A page.", "content": {"text/html": {"schema": {"type": "string"}}}}}


def _json_of(what: str) -> dict[int | str, Any]:
    """Return how the API's document describes an answer whose schema is the standard's."""
    return {200: {"description": what, "content": {"application/json": {"schema": {"type": "object"}}}}}


@reconciliation.get("")
@reconciliation.input(ReconcileQuery, location="query")
@reconciliation.doc(responses=_json_of("The manifest; with `queries` candidates, with `extend` values."))
@read_by_local_pages
@may_end_in(400, 413, of=ASKS)
@access("read")
def describe(query_data: ReconcileQuery) -> Response:
    """Describe the service, or match a few names.

    The manifest of the Reconciliation Service API 0.2; with `queries` or `extend` what POST answers.
    """
    return _answered(query_data)


@reconciliation.post("")
@reconciliation.doc(responses=_json_of("With `queries` candidates, with `extend` values, as the standard has them."))
@read_by_local_pages
@body(*FORM_TYPES, model=ReconcileForm)
@may_end_in(of=ASKS)
@access("read")
def reconcile() -> Response:
    """Match names with documents, or find values of documents' properties.

    A form with `queries` (names, with types and known values) or `extend` (documents and properties), each as JSON.
    """
    sent = {name: request.form[name] for name in ReconcileForm.model_fields if name in request.form}
    return _answered(ReconcileForm(**sent))


def _suggests(path: str, what: str) -> Callable[[V], V]:
    """Return a decorator for the view that suggests things of a kind, as the standard has them."""

    def mark(view: V) -> V:
        marked = read_by_local_pages(may_end_in(of=READS)(access("read")(view)))
        described = reconciliation.doc(responses=_json_of(f"{what}, as the standard has them."))(marked)
        return reconciliation.get(f"/suggest/{path}")(reconciliation.input(SuggestQuery, location="query")(described))

    return mark


@_suggests("entity", "Documents")
def suggest_entity(query_data: SuggestQuery) -> Response:
    """Suggest documents by the first letters of their names."""
    found = suggested_documents(_reader(), query_data.prefix, query_data.cursor + SUGGESTIONS)
    return _suggested(query_data, found, _entity)


@_suggests("property", "Properties")
def suggest_property(query_data: SuggestQuery) -> Response:
    """Suggest relations and fields by the first letters of their names."""
    return _suggested(query_data, suggested_properties(_reader(), query_data.prefix), lambda each: each.to_json())


@_suggests("type", "Types")
def suggest_type(query_data: SuggestQuery) -> Response:
    """Suggest types of documents by the first letters of their names."""
    return _suggested(query_data, suggested_kinds(_reader(), query_data.prefix), lambda each: each.to_json())


@reconciliation.get("/properties")
@reconciliation.input(ProposalQuery, location="query")
@reconciliation.doc(responses=_json_of("Properties, as the standard has them."))
@read_by_local_pages
@may_end_in(of=READS)
@access("read")
def propose_properties(query_data: ProposalQuery) -> Response:
    """Propose properties to fetch."""
    found = proposed_properties(_reader())[: query_data.limit]
    properties = [each.to_json() for each in found]
    return json_response({"properties": properties, "type": query_data.type, "limit": query_data.limit})


@reconciliation.get("/preview")
@reconciliation.input(PreviewQuery, location="query")
@reconciliation.doc(responses=PAGE)
@read_by_local_pages
@may_end_in(404, of=READS)
@access("read")
def preview(query_data: PreviewQuery) -> Response:
    """Show a document in a few lines, to be framed by a tool's page."""
    service = current_service()
    stored = stored_document(service.engine.knowledge_base, query_data.id)
    record, text = stored.record, stored.passages[0].text if stored.passages else ""
    is_long = len(text) > PREVIEW_CHARS
    shown = text[:PREVIEW_CHARS].rpartition(" ")[0] + "…" if is_long else text
    response = make_response(
        render_template(
            "reconciliation/preview.html",
            record=record,
            text=shown,
            fields=shown_fields(record.meta)[:SUGGESTIONS],
            source=safe_source(record.url),
        )
    )
    framed_by = " ".join(embedding_origins(service.settings))
    policy = f"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {framed_by}"
    response.headers["Content-Security-Policy"] = policy
    return response


def _answered(form: ReconcileForm) -> Response:
    service = current_service()
    if form.queries is None and form.extend is None:
        name = service.engine.knowledge_base.path.name
        return json_response(manifest(name, request.url_root.rstrip("/"), needs_key=service.settings.needs_key))
    service.bulk.take()
    try:
        return _reconciled(form.queries) if form.queries is not None else _extended(form.extend or "")
    finally:
        service.bulk.give_back()


def _reconciled(queries: str) -> Response:
    batch = QueryBatch.model_validate(read_json(queries.encode(), "'queries'")).root
    if len(batch) > BATCH:
        raise BodyTooLargeError(f"'queries' has {len(batch)} queries, at most {BATCH} are taken; send fewer at once")
    service = current_service()
    engine, deadline = service.engine, service.deadline()

    def ask_each(asked: Sequence[tuple[TaskInput, AnswerOptions]]) -> Sequence[TaskAnswer | Exception]:
        return cast("Sequence[TaskAnswer | Exception]", engine.ask_each(asked, deadline))

    weights = engine.answerer.calibrations_of_task("entity-linking").weights("entity-linking")
    reconciler = Reconciler(engine.knowledge_base.reader, ask_each, name_weight=weights.name)
    outcomes = reconciler.reconcile([query.query_for() for query in batch.values()])
    current_request().facts["queries"] = len(batch)
    return json_response({name: _result(each) for name, each in zip(batch, outcomes, strict=True)})


def _result(outcome: Sequence[Candidate] | Exception) -> dict[str, Any]:
    """Return the candidates of one query; one that cannot be asked has none, and says why."""
    if not isinstance(outcome, Exception):
        return {"result": [each.to_json() for each in outcome]}
    if not isinstance(outcome, KBError):
        raise outcome
    problem = problem_of(outcome, private=str(current_service().engine.knowledge_base.path))
    if problem.status >= 500:
        log_error(outcome, "failed")
        raise outcome  # no candidates would be a wrong answer
    return {"result": [], "problem": problem.to_json(current_request().request_id)}


def _extended(query: str) -> Response:
    wanted = ExtendBody.model_validate(read_json(query.encode(), "'extend'"))
    properties = [each.wanted() for each in wanted.properties]
    n_cells = len(wanted.ids) * len(properties)
    if n_cells > MAX_CELLS:
        raise BodyTooLargeError(f"'extend' asks for {n_cells} cells, at most {MAX_CELLS} are given; send fewer ids")
    service = current_service()
    engine, deadline = service.engine, service.deadline()

    def ask(asked: Sequence[tuple[Slot, AnswerOptions]]) -> Sequence[TaskAnswer]:
        return cast("Sequence[TaskAnswer]", all_of(engine.ask_each(asked, deadline)))

    rows = extend(engine.knowledge_base.reader, ask, wanted.ids, properties)
    current_request().facts["queries"] = n_cells
    meta = [{"id": each.id, "name": property_name(each.id)} for each in properties]
    return json_response({"meta": meta, "rows": rows})


def _reader() -> KBReader:
    return current_service().engine.knowledge_base.reader


def _suggested(asked: SuggestQuery, found: Sequence[T], written: Callable[[T], dict[str, Any]]) -> Response:
    page = found[asked.cursor : asked.cursor + SUGGESTIONS]
    return json_response({"result": [written(each) for each in page]})


def _entity(document: Described) -> dict[str, Any]:
    notable = [kind.to_json() for kind in kinds_of(document.meta)]
    return {
        "id": document.doc_id,
        "name": document.title,
        "description": document.description,
        "notable": notable,
    }
