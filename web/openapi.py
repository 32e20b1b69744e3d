"""The OpenAPI document: what APIFlask derives from the views, with what holds for every operation added."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from apiflask import APIFlask

from kbengine.inputs import TASKS
from web import limits
from web.api_examples import EXAMPLES
from web.endings import problem_statuses
from web.guards import JSON_TYPES, LINES_TYPES, access, access_of, body_rule
from web.models.answers import ProblemBody
from web.problems import MEDIA_TYPE

DESCRIPTION = """Questions, slots, mentions and dialogues in; phrases with exact provenance out.

Offsets are Unicode code points, half-open. Every answer names the generation of the knowledge base that it is of.
Errors are problem documents (RFC 9457) with stable codes."""

_PROBLEMS = {
    "400": "The request cannot be read, or asks for something that cannot be asked.",
    "401": "No API key, or none that is valid.",
    "403": "The API key's scope, or the request's origin, does not allow it.",
    "404": "There is no such thing.",
    "409": "It contradicts itself or what is there.",
    "413": "The body is too large.",
    "415": "The body is of another media type than the route reads.",
    "422": "The body does not follow the schema.",
    "429": "Too many requests are waiting; Retry-After says when to try again.",
    "500": "Something went wrong; the request id finds it in the service's log.",
    "503": "The service or the knowledge base is not in a state to answer.",
    "504": "There was no answer in time.",
    "507": "There is no space; nothing was changed.",
}
_TAGS = {
    "Queries": "Ask the knowledge base.",
    "Documents": "What it is made of.",
    "Aliases": "Other names of documents.",
    "Jobs": "Work that takes longer than a request: followed, cancelled, its results fetched.",
    "OpenAI": "What OpenAI's clients can ask a knowledge base; errors are in their form.",
    "Linkers": "Entity linking in the words of other linkers: REL's API, and NIF for GERBIL and ELEVANT.",
    "Reconciliation": "W3C's Reconciliation Service API 0.2, for OpenRefine and other tools that match tables.",
    "Knowledge base": "What it holds, and whether it is intact.",
    "Operation": "Health, metrics, and what problems mean.",
}
_LINES = {"type": "string", "minLength": 1, "description": "JSON lines: one object a line."}
_FILE = {"type": "string", "minLength": 1, "description": "A file, as it is."}
_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "task": {"enum": list(TASKS)},
    "doc_id": {"minLength": 1, "maxLength": limits.ID_CHARS},
    "job_id": {"minLength": 1, "maxLength": limits.ID_CHARS},
}
_LOCATION = {"Location": {"description": "The job's address.", "schema": {"type": "string"}}}
_TAGGED = frozenset(
    ("question", "slot_filling", "entity_linking", "dialogue", "search", "get_profile", "post_profile", "get_document")
)
"""Operations whose answers have an entity tag."""
_STREAMED = frozenset(("annotate_text",))
"""Operations whose answers are JSON lines where the body says `stream`."""
_REF = "#/components/schemas/"
_JOB = {"schema": {"$ref": f"{_REF}JobBody"}}
_PROBLEM_REF = {"$ref": f"{_REF}ProblemBody"}


def describe_api(app: APIFlask, server: str = "/") -> None:
    """Have the app give out its OpenAPI document at /openapi.json, for the service at an address of this server."""
    app.config["AUTO_VALIDATION_ERROR_RESPONSE"] = False
    app.config["AUTO_404_RESPONSE"] = False
    app.config["AUTO_AUTH_ERROR_RESPONSE"] = False
    app.config["AUTO_OPERATION_ID"] = True
    app.config["AUTO_SERVERS"] = False
    app.config["DESCRIPTION"] = DESCRIPTION
    app.config["LICENSE"] = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    app.config["SERVERS"] = [{"url": server}]
    app.config["SECURITY_SCHEMES"] = {
        "ApiKey": {"type": "http", "scheme": "bearer", "bearerFormat": "kbe_<id>_<secret>"}
    }
    access("public")(app.view_functions["openapi.spec"])
    app.spec_processor(_completer(app))


def _completer(app: APIFlask) -> Callable[[Any], Any]:
    def complete(spec: Any) -> Any:
        views = {
            (_openapi_path(rule.rule), method.lower()): app.view_functions[rule.endpoint]
            for rule in app.url_map.iter_rules()
            for method in rule.methods or ()
        }
        names = {
            (_openapi_path(rule.rule), method.lower()): rule.endpoint.rpartition(".")[2]
            for rule in app.url_map.iter_rules()
            for method in rule.methods or ()
        }
        spec["tags"] = [{"name": name, "description": meaning} for name, meaning in _TAGS.items()]
        schemas = spec.setdefault("components", {}).setdefault("schemas", {})
        for path, operations in spec["paths"].items():
            for method, operation in operations.items():
                operation["operationId"] = names[path, method]
                _complete_operation(operation, views[path, method], method, schemas)
        schemas["ProblemBody"] = ProblemBody.model_json_schema(ref_template=f"{_REF}{{model}}")
        _lift_definitions(schemas)
        return _with_short_names(spec)

    return complete


def _complete_operation(
    operation: dict[str, Any], view: Callable[..., Any], method: str, schemas: dict[str, Any]
) -> None:
    needed = access_of(view, method.upper())
    operation["summary"] = operation.get("summary", "").rstrip(".")
    operation["security"] = [] if needed == "public" else [{}, {"ApiKey": []}]
    operation["description"] = "\n\n".join(
        part for part in (operation.get("description", ""), _scope_line(needed)) if part
    )
    rule = body_rule(view)
    if rule.model is not None:
        schemas.setdefault(rule.model.__name__, rule.model.model_json_schema(ref_template=f"{_REF}{{model}}"))
        operation["requestBody"] = {
            "content": {
                kind: {"schema": _LINES if kind in LINES_TYPES else {"$ref": _REF + rule.model.__name__}}
                for kind in rule.media_types
            }
        }
    elif rule.streams:
        operation["requestBody"] = {
            "content": {kind: {"schema": _LINES if kind in LINES_TYPES else _FILE} for kind in rule.media_types}
        }
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            parameter["schema"] |= _PATH_PARAMETERS.get(parameter["name"], {})
    request_body = operation.get("requestBody")
    if request_body is not None:
        request_body["required"] = True
        example = EXAMPLES.get(operation["operationId"])
        for kind, content in request_body["content"].items():
            if example is not None and kind in JSON_TYPES:
                content["example"] = example
    if operation["operationId"] in _TAGGED:
        _add_entity_tag(operation)
    if operation["operationId"] in _STREAMED:
        operation["responses"]["200"]["content"][LINES_TYPES[0]] = {"schema": _LINES}
    makes_job = operation["responses"].get("202", {}).get("content", {}).get("application/json") == _JOB
    if makes_job:
        operation["responses"]["202"]["headers"] = _LOCATION
    if (needed == "write" and method != "get") or makes_job:  # what is read changes nothing, whoever may read it
        operation.setdefault("parameters", []).append(_idempotency_parameter())
    for status in map(str, problem_statuses(view, method, operation)):
        problem = {"description": _PROBLEMS[status], "content": {MEDIA_TYPE: {"schema": _PROBLEM_REF}}}
        operation["responses"].setdefault(status, problem)


def _add_entity_tag(operation: dict[str, Any]) -> None:
    """Describe the tag of the answer, and the question whether the caller's is still the newest."""
    operation["responses"]["200"].setdefault("headers", {})["ETag"] = {
        "description": "Of the generation, the model and the request: the same until the knowledge base changes.",
        "schema": {"type": "string"},
    }
    operation["responses"]["304"] = {"description": "The answer with the tag of `If-None-Match` is still the newest."}
    operation.setdefault("parameters", []).append(
        {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "description": "The tag of an answer that you have.",
            "schema": {"type": "string"},
        }
    )


def _scope_line(needed: str) -> str:
    return "" if needed == "public" else f"Needs the scope `{needed}` where the service has API keys."


def _idempotency_parameter() -> dict[str, Any]:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Your name for this change: sent again with the same key it is not done twice.",
        "schema": {"type": "string", "minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY_CHARS, "pattern": "^[!-~]+$"},
    }


def _lift_definitions(schemas: dict[str, Any]) -> None:
    """Move definitions that pydantic nested into schemas to where references look for them."""
    for schema in list(schemas.values()):
        for name, definition in schema.pop("$defs", {}).items():
            schemas.setdefault(name, definition)


def _with_short_names(spec: dict[str, Any]) -> Any:
    """Return the document with each model once, under its own name instead of one name per model that uses it."""
    plain = json.loads(re.sub(rf'"{_REF}\w+\.(\w+)"', rf'"{_REF}\1"', json.dumps(spec)))
    schemas = plain["components"]["schemas"]
    plain["components"]["schemas"] = {name.rpartition(".")[2]: schemas[name] for name in sorted(schemas)}
    return plain


def _openapi_path(rule: str) -> str:
    return re.sub(r"<([^<:]+:)?", "{", rule).replace(">", "}")
