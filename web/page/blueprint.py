"""The page's blueprint: its routes, the headers of its answers, and what every template knows."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request, url_for
from flask.blueprints import BlueprintSetupState
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import ClientDisconnected, HTTPException

from kbengine.version import __version__
from storage.errors import KBError
from web.error_handlers import cut_body
from web.page import (
    annotating,
    api_docs,
    comparing,
    documents,
    entities,
    filling,
    jobs,
    judging,
    naming,
    searching,
    state,
)
from web.page.page_state import PAGE_STATE, PageState, current_page_state
from web.page.problems import http_problem, kb_problem, unexpected_problem, unknown_address
from web.request_context import PAGES_ROOT
from web.service import current_service

page = Blueprint("page", __name__, template_folder="../templates", static_folder="../static", static_url_path="/static")

page.add_url_rule("/", "ask", searching.ask)
page.add_url_rule("/", "ask_long", searching.ask_long, methods=["POST"])
page.add_url_rule("/feedback", "judge", judging.judge, methods=["POST"])
page.add_url_rule("/compare", "compare", comparing.compare)
page.add_url_rule("/annotate", "annotate", annotating.annotate)
page.add_url_rule("/annotate", "annotate_text", annotating.annotate_text, methods=["POST"])
page.add_url_rule("/entity", "entity", entities.entity)
page.add_url_rule("/documents", "documents", documents.documents)
page.add_url_rule("/documents", "add_documents", documents.add, methods=["POST"])
page.add_url_rule("/document", "document", documents.document)
page.add_url_rule("/document/delete", "delete_document", documents.delete, methods=["POST"])
page.add_url_rule("/document/restore", "restore_document", documents.restore, methods=["POST"])
page.add_url_rule("/document/names", "add_name", naming.add_name, methods=["POST"])
page.add_url_rule("/document/names/remove", "remove_name", naming.remove_name, methods=["POST"])
page.add_url_rule("/fill", "fill", filling.fill)
page.add_url_rule("/fill", "send_table", filling.send_table, methods=["POST"])
page.add_url_rule("/fill/start", "start_fill", filling.start, methods=["POST"])
page.add_url_rule("/jobs", "jobs", jobs.jobs)
page.add_url_rule("/jobs/stop", "stop_job", jobs.stop, methods=["POST"])
page.add_url_rule("/docs", "api_docs", api_docs.api_docs)
page.add_url_rule("/status", "status", state.status)
page.add_url_rule("/status/export", "export", state.export, methods=["POST"])
page.add_url_rule("/status/verify", "verify", state.verify, methods=["POST"])

page.register_error_handler(KBError, kb_problem)
page.register_error_handler(HTTPException, http_problem)
page.register_error_handler(ClientDisconnected, cut_body)
page.register_error_handler(ParseException, cut_body)
page.register_error_handler(Exception, unexpected_problem)
page.app_errorhandler(404)(unknown_address)


@page.record
def _keep_state(setup: BlueprintSetupState) -> None:
    """Give each app its own state, so that two apps of one process do not share undo."""
    assert page.static_folder is not None
    setup.app.extensions[PAGE_STATE] = PageState(Path(page.static_folder))


@page.after_request
def _own_headers(response: Response) -> Response:
    """Return the answer with what differs from the service's own headers (`web/headers.py`)."""
    # With "no-referrer" browsers send forms with `Origin: null`, which is what a stranger's page could look like.
    response.headers["Referrer-Policy"] = "same-origin"
    if request.endpoint == "page.static" and request.args.get("v") == current_page_state().asset_version:
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


def _asset(name: str) -> str:
    """Return the address of a file of the page, which changes with the files and so may be kept for ever."""
    return url_for("page.static", filename=name, v=current_page_state().asset_version)


@page.app_context_processor
def _everywhere() -> dict[str, Any]:
    """Return what every template knows, also on the page of an unknown address, which belongs to no blueprint."""
    service = current_service()
    knowledge_base = service.engine.knowledge_base
    generation: int | None = None
    # The page that tells of a damaged knowledge base must not fail over the same damage.
    with contextlib.suppress(KBError):
        generation = knowledge_base.generation
    return {
        "version": __version__,
        "generation": generation,
        "kb_name": service.name or knowledge_base.path.name,
        "served": service.served if len(service.served) > 1 and not service.settings.needs_key else (),
        "kb_pages": request.environ.get(PAGES_ROOT, ""),
        "api_docs": url_for("openapi.spec"),
        "asset": _asset,
    }
