"""/livez, /readyz, /metrics, and what a problem's type means."""

from __future__ import annotations

import shutil
import time
from typing import Any

from apiflask import APIBlueprint
from flask import Response, abort

from storage.errors import KBError
from web import metrics as meters
from web.endings import may_end_in
from web.guards import access
from web.models.health import Liveness, ProblemMeaning, Readiness
from web.problems import catalogue
from web.responses import json_response
from web.service import Service, current_service

health = APIBlueprint("health", __name__, tag="Operation")

SELF_QUERY_EVERY_S = 10.0
LOW_DISK_BYTES = 256 << 20
NOT_READY: dict[int | str, Any] = {
    503: {
        "description": "It is not ready: `checks` says why.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Readiness"}}},
    }
}
METERS: dict[int | str, Any] = {
    200: {
        "description": "Meters in Prometheus' text format.",
        "content": {meters.MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}


@health.get("/livez")
@health.output(Liveness)
@access("public")
def livez() -> Response:
    """Tell whether the process answers."""
    return json_response({"status": "alive"})


@health.get("/readyz")
@health.output(Readiness)
@health.doc(responses=NOT_READY)
@access("public")
def readyz() -> Response:
    """Tell whether queries will be answered.

    Not while it is shutting down, nor when the newest commit cannot be opened or a query of its own fails; of several
    knowledge bases all have to answer.
    """
    service = current_service()
    checks = _checks(service)
    if service.beside:
        checks["others"] = "ok" if all(_are_ready(_checks(other)) for other in service.beside) else "not_ready"
    ready = _are_ready(checks)
    return json_response({"status": "ready" if ready else "not_ready", "checks": checks}, 200 if ready else 503)


@health.get("/metrics")
@health.doc(responses=METERS)
@access("read")
def metrics() -> Response:
    """Show the metrics."""
    return Response(current_service().metrics.exposition(), content_type=meters.MEDIA_TYPE)


@health.get("/problems/<code>")
@health.output(ProblemMeaning)
@may_end_in(404)
@access("public")
def problem(code: str) -> Response:
    """Say what a problem's type means."""
    meaning = catalogue().get(code)
    if meaning is None:
        abort(404)
    return json_response(meaning)


def _are_ready(checks: dict[str, str]) -> bool:
    return all(checks.get(name, "ok") == "ok" for name in ("stopping", "knowledge_base", "query", "others"))


def _checks(service: Service) -> dict[str, str]:
    """Return the state of each check: `ok`, or a word for what is wrong. No message: anyone may read this."""
    engine = service.engine
    free = shutil.disk_usage(engine.knowledge_base.path).free
    cluster = {}
    if engine.router is not None:
        facts = engine.router.facts()
        cluster["catalog"] = "ok" if facts.catalog_answers else "down"
        cluster["replicas"] = "ok" if all(each.state == "closed" for each in facts.replicas) else "some_down"
    return {
        "stopping": "yes" if service.stopping.is_set() else "ok",
        "knowledge_base": "ok" if engine.problem is None else "not_opened",
        "query": _self_query(service),
        "disk": "ok" if free > LOW_DISK_BYTES else "low",
        "writes": "ok" if engine.writes.pending < 8 else "busy",
        **cluster,
    }


def _self_query(service: Service) -> str:
    """Return how the service's own query went, asked anew when the last one is some seconds old."""
    known: tuple[float, str] | None = service.probe.get("self_query")
    now = time.monotonic()
    if known is not None and now - known[0] < SELF_QUERY_EVERY_S:
        return known[1]
    try:
        service.engine.self_query()
        outcome = "ok"
    except KBError as error:
        outcome = error.code
    except Exception as error:
        service.log.error("self_query", error=[type(error).__name__])
        outcome = "failed"
    service.probe["self_query"] = (now, outcome)
    return outcome
