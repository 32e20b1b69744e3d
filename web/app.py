"""The application factory: settings and an engine in, a Flask app out."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, TextIO

from apiflask import APIBlueprint, APIFlask
from flask import Response, request

from kbengine.version import __version__
from web.bodies import PydanticJSONProvider
from web.engine import Engine
from web.error_handlers import register_error_handlers
from web.guards import guard
from web.headers import secured
from web.jobs.runner import JobRunner
from web.jobs.store import JobStore
from web.keys import key_file
from web.metrics import Metrics
from web.openapi import describe_api
from web.origins import reading_origins
from web.places import Places
from web.request_context import begin_request, current_request
from web.request_log import make_log
from web.result_cache import ResultCache
from web.service import Service, StopFlag, current_service
from web.settings import ServiceSettings
from web.works.kinds import works_of


def create_app(
    settings: ServiceSettings,
    engine: Engine,
    *,
    log_stream: TextIO | None = None,
    name: str = "",
    served: Sequence[str] = (),
    stopping: StopFlag | None = None,
) -> APIFlask:
    """Return the app: the JSON API under /v1, the page under /, health and metrics.

    Args:
        settings: what the operator chose.
        engine: what is served; the app uses it, who made it closes it.
        log_stream: where the log goes, by default standard error.
        name: of the knowledge base, where the process serves several.
        served: the names of all that it serves.
        stopping: is set when the process was told to stop; several apps share one.
    """
    app = APIFlask(
        "web",
        title="kbengine",
        version=__version__,
        static_folder=None,  # type: ignore[arg-type]  # APIFlask passes it on to Flask, which takes None
        docs_path=None,
        json_errors=False,
        spec_path="/openapi.json",
    )
    app.json = PydanticJSONProvider(app)
    app.url_map.merge_slashes = False  # a document's id may hold any
    app.config["MAX_FORM_MEMORY_SIZE"] = None  # forms are bounded by the body's size
    log = make_log(log_stream)
    jobs = JobRunner(
        JobStore(engine.knowledge_base.path),
        works_of(engine),
        at_once=settings.jobs,
        keep_s=settings.job_days * 86_400,
        log=log,
    )
    engine.before_close(jobs.close)
    metrics = Metrics(engine)
    metrics.watch_jobs(jobs.store.unfinished)
    service = Service(
        settings=settings,
        engine=engine,
        keys=key_file(engine.knowledge_base.path, settings.key_file),
        metrics=metrics,
        log=log,
        cache=ResultCache(settings.cache_entries),
        jobs=jobs,
        name=name,
        served=tuple(served),
        stopping=stopping or StopFlag(),
        bulk=Places(settings.bulk_limit, "batches and KILT files"),
    )
    app.extensions["kbengine"] = service
    app.before_request(_begin)
    app.before_request(guard)
    app.after_request(_finish)
    register_error_handlers(app)
    for blueprint in _blueprints():
        app.register_blueprint(blueprint)
    from web.page import json_answers, page

    app.register_blueprint(page)
    app.register_blueprint(json_answers)
    _allow_origins(app, settings)
    describe_api(app, f"/kb/{name}" if name and name != served[0] else "/")
    return app


def _blueprints() -> list[APIBlueprint]:
    from web.api.aliases import aliases
    from web.api.annotate import annotate
    from web.api.batch import batch
    from web.api.documents import documents
    from web.api.feedback import feedback
    from web.api.fill import fill
    from web.api.health import health
    from web.api.jobs import jobs
    from web.api.kb import kb
    from web.api.kilt import kilt
    from web.api.profile import profile
    from web.api.queries import queries

    asking = [queries, batch, annotate, profile, fill, kilt]
    return [*asking, documents, aliases, feedback, jobs, kb, health, *_protocols()]


def _protocols() -> list[APIBlueprint]:
    """Return what speaks in other tools' words."""
    from web.linkers.nif import nif
    from web.linkers.rel import rel
    from web.openai.routes import openai
    from web.reconciliation.routes import reconciliation

    return [openai, reconciliation, rel, nif]


def _allow_origins(app: APIFlask, settings: ServiceSettings) -> None:
    from flask_cors import CORS

    resources: dict[str | re.Pattern[str], dict[str, Any]] = {
        r"/reconcile(/.*)?": {"origins": reading_origins(settings)}
    }
    if settings.cors_origins:
        resources[r"/v1/*"] = {"origins": list(settings.cors_origins)}
    CORS(
        app,
        resources=resources,
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "X-Request-ID"],
        expose_headers=["ETag", "Retry-After", "X-Request-ID"],
        max_age=600,
    )


def _begin() -> None:
    begin_request()
    current_service().metrics.request_begun()


def _finish(response: Response) -> Response:
    """Give the response its headers, and tell log and metrics of it when its last byte is sent."""
    context = current_request()
    service = current_service()
    route = request.url_rule.rule if request.url_rule is not None else "unmatched"
    method, status = request.method, response.status_code
    response.headers["X-Request-ID"] = context.request_id
    response.direct_passthrough = False  # a file that the server sends by itself is never told to have ended
    if status == 413 or context.ends_connection:
        response.headers["Connection"] = "close"  # the worker does so: what is left of the body is not read
    if context.trace is not None:
        response.headers["traceparent"] = context.trace

    def done() -> None:
        seconds = time.perf_counter() - context.began
        service.metrics.request_done(route, method, status, seconds)
        facts = {"key": context.key.id} if context.key is not None else {}
        if service.name:
            facts["kb"] = service.name
        if context.trace is not None:
            facts["traceparent"] = context.trace
        service.log.info(
            "request",
            request_id=context.request_id,
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1e3, 2),
            **facts,
            **context.facts,
        )

    response.call_on_close(done)
    if service.settings.cors_origins:
        response.vary.add("Origin")
    return secured(response)
