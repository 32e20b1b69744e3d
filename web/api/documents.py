"""/v1/documents: add, read, list and delete; a change is answered when it is durable and searchable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiflask import APIBlueprint
from flask import Response, request

from web import limits
from web.engine import StoredDocument
from web.guards import JSON_TYPES, LINES_TYPES, access, body
from web.idempotency import idempotency_name
from web.models.documents import (
    Committed,
    DocumentIds,
    DocumentList,
    DocumentsToAdd,
    FullDocument,
    ListQuery,
)
from web.request_context import current_request
from web.responses import json_response, not_modified, tagged
from web.service import current_service

if True:
    from storage.records import Commit, DocumentRecord

documents = APIBlueprint("documents", __name__, url_prefix="/v1", tag="Documents")
