"""The page of the API: every operation of the OpenAPI document in words, with an example to copy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from apiflask import APIFlask
from flask import Response, current_app, make_response, render_template, request


@dataclass(frozen=True)
class Operation:
    """One operation as the page shows it."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[tuple[str, str], ...]
    answers: tuple[tuple[str, str], ...]
    example: str


def api_docs() -> Response:
    """Return the page: operations by what they are about."""
    spec: Mapping[str, Any] = cast(APIFlask, current_app).spec  # type: ignore[assignment]  # a dictionary by default
    base = request.url_root.rstrip("/")
    groups: dict[str, list[Operation]] = {tag["name"]: [] for tag in spec["tags"]}
    for path, operations in spec["paths"].items():
        for method, operation in operations.items():
            for tag in operation["tags"]:
                groups.setdefault(tag, []).append(_operation(base, path, method.upper(), operation))
    meanings = {tag["name"]: tag["description"] for tag in spec["tags"]}
    shown = [(name, meanings.get(name, ""), found) for name, found in groups.items() if found]
    return make_response(render_template("page/api.html", section="page.api_docs", groups=shown))


def _operation(base: str, path: str, method: str, operation: Mapping[str, Any]) -> Operation:
    named = tuple(
        (each["name"], each.get("description", "") or each["in"])
        for each in operation.get("parameters", ())
        if each["in"] != "header"
    )
    answers = tuple(
        (str(status), answer.get("description", ""))
        for status, answer in operation["responses"].items()
        if str(status) < "400"
    )
    return Operation(
        operation["operationId"],
        method,
        path,
        operation["summary"],
        operation.get("description", ""),
        named,
        answers,
        _curl(base, path, method, operation),
    )


def _curl(base: str, path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Return the command that sends the operation's example; empty where there is none to send."""
    if method == "GET" and "{" not in path:
        return f"curl -s {shlex.quote(base + path)}"
    contents = operation.get("requestBody", {}).get("content", {})
    example = next((content["example"] for content in contents.values() if "example" in content), None)
    if example is None:
        return ""
    body = shlex.quote(json.dumps(example, ensure_ascii=False))
    return f"curl -s {shlex.quote(base + path)} \\\n  -H 'Content-Type: application/json' \\\n  -d {body}"
